"""The distribution over the trees of one sentence."""

from collections.abc import Iterable
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy
from numpy.typing import NDArray

from ._eisner import best_tree, greedy_tree, is_projective_tree, k_best_trees

# Marginals of projected automata can be negative; decoding takes logs of at least this.
SMALLEST_MARGINAL = 1e-9
_SMALLEST_Z, _LARGEST_Z = 1e-250, 1e250
_RESCALINGS = 3


class Factors(Protocol):
    """One sentence under one model, as the model's chart wants it.

    log_scale (float): By how much the logarithm of every tree exceeds what the model says: constants
        that keep the chart in the range of doubles.
    """

    log_scale: float

    def __len__(self) -> int:
        """RETURNS (int): The number of tokens."""
        ...

    @property
    def non_negative(self) -> bool:
        """RETURNS (bool): Whether no tree can have a score below 0."""
        ...

    def restricted(self, allowed: NDArray[numpy.bool_]) -> "Factors":
        """RETURNS (Factors): The same with arcs that are not allowed ([N+1, N+1]) weighing nothing."""
        ...

    def scaled(self, factor: float) -> "Factors":
        """RETURNS (Factors): What generates each token multiplied; every tree gains factor^N."""
        ...

    def inside_outside(self) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]:
        """RETURNS (Tuple[float, ndarray, ndarray]): The sum over all trees; unnormalised marginals of arcs
        [N+1, N+1]; and the largest value of the chart for every span length, for rescaling."""
        ...

    def tree_scores(self, trees: NDArray[numpy.int32]) -> tuple[NDArray, NDArray]:
        """RETURNS (Tuple[ndarray, ndarray]): log |score| and sign of every tree, given as rows of heads."""
        ...

    def viterbi(self) -> NDArray[numpy.int32]:
        """RETURNS (ndarray): The tree of the best (tree, hidden states) pair."""
        ...


@runtime_checkable
class ArcFactored(Factors, Protocol):
    """Factors of single arcs: the weight of a tree is the product of those of its arcs."""

    def arc_scores(self) -> NDArray[numpy.float64]:
        """RETURNS (ndarray): [N+1, N+1], logarithms of the weights; -inf for arcs that no tree may have."""
        ...


class Posterior:
    """Exact arc marginals, and the trees that follow from them.

    marginals (ndarray): [N+1, N+1], probability of every arc (head, modifier); row 0 is the root. Every
        column but the first sums to one.
    heads (ndarray): The MBR tree: the projective single-root tree with the best product of marginals.
        1-based, 0 is the root.
    """

    def __init__(
        self,
        marginals: NDArray[numpy.float64],
        *,
        factors: Factors | None,
        log_z: float,
        allowed: NDArray[numpy.bool_] | None = None,
    ):
        self.marginals = marginals
        self._factors = factors
        self.log_z = log_z
        self._allowed = allowed

    @classmethod
    def of_nothing(cls) -> "Posterior":
        """RETURNS (Posterior): That of a sentence without tokens."""
        return cls(numpy.zeros((1, 1)), factors=None, log_z=0.0)

    @classmethod
    def from_factors(
        cls, attempts: Iterable[Factors], allowed: NDArray[numpy.bool_] | None
    ) -> "Posterior":
        """Run the chart with the first model that gives the sentence a positive, finite total.

        Projected automata can give long sentences a negative one. If no model succeeds, all allowed
        arcs are equally likely; if what is allowed makes no tree, the tree has as few other arcs as
        possible. There is always a tree.

        attempts (Iterable[Factors]): The sentence under one model after another.
        allowed (Optional[ndarray]): [N+1, N+1], the allowed arcs.
        RETURNS (Posterior): The posterior.
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
    def heads(self) -> NDArray[numpy.int32]:
        heads = greedy_tree(self.marginals)
        return best_tree(self._arc_scores())[0] if heads is None else heads

    @property
    def log_partition(self) -> float | None:
        """log of the sum over all trees, as the model scores them; None if there was no chart."""
        return None if self._factors is None else self.log_z - self._factors.log_scale

    @property
    def factors(self) -> Factors | None:
        """What the chart was run with, rescaled as it had to be; None if there was no chart."""
        return self._factors

    @property
    def allowed(self) -> NDArray[numpy.bool_] | None:
        """[N+1, N+1], the arcs that are allowed; None for all."""
        return self._allowed

    def viterbi(self) -> NDArray[numpy.int32]:
        """The tree of the best (tree, hidden states) pair, for models that can tell."""
        return self.heads if self._factors is None else self._factors.viterbi()

    def k_best(self, k: int) -> list[tuple[NDArray[numpy.int32], float]]:
        """The k trees with the best products of marginals, ordered by their exact probability.

        k (int): How many at most.
        RETURNS (List[Tuple[ndarray, float]]): Heads and log-probabilities, most probable first.
        """
        trees, _ = k_best_trees(self._arc_scores(), k)
        logs = self.log_probabilities(trees)
        order = numpy.argsort(-logs, kind="stable")
        return [(trees[t], float(logs[t])) for t in order]

    def best_with(self, labels: NDArray[numpy.float64], k: int) -> NDArray[numpy.int32]:
        """The k trees that are best together with labels.

        labels (ndarray): [N+1, N+1], the logarithm of the probability of every arc's likeliest label.
        k (int): How many at most.
        RETURNS (ndarray): Heads [found, N], best first. Exact for models of single arcs; for others, by
            products of marginals.
        """
        return self.scored_with(labels, k)[0]

    def scored_with(
        self, labels: NDArray[numpy.float64], k: int
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.float64]]:
        """RETURNS (Tuple[ndarray, ndarray]): What `best_with` gives, and the logarithms of the products."""
        if isinstance(self._factors, ArcFactored):
            trees, scores = k_best_trees(self._factors.arc_scores() + labels, k)
            return trees, scores + self._factors.log_scale - self.log_z
        return k_best_trees(self._arc_scores() + labels, k)

    def log_probability(self, heads: NDArray[numpy.int32]) -> float:
        """log P(tree | sentence). Where the automata cannot say, the product of its arcs' marginals."""
        heads = numpy.ascontiguousarray(heads, "int32")
        if len(heads) != len(self.marginals) - 1 or not is_projective_tree(heads):
            return -numpy.inf
        return float(self.log_probabilities(heads[None])[0])

    def log_probabilities(self, trees: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
        if self._factors is None:
            return self._arc_products(trees)
        logs, signs = self._factors.tree_scores(trees)
        logs = numpy.minimum(logs - self.log_z, 0.0)
        # projected automata may give a single tree a value below 0; and the tree of the best arcs may be one
        # that they do not know
        known = (signs > 0) & numpy.isfinite(logs)
        return logs if known.all() else numpy.where(known, logs, self._arc_products(trees))

    def _arc_products(self, trees: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
        own = self.marginals[trees, numpy.arange(1, trees.shape[1] + 1)]
        return numpy.log(numpy.maximum(own, SMALLEST_MARGINAL)).sum(axis=1)

    def _arc_scores(self) -> NDArray[numpy.float64]:
        scores = numpy.log(numpy.maximum(self.marginals, SMALLEST_MARGINAL))
        if self._allowed is not None:
            scores[~self._allowed] = -numpy.inf
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
