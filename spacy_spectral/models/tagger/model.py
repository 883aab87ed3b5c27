"""The tagger: tags first, then morphology given the tags. Knows nothing of spaCy."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy

from ...base.cache import RowCache
from ...base.errors import Errors
from ...base.serialize import pack, unpack
from ...trees.interface import Clusters
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from .classifier import Decisions, LinearClassifier, require_array
from .estimate import Progress
from .features import morph_templates, tag_templates
from .lexicon import Lexicon
from .preparation import Preparation, tag_label
from .statistics import Corpus, TaggedSentence

_KIND, _VERSION = "tagger", 1
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


class TaggerModel:
    """A trained tagger.

    tag_classes (List[Tuple[str, str]]): Pairs of fine and coarse tag.
    tags (List[str]): The fine tags (coarse ones where the data had no others).
    morphs (List[str]): Morphological analyses, "" for no features.
    """

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

    def tag_words(self, words: Words, starts: numpy.ndarray, *, top: int = 3) -> Tagging:
        """Tag sentences.

        words (Words): Their words.
        starts (ndarray): int32, where sentences start, closed by the number of tokens.
        top (int): How many tags to report for each token.
        RETURNS (Tagging): Decisions about all tokens.
        """
        tags, morphs = _decide(self._tagger, self._morphologizer, words, starts, max(1, top))
        return Tagging(tags.classes, tags.labels[:, :top], tags.probs[:, :top], morphs)

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): The serialised model; equal models give equal bytes."""
        lexicon = self.lexicon
        payload = {
            "words": lexicon.words,
            "entries": lexicon.entries,
            "clusters": clusters_to_bytes(lexicon.clusters),
            "tag_classes": [list(pair) for pair in self.tag_classes],
            "morphs": self.morphs,
            "tagger": self._tagger.to_payload(),
            "morphologizer": self._morphologizer.to_payload(),
        }
        return pack(_KIND, _VERSION, payload)

    @classmethod
    def from_bytes(cls, data: bytes) -> "TaggerModel":
        """Read what `to_bytes` wrote, or raise a ValueError that says what is wrong.

        data (bytes): The serialised model.
        RETURNS (TaggerModel): The model.
        """
        payload = unpack(_KIND, _VERSION, data)
        return cls._from_payload(payload)

    @classmethod
    def _from_payload(cls, payload: Any) -> "TaggerModel":
        def bad(name: str) -> ValueError:
            return ValueError(Errors.S002.format(what=_KIND, reason=f"bad '{name}'"))

        if not isinstance(payload, dict):
            raise bad("payload")
        for name in ("words", "morphs"):
            if not _is_list_of_str(payload.get(name)):
                raise bad(name)
        pairs = payload.get("tag_classes")
        if not isinstance(pairs, list) or not pairs:
            raise bad("tag_classes")
        if not all(_is_list_of_str(pair) and len(pair) == 2 for pair in pairs):
            raise bad("tag_classes")
        entries = require_array(payload, "entries", "uint32", 2)
        if entries.shape != (len(payload["words"]), 2):
            raise bad("entries")
        if not isinstance(payload.get("clusters"), bytes):
            raise bad("clusters")
        lexicon = Lexicon(payload["words"], entries, clusters_from_bytes(payload["clusters"]))
        classifiers = []
        for name, templates, n_classes, n_groups in (
            ("tagger", tag_templates, len(pairs), 1),
            ("morphologizer", morph_templates, len(payload["morphs"]), len(pairs)),
        ):
            if not isinstance(payload.get(name), dict):
                raise bad(name)
            classifiers.append(
                LinearClassifier.from_payload(
                    payload[name],
                    templates(lexicon.n_granularities),
                    n_classes=n_classes,
                    n_groups=n_groups,
                )
            )
        tag_classes = [(tag, pos) for tag, pos in pairs]
        model = cls(lexicon, tag_classes, payload["morphs"], *classifiers)
        if model._tagger.scheme.n_labels != len(model.tags):
            raise bad("labels")
        return model


def _is_list_of_str(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


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
) -> tuple[Decisions, numpy.ndarray]:
    rows, known, tag_scores, morph_scores = words
    # the last columns are for decisions
    attributes = numpy.zeros((len(rows), known.shape[1] + 2), dtype="uint32")
    attributes[:, :-2] = known[rows]
    everywhere = numpy.zeros_like(rows)
    tags = tagger.decide(attributes, starts, rows, tag_scores, everywhere, top=top)
    if morphologizer is None:
        return tags, numpy.full(len(rows), -1, dtype="int32")
    morphs = morphologizer.decide(attributes, starts, rows, morph_scores, tags.classes, top=1)
    return tags, morphs.classes
