import numpy
from numpy.typing import NDArray

def train_filter(
    columns: NDArray[numpy.uint64],
    starts: NDArray[numpy.int32],
    tags: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    arc_start: NDArray[numpy.int32],
    arc_head: NDArray[numpy.int32],
    composites: NDArray[numpy.int32],
    templates: NDArray[numpy.int32],
    between_bit: NDArray[numpy.uint8],
    weights: NDArray[numpy.float32],
    squares: NDArray[numpy.float32],
    order: NDArray[numpy.int32],
    rate: float,
) -> None: ...
def filter_arcs(
    columns: NDArray[numpy.uint64],
    starts: NDArray[numpy.int32],
    tags: NDArray[numpy.int32],
    arc_start: NDArray[numpy.int32],
    arc_head: NDArray[numpy.int32],
    composites: NDArray[numpy.int32],
    templates: NDArray[numpy.int32],
    between_bit: NDArray[numpy.uint8],
    weights: NDArray[numpy.float32],
    threshold: float,
    gold: NDArray[numpy.int32],
) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float32]]: ...
