from typing import Any

from numpy.typing import NDArray

from ._table import FeatureTable

class AnchoredTable:
    spans: FeatureTable
    def __init__(
        self, spans: FeatureTable, templates: NDArray, rules: NDArray, weight: NDArray
    ) -> None: ...
    def parts(self) -> NDArray: ...
    def scores(
        self,
        tokens: NDArray,
        word_starts: NDArray,
        starts: NDArray,
        begin: NDArray,
        end: NDArray,
        symbol: NDArray,
        edge_starts: NDArray,
        left: NDArray,
        rule: NDArray,
    ) -> tuple[NDArray, NDArray]: ...
    def begin_learning(self, initial_squares: float) -> None: ...
    def learn(self, *arguments: Any) -> float: ...
    def averaged(self) -> tuple[NDArray, NDArray]: ...
