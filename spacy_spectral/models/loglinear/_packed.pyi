from typing import Any

import numpy
from numpy.typing import NDArray

from ._infer import Engine

def sentence_scores(
    engine: Engine,
    columns: NDArray[numpy.uint64],
    tags: NDArray[numpy.int32],
    arc_start: NDArray[numpy.int32],
    arc_head: NDArray[numpy.int32],
    margin: float,
    extra: NDArray[numpy.float32] | None = None,
) -> dict[str, NDArray[Any]]: ...
