import numpy
from numpy.typing import NDArray

def train_pruner(
    columns: NDArray[numpy.uint64],
    starts: NDArray[numpy.int32],
    tags: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    composites: NDArray[numpy.int32],
    templates: NDArray,
    between_bit: NDArray[numpy.uint8],
    weights: NDArray[numpy.float32],
    squares: NDArray,
    order: NDArray,
    rate: float,
    reach: int,
    n_far: int,
) -> None: ...
def prune(
    columns: NDArray[numpy.uint64],
    starts: NDArray[numpy.int32],
    tags: NDArray[numpy.int32],
    composites: NDArray[numpy.int32],
    templates: NDArray,
    between_bit: NDArray[numpy.uint8],
    weights: NDArray[numpy.float32],
    threshold: float,
    most: int,
    reach: int,
    n_far: int,
    gold: NDArray,
) -> tuple[NDArray, NDArray, NDArray]: ...
def fill_children(
    columns: NDArray[numpy.uint64],
    starts: NDArray[numpy.int32],
    arc_start: NDArray,
    arc_head: NDArray,
    arc_prob: NDArray,
    is_function: NDArray,
    word: int,
    left: int,
    right: int,
) -> None: ...
