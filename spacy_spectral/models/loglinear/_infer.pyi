from typing import Any

import numpy
from numpy.typing import NDArray

class Engine:
    def __init__(
        self,
        *,
        composites: NDArray[numpy.int32],
        pairs: NDArray[numpy.int32],
        unaries: NDArray[numpy.int32],
        siblings: NDArray[numpy.int32],
        slots: NDArray[Any],
        entries: NDArray[Any],
        moves: NDArray[numpy.float32],
        label_state: NDArray[numpy.int32],
        allowed: NDArray[numpy.uint8],
        between_bit: NDArray[numpy.uint8],
        n_columns: int,
        sharpness: float = 1.0,
        label_sharpness: float = 1.0,
        choice: float = 1.0,
        share: float = 0.0,
        table: Any = None,
    ) -> None: ...
    def parse(
        self,
        columns: NDArray[numpy.uint64],
        starts: NDArray[numpy.int32],
        tags: NDArray[numpy.int32],
        arc_start: NDArray[numpy.int32],
        arc_head: NDArray[numpy.int32],
        margins: NDArray[numpy.float64],
        extra: NDArray[numpy.float32] | None = None,
    ) -> dict[str, Any]: ...
