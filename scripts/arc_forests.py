"""Trees of labelled arcs as packed forests with a variable for every head. The second stage has them in
charts instead (`models.forestrank`): this is what those are checked against, and what elimination would cost.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from spacy_spectral.base.errors import Errors, SpectralError
from spacy_spectral.forest.packed import MAX_CELLS, PackedForest

# Sets of arcs that go round in circles; each is a no-good of its own.
MAX_CYCLES = 2_000


class ArcForest(NamedTuple):
    """The projective trees, with one root, of some arcs.

    forest: Variable m - 1 tells the arc of token m.
    arcs: For every token the numbers of its arcs, in the order of the variable's values.
    """

    forest: PackedForest
    arcs: list[NDArray[numpy.int64]]

    def tree(self, values: Sequence[int]) -> NDArray[numpy.int64]:
        """The number of every token's arc."""
        return numpy.array(
            [own[v] for own, v in zip(self.arcs, values, strict=True)], dtype="int64"
        )


def from_arcs(
    n: int,
    heads: NDArray[numpy.int32],
    modifiers: NDArray[numpy.int32],
    log_weights: NDArray[numpy.float64],
    *,
    max_cells: int = MAX_CELLS,
) -> ArcForest:
    """The projective trees that some arcs make. Arcs that differ in nothing but a label, which is not
    looked at, are different values of a variable.

    No-goods forbid pairs of arcs that cross (the root is left of all tokens), two roots, and arcs that go
    round in a circle. Where nothing crosses, a circle goes one way over tokens in their order and back by
    one arc, so that all of them can be found.

    heads, modifiers (ndarray): Positions from 1; 0 is the root.
    """
    order = numpy.argsort(modifiers, kind="stable")
    bounds = numpy.searchsorted(modifiers[order], numpy.arange(1, n + 2))
    arcs = [order[a:b] for a, b in pairwise(bounds)]
    factors: list[tuple[Sequence[int], NDArray]] = [
        ((m,), log_weights[own]) for m, own in enumerate(arcs)
    ]
    head, modifier = heads[order], modifiers[order]
    forbidden = _conflicts(head, modifier)
    if n and all(map(len, arcs)):
        rows = numpy.logical_or.reduceat(forbidden, bounds[:-1], axis=0)
        blocks = numpy.logical_or.reduceat(rows, bounds[:-1], axis=1)
    else:  # what has no arc is an error below
        blocks = numpy.zeros((n, n), dtype=bool)
    for i, j in numpy.argwhere(numpy.triu(blocks, 1)).tolist():
        block = forbidden[bounds[i] : bounds[i + 1], bounds[j] : bounds[j + 1]]
        factors.append(((i, j), ~block))
    for cycle in _cycles(head, modifier, n):
        scope = sorted(m - 1 for _, m in cycle)
        governor = {m - 1: h for h, m in cycle}
        size = numpy.prod([float(len(arcs[i])) for i in scope])
        if size > max_cells:
            raise SpectralError(Errors.S901.format(cells=f"{size:.2g}", most=max_cells))
        table = numpy.ones((1,) * len(scope), dtype=bool)
        for axis, i in enumerate(scope):
            shape = [1] * len(scope)
            shape[axis] = -1
            table = table & (heads[arcs[i]] == governor[i]).reshape(shape)
        factors.append((scope, ~table))
    return ArcForest(PackedForest(map(len, arcs), factors, max_cells=max_cells), arcs)


def _conflicts(head: NDArray, modifier: NDArray) -> NDArray[numpy.bool_]:
    """Which pairs of arcs can't be in one tree."""
    low, high = numpy.minimum(head, modifier), numpy.maximum(head, modifier)
    first = (low[:, None] < low) & (low < high[:, None]) & (high[:, None] < high)
    roots = (head[:, None] == 0) & (head == 0)
    circle = (head[:, None] == modifier) & (modifier[:, None] == head)
    return first | first.T | roots | circle


def _cycles(head: NDArray, modifier: NDArray, n: int) -> list[list[tuple[int, int]]]:
    """All circles of three arcs or more in which no two cross, as lists of (head, modifier)."""
    arcs = set(zip(head.tolist(), modifier.tolist(), strict=True))
    found: list[list[tuple[int, int]]] = []
    for sign in (1, -1):
        # chains lead from a head to a modifier on the one side, the last arc goes back
        onward: dict[int, list[int]] = {}
        for h, m in sorted(arcs):
            if h and (m - h) * sign > 0:
                onward.setdefault(h, []).append(m)
        for last, first in sorted(arcs):
            if not last or (last - first) * sign < 2:
                continue
            chains = [[first]]
            while chains:
                chain = chains.pop()
                for m in onward.get(chain[-1], ()):
                    if m == last and len(chain) > 1:
                        closed = [*chain, m]
                        found.append([*pairwise(closed), (last, first)])
                    elif (last - m) * sign > 0:
                        chains.append([*chain, m])
                if len(found) + len(chains) > MAX_CYCLES:
                    cells = f"more than {MAX_CYCLES} circles of arcs, and so of too many"
                    raise SpectralError(Errors.S901.format(cells=cells, most=MAX_CELLS))
    return found
