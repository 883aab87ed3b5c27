from typing import Any

from numpy.typing import NDArray

def posteriors(*arrays: Any) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]: ...
