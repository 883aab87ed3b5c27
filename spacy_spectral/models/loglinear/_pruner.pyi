import numpy as np

MAX_TEMPLATES: int
N_FLAGS: int

def train_pruner(
    columns: np.ndarray,
    starts: np.ndarray,
    tags: np.ndarray,
    heads: np.ndarray,
    composites: np.ndarray,
    templates: np.ndarray,
    between_bit: np.ndarray,
    weights: np.ndarray,
    squares: np.ndarray,
    order: np.ndarray,
    rate: float,
    reach: int,
    n_far: int,
) -> None: ...
def prune(
    columns: np.ndarray,
    starts: np.ndarray,
    tags: np.ndarray,
    composites: np.ndarray,
    templates: np.ndarray,
    between_bit: np.ndarray,
    weights: np.ndarray,
    threshold: float,
    most: int,
    reach: int,
    n_far: int,
    gold: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
def fill_children(
    columns: np.ndarray,
    starts: np.ndarray,
    arc_start: np.ndarray,
    arc_head: np.ndarray,
    arc_prob: np.ndarray,
    is_function: np.ndarray,
    word: int,
    left: int,
    right: int,
) -> None: ...
