import numpy
from numpy.typing import NDArray

def n_kernels() -> int: ...
def product(
    rows: NDArray[numpy.float32], matrix: NDArray[numpy.float32], *, kernel: int = 0
) -> NDArray[numpy.float32]: ...
