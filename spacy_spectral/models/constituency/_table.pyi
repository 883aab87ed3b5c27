from typing import Any

from numpy.typing import NDArray

class FeatureTable:
    n_words: int
    n_phrases: int
    def __init__(
        self,
        templates: Any,
        slots: NDArray,
        row_start: NDArray,
        label: NDArray,
        weight: NDArray,
        n_words: int,
        n_phrases: int,
    ) -> None: ...
    def parts(self) -> tuple[NDArray, NDArray, NDArray, NDArray, int, int]: ...
    def begin_learning(self, initial_squares: float) -> None: ...
    def averaged(self) -> NDArray: ...
    def keys(
        self,
        tokens: NDArray,
        starts: NDArray,
        node_starts: NDArray,
        begin: NDArray,
        end: NDArray,
        of_words: bool,
    ) -> NDArray: ...

def build_slots(keys: NDArray) -> NDArray: ...
