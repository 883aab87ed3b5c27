from collections.abc import Callable

import numpy
from numpy.typing import NDArray

from ._infer import Engine

class Learner:
    def __init__(self, engine: Engine, initial_squares: float) -> None: ...
    def gradient(
        self,
        columns: NDArray[numpy.uint64],
        starts: NDArray[numpy.int32],
        tags: NDArray[numpy.int32],
        arc_start: NDArray[numpy.int32],
        arc_head: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
        labels: NDArray[numpy.int32],
        batch: NDArray[numpy.int32],
        run: Callable = ...,
        n_threads: int = 1,
    ) -> tuple[float, int]: ...
    def step(self, rate: float, decay: float) -> None: ...
    def gradients(self) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]: ...
    def averaged(self) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]: ...
