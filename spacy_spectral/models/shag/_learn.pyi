import numpy
from numpy.typing import NDArray

def add_operators(
    previous: NDArray[numpy.int32],
    symbols: NDArray[numpy.int32],
    following: NDArray[numpy.int32],
    counts: NDArray[numpy.float64],
    rows: NDArray[numpy.float64],
    columns: NDArray[numpy.float64],
    operators: NDArray[numpy.float64],
) -> None: ...
def expectation_maximisation(
    symbols: NDArray[numpy.int32],
    offsets: NDArray[numpy.int64],
    counts: NDArray[numpy.float64],
    start: NDArray[numpy.float64],
    operators: NDArray[numpy.float64],
    stop: NDArray[numpy.float64],
    prior: NDArray[numpy.float64],
    prior_stop: float,
    iterations: int,
    tolerance: float,
) -> list[float]: ...
