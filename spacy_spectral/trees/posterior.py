"""The distribution over the trees of one sentence."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeVar

import numpy
from numpy.typing import NDArray

from ._eisner import best_tree, greedy_tree, is_part_of_tree, is_projective_tree, k_best_trees
from ._first_order import arc_marginals
from .sentences import MISSING, Bools, Floats, Ints

# Marginals of projected automata can be negative; decoding takes logs of at least this.
SMALLEST_MARGINAL = 1e-9
_SMALLEST_Z, _LARGEST_Z = 1e-250, 1e250
_RESCALINGS = 3
# How much of the flatter distribution is a guess among all trees, and the smallest doubt in an arc. On
# halves of UD_English-EWT's development set in turn, with guesses of 0, 0.05, 0.1, 0.15, 0.2 and 0.3, the
# error of head probabilities was 1.8, 1.5, 1.4, 1.5, 1.7 and 2.4 % for SHAG, 2.5, 1.8, 1.2, 1.1, 0.9 and
# 1.5 for Refined.
_GUESS, _SMALLEST_DOUBT = 0.15, 1e-6
# How marginals are matched: the power of marginals to start with, how often at most, and how far they may be
# off. On 700 sentences of UD_English-EWT's development set the mean difference by token was 0.063, 0.021 and
# 0.010 after 1, 4 and 8 times (LEX+FCP: 0.039, 0.015, 0.009).
_POWER, _MOST, _CLOSE = 0.7, 5, 0.01
Item = TypeVar("Item")


class Factors:
    """One sentence under one model, as the model's chart wants it. The logarithm of every tree exceeds
    what the model says by `log_scale`: constants that keep the chart in the range of doubles."""

    log_scale: float

    @property
    def non_negative(self) -> bool:
        """Whether no tree can have a score below 0."""
        return True

    def __len__(self) -> int:
        """The number of tokens."""
        raise NotImplementedError

    def restricted(self, allowed: Bools) -> "Factors":
        """The same with arcs that are not allowed ([N+1, N+1]) weighing nothing."""
        raise NotImplementedError

    def scaled(self, factor: float) -> "Factors":
        """What generates each token multiplied; every tree gains factor^N."""
        raise NotImplementedError

    def inside_outside(self) -> tuple[float, Floats, Floats]:
        """The sum over all trees; unnormalised marginals of arcs [N+1, N+1]; and the largest value of the
        chart for every span length, for rescaling."""
        raise NotImplementedError

    def tree_scores(self, trees: Ints) -> tuple[NDArray, NDArray]:
        """log |score| and sign of every tree, given as rows of heads."""
        raise NotImplementedError

    def arc_scores(self) -> Floats | None:
        """[N+1, N+1], logarithms of the weights of arcs, if a tree weighs the product of those of its
        arcs; -inf for arcs that no tree may have."""
        return None


class Posterior:
    """Exact arc marginals, and the trees that follow from them.

    marginals: [N+1, N+1], probability of every arc (head, modifier); row 0 is the root. Every column but
    the first sums to one.
    heads: The MBR tree: the projective single-root tree with the best product of marginals.
    factors: What the chart was run with, rescaled as it had to be; None if there was no chart.
    allowed: [N+1, N+1], the arcs that are allowed; None for all.
    """

    def __init__(
        self,
        marginals: Floats,
        *,
        factors: Factors | None,
        log_z: float,
        allowed: Bools | None = None,
    ):
        self.marginals = marginals
        self.factors = factors
        self.log_z = log_z
        self.allowed = allowed

    @classmethod
    def of_nothing(cls) -> "Posterior":
        """That of a sentence without tokens."""
        return cls(numpy.zeros((1, 1)), factors=None, log_z=0.0)

    @classmethod
    def from_factors(cls, attempts: Iterable[Factors], allowed: Bools | None) -> "Posterior":
        """Run the chart with the first model that gives the sentence a positive, finite total.

        Projected automata can give long sentences a negative one. If no model succeeds, all allowed arcs
        are equally likely; if what is allowed makes no tree, the tree has as few other arcs as possible.
        There is always a tree.
        """
        for factors in attempts:
            if allowed is not None:
                factors = factors.restricted(allowed)
            factors, z, marginals = _run_chart(factors)
            if marginals is not None:
                marginals /= z
                numpy.maximum(marginals, 0.0, out=marginals)
                if not factors.non_negative:
                    marginals[:, 1:] /= marginals[:, 1:].sum(axis=0)
                return cls(marginals, factors=factors, log_z=float(numpy.log(z)), allowed=allowed)
        n = len(factors)
        marginals = numpy.ones((n + 1, n + 1))
        if allowed is not None:
            marginals[~allowed] = SMALLEST_MARGINAL
        numpy.fill_diagonal(marginals, 0.0)
        marginals[:, 0] = 0.0
        marginals[:, 1:] /= marginals[:, 1:].sum(axis=0)
        return cls(marginals, factors=None, log_z=0.0)

    @cached_property
    def heads(self) -> Ints:
        heads = greedy_tree(self.marginals)
        return best_tree(self._arc_scores())[0] if heads is None else heads

    @property
    def log_partition(self) -> float | None:
        """log of the sum over all trees, as the model scores them; None if there was no chart."""
        return None if self.factors is None else self.log_z - self.factors.log_scale

    def k_best(self, k: int) -> list[tuple[Ints, float]]:
        """The k trees with the best products of marginals, ordered by their exact probability."""
        trees, _ = k_best_trees(self._arc_scores(), k)
        logs = self.log_probabilities(trees)
        order = numpy.argsort(-logs, kind="stable")
        return [(trees[t], float(logs[t])) for t in order]

    def best_with(self, labels: Floats, k: int) -> Ints:
        """The heads [found, N] of the k trees that are best together with labels, of which every arc's
        likeliest has a log-probability [N+1, N+1]. Exact for models of single arcs; for others, by
        products of marginals."""
        return self.scored_with(labels, k)[0]

    def scored_with(self, labels: Floats, k: int) -> tuple[Ints, Floats]:
        """What `best_with` gives, and the logarithms of the products."""
        arcs = None if self.factors is None else self.factors.arc_scores()
        if self.factors is not None and arcs is not None:
            trees, scores = k_best_trees(arcs + labels, k)
            return trees, scores + self.factors.log_scale - self.log_z
        return k_best_trees(self._arc_scores() + labels, k)

    def log_probability(self, heads: Ints) -> float:
        """log P(tree | sentence). Where the automata cannot say, the product of its arcs' marginals."""
        heads = numpy.ascontiguousarray(heads, "int32")
        if len(heads) != len(self.marginals) - 1 or not is_projective_tree(heads):
            return -numpy.inf
        return float(self.log_probabilities(heads[None])[0])

    def log_probabilities(self, trees: Ints) -> Floats:
        if self.factors is None:
            return self._arc_products(trees)
        logs, signs = self.factors.tree_scores(trees)
        logs = numpy.minimum(logs - self.log_z, 0.0)
        # projected automata may give a single tree a value below 0; and the tree of the best arcs may be one
        # that they do not know
        known = (signs > 0) & numpy.isfinite(logs)
        return logs if known.all() else numpy.where(known, logs, self._arc_products(trees))

    def _arc_products(self, trees: Ints) -> Floats:
        own = self.marginals[trees, numpy.arange(1, trees.shape[1] + 1)]
        return numpy.log(numpy.maximum(own, SMALLEST_MARGINAL)).sum(axis=1)

    def _arc_scores(self) -> Floats:
        scores = numpy.log(numpy.maximum(self.marginals, SMALLEST_MARGINAL))
        if self.allowed is not None:
            scores[~self.allowed] = -numpy.inf
        return scores


