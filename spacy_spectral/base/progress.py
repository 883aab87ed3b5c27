"""Progress of long work: bars on a terminal, and lines that stay, elsewhere too."""

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from spacy.util import logger


def progress_bar(description: str) -> Callable[[Iterable], Iterable]:
    """Make a wrapper for loops."""

    def wrap(items: Iterable) -> Iterable:
        from tqdm import tqdm

        return tqdm(items, desc=description, leave=False, disable=not sys.stderr.isatty())

    return wrap


def report(name: str, message: str) -> None:
    """Tell how far a component has come: in spaCy's log, or as a line if that shows no such messages."""
    with _beside_bars():
        logger.info("%s: %s", name, message)
        if not logger.isEnabledFor(logging.INFO):
            print(f"{name}: {message}", file=sys.stderr, flush=True)


def _beside_bars() -> AbstractContextManager[None]:
    """Take progress bars away while something else is written, and put them back below it."""
    from tqdm import tqdm

    return tqdm.external_write_mode(file=sys.stderr)


class EpochBar:
    """A progress bar with the loss of the last epoch, on a terminal; at the end a line that stays."""

    def __init__(self, name: str, total: int):
        self.name = name
        self.total = total
        self._last: Any = None

    def __enter__(self) -> Callable[[Any], None]:
        """To be told about every epoch, see `models.linear.classifier`."""
        from tqdm import tqdm

        self._bar = tqdm(total=self.total, desc=self.name, unit="epoch", leave=False, disable=None)
        return self._report

    def _report(self, epoch: Any) -> None:
        self._last = epoch
        self._bar.set_postfix_str(f"{epoch.stage}: loss {epoch.loss:.4f}, {epoch.accuracy:.2%}")
        self._bar.update()
        with _beside_bars():
            logger.debug(
                "%s, %s, epoch %d of %d: loss %.4f, accuracy %.4f",
                self.name, epoch.stage, epoch.number, epoch.total, epoch.loss, epoch.accuracy,
            )  # fmt: skip

    def __exit__(self, *exception: Any) -> None:
        self._bar.close()
        last = self._last
        if last is not None and exception[0] is None:
            told = f"{last.stage}: loss {last.loss:.4f}, {last.accuracy:.2%} right in training"
            report(self.name, f"{last.total} epochs, {told}")
