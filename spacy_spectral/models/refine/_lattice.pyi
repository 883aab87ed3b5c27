import numpy
from numpy.typing import NDArray

def inside_outside(
    offsets: NDArray[numpy.int32],
    states: NDArray[numpy.int32],
    emissions: NDArray[numpy.float64],
    rows: NDArray[numpy.float32],
    row_of: NDArray[numpy.int32],
    weights: NDArray[numpy.float64],
    root: NDArray[numpy.float64],
) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]]: ...
