import numpy
from numpy.typing import NDArray

def viterbi(
    symbols: NDArray[numpy.int32],
    word_class: NDArray[numpy.int32],
    log_start: NDArray[numpy.float64],
    log_operators: NDArray[numpy.float64],
    log_weights: NDArray[numpy.float64],
    log_stop: NDArray[numpy.float64],
    log_root: NDArray[numpy.float64],
) -> tuple[NDArray[numpy.int32], float]: ...
