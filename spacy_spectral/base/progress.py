"""Progress of long work: shown on a terminal, silence elsewhere."""

import logging
import sys
from collections.abc import Callable, Iterable

from spacy.util import logger


def progress_bar(description: str) -> Callable[[Iterable], Iterable]:
    """Make a wrapper for loops.

    description (str): What the loop does.
    RETURNS (Callable[[Iterable], Iterable]): Wraps an iterable.
    """

    def wrap(items: Iterable) -> Iterable:
        from tqdm import tqdm

        return tqdm(items, desc=description, leave=False, disable=not sys.stderr.isatty())

    return wrap


def report(name: str, message: str) -> None:
    """Tell how far a component has come: in spaCy's log, or on a terminal if that shows no such messages.

    name (str): The component.
    message (str): What it has done.
    """
    logger.info("%s: %s", name, message)
    if not logger.isEnabledFor(logging.INFO) and sys.stderr.isatty():
        print(f"{name}: {message}", file=sys.stderr)
