import numpy
from numpy.typing import NDArray

GRAM_COLUMNS: int
COLUMNS: int

def character_attributes(
    chunks: list[str],
) -> tuple[NDArray[numpy.int32], NDArray[numpy.uint32]]: ...
