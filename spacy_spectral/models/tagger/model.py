"""The tagger: tags first, then morphology given the tags. Knows nothing of spaCy."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy

from ...base.cache import RowCache
from ...base.errors import Errors
from ...base.fields import Array, Bytes, Format, List, Strings
from ...base.stored import Stored
from ...trees.interface import Clusters
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from .classifier import Decisions, LinearClassifier, classifier_fields, require_parts
from .estimate import Progress
from .features import morph_templates, tag_templates
from .lexicon import Lexicon
from .preparation import Preparation, tag_label
from .statistics import Corpus, TaggedSentence

_FORMAT = Format(
    "tagger",
    1,
    words=Strings("words"),
    entries=Array("uint32", "words", 2),
    clusters=Bytes(),
    tag_classes=List(Strings(2), "tags", least=1, unique=True),
    morphs=Strings("morphs", unique=True),
    tagger=classifier_fields("tags", 1),
    morphologizer=classifier_fields("morphs", "tags"),
)
# Words remembered between calls, with what they contribute to scores: a row takes kilobytes.
_CACHE_SIZE = 8_000


class Tagging(NamedTuple):
    """Decisions about the tokens of some sentences, one sentence after the other.

    classes (ndarray): int32, index into `TaggerModel.tag_classes`.
    tags (ndarray): int32, tokens x top, indices into `TaggerModel.tags`, best first, -1 for none.
    probs (ndarray): float32, tokens x top, probabilities of `tags`.
    morphs (ndarray): int32, index into `TaggerModel.morphs`, -1 where there is no analysis.
    """

    classes: numpy.ndarray
    tags: numpy.ndarray
    probs: numpy.ndarray
    morphs: numpy.ndarray


class Words(NamedTuple):
    """Words with what is known of each; row 0 is what stands beyond the ends of a sentence.

    rows (ndarray): int32, where each word is in the arrays.
    attributes (ndarray): uint32, see `Lexicon.attributes`.
    tag_scores, morph_scores (ndarray): float32, what words contribute by themselves to decisions.
    """

    rows: numpy.ndarray
    attributes: numpy.ndarray
    tag_scores: numpy.ndarray
    morph_scores: numpy.ndarray

    def at(self, places: numpy.ndarray) -> "Words":
        """RETURNS (Words): The words of tokens, given which word each token is."""
        return self._replace(rows=self.rows[places])


class TaggerModel(Stored):
    """A trained tagger.

    tag_classes (List[Tuple[str, str]]): Pairs of fine and coarse tag.
    tags (List[str]): The fine tags (coarse ones where the data had no others).
    morphs (List[str]): Morphological analyses, "" for no features.
    """

    FORMAT = _FORMAT

    def __init__(
        self,
        lexicon: Lexicon,
        tag_classes: list[tuple[str, str]],
        morphs: list[str],
        tagger: LinearClassifier,
        morphologizer: LinearClassifier,
    ):
        self.lexicon = lexicon
        self.tag_classes = tag_classes
        self.morphs = morphs
        self.tags = list(dict.fromkeys(tag_label(pair) for pair in tag_classes))
        self._tagger = tagger
        self._morphologizer = morphologizer
        beyond = numpy.ones(
            (1, tag_templates(lexicon.n_granularities).type_columns), dtype="uint32"
        )
        self._cache = RowCache(
            partial(_describe, lexicon, tagger, morphologizer),
            _with_scores(tagger, morphologizer, beyond),
            size=_CACHE_SIZE,
        )

    @classmethod
    def fit(
        cls,
        sentences: Sequence[TaggedSentence],
        *,
        clusters: Clusters | None = None,
        labels: Collection[str] | None = None,
        epochs: int = 5,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> "TaggerModel":
        """Train a tagger.

        sentences (Sequence[TaggedSentence]): Annotated sentences.
        clusters (Optional[Clusters]): Word clusters; the model keeps a copy of them.
        labels (Optional[Collection[str]]): Fine tags to learn; others count as missing.
        epochs (int): Passes over the sentences.
        seed (int): Seed of the order of sentences.
        progress (Optional[Callable[[Epoch], None]]): Called after every epoch.
        RETURNS (TaggerModel): The trained tagger.
        """
        corpus = Corpus.encode(sentences, labels=labels)
        if not corpus.tag_classes:
            raise ValueError(Errors.S301)
        preparation = Preparation(corpus, clusters)
        options: Any = {"epochs": epochs, "seed": seed, "progress": progress}
        lexicon, tagger = preparation.fit_tags(corpus.tag_gold, **options)
        morphologizer = preparation.fit_morphs(corpus.tag_gold, **options)
        return cls(lexicon, corpus.tag_classes, corpus.morphs, tagger, morphologizer)

    def tag(self, sentences: Sequence[Sequence[str]], *, top: int = 3) -> Tagging:
        """Tag sentences.

        sentences (Sequence[Sequence[str]]): The words of the sentences.
        top (int): How many tags to report for each token.
        RETURNS (Tagging): Decisions about all tokens.
        """
        words = [word for sentence in sentences for word in sentence]
        starts = numpy.cumsum([0, *map(len, sentences)], dtype="int32")
        return self.tag_words(self.words(words), starts, top=top)

    def words(self, words: Sequence[str]) -> Words:
        """What is known of words, whether they were seen in training or not.

        words (Sequence[str]): Words.
        RETURNS (Words): What `tag_words` takes.
        """
        rows, arrays = self._cache(words)
        return Words(rows, *arrays)

    def tag_words(
        self,
        words: Words,
        starts: numpy.ndarray,
        top: int = 3,
        given: numpy.ndarray | None = None,
    ) -> Tagging:
        """Tag sentences.

        words (Words): Their words.
        starts (ndarray): int32, where sentences start, closed by the number of tokens.
        top (int): How many tags to report for each token.
        given (Optional[ndarray]): int32, the tag of each token as an index into `tags`, -1 where it is to
            be found. Tags around it and morphology are chosen with it.
        RETURNS (Tagging): Decisions about all tokens.
        """
        most = max(1, top)
        tags, morphs = _decide(self._tagger, self._morphologizer, words, starts, most, given)
        return Tagging(tags.classes, tags.labels[:, :top], tags.probs[:, :top], morphs)

    def to_payload(self) -> dict[str, Any]:
        lexicon = self.lexicon
        return {
            "words": lexicon.words,
            "entries": lexicon.entries,
            "clusters": clusters_to_bytes(lexicon.clusters),
            "tag_classes": [list(pair) for pair in self.tag_classes],
            "morphs": self.morphs,
            "tagger": self._tagger.to_payload(),
            "morphologizer": self._morphologizer.to_payload(),
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "TaggerModel":
        tag_classes = [(tag, pos) for tag, pos in read["tag_classes"]]
        _require(read, tag_classes)
        lexicon = Lexicon(read["words"], read["entries"], clusters_from_bytes(read["clusters"]))
        classifiers = (
            LinearClassifier.from_payload(read[name], templates(lexicon.n_granularities))
            for name, templates in (("tagger", tag_templates), ("morphologizer", morph_templates))
        )
        return cls(lexicon, tag_classes, read["morphs"], *classifiers)


def _require(read: dict[str, Any], tag_classes: list[tuple[str, str]]) -> None:
    """What the fields of a file can't say one by one."""
    for name in ("tagger", "morphologizer"):
        require_parts(_FORMAT, name, read[name])
    _FORMAT.require(len(read["tagger"]["members"]), "tagger.members", "is empty")
    numbers: dict[str, int] = {}
    labels = [numbers.setdefault(tag_label(pair), len(numbers)) for pair in tag_classes]
    sound = read["tagger"]["labels"].tolist() == labels
    _FORMAT.require(sound, "tagger.labels", "does not fit the tags")
    sound = all(map(_is_analysis, read["morphs"]))
    _FORMAT.require(sound, "morphs", "has an entry that is not Name=Value|Name=Value")


