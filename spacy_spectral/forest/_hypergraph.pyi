import numpy
from numpy.typing import ArrayLike, NDArray

class Graph:
    n_items: int
    n_edges: int
    n_slots: int
    slots: NDArray[numpy.int32]
    def __init__(
        self,
        start: NDArray[numpy.int32],
        first: NDArray[numpy.int32],
        second: NDArray[numpy.int32],
        slot: NDArray[numpy.int32],
    ) -> None: ...
    def expectations(self, scores: ArrayLike) -> tuple[float, NDArray[numpy.float64]]: ...
    def k_best(self, scores: ArrayLike, k: int) -> list[tuple[NDArray[numpy.int32], float]]: ...
    def sample(
        self, scores: ArrayLike, rng: numpy.random.Generator, n: int = 1
    ) -> list[NDArray[numpy.int32]]: ...
