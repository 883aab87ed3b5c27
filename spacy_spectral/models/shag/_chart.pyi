import numpy
from numpy.typing import NDArray

def arc_weights(
    symbols: NDArray[numpy.int32],
    frequency: NDArray[numpy.float64],
    lengths: NDArray[numpy.float64],
    distance_bin: NDArray[numpy.int32],
) -> NDArray[numpy.float64]: ...

class Chart:
    def __init__(
        self,
        symbols: NDArray[numpy.int32],
        word_class: NDArray[numpy.int32],
        start: NDArray[numpy.float64],
        operators: NDArray[numpy.float64],
        weights: NDArray[numpy.float64],
        stop: NDArray[numpy.float64],
        root: NDArray[numpy.float64],
        states: int,
    ) -> None: ...
    def inside_outside(
        self,
    ) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]: ...
    def tree_scores(
        self, trees: NDArray[numpy.int32]
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]: ...
