"""Mixtures of two distributions over the trees of one sentence: P = share A + (1 - share) B.

All that is linear in P, such as marginals, is mixed likewise; probabilities of trees are added.
"""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from .interface import ArcMask, ArcTable, BestTree, Labels, TreeDistribution
from .posterior import Posterior


class MixedPosterior(Posterior):
    """Two posteriors, mixed.

    parts (Tuple[Tuple[float, Posterior], ...]): The shares and the distributions.
    """

    def __init__(self, first: Posterior, second: Posterior, share: float):
        """first, second (Posterior): The distributions.
        share (float): How much the first counts.
        """
        self.parts = ((share, first), (1.0 - share, second))
        mixed = share * first.marginals + (1.0 - share) * second.marginals
        super().__init__(mixed, factors=None, log_z=0.0, allowed=second.allowed)

    def _log_probabilities(self, trees: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
        return log_mixture(
            [(share, part._log_probabilities(trees)) for share, part in self.parts if share > 0]
        )


class MixedTrees:
    """Two distributions that conditions can be put on, mixed; see `interface.TreeDistribution`. The best tree
    is the better of the best trees of both."""

    def __init__(self, parts: Sequence[tuple[float, TreeDistribution]], n: int, *, labelled: bool):
        """parts (Sequence[Tuple[float, TreeDistribution]]): The shares and the distributions.
        n (int): How many tokens there are.
        labelled (bool): Whether they are distributions over labelled trees.
        """
        everything = numpy.ones((n + 1, n + 1), dtype=bool)
        self._parts = [
            (float(numpy.log(share)) - part.total(everything, {})[0], part)
            for share, part in parts
            if share > 0
        ]
        self._labelled = labelled

    def arcs(self, labels: Labels) -> ArcMask:
        return numpy.logical_or.reduce([part.arcs(labels) for _, part in self._parts])

    def total(self, allowed: ArcMask, labels: Labels) -> tuple[float, ArcTable]:
        found = [part.total(allowed, labels) for _, part in self._parts]
        logs = [shift + log for (shift, _), (log, _) in zip(self._parts, found, strict=True)]
        total = float(numpy.logaddexp.reduce(logs))
        if total == -numpy.inf:
            return total, numpy.zeros(allowed.shape)
        return total, sum(
            numpy.exp(log - total) * table
            for log, (_, table) in zip(logs, found, strict=True)
            if log > -numpy.inf
        )

    def best(self, ways: Sequence[ArcMask], labels: Labels, marginals: ArcTable) -> BestTree:
        found = []
        for _, part in self._parts:
            own = [way for way in ways if part.total(way, labels)[0] > -numpy.inf]
            if own:
                tree = part.best(own, labels, marginals)
                found.append(tree._replace(score=self._log_weight(tree, labels)))
        return max(found, key=lambda tree: tree.score)

    def _log_weight(self, tree: BestTree, labels: Labels) -> float:
        """Of a single tree, with its labels if that is what the distributions are about."""
        n = len(tree.heads)
        arcs = numpy.zeros((n + 1, n + 1), dtype=bool)
        arcs[tree.heads, numpy.arange(1, n + 1)] = True
        if self._labelled:
            labels = {m: frozenset([label]) for m, label in enumerate(tree.labels.tolist(), 1)}
        return self.total(arcs, labels)[0]


def log_mixture(
    parts: Sequence[tuple[float, NDArray[numpy.float64]]],
) -> NDArray[numpy.float64]:
    """RETURNS (ndarray): The logarithms of mixed probabilities, from shares and logarithms."""
    return numpy.logaddexp.reduce([numpy.log(share) + logs for share, logs in parts])
