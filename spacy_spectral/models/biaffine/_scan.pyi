import numpy
from numpy.typing import NDArray

def scan(
    gates: NDArray[numpy.float32], lengths: NDArray[numpy.int32], y: NDArray[numpy.float32]
) -> NDArray[numpy.float32]: ...
def scan_back(
    gates: NDArray[numpy.float32],
    lengths: NDArray[numpy.int32],
    c: NDArray[numpy.float32],
    d_y: NDArray[numpy.float32],
) -> NDArray[numpy.float32]: ...
