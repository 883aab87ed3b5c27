"""The trees of the log-linear model in a hypergraph, so that any labelled arc can be left out.

The items are those of `_chart`, with a slot for the score of every labelled arc a from h to m:

    arc[a,c]        = sum of exp(score[a,l]) over the labels l of state c
    before[a,START] = sibling[-,a] L[m, next to h]
    before[a,c']    = sum_s inner[s,c'] sibling[s,a] G[s,a]           G[i,j] = sum_k R[i,k] L[j,k+1]
    inner[a,c]      = arc[a,c] sum_c' before[a,c'] move[c',c]
    outer[a]        = last[a] sum_c inner[a,c] move[c,STOP]
    R[h,e]          = sum_a outer[a] R[m,e]                           R[h,h] = empty[h,right] move[START,STOP]
    goal            = sum_a arc[a] L[m,1] R[m,n]                      over arcs from the root

(L in mirror image.)
"""

from collections import defaultdict
from typing import Any

import numpy
from numpy.typing import NDArray

from ...forest.conditions import Edge, GraphBuilder, GraphTrees
from ._infer import MOST_OF_STATES_POWER

_LEFT, _RIGHT = 0, 1


def packed_trees(
    n: int,
    scored: dict[str, NDArray[Any]],
    states: NDArray[numpy.int32],
    allowed: NDArray[numpy.uint8],
) -> GraphTrees:
    """The distribution over the trees of a sentence, from `Forests.scores`. Labels of arcs between
    tokens, and of arcs from the root, are `allowed` [2, labels]."""
    arcs, labels = numpy.nonzero(allowed[(scored["heads"] == 0).astype("int64")])
    packing = _Packing(scored, arcs, states[labels], scored["scores"][arcs, labels])
    has_tree = packing.run(n)
    return GraphTrees(
        n,
        packing.builder.graph() if has_tree else None,
        numpy.array(packing.builder.scores),
        scored["heads"][arcs],
        scored["modifiers"][arcs],
        labels.astype("int32"),
    )


def sharper_scores(
    scored: dict[str, NDArray[Any]],
    states: NDArray[numpy.int32],
    allowed: NDArray[numpy.uint8],
    choice: float,
) -> dict[str, NDArray[Any]]:
    """The scores under which every tree with its states weighs P^choice, as in `_infer._sharper`; labels
    given states are as they are.
    """
    scores = scored["scores"].astype("float64")
    kept = allowed[(scored["heads"] == 0).astype("int64")].astype(bool)
    own = numpy.where(kept, scores, -numpy.inf)
    whole = numpy.logaddexp.reduce(own, axis=1, keepdims=True)
    power = min(choice, MOST_OF_STATES_POWER)
    sharp = scores + (choice - power) * whole
    for state in numpy.unique(states):
        own = numpy.where(kept & (states == state), scores, -numpy.inf)
        total = numpy.logaddexp.reduce(own, axis=1)
        # what is not there is not looked at
        total[~numpy.isfinite(total)] = 0.0
        sharp[:, states == state] += (power - 1.0) * total[:, None]
    result = {name: choice * scored[name] for name in ("siblings", "last", "empty", "moves")}
    return {**scored, **result, "scores": sharp}


