"""Mixtures of two distributions over the trees of one sentence: P = share A + (1 - share) B.

All that is linear in P, such as marginals, is mixed likewise; probabilities of trees are added.

`less_sure` makes such a mixture for models that know the marginals of arcs, but nothing of P(tree)^(1/T);
`proper` makes a distribution of the values of projected automata, which are none.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy
from numpy.typing import NDArray

from ._first_order import arc_marginals
from .arc_posterior import arc_posterior, summed_posterior
from .interface import ArcMask, ArcTable, BestTree, Labels, RankedTrees, TreeDistribution
from .posterior import SMALLEST_MARGINAL, Posterior

# How much of what is less sure is a guess among all trees, and the smallest doubt in an arc. On halves of
# UD_English-EWT's development set in turn, with guesses of 0, 0.05, 0.1, 0.15, 0.2 and 0.3, the error of head
# probabilities was 1.8, 1.5, 1.4, 1.5, 1.7 and 2.4 % for SHAG, 2.5, 1.8, 1.2, 1.1, 0.9 and 1.5 for Refined.
_GUESS, _SMALLEST_DOUBT = 0.15, 1e-6
# How marginals are matched: the power of marginals to start with, how often at most, and how far they may be
# off. On 700 sentences of UD_English-EWT's development set the mean difference by token was 0.063, 0.021 and
# 0.010 after 1, 4 and 8 times (LEX+FCP: 0.039, 0.015, 0.009).
_POWER, _MOST, _CLOSE = 0.7, 5, 0.01
Item = TypeVar("Item")


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

    def log_probabilities(self, trees: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
        return log_mixture(
            [(share, part.log_probabilities(trees)) for share, part in self.parts if share > 0]
        )

    def best_with(self, labels: NDArray[numpy.float64], k: int) -> NDArray[numpy.int32]:
        parts = [(numpy.log(share), part) for share, part in self.parts if share > 0]

        def ranked(m: int) -> tuple[list[NDArray[numpy.int32]], float]:
            found = [part.scored_with(labels, m) for _, part in parts]
            last = [
                share + scores[-1] if len(scores) == m else -numpy.inf
                for (share, _), (_, scores) in zip(parts, found, strict=True)
            ]
            return [tree for trees, _ in found for tree in trees], float(
                numpy.logaddexp.reduce(last)
            )

        def score(tree: NDArray[numpy.int32]) -> float:
            own = labels[tree, numpy.arange(1, len(tree) + 1)].sum()
            return float(self.log_probabilities(tree[None])[0] + own)

        return numpy.array([tree for tree, _ in best_of_lists(ranked, score, bytes, k)])


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
    are no probabilities, and what is clipped in one place is missing in another. So there is a distribution
    of single arcs instead, P(tree) ~ prod of w(arc), with nearly the marginals that the chart gives, clipped;
    and everything is exact under that. The tree is still chosen by the chart's own marginals.

    posterior (Posterior): By any chart, or none.
    allowed (Optional[ndarray]): [N+1, N+1], the arcs that trees may have.
    RETURNS (Posterior): The same if its values are probabilities.
    """
    factors = posterior.factors
    if len(posterior.marginals) < 2 or (factors is not None and factors.non_negative):
        return posterior
    return ProperPosterior(posterior, _matched(posterior.marginals, allowed))


def _matched(marginals: NDArray[numpy.float64], allowed: NDArray[numpy.bool_] | None) -> Posterior:
    """A distribution of single arcs with given marginals, as nearly as a few steps of iterative scaling come:
    there need be none that has them."""
    target = numpy.maximum(marginals, SMALLEST_MARGINAL)
    weights, found = target**_POWER, []
    if allowed is not None:
        weights[~allowed] = 0.0
    for _ in range(_MOST):
        log_z, own = arc_marginals(weights)
        if not numpy.isfinite(log_z):
            break
        differences = numpy.abs(own - marginals)[:, 1:]
        found.append((float(differences.sum()), weights, log_z, own))
        if differences.max() < _CLOSE:
            break
        # half of what is missing: the arcs of a tree go together
        weights = weights * numpy.sqrt(target / numpy.maximum(own, SMALLEST_MARGINAL))
        weights[:, 1:] /= weights[:, 1:].max(axis=0)
    with numpy.errstate(divide="ignore"):
        if not found:
            return arc_posterior(numpy.log(weights), allowed=allowed)
        _, weights, log_z, own = min(found, key=lambda one: one[0])
        return summed_posterior(numpy.log(weights), log_z, own, allowed=allowed)


def best_of_lists(
    ranked: Callable[[int], tuple[list[Item], float]],
    score: Callable[[Item], float],
    key: Callable[[Item], Hashable],
    k: int,
) -> list[tuple[Item, float]]:
    """The k best of all that mixed distributions can give, exactly, from the lists of each (the threshold
    algorithm of Fagin, Lotem and Naor 2003): what is in none of the lists is not better than the mixture of
    their last ones. If that is too good, lists are made longer.

    ranked (Callable): How long lists are -> what is in some, and the score of the mixture of their last ones,
        -inf if there is nothing else.
    score (Callable): The score of an item in the mixture.
    key (Callable): What tells items apart.
    k (int): How many at most.
    RETURNS (List[Tuple[Item, float]]): Items and scores, best first.
    """
    known: dict[Hashable, tuple[Item, float]] = {}
    m = k
    while True:
        items, bound = ranked(m)
        for item in items:
            if key(item) not in known:
                known[key(item)] = item, score(item)
        best = sorted(known.values(), key=lambda found: -found[1])[:k]
        if bound == -numpy.inf or (len(best) == k and best[-1][1] >= bound):
            return best
        m *= 2


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

    def k_best(self, k: int) -> list[BestTree]:
        parts: list[tuple[float, RankedTrees]] = self._parts  # type: ignore[assignment]

        def ranked(m: int) -> tuple[list[BestTree], float]:
            found = [part.k_best(m) for _, part in parts]
            last = [
                shift + own[-1].score if len(own) == m else -numpy.inf
                for (shift, _), own in zip(parts, found, strict=True)
            ]
            return [tree for own in found for tree in own], float(numpy.logaddexp.reduce(last))

        best = best_of_lists(
            ranked,
            lambda tree: self._log_weight(tree, {}),
            lambda tree: (tree.heads.tobytes(), tree.labels.tobytes()),
            k,
        )
        return [tree._replace(score=score) for tree, score in best]

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
