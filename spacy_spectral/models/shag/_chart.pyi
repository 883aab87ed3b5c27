import numpy
from numpy.typing import NDArray

def arc_weights(
    symbols: NDArray[numpy.int32],
    frequency: NDArray[numpy.float64],
    lengths: NDArray[numpy.float64],
    distance_bin: NDArray[numpy.int32],
) -> NDArray[numpy.float64]: ...
def inside_outside(
    symbols: NDArray[numpy.int32],
    word_class: NDArray[numpy.int32],
    start: NDArray[numpy.float64],
    operators: NDArray[numpy.float64],
    weights: NDArray[numpy.float64],
    stop: NDArray[numpy.float64],
    root: NDArray[numpy.float64],
    states: int,
    outside: bool,
) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]: ...
def tree_scores(
    symbols: NDArray[numpy.int32],
    word_class: NDArray[numpy.int32],
    start: NDArray[numpy.float64],
    operators: NDArray[numpy.float64],
    weights: NDArray[numpy.float64],
    stop: NDArray[numpy.float64],
    root: NDArray[numpy.float64],
    states: int,
    trees: NDArray[numpy.int32],
) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]: ...
