"""Spectral labelling: the states of a tag are clusters of its tokens in the directions that tell them apart.

For every tag, with rows x of what is below a token and y of what is above it (see `features`), scaled by
1 / sqrt(count + 5), the singular vectors of the centred cross-moment

    E[x y'] - E[x] E[y]' = U S V'

are the directions in which the two have most in common: those of the hidden state (as in the estimation of
latent-variable grammars by Cohen et al. 2012). U'x and V'y of every token, each of variance 1 and weighted
by its singular value, are clustered by k-means.
"""

from collections.abc import Callable, Iterable

import numpy
from numpy.typing import NDArray

from ...base.linalg import kmeans, svd
from .features import FeatureColumns, Views
from .labelling import Labelling
from .statistics import Trees

# Features that fewer tokens of a tag have are left out
_LEAST = 3
_RARE = 5.0
_KMEANS_ROUNDS = 15


def spectral_labelling(
    trees: Trees,
    n_tags: int,
    *,
    states: int = 200,
    dimensions: int = 6,
    most: int = 16,
    least_tokens: int = 40,
    seed: int = 0,
    progress: Callable[[Iterable], Iterable] = iter,
) -> Labelling:
    """Give every token a state.

    progress: Wraps the loop over tags, e.g. in a progress bar.
    """
    from threadpoolctl import threadpool_limits

    sizes = states_by_tag(
        numpy.bincount(trees.tags, minlength=n_tags), states, most=most, least_tokens=least_tokens
    )
    views = Views(trees, n_tags)
    inside, outside = FeatureColumns(views.inside()), FeatureColumns(views.outside())
    parts = numpy.zeros(len(trees), dtype="int64")
    # small matrices: more threads only wait for each other, and could change the last digits
    with threadpool_limits(1, user_api="blas"):
        for tag in progress(numpy.flatnonzero(sizes > 1).tolist()):
            tokens = numpy.flatnonzero(trees.tags == tag)
            x, y = (_scaled(view.matrix(tokens, _LEAST)) for view in (inside, outside))
            if min(x.shape[1], y.shape[1]):
                vectors = projections(x, y, dimensions)
                parts[tokens] = kmeans(
                    vectors, int(sizes[tag]), iterations=_KMEANS_ROUNDS, seed=seed
                )
    return Labelling.from_parts(trees.tags, parts, n_tags)


def states_by_tag(
    counts: NDArray[numpy.int64], total: int, *, most: int, least_tokens: int
) -> NDArray[numpy.int64]:
    """Share states out among tags: proportional to the root of their counts."""
    bound = numpy.clip(counts // least_tokens, 1, most)
    roots = numpy.sqrt(counts.astype("float64"))
    low, high = 0.0, float(total)
    # bisection: the most that does not exceed the total
    for _ in range(50):
        middle = (low + high) / 2
        if _shares(roots, middle, bound).sum() <= total:
            low = middle
        else:
            high = middle
    return _shares(roots, low, bound)


def _shares(roots: NDArray, factor: float, bound: NDArray) -> NDArray[numpy.int64]:
    return numpy.clip(numpy.rint(factor * roots), 1, bound).astype("int64")


def _scaled(matrix):
    """Features divided by the root of their counts: the frequent ones do not decide alone."""
    from scipy.sparse import diags

    counts = numpy.asarray(matrix.sum(axis=0)).ravel()
    return (matrix @ diags((counts + _RARE) ** -0.5)).tocsr()


def projections(x, y, dimensions: int) -> NDArray[numpy.float64]:
    """Both views of tokens in the directions that they have in common.

    x, y: [tokens, features].
    RETURNS: [tokens, 2 * directions].
    """
    from scipy.sparse.linalg import LinearOperator

    n = x.shape[0]
    mean_x, mean_y = (numpy.asarray(view.mean(axis=0)).ravel() for view in (x, y))
    x_transposed, y_transposed = x.T.tocsr(), y.T.tocsr()

    def forwards(v: NDArray) -> NDArray:
        return x_transposed @ (y @ v) / n - numpy.multiply.outer(mean_x, mean_y @ v)

    def backwards(u: NDArray) -> NDArray:
        return y_transposed @ (x @ u) / n - numpy.multiply.outer(mean_y, mean_x @ u)

    moment = LinearOperator(
        (x.shape[1], y.shape[1]),
        dtype="float64",
        matvec=lambda v: forwards(v.ravel()),
        rmatvec=lambda u: backwards(u.ravel()),
        matmat=forwards,
        rmatmat=backwards,
    )
    left, values, right = svd(moment, dimensions, tolerance=1e-6)
    kept = values > 1e-9 * max(float(values[0]), 1e-300)
    weights = values[kept] / max(float(values[0]), 1e-300)
    columns = []
    for view, directions in ((x, left), (y, right)):
        projected = view @ directions[:, kept]
        projected -= projected.mean(axis=0)
        projected /= numpy.maximum(projected.std(axis=0), 1e-12)
        columns.append(projected * weights)
    return numpy.hstack(columns)
