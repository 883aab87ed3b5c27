"""The tagger: tags first, then morphology given the tags. Knows nothing of spaCy."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy

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
# Words remembered between calls, with what they contribute to scores.
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
        self._forget_words()

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
        return self.tag_rows(self.word_rows(words), starts, top=top)

    def word_rows(self, words: Sequence[str]) -> numpy.ndarray:
        """Numbers under which words are remembered until the next call of this method.

        words (Sequence[str]): Words.
        RETURNS (ndarray): int32, what `tag_rows` takes.
        """
        rows = self._rows
        new = [word for word in dict.fromkeys(words) if word not in rows]
        if new and len(rows) + len(new) > _CACHE_SIZE:
            self._forget_words()
            rows, new = self._rows, list(dict.fromkeys(words))
        if new:
            first = len(rows) + 1
            self._remember(self.lexicon.attributes(new), first)
            rows.update(zip(new, range(first, first + len(new)), strict=True))
        return numpy.fromiter((rows[word] for word in words), dtype="int32", count=len(words))

    def tag_rows(self, rows: numpy.ndarray, starts: numpy.ndarray, *, top: int = 3) -> Tagging:
        """Tag sentences given by numbers of words.

        rows (ndarray): int32, the words, from `word_rows`.
        starts (ndarray): int32, where sentences start, closed by the number of tokens.
        top (int): How many tags to report for each token.
        RETURNS (Tagging): Decisions about all tokens.
        """
        n_columns = self._attributes.shape[1]
        attributes = numpy.zeros((len(rows), n_columns + 2), dtype="uint32")
        attributes[:, :n_columns] = self._attributes[rows]
        everywhere = numpy.zeros(len(rows), dtype="int32")
        tags = self._tagger.decide(
            attributes, starts, rows, self._tag_scores, everywhere, top=max(1, top)
        )
        morphs = self._morphologizer.decide(
            attributes, starts, rows, self._morph_scores, tags.classes, top=1
        )
        return Tagging(tags.classes, tags.labels[:, :top], tags.probs[:, :top], morphs.classes)

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

    def _forget_words(self) -> None:
        self._rows: dict[str, int] = {}
        n_columns = tag_templates(self.lexicon.n_granularities).type_columns
        self._attributes = numpy.zeros((0, n_columns), dtype="uint32")
        self._tag_scores = self._tagger.word_scores(self._attributes)
        self._morph_scores = self._morphologizer.word_scores(self._attributes)
        # row 0: what stands beyond the ends of a sentence
        self._remember(numpy.ones((1, n_columns), dtype="uint32"), 0)

    def _remember(self, attributes: numpy.ndarray, first: int) -> None:
        """Put words into the rows from `first` on; room grows by doubling."""
        end = first + len(attributes)
        for name, values in (
            ("_attributes", attributes),
            ("_tag_scores", self._tagger.word_scores(attributes)),
            ("_morph_scores", self._morphologizer.word_scores(attributes)),
        ):
            kept = getattr(self, name)
            if len(kept) < end:
                grown = numpy.zeros((max(end, 2 * len(kept)), *kept.shape[1:]), dtype=kept.dtype)
                grown[:first] = kept[:first]
                setattr(self, name, grown)
            getattr(self, name)[first:end] = values


def _is_list_of_str(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def tag_words(
    lexicon: Lexicon,
    tagger: LinearClassifier,
    morphologizer: LinearClassifier | None,
    types: list[str],
    words: numpy.ndarray,
    starts: numpy.ndarray,
    top: int,
) -> tuple[Decisions, numpy.ndarray]:
    """Tag sentences given by numbers of words, without remembering words.

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
    of_words = lexicon.attributes([types[i] for i in used])
    of_words = numpy.concatenate([numpy.ones_like(of_words[:1]), of_words])
    rows = (rows + 1).astype("int32")
    attributes = numpy.zeros((len(rows), of_words.shape[1] + 2), dtype="uint32")
    attributes[:, :-2] = of_words[rows]
    everywhere = numpy.zeros_like(rows)
    tags = tagger.decide(
        attributes, starts, rows, tagger.word_scores(of_words), everywhere, top=top
    )
    if morphologizer is None:
        return tags, numpy.full(len(rows), -1, dtype="int32")
    scores = morphologizer.word_scores(of_words)
    morphs = morphologizer.decide(attributes, starts, rows, scores, tags.classes, top=1)
    return tags, morphs.classes
