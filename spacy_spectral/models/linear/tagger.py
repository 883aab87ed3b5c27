"""The tagger: tags first, then morphology given the tags. Knows nothing of spaCy."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy
from numpy.typing import NDArray

from ...base.cache import Arrays, RowCache
from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bytes, Format, List, Stored, Strings
from ...base.learnt import architecture
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import require_known, sentence_blocks
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from .analyses import Analysis, KnownForms
from .classifier import (
    Attributes,
    Decisions,
    Epoch,
    Int32s,
    LinearClassifier,
    Progress,
    classifier_fields,
    with_boundary,
)
from .stems import Stems
from .tagger_training import (
    Corpus,
    Lexicon,
    Preparation,
    TaggedSentence,
    morph_templates,
    tag_label,
    tag_templates,
)

_FORMAT = Format(
    "tagger",
    1,
    words=Strings("words"),
    entries=Array("uint32", "words", 2),
    clusters=Bytes(),
    tag_classes=List(Strings(2), "tags", least=1, unique=True),
    morphs=Strings("morphs", unique=True),
    # only of models that have learnt from treebanks with names
    sources=Strings("sources", unique=True, optional=True),
    tagger=classifier_fields("tags", "sources+1"),
    morphologizer=classifier_fields("morphs", "tags"),
    # only of models that look at stems
    stems=Strings("stems", unique=True, optional=True),
    stem_entries=Array("uint32", "stems", above=1, optional=True),
    # only of models with a lexicon
    known=Strings("known", unique=True, optional=True),
    known_entries=Array("uint32", "known", 2, above=1, optional=True),
)
# Words remembered between calls, with what they contribute to scores: a row takes kilobytes.
_CACHE_SIZE = 8_000
_TOKENS_AT_ONCE = 4096


class Tagging(NamedTuple):
    """Decisions about the tokens of some sentences, one sentence after the other.

    classes: int32, index into `TaggerModel.tag_classes`.
    tags: int32, tokens x top, indices into `TaggerModel.tags`, best first, -1 for none.
    probs: float32, tokens x top, probabilities of `tags`.
    morphs: int32, index into `TaggerModel.morphs`, -1 where there is no analysis.
    """

    classes: Int32s
    tags: Int32s
    probs: NDArray[numpy.float32]
    morphs: Int32s


class Words(NamedTuple):
    """Words with what is known of each; row 0 is what stands beyond the ends of a sentence.

    rows: int32, where each word is in the arrays.
    attributes: uint32, see `Lexicon.attributes`.
    tag_scores, morph_scores: float32, what words contribute by themselves to decisions.
    """

    rows: Int32s
    attributes: Attributes
    tag_scores: NDArray[numpy.float32]
    morph_scores: NDArray[numpy.float32]

    def at(self, places: NDArray | slice) -> "Words":
        """The words of tokens, given which word each token is."""
        return self._replace(rows=self.rows[places])


class SourceTagger(Stored):
    """A trained tagger, which may have learnt from several treebanks: it tags like one of them.

    sources: The names of the treebanks, if they have some.
    source: The one it tags like, "" for none of them.
    """

    sources: Sequence[str]
    source: str
    _others: Mapping[str, Any] = MappingProxyType({})

    def like(self: "Tagger", source: str | None) -> "Tagger":
        """The same tagger, tagging like another treebank."""
        name = source or ""
        require_known({name}, self.sources, "spectral_tagger")
        if name == self.source:
            return self
        found = self._others.get(name)
        if found is None:
            found = self._like(name)
            # replaced as a whole: other threads may look or add at the same time
            self._others = {**self._others, name: found}
        return found

    def _like(self: "Tagger", source: str) -> "Tagger":
        """A copy that tags like a treebank that it knows."""
        raise NotImplementedError


Tagger = TypeVar("Tagger", bound=SourceTagger)


class TaggerModel(SourceTagger):
    """A trained tagger.

    morphs: Morphological analyses, "" for no features.
    """

    FORMAT = _FORMAT

    def __init__(
        self,
        lexicon: Lexicon,
        tag_classes: list[tuple[str, str]],
        morphs: list[str],
        tagger: LinearClassifier,
        morphologizer: LinearClassifier | None,
    ):
        """morphologizer: None if no morphology is asked for."""
        self.lexicon = lexicon
        self.sources, self.source = lexicon.sources, lexicon.source
        self.tag_classes = tag_classes
        self.morphs = morphs
        self.tags = list(dict.fromkeys(tag_label(pair) for pair in tag_classes))
        self.parts, self._part_of = parts_of_speech(tag_classes)
        self._tagger = tagger
        self._morphologizer = morphologizer
        beyond = _with_scores(tagger, morphologizer, with_boundary(lexicon.attributes([])))
        describe = partial(_describe, lexicon, tagger, morphologizer)
        self._cache = RowCache(describe, beyond, size=_CACHE_SIZE)

    def _like(self, source: str) -> "TaggerModel":
        lexicon = self.lexicon.like(source)
        return TaggerModel(
            lexicon, self.tag_classes, self.morphs, self._tagger, self._morphologizer
        )

    @property
    def clusters(self) -> Clusters | None:
        return self.lexicon.clusters

    @property
    def known(self) -> KnownForms | None:
        """The forms of a lexicon."""
        return self.lexicon.known

    def tag(self, sentences: Sequence[Sequence[str]], *, top: int = 3) -> Tagging:
        """Tag sentences, and report the `top` tags of each token."""
        words = [word for sentence in sentences for word in sentence]
        starts = numpy.cumsum([0, *map(len, sentences)], dtype="int32")
        return self.tag_words(self.words(words), starts, top=top)

    def words(self, words: Sequence[str]) -> Words:
        """What is known of words, whether they were seen in training or not."""
        rows, arrays = self._cache(words)
        return Words(rows, *arrays)

    def tag_words(
        self,
        words: Words,
        starts: Int32s,
        top: int = 3,
        given: Int32s | None = None,
        parts: Int32s | None = None,
    ) -> Tagging:
        """Tag sentences.

        starts: int32, where sentences start, closed by the number of tokens.
        given: int32, the tag of each token as an index into `tags`, -1 where it is to be found. Tags around
            it and morphology are chosen with it.
        parts: int32, the part of speech that the tag of each token must have, as an index into `parts`, -1
            where any will do.
        """
        rows, _, tag_scores, morph_scores = words
        fitting = None
        if parts is not None:
            fitting = self._fitting(words, starts, parts)
            labels = numpy.where(fitting >= 0, self._tagger.scheme.labels[fitting], -1)
            given = labels if given is None else numpy.where(fitting >= 0, labels, given)
            given = given.astype("int32")
        attributes = _attributes(words)
        candidates = self._candidates(rows)
        if given is not None:
            # a tag that is given may be one of another treebank
            candidates[given >= 0] = 0
        tags = self._tagger.decide(
            attributes, starts, rows, tag_scores, candidates, top=max(1, top), given=given
        )
        classes = tags.classes
        if fitting is not None:
            classes = numpy.where(fitting >= 0, fitting, classes).astype("int32")
            attributes[:, -2] = classes + 2
        morphs = numpy.full(len(rows), -1, dtype="int32")
        if self._morphologizer is not None:
            morphs = self._morphologizer.decide(
                attributes, starts, rows, morph_scores, classes, top=1
            ).classes
        return Tagging(classes, tags.labels[:, :top], tags.probs[:, :top], morphs)

    def _fitting(self, words: Words, starts: Int32s, parts: Int32s) -> Int32s:
        """The likeliest class of each token that is asked for by its part of speech, -1 for others."""
        chosen = [numpy.zeros(0, dtype="int32")]
        for own, own_starts in token_blocks(starts):
            ranked = self.likely_classes(
                words.at(own), own_starts, top=len(self.tag_classes)
            ).labels
            fits = self._part_of[ranked] == parts[own, None]
            best = ranked[numpy.arange(len(ranked)), fits.argmax(axis=1)]
            # the ranks do not have what is out of the question
            any_ = (self._part_of == parts[own, None]).argmax(axis=1)
            best = numpy.where(fits.any(axis=1), best, any_)
            chosen.append(numpy.where(parts[own] >= 0, best, -1).astype("int32"))
        return numpy.concatenate(chosen)

    def likely_classes(self, words: Words, starts: Int32s, *, top: int) -> Decisions:
        """The likeliest of `tag_classes` for each token, as labels of the decisions; see `tag_words`."""
        return self._classes.decide(
            _attributes(words), starts, words.rows, words.tag_scores,
            self._candidates(words.rows), top=min(top, len(self.tag_classes)),
        )  # fmt: skip

    def _candidates(self, rows: Int32s) -> Int32s:
        """The group of classes of each token: those of the treebank to tag like."""
        return numpy.full_like(rows, self.lexicon.source_number)

    @cached_property
    def _classes(self) -> LinearClassifier:
        """The tagger with classes for labels; it keeps a table of its own, which takes time to make."""
        every = numpy.arange(len(self.tag_classes), dtype="int32")
        return replace(self._tagger, scheme=replace(self._tagger.scheme, labels=every))

    def likely_analyses(
        self, words: Words, starts: Int32s, classes: Int32s, *, top: int
    ) -> Decisions:
        """The likeliest of `morphs` for each token, as labels of the decisions.

        classes: int32, the class of each token.
        """
        assert self._morphologizer is not None
        attributes = _attributes(words)
        attributes[:, -2] = classes + 2
        return self._morphologizer.decide(
            attributes, starts, words.rows, words.morph_scores, classes, top=top
        )

    def to_payload(self) -> dict[str, Any]:
        lexicon = self.lexicon
        assert self._morphologizer is not None
        return {
            "words": lexicon.words,
            "entries": lexicon.entries,
            "clusters": clusters_to_bytes(lexicon.clusters),
            "tag_classes": [list(pair) for pair in self.tag_classes],
            "morphs": self.morphs,
            "tagger": self._tagger.to_payload(),
            "morphologizer": self._morphologizer.to_payload(),
            "stems": None if lexicon.stems is None else lexicon.stems.names,
            "stem_entries": None if lexicon.stems is None else lexicon.stems.entries,
            "known": None if lexicon.known is None else lexicon.known.names,
            "known_entries": None if lexicon.known is None else lexicon.known.entries,
            **sources_payload(self.sources),
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "TaggerModel":
        tag_classes = [(tag, pos) for tag, pos in read["tag_classes"]]
        _FORMAT.require(len(read["tagger"]["members"]), "tagger.members", "is empty")
        numbers: dict[str, int] = {}
        labels = [numbers.setdefault(tag_label(pair), len(numbers)) for pair in tag_classes]
        sound = read["tagger"]["labels"].tolist() == labels
        _FORMAT.require(sound, "tagger.labels", "does not fit the tags")
        sound = all(map(is_analysis, read["morphs"]))
        _FORMAT.require(sound, "morphs", "has an entry that is not Name=Value|Name=Value")
        names, entries = read["stems"], read["stem_entries"]
        _FORMAT.require(
            (names is None) == (entries is None), "stem_entries", "does not fit the stems"
        )
        stems = None if names is None else Stems(names, entries)
        known_names, known_entries = read["known"], read["known_entries"]
        sound = (known_names is None) == (known_entries is None)
        _FORMAT.require(sound, "known_entries", "does not fit the known forms")
        known = None if known_names is None else KnownForms(known_names, known_entries)
        clusters, sources = clusters_from_bytes(read["clusters"]), read["sources"] or []
        n_groups = len(read["tagger"]["group_starts"]) - 1
        _FORMAT.require(n_groups == len(sources) + 1, "sources", "does not fit the tagger")
        lexicon = Lexicon(read["words"], read["entries"], clusters, stems, known, sources)
        classifiers = (
            LinearClassifier.from_payload(_FORMAT, name, read, make(*lexicon.looks_at))
            for name, make in (("tagger", tag_templates), ("morphologizer", morph_templates))
        )
        return cls(lexicon, tag_classes, read["morphs"], *classifiers)


def sources_payload(sources: Sequence[str]) -> dict[str, list[str]]:
    """What files have of the names of treebanks: nothing where there are none, as files of earlier
    versions."""
    return {"sources": list(sources)} if sources else {}


def parts_of_speech(tag_classes: Sequence[tuple[str, str]]) -> tuple[list[str], Int32s]:
    """The parts of speech of classes, and which of them each class has; one more number, -1, is for none."""
    parts = list(dict.fromkeys(part for _, part in tag_classes))
    numbers = [parts.index(part) for _, part in tag_classes]
    return parts, numpy.array([*numbers, -1], dtype="int32")


def token_blocks(starts: Int32s) -> Iterator[tuple[slice, Int32s]]:
    """Tokens of some sentences at a time, and where these start: arrays of probabilities are large."""
    return sentence_blocks(starts, _TOKENS_AT_ONCE)


def _attributes(words: Words) -> Attributes:
    """Attributes of tokens; the last columns are for decisions, first the tag."""
    attributes = numpy.zeros((len(words.rows), words.attributes.shape[1] + 2), dtype="uint32")
    attributes[:, :-2] = words.attributes[words.rows]
    return attributes


def _describe(
    lexicon: Lexicon,
    tagger: LinearClassifier,
    morphologizer: LinearClassifier | None,
    words: list[str],
) -> Arrays:
    return _with_scores(tagger, morphologizer, lexicon.attributes(words))


def _with_scores(
    tagger: LinearClassifier, morphologizer: LinearClassifier | None, attributes: Attributes
) -> Arrays:
    of_morphs = numpy.zeros((len(attributes), 0, 0), dtype="float32")
    if morphologizer is not None:
        of_morphs = morphologizer.word_scores(attributes)
    return attributes, tagger.word_scores(attributes), of_morphs


def is_analysis(text: str) -> bool:
    return text == "" or all(part.count("=") == 1 for part in text.split("|"))


@dataclass(frozen=True)
class TaggerRecipe:
    """The settings of a linear tagger: hashed features, a tag dictionary, word clusters where there are some.

    epochs (int): Passes over the training data.
    seed (int): Seed of the order of sentences.
    """

    epochs: int = 5
    seed: int = 0

    @property
    def n_epochs(self) -> int:
        """How many epochs are reported."""
        return 2 * self.epochs

    def fit(
        self,
        sentences: Sequence[TaggedSentence],
        *,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        dev: Sequence[TaggedSentence] = (),
        labels: Collection[str] | None = None,
        lexicon: Iterable[Analysis] | None = None,
        progress: Progress | None = None,
    ) -> TaggerModel:
        """Train a tagger.

        clusters: Word clusters; the model keeps a copy of them.
        vectors, dev: For other taggers.
        labels: Fine tags to learn; others count as missing.
        lexicon: Analyses of more forms.
        """
        corpus = Corpus.encode(sentences, labels=labels)
        known = KnownForms.of(lexicon) if lexicon is not None else None
        preparation = Preparation(corpus, clusters, known)
        options: Any = {"epochs": self.epochs, "seed": self.seed, "progress": progress}
        words, tagger = preparation.fit_tags(corpus.tag_gold, **options)
        morphologizer = preparation.fit_morphs(corpus.tag_gold, **options)
        return TaggerModel(words, corpus.tag_classes, corpus.morphs, tagger, morphologizer)


build_linear_tagger = architecture("linear_tagger", TaggerModel, TaggerRecipe)


# ---------------------------------------------------------------- jack-knifing


class Jackknifed(NamedTuple):
    """Predicted tags of all tokens, one sentence after the other, each by a tagger that has not seen it.

    starts: int32, where sentences start, closed by the number of tokens.
    classes: int32, the best pair of each token.
    tags: int32, tokens x top, indices into `labels`, best first, -1 for none.
    probs: float32, tokens x top, their probabilities.
    morph_classes: int32, the analysis of each token, -1 for none.
    """

    starts: Int32s
    tag_classes: list[tuple[str, str]]
    labels: list[str]
    classes: Int32s
    tags: Int32s
    probs: NDArray[numpy.float32]
    morphs: list[str]
    morph_classes: Int32s

    def part(self, first: int, end: int) -> "Jackknifed":
        """Those of the sentences from one to another."""
        starts = self.starts[first : end + 1]
        own = slice(int(starts[0]), int(starts[-1]))
        return self._replace(
            starts=starts - starts[0],
            classes=self.classes[own],
            tags=self.tags[own],
            probs=self.probs[own],
            morph_classes=self.morph_classes[own],
        )


def jackknife(
    sentences: Sequence[TaggedSentence],
    *,
    folds: int = 5,
    clusters: Clusters | None = None,
    known: KnownForms | None = None,
    epochs: int = 2,
    seed: int = 0,
    top: int = 2,
    morphology: bool = False,
    source: str | None = None,
    progress: Progress | None = None,
) -> Jackknifed:
    """Tag every sentence by a model trained on the other folds.

    A parser trained on gold tags, or on the tags a tagger gives its own training data, trusts tags more
    than it may. Folds are contiguous blocks: sentences of one document share words, so that random
    folds would leak. The tag dictionary is counted anew in every fold.

    source: The treebank to tag all sentences like."""
    if folds < 2 or len(sentences) < folds:
        raise SpectralError(Errors.S305.format(folds=folds, sentences=len(sentences)))
    corpus = Corpus.encode(sentences)
    preparation = Preparation(corpus, clusters, known)
    fold_of = corpus.sentence_blocks(folds)
    n_tokens = len(corpus.words)
    classes = numpy.full(n_tokens, -1, dtype="int32")
    tags = numpy.full((n_tokens, top), -1, dtype="int32")
    probs = numpy.zeros((n_tokens, top), dtype="float32")
    morph_classes = numpy.full(n_tokens, -1, dtype="int32")
    for fold in range(folds):
        held_out = corpus.per_token(fold_of == fold)
        if not held_out.any():
            continue
        gold = numpy.where(held_out, -1, corpus.tag_gold).astype("int32")

        def report(epoch: Epoch, fold: int = fold) -> None:
            if progress is not None:
                progress(epoch._replace(stage=f"{epoch.stage}, fold {fold + 1} of {folds}"))

        options: Any = {"epochs": epochs, "seed": seed, "progress": report}
        lexicon, tagger = preparation.fit_tags(gold, **options)
        morphologizer = preparation.fit_morphs(gold, **options) if morphology else None
        model = TaggerModel(lexicon, corpus.tag_classes, corpus.morphs, tagger, morphologizer).like(
            source
        )
        lengths = numpy.diff(corpus.starts)[fold_of == fold]
        starts = numpy.cumsum([0, *lengths], dtype="int32")
        used, rows = numpy.unique(corpus.words[held_out], return_inverse=True)
        words = model.words([corpus.types[i] for i in used]).at(rows)
        tagging = model.tag_words(words, starts, top)
        classes[held_out], tags[held_out], probs[held_out], morph_classes[held_out] = tagging
    labels = list(dict.fromkeys(map(tag_label, corpus.tag_classes)))
    return Jackknifed(
        corpus.starts,
        corpus.tag_classes,
        labels,
        classes,
        tags,
        probs,
        corpus.morphs,
        morph_classes,
    )