def _run_chart(factors: Factors) -> tuple[Factors, float, NDArray | None]:
    """Inside-outside, rescaled where the numbers leave the range of doubles."""
    for _ in range(_RESCALINGS):
        z, marginals, largest = factors.inside_outside()
        if numpy.isfinite(z) and _SMALLEST_Z < abs(z) < _LARGEST_Z:
            sound = z > 0 and numpy.isfinite(marginals).all()
            return factors, z, marginals if sound else None
        in_range = numpy.flatnonzero((largest > 1e-200) & (largest < 1e200))
        if not len(in_range) or in_range[-1] == 0:
            break
        # growth per token, from the longest span that is still in range
        widest = in_range[-1]
        factors = factors.scaled(float(numpy.exp(-numpy.log(largest[widest]) / widest)))
    return factors, 0.0, None


def arc_posterior(scores: Floats, *, allowed: Bools | None = None) -> Posterior:
    """The distribution over the trees of one sentence, by scores of arcs [N+1, N+1]; -inf for arcs that
    no tree may have."""
    if len(scores) < 2:
        return Posterior.of_nothing()
    return Posterior.from_factors(_attempts(scores, allowed), allowed)


def _attempts(scores: Floats, allowed: Bools | None) -> Iterator["ArcFactors"]:
    # first, so that heads are measured against those that are allowed: fixed ones may be far worse than
    # the best
    scores = scores.copy() if allowed is None else numpy.where(allowed, scores, -numpy.inf)
    numpy.fill_diagonal(scores, -numpy.inf)
    yield ArcFactors(scores, scores[:, 1:].max(axis=0))
    # Where the best head of every token is far from making a tree, everything underflows. Measured
    # against the best tree, that one weighs 1.
    tree, _ = best_tree(scores)
    yield ArcFactors(scores, scores[tree, numpy.arange(1, len(scores))])


