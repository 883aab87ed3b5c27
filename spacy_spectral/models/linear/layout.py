"""How a text lies on the page: spaces, line ends, empty lines.

One line end may be where a line was full, and then it means no more than a space; or somebody has put it
there. A line was full if its neighbour's first word would not have fitted: lines of wrapped text have a
width, of other text they are as long as paragraphs. Treebanks show empty lines at best, so that documents are
learnt from twice: as they are, and laid out anew, with lines of some width and paragraphs told apart by one
line end or two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from random import Random

import numpy
from numpy.typing import NDArray

# What is in front of a word; 0 and 1 have other meanings for attributes.
NOTHING, SPACE, FULL_LINE, SHORT_LINE, EMPTY_LINE = range(2, 7)
# Nobody wraps lines wider than this.
_WIDEST = 120
_LINE_ENDS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"


@dataclass
class Layout:
    """Where the words of a text stand.

    lengths (ndarray): int64, the characters of each word.
    gaps (ndarray): int64, how many characters of white space are in front of it.
    line_ends (ndarray): int64, how many line ends these are.
    """

    lengths: NDArray[numpy.int64]
    gaps: NDArray[numpy.int64]
    line_ends: NDArray[numpy.int64]

    def __len__(self) -> int:
        return len(self.lengths)

    def at(self, kept: NDArray[numpy.bool_]) -> "Layout":
        """That of some of the words."""
        return Layout(self.lengths[kept], self.gaps[kept], self.line_ends[kept])

    def classes(self, bounds: NDArray[numpy.int32]) -> NDArray[numpy.uint32]:
        """What is in front of words. A text starts as after an empty line.

        bounds (ndarray): int32, where texts start, closed by the number of words.
        """
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
