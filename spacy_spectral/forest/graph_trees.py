"""Dependency trees packed in a hypergraph: every derivation is a tree with labels."""

from collections.abc import Iterable, Sequence

import numpy
from numpy.typing import NDArray

from ..trees.interface import ArcMask, ArcTable, BestTree, Labels
from ._hypergraph import Graph

# The first and the second part of an edge, -1 for none, and the slot of its score, -1 for 0.
Edge = tuple[int, int, int]


class GraphBuilder:
    """Makes a hypergraph, item by item, parts before wholes."""

    def __init__(self, scores: Sequence[float]):
        self.scores = list(scores)
        self._starts = [0]
        self._edges: list[Edge] = []

    def slot(self, score: float) -> int:
        """A new slot with this score."""
        self.scores.append(score)
        return len(self.scores) - 1

    def item(self, edges: Iterable[Edge]) -> int:
        """A new item that these edges make; -1 if there are none."""
        self._edges.extend(edges)
        if len(self._edges) == self._starts[-1]:
            return -1
        self._starts.append(len(self._edges))
        return len(self._starts) - 2

    def graph(self) -> Graph:
        """All items; the last is the goal."""
        columns = numpy.array(self._edges, dtype="int32").reshape(-1, 3).T
        return Graph(
            numpy.array(self._starts, dtype="int32"), *map(numpy.ascontiguousarray, columns)
        )


class GraphTrees:
    """Implements `trees.interface.RankedTrees`: what is left out has a score of -inf.

    has_tree (bool): Whether there is one at all.
    """

    def __init__(
        self,
        n: int,
        graph: Graph | None,
        scores: NDArray[numpy.float64],
        heads: NDArray[numpy.int32],
        modifiers: NDArray[numpy.int32],
        labels: NDArray[numpy.int32],
    ):
        """heads, modifiers, labels (ndarray): int32, the labelled arcs that its first slots stand for."""
        self._n, self._graph, self._scores = n, graph, scores
        self._heads, self._modifiers, self._labels = heads, modifiers, labels
        self.has_tree = graph is not None

    def arcs(self, labels: Labels) -> ArcMask:
        found = numpy.zeros((self._n + 1, self._n + 1), dtype=bool)
        chosen = self._labelled(labels)
        found[self._heads[chosen], self._modifiers[chosen]] = True
        return found

    def total(self, allowed: ArcMask, labels: Labels) -> tuple[float, ArcTable]:
        marginals = numpy.zeros(allowed.shape)
        if self._graph is None:
            return -numpy.inf, marginals
        log_z, mu = self._graph.expectations(self._given(allowed, labels))
        numpy.add.at(marginals, (self._heads, self._modifiers), mu[: len(self._heads)])
        return log_z, marginals

    def best(self, ways: Sequence[ArcMask], labels: Labels, marginals: ArcTable) -> BestTree:
        assert self._graph is not None  # some way has a tree
        found = []
        for allowed in ways:
            found += self._graph.k_best(self._given(allowed, labels), 1)
        return self._tree(*max(found, key=lambda tree: tree[1]))

    def k_best(self, k: int) -> list[BestTree]:
        if self._graph is None:
            return []
        return [self._tree(*found) for found in self._graph.k_best(self._scores, k)]

    def _tree(self, edges: NDArray[numpy.int32], score: float) -> BestTree:
        assert self._graph is not None
        slots = self._graph.slots[edges]
        arcs = slots[(slots >= 0) & (slots < len(self._heads))]
        arcs = arcs[numpy.argsort(self._modifiers[arcs])]
        return BestTree(self._heads[arcs], self._labels[arcs], score)

    def _labelled(self, labels: Labels) -> NDArray[numpy.bool_]:
        """Labelled arcs with labels that their modifiers may have."""
        kept = self._scores[: len(self._heads)] > -numpy.inf
        for token, allowed in labels.items():
            kept &= (self._modifiers != token) | numpy.isin(self._labels, sorted(allowed))
        return kept

    def _given(self, allowed: NDArray[numpy.bool_], labels: Labels) -> NDArray[numpy.float64]:
        scores = self._scores.copy()
        kept = self._labelled(labels) & allowed[self._heads, self._modifiers]
        scores[: len(self._heads)][~kept] = -numpy.inf
        return scores
