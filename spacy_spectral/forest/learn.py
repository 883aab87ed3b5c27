"""Conditional maximum likelihood on packed forests, without unpacking (Geman & Johnson 2002).

    L(theta) = sum_i log Z(observed_i) - log Z(forest_i)

An observation is the part of a forest that agrees with what is known: one tree, or, where annotation is
partial, all trees it leaves. The slope of L is the expected properties of the one less those of the other.
"""

from collections.abc import Callable, Sequence

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors, SpectralError
from .packed import PackedForest

Observed = tuple[PackedForest, PackedForest]


def loss(
    data: Sequence[Observed], weights: NDArray[numpy.float64], *, l2: float = 0.0
) -> tuple[float, NDArray[numpy.float64]]:
    """The negative logarithm of the likelihood, with a penalty of l2 / 2 times the squared weights."""
    value, slope = 0.5 * l2 * float(weights @ weights), l2 * weights
    for forest, observed in data:
        log_z, expected = forest.expectations(weights)
        log_observed, seen = observed.expectations(weights)
        value += log_z - log_observed
        slope = slope + expected - seen
    return value, slope


def fit(
    data: Sequence[Observed],
    *,
    l2: float = 1.0,
    max_iterations: int = 100,
    tolerance: float = 1e-8,
    report: Callable[[str], None] = lambda message: None,
) -> NDArray[numpy.float64]:
    """Find the likeliest weights by L-BFGS, from forests and what was observed of them, by
    `PackedForest.given`. Where all observations are whole trees there is but one optimum; else it is one
    near to weights of zero."""
    from scipy.optimize import minimize

    if not data:
        raise SpectralError(Errors.S906)
    size = max(forest.n_properties for forest, _ in data)
    found = minimize(
        lambda x: loss(data, x, l2=l2),
        numpy.zeros(size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations, "gtol": tolerance, "ftol": 0.0},
    )
    report(f"{found.nit} iterations: loss {found.fun / len(data):.4f}")
    return found.x
