import numpy
from numpy.typing import NDArray

from ._engine import Engine

class Learner(Engine):
    def hashes(
        self,
        starts: NDArray[numpy.int32],
        tokens: NDArray[numpy.uint32],
        arc_starts: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
        modifiers: NDArray[numpy.int32],
        labels: NDArray[numpy.uint32],
        dense: NDArray[numpy.float64],
        target: NDArray[numpy.int32],
    ) -> NDArray[numpy.uint32]: ...
    def begin_learning(self, initial_squares: float) -> None: ...
    def learn(
        self,
        starts: NDArray[numpy.int32],
        tokens: NDArray[numpy.uint32],
        arc_starts: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
        modifiers: NDArray[numpy.int32],
        labels: NDArray[numpy.uint32],
        dense: NDArray[numpy.float64],
        target: NDArray[numpy.int32],
        order: NDArray[numpy.int64],
        rate: float,
        decay: float,
    ) -> tuple[float, int]: ...
    def averaged(
        self, keys: NDArray[numpy.uint32]
    ) -> tuple[NDArray[numpy.float32], NDArray[numpy.float64]]: ...
