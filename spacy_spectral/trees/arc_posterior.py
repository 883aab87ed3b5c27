"""Distributions over projective trees from arc scores alone: P(tree) ~ exp(sum of its arcs' scores).

Scores are matrices [N+1, N+1] by head and modifier; row 0 is the root, column 0 and the diagonal are never
looked at.
"""

from collections.abc import Iterator

import numpy
from numpy.typing import NDArray

from ._eisner import best_tree, is_projective_tree
from ._first_order import arc_marginals
from .constraints import allowed_arcs
from .posterior import Posterior
from .sentences import MISSING


def arc_posterior(
    scores: NDArray[numpy.float64], *, allowed: NDArray[numpy.bool_] | None = None
) -> Posterior:
    """The distribution over the trees of one sentence.

    scores (ndarray): [N+1, N+1], the score of every arc; -inf for arcs that no tree may have.
    allowed (Optional[ndarray]): [N+1, N+1], which arcs are allowed.
    RETURNS (Posterior): Marginals, trees and their probabilities.
    """
    if len(scores) < 2:
        return Posterior.of_nothing()
    return Posterior.from_factors(_attempts(scores, allowed), allowed)


def summed_posterior(
    scores: NDArray[numpy.float64],
    log_z: float,
    marginals: NDArray[numpy.float64],
    *,
    allowed: NDArray[numpy.bool_] | None = None,
) -> Posterior:
    """RETURNS (Posterior): What `arc_posterior` gives, where the logarithm of the sum over all trees and the
    marginals of arcs are known."""
    factors = ArcFactors(scores, numpy.zeros(len(scores) - 1))
    factors.log_scale = -log_z
    return Posterior(marginals, factors=factors, log_z=0.0, allowed=allowed)


def _attempts(
    scores: NDArray[numpy.float64], allowed: NDArray[numpy.bool_] | None
) -> Iterator["ArcFactors"]:
    # first, so that heads are measured against those that are allowed: fixed ones may be far worse than
    # the best
    scores = scores.copy() if allowed is None else numpy.where(allowed, scores, -numpy.inf)
    numpy.fill_diagonal(scores, -numpy.inf)
    yield ArcFactors(scores, scores[:, 1:].max(axis=0))
    # Where the best head of every token is far from making a tree, everything underflows. Measured
    # against the best tree, that one weighs 1.
    tree, _ = best_tree(scores)
    yield ArcFactors(scores, scores[tree, numpy.arange(1, len(scores))])


class ArcFactors:
    """A sentence as scores of arcs; implements `trees.posterior.ArcFactored`. Charts bring themselves into
    the range of doubles, so that Z is always 1."""

    non_negative = True

    def __init__(self, scores: NDArray[numpy.float64], shift: NDArray[numpy.float64]):
        """scores (ndarray): [N+1, N+1], -inf for arcs that no tree may have.
        shift (ndarray): [N], what the scores of every modifier's arcs are measured against.
        """
        self.scores = scores
        self.shift = numpy.where(numpy.isfinite(shift), shift, 0.0)
        self.log_scale = 0.0

    def __len__(self) -> int:
        return len(self.shift)

    def restricted(self, allowed: NDArray[numpy.bool_]) -> "ArcFactors":
        return ArcFactors(numpy.where(allowed, self.scores, -numpy.inf), self.shift)

    def scaled(self, factor: float) -> "ArcFactors":
        return self

    def inside_outside(self) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]:
        potentials = numpy.zeros_like(self.scores)
        with numpy.errstate(over="ignore", invalid="ignore"):
            numpy.exp(self.scores[:, 1:] - self.shift, out=potentials[:, 1:])
        log_z, marginals = arc_marginals(potentials)
        if not numpy.isfinite(log_z):
            return 0.0, marginals, numpy.zeros(len(self))
        self.log_scale = -float(log_z + self.shift.sum())
        return 1.0, marginals, numpy.ones(len(self))

    def tree_scores(self, trees: NDArray[numpy.int32]) -> tuple[NDArray, NDArray]:
        own = self.scores[trees, numpy.arange(1, len(self) + 1)].sum(axis=1)
        return own + self.log_scale, numpy.ones(len(trees))

    def arc_scores(self) -> NDArray[numpy.float64]:
        return self.scores

    def viterbi(self) -> NDArray[numpy.int32]:
        return best_tree(self.scores)[0]


def tree_loss(
    scores: NDArray[numpy.float64], heads: NDArray[numpy.int32]
) -> tuple[float, NDArray[numpy.float64]] | None:
    """Negative log-likelihood of the annotated heads of one sentence: log Z - log Z(agreeing trees).

    Heads that are missing are summed out. The gradient of an arc is its marginal probability minus that
    among the agreeing trees (Geman & Johnson 2002), which is 1 or 0 where all heads are known.

    scores (ndarray): [N+1, N+1], the score of every arc.
    heads (ndarray): [N], annotated heads, MISSING for the others.
    RETURNS (Optional[Tuple[float, ndarray]]): Loss and gradient [N+1, N+1]; None if no projective tree
        with one root agrees with the heads, or if scores are out of all bounds.
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
