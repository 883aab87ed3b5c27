import numpy as np

MAX_TEMPLATES: int

def token_outputs(n_labels: int) -> int: ...
def training_keys(
    columns: np.ndarray,
    starts: np.ndarray,
    tags: np.ndarray,
    heads: np.ndarray,
    composites: np.ndarray,
    pairs: np.ndarray,
    unaries: np.ndarray,
    siblings: np.ndarray,
    between_bit: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
