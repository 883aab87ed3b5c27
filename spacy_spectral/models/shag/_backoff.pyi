import numpy
from numpy.typing import NDArray

class Contexts:
    def __init__(
        self,
        keys: NDArray[numpy.uint64],
        offsets: NDArray[numpy.int64],
        outcomes: NDArray[numpy.int32],
        shares: NDArray[numpy.float64],
        trust: NDArray[numpy.float64],
        n_outcomes: int,
    ) -> None: ...
    def probabilities(
        self, contexts: NDArray[numpy.uint64], wanted: NDArray[numpy.int32]
    ) -> NDArray[numpy.float64]: ...
    def distributions(self, contexts: NDArray[numpy.uint64]) -> NDArray[numpy.float64]: ...
