"""How taggers are trained: tagged sentences as arrays, the tag dictionary, tags and then morphology.

Which properties of which words the tagger looks at.

Columns of the attribute matrix: what can be read off the form, what the tag dictionary says, one
column a cluster granularity, in treebanks where most stems are known long endings and stems (see
`stems`), if there are several treebanks the one to tag like, and last the decisions: the tag, and for
morphology the analysis.
Nothing here knows a language: which affixes, shapes and words matter is left to the data.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from ...trees.interface import Clusters
from ._strings import FORM_COLUMNS, form_attributes
from .analyses import ALL_ANALYSES, ALL_POS, KnownForms
from .classifier import (
    FORM,
    FULL_SHAPE,
    LOWER,
    PREFIX,
    SHAPE,
    SUFFIX,
    Attributes,
    Bools,
    Cell,
    ClassScheme,
    FeatureIndex,
    Int32s,
    LinearClassifier,
    Templates,
    numbered,
    train,
)
from .stems import (
    BEGINNINGS,
    LONG_SUFFIXES,
    REST,
    STEM,
    STEM_COLUMNS,
    Stems,
    find_stem,
    long_suffixes,
    longest_stem,
    most_stems_are_known,
    rest_attributes,
)

# the dictionary's tags of the word, most frequent first; and its most frequent tag with how well
# that is known
AMBIGUITY = FORM_COLUMNS
FREQUENT = FORM_COLUMNS + 1
CLUSTERS = FORM_COLUMNS + 2


class Columns(NamedTuple):
    """Where the columns behind the tag dictionary are.

    clusters, long, stems, known: Those of word clusters, long endings, stems, and the forms of a lexicon;
        none if a model has none.
    source: That of the treebank to tag like; none if treebanks have no names.
    tag: That of the decided tag.
    """

    clusters: range
    long: range
    stems: range
    known: range
    source: range
    tag: int

    @classmethod
    def of(
        cls, n_granularities: int, has_stems: bool, has_known: bool, has_sources: bool
    ) -> "Columns":
        clusters = range(CLUSTERS, CLUSTERS + n_granularities)
        long = range(clusters.stop, clusters.stop + has_stems * len(LONG_SUFFIXES))
        stems = range(long.stop, long.stop + has_stems * STEM_COLUMNS)
        known = range(stems.stop, stems.stop + 2 * has_known)
        source = range(known.stop, known.stop + has_sources)
        return cls(clusters, long, stems, known, source, source.stop)


def about_counts(templates: Templates, stems: range) -> Bools:
    """Which templates look at what is counted in the training data: the tag dictionary and stems."""
    looks_there = numpy.isin(templates.columns, [AMBIGUITY, FREQUENT, *stems])
    return numpy.logical_or.reduce(looks_there, axis=1)


def tag_templates(
    n_granularities: int,
    has_stems: bool = False,
    has_known: bool = False,
    has_sources: bool = False,
) -> Templates:
    """Templates for tags. Those with the name of a treebank are copies of some of the others (Daume 2007
    copies all): what treebanks have in common is learnt once, and what each does in its own way beside it."""
    columns = Columns.of(n_granularities, has_stems, has_known, has_sources)
    clusters, _, stems, lexicon, source, tag = columns
    word: list[list[Cell]] = [[(0, c)] for c in range(FORM_COLUMNS)]
    word += [[(0, SHAPE), (0, SUFFIX[1])], [(0, SHAPE), (0, SUFFIX[2])]]
    word += [[(0, FULL_SHAPE), (0, SUFFIX[0])]]
    around: list[list[Cell]] = [[(o, LOWER)] for o in (-2, -1, 1, 2)]
    around += [[(o, c)] for o in (-1, 1) for c in (SUFFIX[1], SUFFIX[2], SHAPE)]
    around += [[(0, SHAPE), (-1, SHAPE)], [(0, SUFFIX[2]), (-1, LOWER)]]
    around += [[(a, LOWER), (b, LOWER)] for a, b in ((-1, 0), (0, 1), (-1, 1), (-2, -1), (1, 2))]
    known: list[list[Cell]] = [[(o, AMBIGUITY)] for o in (-1, 0, 1, 2)]
    known += [[(o, FREQUENT)] for o in (-1, 0, 1, 2)]
    known += [[(a, AMBIGUITY), (b, AMBIGUITY)] for a, b in ((0, 1), (1, 2), (-1, 0))]
    known += [[(a, FREQUENT), (b, FREQUENT)] for a, b in ((0, 1), (-1, 0))]
    known += [[(0, AMBIGUITY), (1, AMBIGUITY), (2, AMBIGUITY)]]
    known += [[(0, AMBIGUITY), (o, LOWER)] for o in (-1, 1)]
    known += [[(0, FREQUENT), (0, SHAPE)], [(0, FREQUENT), (0, SUFFIX[1])]]
    known += [[(0, SUFFIX[1]), (1, AMBIGUITY)], [(0, LOWER), (1, AMBIGUITY)]]
    decided: list[list[Cell]] = [[(-1, tag)], [(-2, tag)], [(-1, tag), (-2, tag)]]
    decided += [[(-1, tag), (0, c)] for c in (LOWER, AMBIGUITY, SUFFIX[1], SUFFIX[2])]
    decided += [[(-1, tag), (1, AMBIGUITY)], [(-1, tag), (1, LOWER)]]
    decided += [[(-1, tag), (0, AMBIGUITY), (1, AMBIGUITY)], [(-1, tag), (-2, tag), (0, AMBIGUITY)]]
    decided += [[(-1, tag), (-2, tag), (0, LOWER)]]
    if n_granularities:
        fine, middle = clusters[-1], clusters[min(1, n_granularities - 1)]
        word += [[(0, c)] for c in clusters] + [[(0, fine), (0, SUFFIX[1])]]
        word += [[(0, clusters[n_granularities // 2]), (0, SHAPE)]]
        around += [[(o, c)] for o in (-1, 1) for c in clusters] + [[(o, middle)] for o in (-2, 2)]
        around += [[(a, middle), (b, middle)] for a, b in ((0, 1), (-1, 0), (-1, 1))]
        around += [[(0, fine), (-1, LOWER)]]
        known += [[(0, fine), (1, AMBIGUITY)]]
        decided += [[(-1, tag), (0, fine)], [(-1, tag), (0, middle)], [(-1, tag), (1, middle)]]
    # templates are known by their numbers: those of stems are the last ones
    ending: list[list[Cell]] = []
    if has_stems:
        ending = [[(0, stems[c])] for c in (STEM, REST)]
        ending += [[(0, stems[STEM]), (0, stems[c])] for c in (REST, *BEGINNINGS)]
    if has_known:
        ending += [[(o, lexicon[ALL_POS])] for o in (-1, 0, 1)] + [[(0, lexicon[ALL_ANALYSES])]]
        ending += [[(0, lexicon[ALL_POS]), (0, c)] for c in (AMBIGUITY, SUFFIX[1])]
        ending += [[(-1, tag), (0, lexicon[ALL_POS])]]
    # about one word: what is said of words is looked up once a word, so that names cost no time
    ending += [[(0, own)] for own in source]
    ending += [[(0, own), (0, c)] for own in source for c in (LOWER, AMBIGUITY)]
    templates = word + around + known + decided + ending
    return Templates.make(templates, out_column=tag, type_columns=tag)


def morph_templates(
    n_granularities: int,
    has_stems: bool = False,
    has_known: bool = False,
    has_sources: bool = False,
) -> Templates:
    """Templates for morphological analyses, which are decided when all tags are known; the decided
    analysis stands right after the tag."""
    columns = Columns.of(n_granularities, has_stems, has_known, has_sources)
    clusters, long, stems, known, source, tag = columns
    morph = tag + 1
    word: list[list[Cell]] = [[(0, c)] for c in (FORM, LOWER, SHAPE, *PREFIX[:3], *SUFFIX)]
    word += [[(0, tag)]] + [[(0, tag), (0, c)] for c in (LOWER, *SUFFIX[1:4])]
    around: list[list[Cell]] = [[(-1, tag)], [(1, tag)], [(-1, tag), (1, tag)]]
    around += [[(0, tag), (-1, tag)], [(0, tag), (1, tag)], [(1, tag), (2, tag)]]
    around += [[(-2, tag), (-1, tag)]]
    around += [[(o, c)] for o in (-1, 1) for c in (LOWER, SUFFIX[2])] + [[(1, SUFFIX[1])]]
    around += [[(-1, LOWER), (0, LOWER)], [(0, LOWER), (1, LOWER)], [(-1, LOWER), (0, SUFFIX[2])]]
    around += [[(0, SUFFIX[2]), (1, tag)], [(0, SUFFIX[2]), (-1, tag)]]
    around += [[(o, c)] for o in (-1, 0, 1) for c in clusters]
    decided: list[list[Cell]] = [[(-1, morph)]]
    decided += [[(-1, morph), (0, c)] for c in (SUFFIX[1], LOWER, tag)]
    ending: list[list[Cell]] = []
    if has_stems:
        ending = [[(0, tag), (0, c)] for c in (SUFFIX[4], *long, *stems)]
        ending += [[(0, tag), (0, stems[STEM]), (0, stems[REST])]]
    ending += [[(0, tag), (0, c)] for c in known]
    ending += [[(0, own), (0, c)] for own in source for c in (tag, LOWER, SUFFIX[1], SUFFIX[2])]
    ending += [[(0, own), (0, tag), (0, LOWER)] for own in source]
    templates = word + around + decided + ending
    return Templates.make(templates, out_column=morph, type_columns=tag)


# The dictionary entry of a training token is counted without the block of text it stands in, so
# that training meets unknown words and unknown tags about as often as new text does.
_N_BLOCKS = 20
_RANKS = 3


class TaggedSentence(NamedTuple):
    """A sentence with its annotation, all lists of one length.

    tags: Fine-grained tags, "" where missing.
    pos: Coarse tags, "" where missing.
    morphs: FEATS strings, "" for no features, None where missing.
    lemmas: Lemmas, "" where missing; none at all if not even one is known.
    source: The treebank whose conventions it follows, "" if nothing is said of it.
    weight: How much it counts.
    corpus: 0 for gold annotation, or the number of the silver corpus that it is of.
    """

    words: Sequence[str]
    tags: Sequence[str]
    pos: Sequence[str]
    morphs: Sequence[str | None]
    lemmas: Sequence[str] = ()
    source: str = ""
    weight: float = 1.0
    corpus: int = 0


@dataclass
class Corpus:
    """Sentences as arrays.

    words: int32, the type of each token.
    starts: int32, where sentences start, closed by the number of tokens.
    tag_gold, morph_gold: int32, the class of each token, -1 where missing.
    lemmas: The lemma of each token, "" where missing.
    sources: The names of treebanks.
    source_of: int32, the treebank of each sentence, counted from 1, 0 for one without a name.
    corpora: int32, the corpus of each sentence, 0 for gold annotation.
    weights: float32, how much each sentence counts.
    """

    types: list[str]
    words: Int32s
    starts: Int32s
    tag_classes: list[tuple[str, str]]
    morphs: list[str]
    tag_gold: Int32s
    morph_gold: Int32s
    lemmas: list[str]
    sources: list[str]
    source_of: Int32s
    corpora: Int32s
    weights: NDArray[numpy.float32]

    @classmethod
    def encode(
        cls, sentences: Sequence[TaggedSentence], *, labels: Collection[str] | None = None
    ) -> "Corpus":
        """Number words and classes. If `labels` are given, other tags count as missing; without any tag
        there is an error."""
        types, words = numbered([word for s in sentences for word in s.words])
        tags = [tag for s in sentences for tag in s.tags]
        pos = [coarse for s in sentences for coarse in s.pos]
        morphs = [morph for s in sentences for morph in s.morphs]
        lemmas = [lemma for s in sentences for lemma in s.lemmas or [""] * len(s.words)]
        if not len(words) == len(tags) == len(pos) == len(morphs) == len(lemmas):
            raise SpectralError(Errors.S304)
        if labels is not None:
            allowed = {"", *labels}
            tags = [tag if tag in allowed else "" for tag in tags]
        pairs = list(zip(tags, pos, strict=True))
        kinds = [kind for s in sentences for kind in [(s.source, s.corpus > 0)] * len(s.words)]
        layers = _layers(kinds, pairs)
        # a token teaches tags if it has every layer of them that its treebank has at all
        teaching = [
            pair if any(pair) and (bool(pair[0]), bool(pair[1])) == layers[source] else ("", "")
            for pair, (source, _) in zip(pairs, kinds, strict=True)
        ]
        classes = set(teaching) - {("", "")}
        if not classes:
            raise SpectralError(Errors.S301)
        tag_classes = sorted(classes)
        tag_ids = {pair: i for i, pair in enumerate(tag_classes)}
        morph_names = sorted({morph for morph in set(morphs) if morph is not None})
        morph_ids: dict[str | None, int] = {morph: i for i, morph in enumerate(morph_names)}
        names = sorted({s.source for s in sentences} - {""})
        numbers = {"": 0} | {name: i for i, name in enumerate(names, start=1)}
        return cls(
            types=types,
            words=words,
            starts=numpy.cumsum([0, *(len(s.words) for s in sentences)], dtype="int32"),
            tag_classes=tag_classes,
            morphs=morph_names,
            tag_gold=numpy.array([tag_ids.get(pair, -1) for pair in teaching], dtype="int32"),
            morph_gold=numpy.array([morph_ids.get(m, -1) for m in morphs], dtype="int32"),
            lemmas=lemmas,
            sources=names,
            source_of=numpy.array([numbers[s.source] for s in sentences], dtype="int32"),
            corpora=numpy.array([s.corpus for s in sentences], dtype="int32"),
            weights=numpy.array([s.weight for s in sentences], dtype="float32"),
        )

    def sentence_blocks(self, n_blocks: int) -> NDArray:
        """The contiguous block of each sentence, blocks of about equal size; every corpus has a part in
        every block."""
        lengths = numpy.diff(self.starts).astype("int64")
        blocks = numpy.zeros(len(lengths), dtype="int32")
        for corpus in numpy.unique(self.corpora):
            own = self.corpora == corpus
            ends = numpy.cumsum(lengths[own])
            blocks[own] = (ends - lengths[own]) * n_blocks // max(1, int(ends[-1]))
        return blocks

    def candidates(self) -> list[list[int]]:
        """Groups of classes: all, and those of each treebank with a name."""
        every = list(range(len(self.tag_classes)))
        groups = [every]
        of_tokens = self.per_token(self.source_of)
        for i in range(1, len(self.sources) + 1):
            own = numpy.unique(self.tag_gold[(of_tokens == i) & (self.tag_gold >= 0)])
            groups.append(own.tolist() or every)
        return groups

    def per_token(self, per_sentence: NDArray) -> NDArray:
        """Values of sentences repeated for their tokens."""
        return numpy.repeat(per_sentence, numpy.diff(self.starts))


def _layers(
    kinds: Sequence[tuple[str, bool]], pairs: Sequence[tuple[str, str]]
) -> dict[str, tuple[bool, bool]]:
    """By treebank, whether there are fine tags and coarse ones. Gold annotation says it where there is some:
    silver tags must not keep it from being learnt.

    kinds: Of each token its treebank, and whether its annotation is silver.
    """
    found: dict[str, tuple[bool, bool]] = {}
    # gold annotation comes last
    for source, is_silver in sorted(set(kinds), key=lambda kind: not kind[1]):
        own = {p for p, kind in zip(pairs, kinds, strict=True) if kind == (source, is_silver)}
        has = any(tag for tag, _ in own), any(coarse for _, coarse in own)
        if source not in found or any(has):
            found[source] = has
    return found


def dictionary_attributes(keys: NDArray, gold: NDArray, n_keys: int, n_classes: int) -> NDArray:
    """The tag dictionary, from the tokens whose class is known.

    gold: The class of each token, -1 where missing.
    RETURNS: uint32, one row a key: its tags, and its most frequent tag with certainty; 0 where it was never
        seen.
    """
    pairs, counts = _count(keys, gold, n_classes)
    return _summarise(pairs // n_classes, pairs % n_classes, counts, n_keys)


def held_out_attributes(keys: NDArray, gold: NDArray, blocks: NDArray, n_classes: int) -> NDArray:
    """What the tag dictionary says of each token (uint32, one row a token) when the token's own block is
    left out of it."""
    pairs, counts = _count(keys, gold, n_classes)
    views, view_of = numpy.unique(
        keys.astype("int64") * (int(blocks.max(initial=0)) + 1) + blocks, return_inverse=True
    )
    view_keys = views // (int(blocks.max(initial=0)) + 1)
    # one row for every view and class of its key, with the view's own block subtracted
    first = numpy.searchsorted(pairs // n_classes, view_keys, side="left")
    sizes = numpy.searchsorted(pairs // n_classes, view_keys, side="right") - first
    view = numpy.repeat(numpy.arange(len(views)), sizes)
    row = numpy.arange(len(view)) - numpy.repeat(numpy.cumsum(sizes) - sizes, sizes) + first[view]
    own_pairs, own_counts = _count(view_of, gold, n_classes)
    left = counts[row].copy()
    wanted = view * n_classes + pairs[row] % n_classes
    where = numpy.searchsorted(own_pairs, wanted)
    found = where < len(own_pairs)
    found[found] = own_pairs[where[found]] == wanted[found]
    left[found] -= own_counts[where[found]]
    return _summarise(view, pairs[row] % n_classes, left, len(views))[view_of]


def _count(keys: NDArray, gold: NDArray, n_classes: int) -> tuple[NDArray, NDArray]:
    seen = gold >= 0
    return numpy.unique(keys[seen].astype("int64") * n_classes + gold[seen], return_counts=True)


def _summarise(keys: NDArray, classes: NDArray, counts: NDArray, n_keys: int) -> NDArray:
    seen = counts > 0
    keys, classes, counts = keys[seen], classes[seen], counts[seen]
    order = numpy.lexsort((classes, -counts, keys))
    keys, classes = keys[order], classes[order].astype("uint64")
    totals = numpy.bincount(keys, counts[order], n_keys)
    starts = numpy.searchsorted(keys, keys, side="left")
    rank = numpy.arange(len(keys)) - starts
    ambiguity = numpy.zeros(n_keys, dtype="uint64")
    for r in range(_RANKS):
        at = rank == r
        ambiguity[keys[at]] = ambiguity[keys[at]] * numpy.uint64(1_000_003) + classes[at] + 2
    known = ambiguity > 0
    result = numpy.zeros((n_keys, 2), dtype="uint32")
    hashed = (ambiguity * numpy.uint64(0x9E3779B97F4A7C15)) >> numpy.uint64(32)
    # 0 and 1 are taken by "unknown" and "beyond the sentence"
    result[known, 0] = numpy.maximum(hashed[known], 2)
    certainty = numpy.digitize(totals, (2, 5, 21)).astype("uint32")
    top = rank == 0
    result[keys[top], 1] = (classes[top].astype("uint32") + 1) * 4 + certainty[keys[top]]
    return result


class Lexicon:
    """Attributes of words, whether seen in training or not: the tag dictionary, word clusters, stems.

    entries: uint32, their two attributes from the dictionary.
    stems: The stems, if the model looks at stems.
    known: The forms of a lexicon of the user's, if there is one.
    sources: The names of treebanks, if they have some.
    source: The treebank to tag like, "" for none of them.
    """

    def __init__(
        self,
        words: list[str],
        entries: Attributes,
        clusters: Clusters | None = None,
        stems: Stems | None = None,
        known: KnownForms | None = None,
        sources: Sequence[str] = (),
        source: str = "",
    ):
        self.words = words
        self.entries = entries
        self.clusters = clusters
        self.stems = stems
        self.known = known
        self.sources = list(sources)
        self.source = source
        self._rows = {word: i for i, word in enumerate(words)}

    @property
    def n_granularities(self) -> int:
        return len(self.clusters.granularities) if self.clusters is not None else 0

    @property
    def columns(self) -> Columns:
        """Where the columns are that words have attributes in."""
        return Columns.of(*self.looks_at)

    @property
    def looks_at(self) -> tuple[int, bool, bool, bool]:
        """What templates are made for."""
        has = self.stems is not None, self.known is not None, bool(self.sources)
        return self.n_granularities, *has

    @property
    def source_number(self) -> int:
        """The treebank to tag like, counted from 1, 0 for none."""
        return self.sources.index(self.source) + 1 if self.source else 0

    def like(self, source: str) -> "Lexicon":
        """The same for tagging like another treebank."""
        return Lexicon(
            self.words, self.entries, self.clusters, self.stems, self.known, self.sources, source
        )

    def attributes(self, words: list[str]) -> Attributes:
        """uint32, one row a word, all columns known from the word alone."""
        columns = self.columns
        result = numpy.zeros((len(words), columns.tag), dtype="uint32")
        result[:, :FORM_COLUMNS] = form_attributes(words)
        rows = numpy.array([self._rows.get(word.lower(), -1) for word in words], dtype="int64")
        known = rows >= 0
        result[known, FORM_COLUMNS : FORM_COLUMNS + 2] = self.entries[rows[known]]
        if self.clusters is not None and words:
            ids = self.clusters.ids(words)
            # 0 is "none" and 1 is "beyond the sentence"
            result[:, columns.clusters] = numpy.where(ids >= 0, ids + 2, 0)
        if self.stems is not None:
            result[:, columns.long] = long_suffixes(words)
            result[:, columns.stems] = self.stems.attributes([word.lower() for word in words])
        if self.known is not None:
            result[:, columns.known] = self.known.attributes([word.lower() for word in words])
        result[:, columns.source] = source_attribute(self.source_number)
        return result


def source_attribute(number: Any) -> Any:
    """The attribute that stands for a treebank, or for several, counted from 1; 0 is for none."""
    # 1 is "beyond the sentence"
    return number + (number > 0)


def tag_label(pair: tuple[str, str]) -> str:
    """What a pair of tags is called: the fine tag where there is one."""
    return pair[0] or pair[1]


class Preparation:
    """A corpus made ready for training: features are extracted once, however often it is trained on."""

    def __init__(self, corpus: Corpus, clusters: Clusters | None, known: KnownForms | None = None):
        self.corpus = corpus
        self._clusters = clusters
        self._known = known
        # the tag dictionary does not care about case
        self._dictionary_words, rows = numbered([word.lower() for word in corpus.types])
        self._keys = rows[corpus.words]
        self._blocks = corpus.per_token(corpus.sentence_blocks(_N_BLOCKS))
        lemmas = [lemma.lower() for lemma in corpus.lemmas]
        has_lemma = numpy.array([lemma != "" for lemma in lemmas], dtype=bool)
        of_lemma = (values[has_lemma] for values in (self._keys, numbered(lemmas)[1], self._blocks))
        has_stems = bool(has_lemma.any()) and most_stems_are_known(*of_lemma)
        no_stems = Stems([], numpy.zeros(0, dtype="uint32")) if has_stems else None
        nothing = numpy.zeros((0, 2), dtype="uint32")
        no_counts = Lexicon([], nothing, clusters, no_stems, known, corpus.sources)
        self._columns = no_counts.columns
        if has_stems:
            forms = [self._dictionary_words[key] for key in self._keys.tolist()]
            self._stem_names, self._stem_of = numbered(list(map(find_stem, forms, lemmas)))
        # the last columns are for decisions
        of_types = no_counts.attributes(corpus.types)
        self._attributes = numpy.pad(of_types[corpus.words], ((0, 0), (0, 2)))
        self._source_of = corpus.per_token(corpus.source_of)
        of_tokens = source_attribute(self._source_of)[:, None]
        self._attributes[:, self._columns.source] = of_tokens
        self._templates = tag_templates(*no_counts.looks_at)
        self._morph_templates = morph_templates(*no_counts.looks_at)
        self._set_classes(self._templates.out_column, corpus.tag_gold)
        self._counted = about_counts(self._templates, self._columns.stems)
        self._shared = self._index(~self._counted)

    def fit_tags(self, gold: Int32s, **options: Any) -> tuple[Lexicon, LinearClassifier]:
        """Learn tags from some of the tokens; the others are neither learnt from nor looked up.

        gold: int32, the class of each token, -1 for those to leave out.
        """
        pairs = self.corpus.tag_classes
        entries = dictionary_attributes(self._keys, gold, len(self._dictionary_words), len(pairs))
        seen = numpy.flatnonzero(entries[:, 0])
        words = [self._dictionary_words[i] for i in seen]
        stems = self._count_stems(gold) if self._columns.stems else None
        lexicon = Lexicon(
            words, entries[seen], self._clusters, stems, self._known, self.corpus.sources
        )
        self._attributes[:, [AMBIGUITY, FREQUENT]] = held_out_attributes(
            self._keys, gold, self._blocks, len(pairs)
        )
        self._set_classes(self._templates.out_column, gold)
        index = self._shared.joined(self._index(self._counted))
        # a pair scores as itself and as its coarse tag; every token may have every pair of its treebank
        parts = [[("pair", pair), ("coarse", pair[1])] for pair in pairs]
        labels = [tag_label(pair) for pair in pairs]
        scheme = ClassScheme.make(parts, self.corpus.candidates(), labels)
        return lexicon, train(
            self._attributes, self.corpus.starts, gold, self._source_of,
            self._templates, scheme, index=index, weights=self.corpus.weights, stage="tags",
            **options,
        )  # fmt: skip

    def _count_stems(self, gold: Int32s) -> Stems:
        """The stems of some of the tokens. Tokens look at those of other blocks than their own.

        gold: int32, the class of each token, -1 for those to leave out.
        """
        names, stem_of, keys, blocks = self._stem_names, self._stem_of, self._keys, self._blocks
        _, coarse = numbered([pos or tag for tag, pos in self.corpus.tag_classes])
        n_coarse = int(coarse.max()) + 1
        is_stem = numpy.array([name != "" for name in names])[stem_of]
        counted = numpy.where((gold >= 0) & is_stem, coarse[gold], -1)
        entries = dictionary_attributes(stem_of, counted, len(names), n_coarse)[:, 0]
        # the blocks that each stem stands in, as bits
        blocks_of = dict.fromkeys(names, 0)
        seen = zip(stem_of[counted >= 0].tolist(), blocks[counted >= 0].tolist(), strict=True)
        for stem, block in set(seen):
            blocks_of[names[stem]] |= 1 << block
        views, view_of = numpy.unique(
            keys.astype("int64") * _N_BLOCKS + blocks, return_inverse=True
        )
        forms = [self._dictionary_words[view // _N_BLOCKS] for view in views.tolist()]
        of_view = views % _N_BLOCKS
        stems = []
        for form, block in zip(forms, of_view.tolist(), strict=True):
            own = 1 << block
            stems.append(longest_stem(form, blocks_of, own))
        result = rest_attributes(forms, stems)
        found = numpy.flatnonzero([stem != "" for stem in stems])
        places = {name: i for i, name in enumerate(names)}
        # those that ask are tokens of which nothing is known
        asked = numpy.array([places[stems[i]] for i in found.tolist()], dtype="int64")
        result[found, STEM] = held_out_attributes(
            numpy.append(stem_of, asked),
            numpy.append(counted, numpy.full(len(asked), -1)),
            numpy.append(blocks, of_view[found]),
            n_coarse,
        )[len(stem_of) :, 0]
        self._attributes[:, self._columns.stems] = result[view_of.ravel()]
        known = numpy.flatnonzero(entries)
        return Stems([names[i] for i in known], entries[known])

    def fit_morphs(self, tag_gold: Int32s, **options: Any) -> LinearClassifier:
        """Learn morphological analyses, each among those that were seen with the token's tag.

        tag_gold: int32, the class of each token's tags, -1 for tokens to leave out.
        """
        corpus = self.corpus
        templates = self._morph_templates
        gold = numpy.where(tag_gold >= 0, corpus.morph_gold, -1).astype("int32")
        seen = gold >= 0
        groups: list[set[int]] = [set() for _ in corpus.tag_classes]
        for tag, morph in set(zip(tag_gold[seen].tolist(), gold[seen].tolist(), strict=True)):
            groups[tag].add(morph)
        # an analysis scores as itself and as each of its Feature=Value
        parts = [[("whole", m), *(("value", v) for v in m.split("|"))] for m in corpus.morphs]
        scheme = ClassScheme.make(parts, [sorted(group) for group in groups], corpus.morphs)
        self._set_classes(templates.out_column - 1, tag_gold)
        self._set_classes(templates.out_column, gold)
        # where the analysis follows from the tag there is nothing to learn
        ambiguous = numpy.diff(scheme.group_starts)[tag_gold] > 1
        gold[~ambiguous] = -1
        return train(
            self._attributes, corpus.starts, gold, numpy.maximum(tag_gold, 0),
            templates, scheme, weights=corpus.weights, stage="morphology", **options,
        )  # fmt: skip

    def _index(self, chosen: NDArray[numpy.bool_]) -> FeatureIndex:
        return FeatureIndex.make(self._attributes, self.corpus.starts, self._templates, chosen)

    def _set_classes(self, column: int, classes: Int32s) -> None:
        """Write classes as the kernels do, 0 where there is none."""
        self._attributes[:, column] = numpy.where(classes >= 0, classes + 2, 0)
