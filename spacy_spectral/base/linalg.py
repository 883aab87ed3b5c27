"""Linear algebra that several models share: products that do not depend on the batch, singular vectors with
fixed signs, unit rows, k-means."""

from typing import Any

import numpy
from numpy.typing import NDArray

from ._gemm import product as _gemm_product

# Lanczos needs room between k and the size, and small matrices are quicker done at once.
_DENSE = 400
_BATCH = 4096


def product(rows: Any, matrix: Any) -> Any:
    """Multiply float32 rows [n, k] with the transpose of a matrix [m, k]: a row gives the same bits
    whatever the others. A GPU multiplies its own arrays.

    BLAS adds in another order for another number of rows, and differently on each processor. Which of
    two trees is better can depend on the last bits of scores, and a sentence should have the same tree
    in every batch.
    """
    if isinstance(rows, numpy.ndarray):
        return _gemm_product(rows, matrix)
    return rows @ matrix.T


def svd(
    matrix: Any, k: int | None = None, *, tolerance: float = 0.0, seed: int = 0
) -> tuple[NDArray, NDArray, NDArray]:
    """Left vectors as columns, the k largest singular values (all by default), right vectors as columns;
    the same ones in every run. The largest component of a left vector is positive, as the sign of a pair
    is arbitrary.

    Large matrices that are no arrays are done by Lanczos iteration (ARPACK); `tolerance` is its relative
    accuracy, 0 for all digits, `seed` that of its start.
    """
    smaller = min(matrix.shape)
    k = smaller if k is None else min(k, smaller)
    if isinstance(matrix, numpy.ndarray) or k >= smaller - 1 or smaller <= _DENSE:
        left, values, right = numpy.linalg.svd(_dense(matrix), full_matrices=False)
    else:
        from scipy.sparse.linalg import svds

        start = numpy.random.default_rng(seed).uniform(-1, 1, smaller)
        left, values, right = svds(matrix, k=k, v0=start, tol=tolerance)
    order = numpy.argsort(-values, kind="stable")[:k]
    left, values, right = left[:, order], values[order], right[order].T
    peaks = left[numpy.abs(left).argmax(axis=0), numpy.arange(k)]
    signs = numpy.where(peaks < 0, -1.0, 1.0).astype(left.dtype)
    return left * signs, values, right * signs


def _dense(matrix: Any) -> NDArray:
    if isinstance(matrix, numpy.ndarray):
        return matrix
    if hasattr(matrix, "toarray"):
        return matrix.toarray()
    rows, columns = matrix.shape
    if rows < columns:
        return (matrix.T @ numpy.eye(rows)).T
    return matrix @ numpy.eye(columns)


def unit_rows(matrix: NDArray) -> NDArray:
    """The matrix with rows of length 1; rows of zeros stay what they are."""
    lengths = numpy.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / numpy.where(lengths > 0, lengths, 1.0)


def kmeans(
    vectors: NDArray,
    k: int,
    *,
    weights: NDArray | None = None,
    spherical: bool = False,
    iterations: int = 20,
    seed: int = 0,
) -> NDArray[numpy.int32]:
    """The cluster of every row, by k-means from a k-means++ start (Arthur & Vassilvitskii 2007); at most
    as many clusters as rows. It stops when nothing moves.

    weights: How much each point pulls its centre.
    spherical: Whether to compare by cosine; rows must have length 1.
    """
    if weights is None:
        weights = numpy.ones(len(vectors))
    centres = vectors[_plus_plus(vectors, k, weights, spherical, seed)]
    weighted = vectors * weights[:, None].astype(vectors.dtype)
    assigned = numpy.full(len(vectors), -1, dtype="int32")
    for _ in range(iterations):
        nearest, closeness = _assign(vectors, centres, spherical)
        if (nearest == assigned).all():
            break
        assigned = nearest
        order = numpy.argsort(assigned, kind="stable")
        filled, starts = numpy.unique(assigned[order], return_index=True)
        centres[filled] = numpy.add.reduceat(weighted[order], starts)
        if not spherical:
            mass = numpy.add.reduceat(weights[order], starts)
            centres[filled] /= numpy.maximum(mass, 1e-300)[:, None].astype(vectors.dtype)
        # a centre that lost all its points takes one that is worst off where it is
        empty = numpy.setdiff1d(numpy.arange(len(centres)), filled)
        centres[empty] = vectors[numpy.argsort(closeness, kind="stable")[: len(empty)]]
        if spherical:
            centres /= numpy.maximum(numpy.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return assigned


def _distance(vectors: NDArray, centre: NDArray, spherical: bool) -> NDArray[numpy.float64]:
    if spherical:
        return numpy.maximum(1.0 - (vectors @ centre).astype("float64"), 0.0)
    return ((vectors - centre) ** 2).sum(axis=1).astype("float64")


def _plus_plus(vectors: NDArray, k: int, weights: NDArray, spherical: bool, seed: int) -> list[int]:
    random = numpy.random.default_rng(seed)
    chosen = [int(random.choice(len(vectors), p=weights / weights.sum()))]
    distance = numpy.full(len(vectors), numpy.inf)
    for _ in range(k - 1):
        nearer = _distance(vectors, vectors[chosen[-1]], spherical)
        distance = numpy.minimum(distance, nearer)
        mass = numpy.cumsum(distance * weights)
        # where all points coincide with a centre any point is as good as another
        at = numpy.searchsorted(mass, random.random() * mass[-1], side="right")
        chosen.append(int(min(at, len(vectors) - 1)))
    return chosen


def _assign(
    vectors: NDArray, centres: NDArray, spherical: bool
) -> tuple[NDArray[numpy.int32], NDArray]:
    """The nearest centre of every point, and how near it is: larger is nearer."""
    nearest = numpy.empty(len(vectors), dtype="int32")
    closeness = numpy.empty(len(vectors), dtype=vectors.dtype)
    half = 0.0 if spherical else 0.5 * (centres**2).sum(axis=1)
    for start in range(0, len(vectors), _BATCH):
        own = vectors[start : start + _BATCH]
        products = own @ centres.T - half
        best = products.argmax(axis=1)
        nearest[start : start + _BATCH] = best
        closeness[start : start + _BATCH] = products[numpy.arange(len(best)), best]
    if not spherical:
        closeness -= 0.5 * (vectors**2).sum(axis=1)
    return nearest, closeness
