import numpy
from numpy.typing import NDArray

def score_trees(
    symbols: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    emissions: NDArray[numpy.float64],
    upward: NDArray[numpy.float64],
    root: NDArray[numpy.float64],
) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]: ...
def expected_counts(
    symbols: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    starts: NDArray[numpy.int32],
    emissions: NDArray[numpy.float64],
    transitions: NDArray[numpy.float64],
    upward: NDArray[numpy.float64],
    root: NDArray[numpy.float64],
    emission_counts: NDArray[numpy.float64],
    transition_counts: NDArray[numpy.float64],
    root_counts: NDArray[numpy.float64],
) -> float: ...
def head_probabilities(
    emissions: NDArray[numpy.float64],
    heads: NDArray[numpy.int32],
    transitions: NDArray[numpy.float64],
    upward: NDArray[numpy.float64],
    root: NDArray[numpy.float64],
) -> NDArray[numpy.float64]: ...
