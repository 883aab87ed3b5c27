import numpy
from numpy.typing import NDArray

from ...forest._hypergraph import Graph

MAX_LENGTH: int
MAX_EDGES: int

def forest_of_arcs(
    n: int,
    heads: NDArray[numpy.int32],
    modifiers: NDArray[numpy.int32],
    max_edges: int = ...,
) -> tuple[Graph, NDArray[numpy.int32]] | None: ...
def check_arcs(n: int, heads: NDArray[numpy.int32], modifiers: NDArray[numpy.int32]) -> None: ...
