from collections.abc import Sequence

import numpy

class ChunkCounter:
    def add(self, block: bytes) -> None: ...
    def chunks(self) -> list[tuple[bytes, int]]: ...

class PairCounter:
    n_tokens: int
    def __init__(
        self,
        chunks: Sequence[bytes],
        starts: numpy.ndarray,
        ids: numpy.ndarray,
        n_words: int,
        window: int,
    ) -> None: ...
    def add(self, block: bytes) -> bool: ...
    def __len__(self) -> int: ...
    def export(self, keys: numpy.ndarray, counts: numpy.ndarray) -> None: ...