class ArcFactors(Factors):
    """A sentence as scores of arcs. Charts bring themselves into the range of doubles: Z is always 1."""

    def __init__(self, scores: Floats, shift: Floats):
        """scores: [N+1, N+1], -inf for arcs that no tree may have.
        shift: [N], what the scores of every modifier's arcs are measured against."""
        self.scores = scores
        self.shift = numpy.where(numpy.isfinite(shift), shift, 0.0)
        self.log_scale = 0.0

    def __len__(self) -> int:
        return len(self.shift)

    def restricted(self, allowed: Bools) -> "ArcFactors":
        return ArcFactors(numpy.where(allowed, self.scores, -numpy.inf), self.shift)

    def scaled(self, factor: float) -> "ArcFactors":
        return self

    def inside_outside(self) -> tuple[float, Floats, Floats]:
        potentials = numpy.zeros_like(self.scores)
        with numpy.errstate(over="ignore", invalid="ignore"):
            numpy.exp(self.scores[:, 1:] - self.shift, out=potentials[:, 1:])
        log_z, marginals = arc_marginals(potentials)
        if not numpy.isfinite(log_z):
            return 0.0, marginals, numpy.zeros(len(self))
        self.log_scale = -float(log_z + self.shift.sum())
        return 1.0, marginals, numpy.ones(len(self))

    def tree_scores(self, trees: Ints) -> tuple[NDArray, NDArray]:
        own = self.scores[trees, numpy.arange(1, len(self) + 1)].sum(axis=1)
        return own + self.log_scale, numpy.ones(len(trees))

    def arc_scores(self) -> Floats:
        return self.scores


def tree_loss(scores: Floats, heads: Ints) -> tuple[float, Floats] | None:
    """Negative log-likelihood of the annotated heads of one sentence, log Z - log Z(agreeing trees), and
    its gradient; None if no projective tree with one root agrees with the heads, or if scores are out of
    all bounds.

    Heads that are missing are summed out. The gradient of an arc is its marginal probability minus that
    among the agreeing trees (Geman & Johnson 2002), which is 1 or 0 where all heads are known.
    """
    n = len(heads)
    known = heads != MISSING
    if not known.any():
        return 0.0, numpy.zeros_like(scores)
    everything = arc_posterior(scores)
    if everything.log_partition is None:
        return None
    if known.all() and is_projective_tree(heads):
        arcs = heads, numpy.arange(1, n + 1)
        gradient = everything.marginals.copy()
        gradient[arcs] -= 1.0
        return everything.log_partition - float(scores[arcs].sum()), gradient
    masked = numpy.where(allowed_arcs(heads), scores, -numpy.inf)
    agreeing = arc_posterior(masked)
    if agreeing.log_partition is None:
        return None
    loss = everything.log_partition - agreeing.log_partition
    return loss, everything.marginals - agreeing.marginals


class MixedPosterior(Posterior):
    """Two posteriors, mixed; `parts` are the shares and the distributions."""

    def __init__(self, first: Posterior, second: Posterior, share: float):
        self.parts = ((share, first), (1.0 - share, second))
        mixed = share * first.marginals + (1.0 - share) * second.marginals
        super().__init__(mixed, factors=None, log_z=0.0, allowed=second.allowed)

    def log_probabilities(self, trees: Ints) -> Floats:
        return numpy.logaddexp.reduce(
            [
                numpy.log(share) + part.log_probabilities(trees)
                for share, part in self.parts
                if share > 0
            ]
        )

    def best_with(self, labels: Floats, k: int) -> Ints:
        lists = [
            (float(numpy.log(share)), partial(_ranked, part, labels))
            for share, part in self.parts
            if share > 0
        ]

        def score(tree: Ints) -> float:
            own = labels[tree, numpy.arange(1, len(tree) + 1)].sum()
            return float(self.log_probabilities(tree[None])[0] + own)

        return numpy.array([tree for tree, _ in best_of_lists(lists, score, bytes, k)])


