from typing import Any

import numpy
from numpy.typing import NDArray

def training_keys(
    columns: NDArray[numpy.uint64],
    starts: NDArray[numpy.int32],
    tags: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    composites: NDArray[numpy.int32],
    pairs: NDArray[numpy.int32],
    unaries: NDArray[numpy.int32],
    siblings: NDArray[numpy.int32],
    between_bit: NDArray[numpy.uint8],
) -> tuple[NDArray[numpy.uint64], NDArray[numpy.uint64], NDArray[numpy.uint64]]: ...
def build_slots(
    keys: NDArray[numpy.uint64], row_starts: NDArray[numpy.uint32], slots: NDArray[Any]
) -> None: ...
def number_keys(
    keys: NDArray[numpy.uint64], blocks: NDArray[numpy.int32], min_blocks: int
) -> tuple[NDArray[numpy.uint64], NDArray[numpy.int32]]: ...
def make_cells(
    slots: NDArray[Any],
    entries: NDArray[Any],
    used: NDArray[numpy.uint32],
    n_labels: int,
    scale: float,
) -> tuple[NDArray[Any], NDArray[numpy.uint32]]: ...
def make_buckets(
    slots: NDArray[Any], used: NDArray[numpy.uint32], places: NDArray[numpy.uint32]
) -> tuple[NDArray[numpy.uint32], NDArray[numpy.uint32]]: ...
