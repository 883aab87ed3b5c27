"""Mixtures of two distributions over the trees of one sentence: P = share A + (1 - share) B.

All that is linear in P, such as marginals, is mixed likewise; probabilities of trees are added.

`less_sure` makes such a mixture for models that know the marginals of arcs, but nothing of P(tree)^(1/T);
`proper` makes a distribution of the values of projected automata, which are none.
"""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from .arc_posterior import arc_posterior
from .interface import ArcMask, ArcTable, BestTree, Labels, TreeDistribution
from .posterior import SMALLEST_MARGINAL, Posterior

# How much of what is less sure is a guess among all trees, and the smallest doubt in an arc. On halves of
# UD_English-EWT's development set in turn, with guesses of 0, 0.05, 0.1, 0.15, 0.2 and 0.3, the error of head
# probabilities was 1.8, 1.5, 1.4, 1.5, 1.7 and 2.4 % for SHAG, 2.5, 1.8, 1.2, 1.1, 0.9 and 1.5 for Refined.
_GUESS, _SMALLEST_DOUBT = 0.15, 1e-6
# Arcs of a tree go together: the product of their marginals counts the same evidence again and again. On
# 700 sentences of UD_English-EWT's development set, with powers of 0.5, 0.6, 0.7, 0.8 and 1, the mean
# probability of heads was 0.745, 0.775, 0.799, 0.818 and 0.847 (0.799 for the values themselves), with
# LEX+FCP 0.853, 0.872, 0.887, 0.899 and 0.916 (0.891).
_EVIDENCE = 0.7


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


def less_sure(
    posterior: Posterior, temperature: float, *, allowed: NDArray[numpy.bool_] | None = None
) -> Posterior:
    """A distribution over trees by the doubt that another one has in arcs, the complement of marginals:

        P'(tree) = 0.85 Q(tree) + 0.15 / number of trees         Q(tree) ~ prod of (1 - mu(arc))^(-1/T)

    What a model that is too sure finds certain is mostly right; among what it finds likely there is little to
    tell what is. Powers of marginals themselves would keep these apart, and doubt what is certain: with them
    the error of head probabilities is three times as large. Nothing is impossible: arcs may have been left
    out of a chart.

    posterior (Posterior): The other distribution.
    temperature (float): The higher, the less sure.
    allowed (Optional[ndarray]): [N+1, N+1], the arcs that trees may have.
    RETURNS (Posterior): The distribution.
    """
    mu = posterior.marginals
    if len(mu) < 2:
        return posterior
    doubts = numpy.log(numpy.maximum(1.0 - mu, _SMALLEST_DOUBT))
    surer, guess = (
        arc_posterior(scores, allowed=allowed)
        for scores in (-doubts / temperature, numpy.zeros_like(mu))
    )
    return MixedPosterior(surer, guess, 1.0 - _GUESS)


class ProperPosterior(Posterior):
    """See `proper`."""

    def __init__(self, values: Posterior, own: Posterior):
        """values (Posterior): What chooses the tree.
        own (Posterior): All else.
        """
        super().__init__(own.marginals, factors=own.factors, log_z=own.log_z, allowed=own.allowed)
        self._values = values

    @property
    def heads(self) -> NDArray[numpy.int32]:
        return self._values.heads

    def viterbi(self) -> NDArray[numpy.int32]:
        return self._values.viterbi()


def proper(posterior: Posterior, *, allowed: NDArray[numpy.bool_] | None = None) -> Posterior:
    """A distribution over trees, whatever the chart is of.

    Projected automata give some trees a value below 0, and so others more than 1 together: sums over trees
    are no probabilities, and what is clipped in one place is missing in another. So the marginals that the
    chart gives, clipped, are taken for evidence of single arcs:

        P(tree) ~ prod of mu(arc)^0.7

    and everything is exact under that. The tree is still chosen by the chart's own marginals.

    posterior (Posterior): By any chart, or none.
    allowed (Optional[ndarray]): [N+1, N+1], the arcs that trees may have.
    RETURNS (Posterior): The same if its values are probabilities.
    """
    factors = posterior.factors
    if len(posterior.marginals) < 2 or (factors is not None and factors.non_negative):
        return posterior
    scores = numpy.log(numpy.maximum(posterior.marginals, SMALLEST_MARGINAL))
    return ProperPosterior(posterior, arc_posterior(_EVIDENCE * scores, allowed=allowed))


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
