import numpy
from numpy.typing import NDArray

def build_index(
    keys: NDArray[numpy.uint64],
) -> tuple[NDArray[numpy.uint64], NDArray[numpy.int32]]: ...
def probabilities(
    slots: NDArray[numpy.uint64],
    slot_rows: NDArray[numpy.int32],
    offsets: NDArray[numpy.int64],
    outcomes: NDArray[numpy.int32],
    shares: NDArray[numpy.float64],
    trust: NDArray[numpy.float64],
    floor: float,
    contexts: NDArray[numpy.uint64],
    wanted: NDArray[numpy.int32],
) -> NDArray[numpy.float64]: ...
def distributions(
    slots: NDArray[numpy.uint64],
    slot_rows: NDArray[numpy.int32],
    offsets: NDArray[numpy.int64],
    outcomes: NDArray[numpy.int32],
    shares: NDArray[numpy.float64],
    trust: NDArray[numpy.float64],
    floor: float,
    contexts: NDArray[numpy.uint64],
    n_outcomes: int,
) -> NDArray[numpy.float64]: ...
