import numpy
from numpy.typing import NDArray

ENTRY: numpy.dtype
LEARNER: numpy.dtype

def train_epoch(
    attributes: NDArray[numpy.uint32],
    starts: NDArray[numpy.int32],
    order: NDArray[numpy.int32],
    id_starts: NDArray[numpy.int32],
    static_ids: NDArray[numpy.int32],
    templates: NDArray[numpy.int32],
    numbers: NDArray[numpy.int32],
    out_column: int,
    slots: numpy.ndarray,
    row_starts: NDArray[numpy.int32],
    entries: numpy.ndarray,
    part_starts: NDArray[numpy.int32],
    class_parts: NDArray[numpy.int32],
    n_parts: int,
    groups: NDArray[numpy.int32],
    group_starts: NDArray[numpy.int32],
    members: NDArray[numpy.int32],
    gold: NDArray[numpy.int32],
    sure: NDArray[numpy.uint8],
    rate: float,
    ignore: float,
    time: float,
    time_step: float,
) -> tuple[float, int, int]: ...
def type_scores(
    types: NDArray[numpy.uint32],
    templates: NDArray[numpy.int32],
    numbers: NDArray[numpy.int32],
    slots: NDArray[numpy.int32],
    n_slots: int,
    table_slots: numpy.ndarray,
    entries: numpy.ndarray,
    n_parts: int,
) -> NDArray[numpy.float32]: ...
def decode(
    attributes: NDArray[numpy.uint32],
    starts: NDArray[numpy.int32],
    types: NDArray[numpy.int32],
    by_type: NDArray[numpy.float32],
    offsets: NDArray[numpy.int32],
    templates: NDArray[numpy.int32],
    numbers: NDArray[numpy.int32],
    out_column: int,
    slots: numpy.ndarray,
    entries: numpy.ndarray,
    part_starts: NDArray[numpy.int32],
    class_parts: NDArray[numpy.int32],
    n_parts: int,
    groups: NDArray[numpy.int32],
    group_starts: NDArray[numpy.int32],
    members: NDArray[numpy.int32],
    labels: NDArray[numpy.int32],
    n_labels: int,
    given: NDArray[numpy.int32],
    top: int,
) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float32]]: ...
