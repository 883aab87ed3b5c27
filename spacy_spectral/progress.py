"""Progress of long work: a bar on a terminal, silence elsewhere."""

import sys
from collections.abc import Callable, Iterable


def progress_bar(description: str) -> Callable[[Iterable], Iterable]:
    """Make a wrapper for loops.

    description (str): What the loop does.
    RETURNS (Callable[[Iterable], Iterable]): Wraps an iterable.
    """

    def wrap(items: Iterable) -> Iterable:
        from tqdm import tqdm

        return tqdm(items, desc=description, leave=False, disable=not sys.stderr.isatty())

    return wrap
