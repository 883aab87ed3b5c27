from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

class Engine:
    def __init__(
        self,
        keys: NDArray[numpy.uint32],
        weights: NDArray[numpy.float32],
        dense: NDArray[numpy.float64],
        templates: Sequence[Sequence[Sequence[int]]],
    ) -> None: ...
    def marginals(
        self,
        starts: NDArray[numpy.int32],
        tokens: NDArray[numpy.uint32],
        arc_starts: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
        modifiers: NDArray[numpy.int32],
        labels: NDArray[numpy.uint32],
        dense: NDArray[numpy.float64],
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]: ...
    def k_best(
        self,
        tokens: NDArray[numpy.uint32],
        heads: NDArray[numpy.int32],
        modifiers: NDArray[numpy.int32],
        labels: NDArray[numpy.uint32],
        dense: NDArray[numpy.float64],
        k: int,
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.float64]]: ...
