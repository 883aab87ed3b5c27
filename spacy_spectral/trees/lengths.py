"""The length factor P(distance bin | head symbol, direction, modifier symbol)."""

import numpy
from numpy.typing import NDArray

# First distance of every bin: 1, 2, 3, 4, 5-6, 7-10, 11 and more
_EDGES = numpy.array([2, 3, 4, 5, 7, 11])
N_BINS = len(_EDGES) + 1
_PSEUDO_COUNT = 20.0


# Bin of every distance up to the first of the last bin
DISTANCE_BINS = numpy.digitize(numpy.arange(_EDGES[-1] + 1), _EDGES).astype("int32")


def distance_bins(distances: NDArray) -> NDArray[numpy.int64]:
    """RETURNS (ndarray): The bin of each distance, whatever its direction; `_lengths.pxd` has the same."""
    return numpy.digitize(numpy.abs(distances), _EDGES)


def length_table(
    heads: NDArray, modifiers: NDArray, distances: NDArray, n_symbols: int
) -> NDArray[numpy.float64]:
    """Estimate the factor, backing off to the modifier and direction, then to the direction alone.

    heads, modifiers (ndarray): Symbols of both ends of every arc.
    distances (ndarray): Position of the modifier minus that of its head.
    n_symbols (int): How many symbols there are.
    RETURNS (ndarray): [head symbol, direction, modifier symbol, bin]
    """
    counts = numpy.zeros((n_symbols, 2, n_symbols, N_BINS))
    bins = distance_bins(distances)
    numpy.add.at(counts, (heads, (distances > 0).astype("int64"), modifiers, bins), 1.0)
    by_direction = counts.sum(axis=(0, 2)) + 1.0 / N_BINS
    by_direction /= by_direction.sum(axis=-1, keepdims=True)
    by_modifier = _interpolate(counts.sum(axis=0), by_direction[:, None])
    return _interpolate(counts, by_modifier[None])


def _interpolate(counts: NDArray, general: NDArray) -> NDArray:
    total = counts.sum(axis=-1, keepdims=True)
    return (counts + _PSEUDO_COUNT * general) / (total + _PSEUDO_COUNT)
