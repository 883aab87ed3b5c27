"""Where things go in a layered drawing (Sugiyama's method), and how wide text is; geometry only."""

from dataclasses import dataclass, field
from itertools import pairwise
from unicodedata import combining, east_asian_width

_GAP = 14.0  # between neighbours of a column
_SWEEPS = 60


@dataclass(eq=False)
class Item:
    """Something that has a place in a column: a state, a label, or a bend of an edge."""

    column: int
    above: float
    below: float
    width: float = 0.0
    neighbours: list[tuple["Item", float]] = field(default_factory=list)
    y: float = 0.0


def n_columns(text: str) -> int:
    """The width of a text in characters; Chinese, Japanese and Korean ones are two wide."""
    return sum(2 if east_asian_width(c) in "WF" else not combining(c) for c in text)


def place(columns: list[list[Item]]) -> None:
    """Order the items of every column by where their neighbours are, then move them as near to these
    as order and size allow.

    columns: The items of every column; sorted in place from top to bottom.
    """
    for column in columns:
        for position, item in enumerate(column):
            item.y = position - (len(column) - 1) / 2
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            wanted = {id(item): _centre(item, 1 if forward else -1) for item in column}
            column.sort(key=lambda item: wanted[id(item)])
            for position, item in enumerate(column):
                item.y = position - (len(column) - 1) / 2
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            _settle(column, [_centre(item, 0) for item in column])


def _centre(item: Item, side: int) -> float:
    """Mean height of the neighbours: of those before (side 1), after (-1), or all (0)."""
    near = [
        (other.y, pull)
        for other, pull in item.neighbours
        if side == 0 or (item.column - other.column) * side > 0
    ]
    if not near:
        return item.y
    return sum(y * pull for y, pull in near) / sum(pull for _, pull in near)


def _settle(column: list[Item], wanted: list[float]) -> None:
    """The heights closest to the wanted ones (least squares) that keep order and distance.

    With the distances taken off this is isotonic regression: pool adjacent violators.
    """
    offsets = [0.0]
    for upper, lower in pairwise(column):
        offsets.append(offsets[-1] + upper.below + lower.above + _GAP)
    blocks: list[list[float]] = []  # mean, size
    for value, offset in zip(wanted, offsets, strict=True):
        blocks.append([value - offset, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size = blocks.pop()
            blocks[-1][0] = (blocks[-1][0] * blocks[-1][1] + mean * size) / (blocks[-1][1] + size)
            blocks[-1][1] += size
    means = [mean for mean, size in blocks for _ in range(int(size))]
    for item, mean, offset in zip(column, means, offsets, strict=True):
        item.y = mean + offset
