import numpy as np

class Extractor:
    def __init__(self, groups: int, bits: int) -> None: ...
    def extract(
        self, heads: np.ndarray, labels: np.ndarray, names: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
    def score(
        self,
        heads: np.ndarray,
        labels: np.ndarray,
        names: np.ndarray,
        columns: np.ndarray,
        weights: np.ndarray,
    ) -> np.ndarray: ...

def times(
    starts: np.ndarray, indices: np.ndarray, values: np.ndarray, x: np.ndarray
) -> np.ndarray: ...
def add_transposed(
    starts: np.ndarray, indices: np.ndarray, values: np.ndarray, y: np.ndarray, out: np.ndarray
) -> None: ...
