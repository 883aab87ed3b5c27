from numpy.typing import NDArray

def coarse_items(
    word_start: NDArray,
    word_symbol: NDArray,
    word_score: NDArray,
    pair_start: NDArray,
    pair_parent: NDArray,
    pair_prob: NDArray,
    root: NDArray,
    prior: NDArray,
    beam: float,
    threshold: float,
) -> tuple[NDArray, NDArray, NDArray, NDArray, float]: ...