def _is_analysis(text: str) -> bool:
    return text == "" or all(part.count("=") == 1 for part in text.split("|"))


def tag_types(
    lexicon: Lexicon,
    tagger: LinearClassifier,
    morphologizer: LinearClassifier | None,
    types: list[str],
    words: numpy.ndarray,
    starts: numpy.ndarray,
    top: int,
) -> tuple[Decisions, numpy.ndarray]:
    """Tag sentences given by numbers of words, by classifiers that are used once.

    lexicon (Lexicon): What is known about words.
    tagger (LinearClassifier): The classifier of tags.
    morphologizer (Optional[LinearClassifier]): The classifier of morphology.
    types (List[str]): The words.
    words (ndarray): int32, the index of each token in `types`.
    starts (ndarray): int32, where sentences start, closed by the number of tokens.
    top (int): How many tags to report for each token.
    RETURNS (Tuple[Decisions, ndarray]): The tags, and the analysis of each token, -1 for none.
    """
    used, rows = numpy.unique(words, return_inverse=True)
    known = lexicon.attributes([types[i] for i in used])
    known = numpy.concatenate([numpy.ones_like(known[:1]), known])
    own = Words((rows + 1).astype("int32"), *_with_scores(tagger, morphologizer, known))
    return _decide(tagger, morphologizer, own, starts, top)


def _describe(
    lexicon: Lexicon, tagger: LinearClassifier, morphologizer: LinearClassifier, words: list[str]
) -> tuple[numpy.ndarray, ...]:
    return _with_scores(tagger, morphologizer, lexicon.attributes(words))


def _with_scores(
    tagger: LinearClassifier, morphologizer: LinearClassifier | None, attributes: numpy.ndarray
) -> tuple[numpy.ndarray, ...]:
    tag_scores = tagger.word_scores(attributes)
    if morphologizer is None:
        return attributes, tag_scores, numpy.zeros((0, 0, 0), dtype="float32")
    return attributes, tag_scores, morphologizer.word_scores(attributes)


def _decide(
    tagger: LinearClassifier,
    morphologizer: LinearClassifier | None,
    words: Words,
    starts: numpy.ndarray,
    top: int,
    given: numpy.ndarray | None = None,
) -> tuple[Decisions, numpy.ndarray]:
    rows, known, tag_scores, morph_scores = words
    # the last columns are for decisions
    attributes = numpy.zeros((len(rows), known.shape[1] + 2), dtype="uint32")
    attributes[:, :-2] = known[rows]
    everywhere = numpy.zeros_like(rows)
    tags = tagger.decide(attributes, starts, rows, tag_scores, everywhere, top=top, given=given)
    if morphologizer is None:
        return tags, numpy.full(len(rows), -1, dtype="int32")
    morphs = morphologizer.decide(attributes, starts, rows, morph_scores, tags.classes, top=1)
    return tags, morphs.classes
