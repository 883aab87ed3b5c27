from typing import Any

import numpy
from numpy.typing import NDArray

MAX_STATES: int
MOST_OF_STATES_POWER: float

class Forests:
    def __init__(self, n: int, owner: Any) -> None: ...
    def __len__(self) -> int: ...
    def joint(
        self, sentence: int
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float32]]: ...
    def k_best(
        self, sentence: int, k: int
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]]: ...
