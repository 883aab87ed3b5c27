from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

MODELS: Sequence[str]

class InfiniteTree:
    alpha: float
    gamma: float
    rho: float
    states: NDArray[numpy.int32]
    n_states: int

    def __init__(
        self,
        model: str,
        head: NDArray[numpy.int32],
        previous: NDArray[numpy.int32],
        following: NDArray[numpy.int32],
        first: NDArray[numpy.int32],
        counted: NDArray[numpy.uint8],
        word: NDArray[numpy.int32],
        tag: NDArray[numpy.int32],
        start: NDArray[numpy.int32],
        *,
        capacity: int,
        alpha: float,
        gamma: float,
        rho: float,
        seed: int,
    ) -> None: ...
    def sweep(self, resample: bool = False) -> None: ...
    def counts(self) -> dict[str, NDArray]: ...
