"""Tensors as files keep them: rows of bytes, each row with a scale of its own.

A row is what a rule has for one pair of states of its children, or one of its three vectors. Scales have so
few digits that 127 times a scale is exact: what was rounded once is not changed by rounding it again.
"""

import numpy
from numpy.typing import NDArray

VECTORS, DENSE, MEANS = range(3)
_MOST = 127
_DIGITS = 10


def row_sizes(kind: NDArray[numpy.uint8], n_states: NDArray) -> NDArray[numpy.int64]:
    """The lengths of all rows of all tensors.

    kind (ndarray): By rule: VECTORS, DENSE or MEANS.
    n_states (ndarray): [rules, 3], the numbers of states of parent, left and right child.
    RETURNS (ndarray): int64, by row.
    """
    sizes = n_states.astype("int64")
    n_rows = numpy.choose(kind, [numpy.full(len(kind), 3), sizes[:, 1] * sizes[:, 2], 0])
    first = numpy.cumsum(n_rows) - n_rows
    result = numpy.repeat(sizes[:, 0], n_rows)
    vectors = kind == VECTORS
    for child in (1, 2):
        result[first[vectors] + child] = sizes[vectors, child]
    return result


def shrink(
    values: NDArray[numpy.float32], sizes: NDArray[numpy.int64]
) -> tuple[NDArray[numpy.int8], NDArray[numpy.float32]]:
    """Numbers as bytes.

    values (ndarray): The rows, one after the other.
    sizes (ndarray): int64, their lengths, none of them 0.
    RETURNS (Tuple[ndarray, ndarray]): The bytes, and the scale of every row.
    """
    if not len(sizes):
        return numpy.zeros(0, dtype="int8"), numpy.zeros(0, dtype="float32")
    starts = numpy.cumsum(sizes) - sizes
    largest = numpy.maximum.reduceat(numpy.abs(values.astype("float64")), starts)
    mantissa, exponent = numpy.frexp(largest / _MOST)
    # rounded up, so that no number is larger than 127 scales; tiny ones would lose digits
    mantissa = numpy.ceil(mantissa * 2.0**_DIGITS) / 2.0**_DIGITS
    scales = numpy.where(exponent < -100, 0.0, numpy.ldexp(mantissa, exponent))
    inverse = numpy.where(scales > 0, 1.0 / numpy.maximum(scales, 1e-300), 0.0)
    small = numpy.rint(values * numpy.repeat(inverse, sizes)).astype("int8")
    return small, scales.astype("float32")


def grow(
    small: NDArray[numpy.int8], scales: NDArray[numpy.float32], sizes: NDArray[numpy.int64]
) -> NDArray[numpy.float32]:
    """RETURNS (ndarray): The numbers that `shrink` made bytes of."""
    return small.astype("float32") * numpy.repeat(scales, sizes)
