from numpy.typing import NDArray

from ._table import FeatureTable

def items(
    table: FeatureTable, tokens: NDArray, starts: NDArray, threshold: float
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray, NDArray]: ...
def learn(
    table: FeatureTable,
    tokens: NDArray,
    starts: NDArray,
    node_starts: NDArray,
    begin: NDArray,
    end: NDArray,
    symbol: NDArray,
    order: NDArray,
    rate: float,
    update: bool = True,
) -> float: ...
