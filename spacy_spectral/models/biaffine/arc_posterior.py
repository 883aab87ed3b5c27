"""Distributions over projective trees from arc scores alone: P(tree) ~ exp(sum of its arcs' scores).

This is the chart of the head automata with automata that say nothing. Scores are matrices [N+1, N+1] by
head and modifier; row 0 is the root, column 0 and the diagonal are never looked at.
"""

from collections.abc import Iterator

import numpy
from numpy.typing import NDArray

from ...trees._eisner import best_tree, is_projective_tree
from ...trees.constraints import allowed_arcs
from ...trees.posterior import Posterior
from ...trees.sentences import MISSING
from ..shag.factors import Factors
from ..shag.model import OperatorModel

_AUTOMATA = OperatorModel.uniform(1)


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


def _attempts(
    scores: NDArray[numpy.float64], allowed: NDArray[numpy.bool_] | None
) -> Iterator[Factors]:
    if allowed is not None:
        # first, so that heads are measured against those that are allowed: fixed ones may be far
        # worse than the best
        scores = numpy.where(allowed, scores, -numpy.inf)
    arcs = scores[:, 1:].copy()
    arcs[numpy.arange(1, len(scores)), numpy.arange(len(scores) - 1)] = -numpy.inf
    yield _factors(arcs, arcs.max(axis=0))
    # Where the best head of every token is far from making a tree, everything underflows. Measured
    # against the best tree, that one weighs 1.
    tree, _ = best_tree(scores)
    yield _factors(arcs, arcs[tree, numpy.arange(len(tree))])


def _factors(arcs: NDArray[numpy.float64], shift: NDArray[numpy.float64]) -> Factors:
    """Factors of arcs [N+1, N], measured against a score for each modifier."""
    n = arcs.shape[1]
    shift = numpy.where(numpy.isfinite(shift), shift, 0.0)
    with numpy.errstate(over="ignore"):
        weights = numpy.exp(arcs - shift)
    stop = numpy.zeros((n, 2, _AUTOMATA.states))
    stop[:, :, 0] = 1.0
    zeros = numpy.zeros(n, dtype="int32")
    return Factors(
        symbols=zeros,
        word_class=zeros,
        automata=_AUTOMATA,
        states=_AUTOMATA.states,
        weights=numpy.ascontiguousarray(weights[1:, :, None]),
        stop=stop,
        root=numpy.ascontiguousarray(weights[0]),
        log_scale=-float(shift.sum()),
    )


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
