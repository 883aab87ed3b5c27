import numpy
from numpy.typing import NDArray

FORM_COLUMNS: int
SLOT: numpy.dtype

def form_attributes(words: list[str]) -> NDArray[numpy.uint32]: ...
def feature_keys(
    attributes: NDArray[numpy.uint32],
    starts: NDArray[numpy.int32],
    templates: NDArray[numpy.int32],
    numbers: NDArray[numpy.int32],
) -> NDArray[numpy.uint64]: ...
def index_keys(
    keys: NDArray[numpy.uint64],
) -> tuple[NDArray[numpy.int32], NDArray[numpy.uint64]]: ...
def hash_table(
    keys: NDArray[numpy.uint64], row_starts: NDArray[numpy.int32], row_ends: NDArray[numpy.int32]
) -> numpy.ndarray: ...
def weight_rows(
    ids: NDArray[numpy.int32],
    gold: NDArray[numpy.int32],
    n_features: int,
    cutoff: int,
    part_starts: NDArray[numpy.int32],
    class_parts: NDArray[numpy.int32],
    n_parts: int,
) -> tuple[NDArray[numpy.int32], NDArray[numpy.uint16]]: ...
def kept_ids(
    ids: NDArray[numpy.int32], columns: NDArray[numpy.int32], new_ids: NDArray[numpy.int32]
) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32]]: ...
