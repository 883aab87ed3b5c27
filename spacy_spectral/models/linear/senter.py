"""Sentences: which words start one. A linear model looks at words, shapes and gaps around a place.

How a text lies on the page: spaces, line ends, empty lines.

One line end may be where a line was full, and then it means no more than a space; or somebody has put it
there. A line was full if its neighbour's first word would not have fitted: lines of wrapped text have a
width, of other text they are as long as paragraphs. Treebanks show empty lines at best, so that documents are
learnt from twice: as they are, and laid out anew, with lines of some width and paragraphs told apart by one
line end or two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from random import Random
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.cache import Arrays, RowCache
from ...base.errors import Errors, SpectralError
from ...base.files import Format, Stored
from ...base.learnt import architecture
from ._strings import FORM_COLUMNS, form_attributes
from .classifier import (
    FIXED,
    FORM,
    FREE,
    FULL_SHAPE,
    LOWER,
    PREFIX,
    SHAPE,
    SUFFIX,
    Cell,
    LinearClassifier,
    Progress,
    Templates,
    classifier_fields,
    numbered,
    train_free,
    with_boundary,
)

# What is in front of a word; 0 and 1 have other meanings for attributes.
NOTHING, SPACE, FULL_LINE, SHORT_LINE, EMPTY_LINE = range(2, 7)
# Nobody wraps lines wider than this.
_WIDEST = 120
_LINE_ENDS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"


@dataclass
class Layout:
    """Where the words of a text stand: the characters of each, how many characters of white space are in
    front of it, and how many line ends these are."""

    lengths: NDArray[numpy.int64]
    gaps: NDArray[numpy.int64]
    line_ends: NDArray[numpy.int64]

    def __len__(self) -> int:
        return len(self.lengths)

    def at(self, kept: NDArray[numpy.bool_]) -> "Layout":
        """That of some of the words."""
        return Layout(self.lengths[kept], self.gaps[kept], self.line_ends[kept])

    def classes(self, bounds: NDArray[numpy.int32]) -> NDArray[numpy.uint32]:
        """What is in front of words of texts, given where these start. A text starts as after an empty
        line."""
        result = numpy.where(self.gaps > 0, SPACE, NOTHING).astype("uint32")
        first = numpy.flatnonzero(self.line_ends > 0)  # first words of lines
        # most texts are one line; only the others are looked at one by one
        for text in numpy.unique(numpy.searchsorted(bounds, first, side="right") - 1).tolist():
            own = slice(bounds[text], bounds[text + 1])
            result[own] = self._of_lines(own, result[own])
        result[bounds[:-1][numpy.diff(bounds) > 0]] = EMPTY_LINE
        return result

    def _of_lines(self, own: slice, result: NDArray[numpy.uint32]) -> NDArray[numpy.uint32]:
        """What is in front of the words of a text of several lines."""
        lengths, line_ends = self.lengths[own], self.line_ends[own]
        ends = numpy.cumsum(self.gaps[own] + lengths)
        starts = numpy.flatnonzero(line_ends > 0)
        starts = starts if starts[0] == 0 else numpy.append(0, starts)
        widths = ends[numpy.append(starts[1:], len(ends)) - 1] - (ends - lengths)[starts]
        usual = numpy.percentile(widths, 90)
        needed = widths[:-1] + 1 + lengths[starts[1:]]
        is_full = needed > usual if usual <= _WIDEST else numpy.zeros(len(needed), dtype=bool)
        result[starts[1:]] = numpy.where(is_full, FULL_LINE, SHORT_LINE)
        result[line_ends > 1] = EMPTY_LINE
        return result

    def laid_out(self, paragraphs: NDArray[numpy.bool_], random: Random) -> "Layout":
        """Lay a text out in another way; `paragraphs` says which words start one."""
        between = random.choice((1, 2))
        width = random.randint(40, 100) if random.random() < 0.5 else None
        line_ends = numpy.where(paragraphs, between, 0)
        line_ends[:1] = 0
        gaps = numpy.maximum(numpy.minimum(self.gaps, 1), line_ends)
        if width is not None:
            at = 0
            rows = zip(gaps.tolist(), self.lengths.tolist(), line_ends.tolist(), strict=True)
            for i, (gap, length, ends) in enumerate(rows):
                if ends or (gap and at + gap + length > width):
                    line_ends[i] = max(ends, 1)
                    at = length
                else:
                    at += gap + length
        return replace(self, gaps=gaps, line_ends=line_ends)


def count_line_ends(white: str) -> int:
    """How many lines end in white space."""
    n = white.count("\n")
    return n if n else int(any(char in _LINE_ENDS for char in white))


def concatenated(layouts: Sequence[Layout]) -> Layout:
    """Texts one after the other."""
    nothing = numpy.zeros(0, dtype="int64")
    return Layout(
        *(
            numpy.concatenate([nothing, *(getattr(layout, f.name) for layout in layouts)])
            for f in fields(Layout)
        )
    )


# Columns of tokens beside those of forms.
GAP, SINCE, LOOK, MARK = range(FORM_COLUMNS, FORM_COLUMNS + 4)
# Words that are remembered.
_CACHE_SIZE = 50_000
# What ends sentences in one script or another.
_TERMINATORS = frozenset(
    ".!?\u2026\u3002\uff01\uff1f\uff61\uff0e\u061f\u06d4\u0964\u0965\u0589\u1362\u1367"
    "\u203c\u203d\u2047\u2048\u2049"
)
# Distances to the last of them are told apart up to these bounds.
_SINCE_BOUNDS = (1, 2, 3, 4, 6, 9, 14, 24, 40)
# How often a sentence starts a paragraph when texts are laid out anew and the treebank knows no paragraphs.
_PARAGRAPHS = 0.2

_FORMAT = Format("senter", 1, starts=classifier_fields(2, 2))


@dataclass
class Passage:
    """A text in words; `starts` is 1 for those that start a sentence, 0 for others, -1 where it is not
    known."""

    words: Sequence[str]
    layout: Layout
    starts: NDArray[numpy.int32]


class SenterModel(Stored):
    """A trained splitter of texts into sentences."""

    FORMAT = _FORMAT

    def __init__(self, starts: LinearClassifier):
        self._starts = starts
        self._types = RowCache(
            partial(_describe, starts), _describe(starts, [], 1), size=_CACHE_SIZE
        )

    def probabilities(
        self,
        types: list[str],
        rows: NDArray[numpy.int32],
        layout: Layout,
        bounds: NDArray[numpy.int32],
    ) -> NDArray[numpy.float32]:
        """How likely words are to start a sentence, 1 for the first of a text. Rows tell, from 1, which
        of the types each word of the texts is."""
        groups = _groups(bounds)
        places, (attributes, looks, is_end, scores) = self._types(types)
        # row 0 is what stands beyond the ends
        rows = numpy.append(0, places).astype("int32")[rows]
        described = Types(attributes, looks, is_end).describe(rows, layout, bounds)
        decided = self._starts.decide(described, bounds, rows, scores, groups, top=1)
        best = decided.probs[:, 0]
        result = numpy.where(decided.classes == 1, best, 1 - best).astype("float32")
        result[groups == FIXED] = 1
        return result

    def to_payload(self) -> dict[str, Any]:
        return {"starts": self._starts.to_payload()}

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "SenterModel":
        return cls(LinearClassifier.from_payload(_FORMAT, "starts", read, start_templates()))


@dataclass(frozen=True)
class SenterRecipe:
    """The settings of a linear model of words, shapes and gaps around the start of a sentence. The seed
    is that of the order, and of how texts are laid out anew."""

    epochs: int = 10
    seed: int = 0

    def fit(self, passages: Sequence[Passage], *, progress: Progress | None = None) -> SenterModel:
        """Train a splitter on texts whose sentences are known; `progress` is called after every epoch."""
        passages = [passage for passage in passages if len(passage.words)]
        if not any((passage.starts[1:] >= 0).any() for passage in passages):
            raise SpectralError(Errors.S605)
        passages += _laid_out(passages, Random(self.seed))
        types, rows = Types.of([word for passage in passages for word in passage.words])
        gold = numpy.concatenate([passage.starts for passage in passages]).astype("int32")
        bounds = numpy.cumsum([0, *(len(passage.words) for passage in passages)], dtype="int32")
        groups = _groups(bounds)
        gold[groups == FIXED] = 0
        layout = concatenated([passage.layout for passage in passages])
        return SenterModel(
            train_free(
                types.describe(rows, layout, bounds), bounds, gold, groups, start_templates(),
                n_classes=2, stage="sentences",
                epochs=self.epochs, seed=self.seed, progress=progress,
            )
        )  # fmt: skip


build_linear_senter = architecture("linear_senter", SenterModel, SenterRecipe)


@dataclass
class Types:
    """What can be seen of distinct words, row 0 for what stands beyond the ends of a text: attributes of
    forms; whether they are written in capitals, or with one, or not; whether they end sentences."""

    attributes: NDArray[numpy.uint32]
    looks: NDArray[numpy.uint32]
    is_end: NDArray[numpy.bool_]

    @classmethod
    def of(cls, words: Sequence[str]) -> tuple["Types", NDArray[numpy.int32]]:
        """The types of words, and the row of each word."""
        types, rows = numbered(list(words))
        return cls.make(types), rows + numpy.int32(1)

    @classmethod
    def make(cls, types: list[str]) -> "Types":
        return cls(
            with_boundary(form_attributes(types)),
            numpy.array([1, *map(_look, types)], dtype="uint32"),
            numpy.array([False, *map(_is_end, types)], dtype=bool),
        )

    def describe(
        self, rows: NDArray[numpy.int32], layout: Layout, bounds: NDArray[numpy.int32]
    ) -> NDArray[numpy.uint32]:
        """uint32, what `start_templates` look at, one row a word."""
        n = len(rows)
        result = numpy.zeros((n, MARK + 2), dtype="uint32")
        result[:, :FORM_COLUMNS] = self.attributes[rows]
        result[:, GAP] = layout.classes(bounds)
        result[:, LOOK] = self.looks[rows]
        places = numpy.arange(n)
        last_end = numpy.maximum.accumulate(numpy.where(self.is_end[rows], places, -1))
        before = numpy.append(-1, last_end[:-1])[:n]
        is_own = before >= numpy.repeat(bounds[:-1], numpy.diff(bounds))
        since = numpy.where(is_own, places - before, _SINCE_BOUNDS[-1])
        result[:, SINCE] = numpy.digitize(since, _SINCE_BOUNDS) + 2
        result[:, MARK] = numpy.where(is_own, result[before, FORM], 1)
        return result


def start_templates() -> Templates:
    """Templates for tokens that may start a sentence; the last column is the decision, which none looks at:
    a document can be read in parts."""
    cells: list[list[Cell]] = [[(o, LOWER)] for o in range(-3, 3)]
    cells += [[(o, FORM)] for o in (-1, 0, 1)] + [[(o, SHAPE)] for o in (-2, -1, 0, 1)]
    cells += [[(o, GAP)] for o in (-1, 0, 1)] + [[(0, SINCE)], [(0, SINCE), (0, LOOK)]]
    cells += [[(0, SINCE), (0, GAP), (0, LOOK)], [(0, SINCE), (0, MARK), (0, LOOK)]]
    cells += [[(a, LOWER), (b, LOWER)] for a, b in ((-1, 0), (-2, -1), (0, 1))]
    cells += [[(-1, FORM), (0, c)] for c in (SHAPE, GAP, SINCE)]
    cells += [[(0, FORM), c] for c in ((-1, SHAPE), (0, GAP))] + [[(0, LOWER), (0, SINCE)]]
    cells += [[(-1, FORM), (0, SHAPE), (0, GAP)], [(-1, SHAPE), (0, SHAPE), (0, GAP)]]
    cells += [[(-1, SHAPE), (0, SHAPE), (1, SHAPE)], [(-2, SHAPE), (-1, SHAPE), (0, SHAPE)]]
    cells += [[(-1, FORM), (0, LOOK), (1, LOOK)], [(-1, LOOK), (0, LOOK), (1, LOOK)]]
    cells += [[(-2, c), (-1, FORM), (0, LOOK)] for c in (LOOK, LOWER)]
    cells += [[(-2, FULL_SHAPE), (-1, FORM), (0, GAP)], [(-1, GAP), (-1, FORM), (0, GAP)]]
    cells += [[(0, LOOK), (0, SUFFIX[2])], [(-1, SUFFIX[2]), (0, LOOK)]]
    # new templates come last, so that those of older files keep their numbers
    cells += [[(0, c)] for c in (*SUFFIX[:3], *PREFIX[:2])] + [[(-1, c)] for c in SUFFIX[:3]]
    cells += [[(0, LOOK), (1, LOWER)], [(0, LOWER), (1, LOWER), (0, LOOK)]]
    cells += [[(0, LOWER), (0, LOOK)], [(-1, LOWER), (0, LOOK)]]
    return Templates.make(cells, out_column=MARK + 1, type_columns=FORM_COLUMNS)


def _describe(starts: LinearClassifier, types: list[str], first: int = 0) -> Arrays:
    """What can be seen of words and what they say of places around them; `first` rows are for no word."""
    made = Types.make(types)
    scores = starts.word_scores(made.attributes)
    skipped = 1 - first
    return made.attributes[skipped:], made.looks[skipped:], made.is_end[skipped:], scores[skipped:]


def _look(word: str) -> int:
    if word.isupper() and len(word) > 1:
        return 2
    if word[0].isupper():
        return 3
    if word.islower():
        return 4
    return 5 if any(map(str.isnumeric, word)) else 6


def _is_end(word: str) -> bool:
    return word[-1] in _TERMINATORS or (len(word) > 1 and word[0] in _TERMINATORS)


def _groups(bounds: NDArray[numpy.int32]) -> NDArray[numpy.int32]:
    """There is no choice for the first words of texts."""
    groups = numpy.full(bounds[-1], FREE, dtype="int32")
    groups[bounds[:-1][numpy.diff(bounds) > 0]] = FIXED
    return groups


def _laid_out(passages: Sequence[Passage], random: Random) -> list[Passage]:
    """Every passage in another layout. Where the treebank knows no paragraphs, some sentences start one, and
    some of those before them lose their full stop, as headlines have none."""
    if any((passage.layout.line_ends > 1).any() for passage in passages):
        return [
            replace(passage, layout=passage.layout.laid_out(passage.layout.line_ends > 1, random))
            for passage in passages
        ]
    result = []
    for passage in passages:
        starts = numpy.array([s == 1 and random.random() < _PARAGRAPHS for s in passage.starts])
        kept = numpy.ones(len(starts), dtype=bool)
        for i in (numpy.flatnonzero(starts[1:])).tolist():
            if _is_end(passage.words[i]) and passage.starts[i] != 1:
                kept[i] = random.random() < 0.5
        layout = passage.layout.laid_out(starts, random).at(kept)
        words = [passage.words[i] for i in numpy.flatnonzero(kept).tolist()]
        result.append(Passage(words, layout, passage.starts[kept]))
    return result