class _Packing:
    """A sentence on its way into a hypergraph. Items that can't be made are not there."""

    def __init__(
        self,
        scored: dict[str, NDArray[Any]],
        arcs: NDArray[numpy.int64],
        states: NDArray[numpy.int32],
        scores: NDArray[numpy.float32],
    ):
        self.scored = scored
        self.heads, self.modifiers = scored["heads"].tolist(), scored["modifiers"].tolist()
        self.ranks = scored["ranks"].tolist()
        self.builder = GraphBuilder(scores.tolist())
        # arc -> state -> labels
        self.labels: dict[int, dict[int, list[Edge]]] = defaultdict(lambda: defaultdict(list))
        for slot, (a, c) in enumerate(zip(arcs.tolist(), states.tolist(), strict=True)):
            self.labels[a][c].append((-1, -1, slot))
        # (head, side) -> arcs, from the inside out
        self.siblings: dict[tuple[int, int], list[int]] = defaultdict(list)
        for a in numpy.argsort(scored["ranks"], kind="stable").tolist():
            self.siblings[self.heads[a], self.side(a)].append(a)
        self.moves: dict[tuple[int, int], list[list[int]]] = {}
        self.half: dict[tuple[int, int, int], int] = {}
        self.inner: dict[int, dict[int, int]] = {}
        self.outer: dict[int, int] = {}
        self.gaps: dict[tuple[int, int], int] = {}

    def side(self, a: int) -> int:
        return _RIGHT if self.modifiers[a] > self.heads[a] else _LEFT

    def run(self, n: int) -> bool:
        """Whether there is a tree; then the last item is the goal."""
        for h in range(1, n + 1):
            for side in (_LEFT, _RIGHT):
                self._open(h, side)
        by_length = defaultdict(list)
        for a, (h, m) in enumerate(zip(self.heads, self.modifiers, strict=True)):
            by_length[abs(m - h) if h else 0].append(a)
        for length in range(1, n):
            for a in by_length[length]:
                self._arc(a)
            for h in range(1, n + 1):
                if h - length >= 1:
                    self._half(h, h - length, _LEFT)
                if h + length <= n:
                    self._half(h, h + length, _RIGHT)
        edges = []
        for a in by_length[0]:
            m = self.modifiers[a]
            left, right = self.half.get((m, 1, _LEFT)), self.half.get((m, n, _RIGHT))
            if left is not None and right is not None:
                both = self.builder.item([(left, right, -1)])
                any_label = [edge for own in self.labels[a].values() for edge in own]
                edges.append((both, self.builder.item(any_label), -1))
        return self.builder.item(edges) >= 0

    def _open(self, h: int, side: int) -> None:
        """Slots of moves, and a token without modifiers on a side."""
        table = self.scored["moves"][2 * h + side]
        first = len(self.builder.scores)
        self.builder.scores.extend(table.ravel().tolist())
        self.moves[h, side] = (first + numpy.arange(table.size).reshape(table.shape)).tolist()
        empty = self.builder.slot(float(self.scored["empty"][2 * h + side]))
        part = self.builder.item([(-1, -1, empty)])
        self.half[h, h, side] = self.builder.item([(part, -1, self.moves[h, side][-1][-1])])

    def _gap(self, low: int, high: int) -> int:
        """The right half of one token next to the left half of another; -1 if it can't be made."""
        if (low, high) not in self.gaps:
            edges = []
            for k in range(low, high):
                right, left = self.half.get((low, k, _RIGHT)), self.half.get((high, k + 1, _LEFT))
                if right is not None and left is not None:
                    edges.append((right, left, -1))
            self.gaps[low, high] = self.builder.item(edges)
        return self.gaps[low, high]

    def _arc(self, a: int) -> None:
        """An arc that has all it spans inside."""
        h, m, side, builder = self.heads[a], self.modifiers[a], self.side(a), self.builder
        scores = self.scored["siblings"][int(self.scored["sibling_starts"][a]) :]
        start = len(self.moves[h, side]) - 1
        before: dict[int, list[Edge]] = defaultdict(list)
        inward = (m, h + 1, _LEFT) if side == _RIGHT else (m, h - 1, _RIGHT)
        if inward in self.half:
            before[start].append((self.half[inward], -1, builder.slot(float(scores[0]))))
        for s in self.siblings[h, side][: self.ranks[a]]:
            gap = self._gap(*sorted((self.modifiers[s], m))) if s in self.outer else -1
            if gap >= 0:
                slot = builder.slot(float(scores[self.ranks[s] + 1]))
                for c, item in self.inner[s].items():
                    before[c].append((item, gap, slot))
        if not before:
            return
        moves = self.moves[h, side]
        origins = [(c, builder.item(edges)) for c, edges in before.items()]
        self.inner[a] = {}
        for c, labels in self.labels[a].items():
            arc = builder.item(labels)
            self.inner[a][c] = builder.item([(item, arc, moves[k][c]) for k, item in origins])
        if self.inner[a]:
            ends = builder.item([(item, -1, moves[c][-1]) for c, item in self.inner[a].items()])
            last = builder.slot(float(self.scored["last"][a]))
            self.outer[a] = builder.item([(ends, -1, last)])

    def _half(self, h: int, end: int, side: int) -> None:
        """A token with its modifiers on a side, up to an end."""
        edges = []
        for a in self.siblings[h, side]:
            m = self.modifiers[a]
            if abs(m - h) > abs(end - h):
                break
            rest = self.half.get((m, end, side))
            if a in self.outer and rest is not None:
                edges.append((self.outer[a], rest, -1))
        item = self.builder.item(edges)
        if item >= 0:
            self.half[h, end, side] = item
