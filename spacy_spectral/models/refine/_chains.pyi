import numpy
from numpy.typing import NDArray

def tree_scores(
    offsets: NDArray[numpy.int32],
    states: NDArray[numpy.int32],
    emissions: NDArray[numpy.float64],
    rows: NDArray[numpy.float32],
    row_of: NDArray[numpy.int32],
    weights: NDArray[numpy.float64],
    root: NDArray[numpy.float64],
    trees: NDArray[numpy.int32],
) -> NDArray[numpy.float64]: ...
def state_posteriors(
    starts: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    counted: NDArray[numpy.uint8],
    offsets: NDArray[numpy.int32],
    states: NDArray[numpy.int32],
    emissions: NDArray[numpy.float64],
    rows: NDArray[numpy.float32],
    row_of: NDArray[numpy.int32],
    root: NDArray[numpy.float64],
    prior: NDArray[numpy.float64],
    counts: NDArray[numpy.float64] | None = None,
    root_counts: NDArray[numpy.float64] | None = None,
) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], float]: ...