def _ranked(part: Posterior, labels: Floats, m: int) -> list[tuple[Ints, float]]:
    return list(zip(*part.scored_with(labels, m), strict=True))


def at_temperature(
    posterior: Posterior, temperature: float, *, allowed: Bools | None = None
) -> Posterior:
    """A distribution over trees by what another one says of single arcs. At a temperature of 1 it has
    nearly the same marginals, see `_proper`. At others it goes by the doubt in arcs, the complement of
    marginals mu:

        P'(tree) = 0.85 Q(tree) + 0.15 / number of trees         Q(tree) ~ prod of (1 - mu(arc))^(-1/T)

    An overconfident model is mostly right where it is certain; its merely likely arcs are barely better
    than chance. Powers of marginals themselves would keep these apart, and doubt what is certain: with
    them the error of head probabilities is three times as large. Nothing is impossible: arcs may have
    been left out of a chart.
    """
    mu = posterior.marginals
    if len(mu) < 2:
        return posterior
    if temperature == 1:
        return _proper(posterior, allowed)
    doubts = numpy.log(numpy.maximum(1.0 - mu, _SMALLEST_DOUBT))
    sharp, guess = (
        arc_posterior(scores, allowed=allowed)
        for scores in (-doubts / temperature, numpy.zeros_like(mu))
    )
    return MixedPosterior(sharp, guess, 1.0 - _GUESS)


def _proper(posterior: Posterior, allowed: Bools | None) -> Posterior:
    """A distribution over trees, whatever the chart is of.

    Projected automata give some trees a value below 0, and so others more than 1 together: sums over trees
    are no probabilities, and what is clipped in one place is missing in another. So there is a distribution
    of single arcs instead, P(tree) ~ prod of w(arc), with nearly the marginals that the chart gives, clipped:
    as nearly as a few steps of iterative scaling come, as there need be none that has them. Everything is
    exact under that.
    """
    marginals, factors = posterior.marginals, posterior.factors
    if factors is not None and factors.non_negative:
        return posterior
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
        # the sum over all trees and the marginals of arcs are known
        matched = ArcFactors(numpy.log(weights), numpy.zeros(len(marginals) - 1))
        matched.log_scale = -log_z
        return Posterior(own, factors=matched, log_z=0.0, allowed=allowed)


def best_of_lists(
    lists: Sequence[tuple[float, Callable[[int], Sequence[tuple[Item, float]]]]],
    score: Callable[[Item], float],
    key: Callable[[Item], Hashable],
    k: int,
) -> list[tuple[Item, float]]:
    """The k best of all that mixed distributions can give, exactly, from the lists of each (the threshold
    algorithm of Fagin, Lotem and Naor 2003): what is in none of the lists is not better than the mixture of
    their last ones. If that is too good, lists are made longer.

    lists: Of each distribution the logarithm of its share, and what gives its m best, with their scores.
    """
    known: dict[Hashable, tuple[Item, float]] = {}
    m = k
    while True:
        found = [(share, best_of(m)) for share, best_of in lists]
        last = [share + own[-1][1] if len(own) == m else -numpy.inf for share, own in found]
        bound = float(numpy.logaddexp.reduce(last))
        for item in (item for _, own in found for item, _ in own):
            if key(item) not in known:
                known[key(item)] = item, score(item)
        best = sorted(known.values(), key=lambda found: -found[1])[:k]
        if bound == -numpy.inf or (len(best) == k and best[-1][1] >= bound):
            return best
        m *= 2


def allowed_arcs(fixed: Ints) -> Bools:
    """[N+1, N+1]: the arcs that agree with the fixed heads of one sentence, MISSING for free tokens."""
    known = numpy.flatnonzero(fixed != MISSING)
    allowed = numpy.ones((len(fixed) + 1, len(fixed) + 1), dtype=bool)
    allowed[:, known + 1] = False
    allowed[fixed[known], known + 1] = True
    return allowed


def possible(fixed: Ints) -> bool:
    """Whether some projective tree with one root has the fixed heads of a sentence."""
    return is_part_of_tree(numpy.ascontiguousarray(fixed, dtype="int32"))


def sentence_constraints(
    bounds: Sequence[tuple[int, int]], fixed: Ints | None
) -> list[Bools | None]:
    """For each sentence the arcs that agree with its fixed heads, None if it has none; see `allowed_arcs`."""
    if fixed is None:
        return [None] * len(bounds)
    return [None if (fixed[a:b] == MISSING).all() else allowed_arcs(fixed[a:b]) for a, b in bounds]
