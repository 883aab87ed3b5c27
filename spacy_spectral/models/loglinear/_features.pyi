from collections.abc import Sequence

import numpy as np

MAX_PARTS: int

def hash_strings(strings: Sequence[str]) -> np.ndarray: ...
def build_slots(keys: np.ndarray, row_starts: np.ndarray, slots: np.ndarray) -> None: ...
def number_keys(
    keys: np.ndarray, blocks: np.ndarray, min_blocks: int
) -> tuple[np.ndarray, np.ndarray]: ...
