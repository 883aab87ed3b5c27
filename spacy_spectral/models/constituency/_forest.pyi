from typing import Any

from numpy.typing import NDArray

def connect(
    starts: NDArray,
    begin: NDArray,
    end: NDArray,
    symbol: NDArray,
    strong: NDArray,
    lengths: NDArray,
    pair_start: NDArray,
    pair_rule: NDArray,
    pair_parent: NDArray,
    pair_seen: NDArray,
    n_symbols: int,
) -> tuple[NDArray, NDArray, NDArray, NDArray]: ...
def reach(
    starts: NDArray,
    is_word: NDArray,
    is_root: NDArray,
    edge_starts: NDArray,
    left: NDArray,
    right: NDArray,
    keep_item: NDArray,
    keep_edge: NDArray,
) -> tuple[NDArray, NDArray]: ...
def inside_outside(*arrays: Any) -> tuple[NDArray, NDArray, NDArray]: ...
def best_trees(*arrays: Any) -> tuple[NDArray, NDArray]: ...
