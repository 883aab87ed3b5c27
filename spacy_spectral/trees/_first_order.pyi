import numpy
from numpy.typing import NDArray

def arc_marginals(
    potentials: NDArray[numpy.float64],
) -> tuple[float, NDArray[numpy.float64]]: ...
