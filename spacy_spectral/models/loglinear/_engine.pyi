from collections.abc import Callable
from typing import Any

import numpy as np

class Engine:
    def __init__(
        self,
        *,
        composites: np.ndarray,
        pairs: np.ndarray,
        unaries: np.ndarray,
        siblings: np.ndarray,
        slots: np.ndarray,
        entries: np.ndarray,
        moves: np.ndarray,
        label_state: np.ndarray,
        allowed: np.ndarray,
        between_bit: np.ndarray,
        n_columns: int,
    ) -> None: ...
    def refresh_moves(self) -> None: ...
    def parse(
        self,
        columns: np.ndarray,
        starts: np.ndarray,
        tags: np.ndarray,
        arc_start: np.ndarray,
        arc_head: np.ndarray,
        margins: np.ndarray,
    ) -> dict[str, Any]: ...
    def log_probs(
        self,
        columns: np.ndarray,
        starts: np.ndarray,
        tags: np.ndarray,
        arc_start: np.ndarray,
        arc_head: np.ndarray,
        heads: np.ndarray,
        labels: np.ndarray,
    ) -> np.ndarray: ...
    def begin_learning(self, initial_squares: float) -> None: ...
    def gradient(
        self,
        columns: np.ndarray,
        starts: np.ndarray,
        tags: np.ndarray,
        arc_start: np.ndarray,
        arc_head: np.ndarray,
        heads: np.ndarray,
        labels: np.ndarray,
        batch: np.ndarray,
        run: Callable = ...,
        n_threads: int = 1,
    ) -> tuple[float, int]: ...
    def step(self, rate: float, decay: float) -> None: ...
    def gradients(self) -> tuple[np.ndarray, np.ndarray]: ...
    def averaged(self) -> tuple[np.ndarray, np.ndarray]: ...
