from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

MAX_PARTS: int

def hash_strings(strings: Sequence[str]) -> NDArray[numpy.uint64]: ...
def fill_children(
    columns: NDArray[numpy.uint64],
    starts: NDArray[numpy.int32],
    arc_start: NDArray[numpy.int32],
    arc_head: NDArray[numpy.int32],
    arc_prob: NDArray[numpy.float32],
    is_function: NDArray[numpy.uint8],
    word: int,
    left: int,
    right: int,
) -> None: ...
