"""The trees of a forest under conditions: those of the arcs that are left, by scores of the second stage."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from ...trees.interface import ArcMask, ArcTable, BestTree, Labels
from .forests import Forests

if TYPE_CHECKING:
    from ._engine import Engine
    from .model import Arguments


class ForestTrees:
    """Implements `trees.interface.TreeDistribution`; labels are part of arcs."""

    def __init__(self, engine: "Engine", given: "Arguments", forests: Forests, sentence: int):
        """engine (Engine): Scores trees.
        given (Arguments): What it takes of all sentences.
        forests (Forests): The forests.
        sentence (int): Which of them.
        """
        own, arcs = forests.tokens(sentence), forests.arcs(sentence)
        _, tokens, _, heads, modifiers, hashes, dense = given
        self._engine = engine
        self._tokens = tokens[own]
        self._columns = heads[arcs], modifiers[arcs], hashes[arcs], dense[arcs]
        self._labels = forests.labels[arcs]

    def arcs(self, labels: Labels) -> ArcMask:
        n = len(self._tokens)
        found = numpy.zeros((n + 1, n + 1), dtype=bool)
        kept = self._kept(numpy.ones((n + 1, n + 1), dtype=bool), labels)
        found[self._columns[0][kept], self._columns[1][kept]] = True
        return found

    def total(self, allowed: ArcMask, labels: Labels) -> tuple[float, ArcTable]:
        kept = self._kept(allowed, labels)
        marginals = numpy.zeros(allowed.shape)
        columns: list[Any] = [column[kept] for column in self._columns]
        heads, modifiers = columns[:2]
        if len(numpy.unique(modifiers)) < len(self._tokens):
            return -numpy.inf, marginals
        ends = (numpy.array([0, len(own)], dtype="int32") for own in (self._tokens, kept))
        starts, arc_starts = ends
        mu, log_z = self._engine.marginals(starts, self._tokens, arc_starts, *columns)
        if not numpy.isfinite(log_z[0]):
            return -numpy.inf, marginals
        numpy.add.at(marginals, (heads, modifiers), mu)
        return float(log_z[0]), marginals

    def best(self, ways: Sequence[ArcMask], labels: Labels, marginals: ArcTable) -> BestTree:
        found = []
        for allowed in ways:
            kept = self._kept(allowed, labels)
            columns: Any = (self._tokens, *(column[kept] for column in self._columns), 1)
            trees, logs = self._engine.k_best(*columns)
            log_z, _ = self.total(allowed, labels)
            arcs = kept[trees[0]]
            tree = BestTree(self._columns[0][arcs], self._labels[arcs], float(logs[0]) + log_z)
            found.append(tree)
        return max(found, key=lambda tree: tree.score)

    def _kept(self, allowed: NDArray[numpy.bool_], labels: Labels) -> NDArray[numpy.int64]:
        """Arcs that are allowed with their labels."""
        heads, modifiers = self._columns[:2]
        kept = allowed[heads, modifiers]
        for token, own in labels.items():
            kept &= (modifiers != token) | numpy.isin(self._labels, sorted(own))
        return numpy.flatnonzero(kept)
