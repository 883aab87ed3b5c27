"""Parses on their way from the parser to a component that goes on with them."""

from typing import Any

from spacy.tokens import Doc

from ..trees.interface import Parses
from ..trees.sentences import Batch
from .documents import TokenReader


class LatestParses:
    """The parses of the last batch, for whoever takes it: charts need not be computed twice.

    In `nlp` and `nlp.pipe` every component gets the batch that the one before it has just done, unless
    their batch sizes differ.

    wanted (bool): Whether somebody takes them; if not, none are kept.
    """

    def __init__(self, read: TokenReader) -> None:
        """read (TokenReader): What the parser reads documents with."""
        self.wanted = False
        self._read = read
        self._latest: tuple[Batch, Parses] | None = None

    def put(self, batch: Batch, parses: Parses) -> None:
        """Keep the parses of a batch, if they are wanted, and forget others."""
        self._latest = (batch, parses) if self.wanted else None

    def take(self, docs: list[Doc]) -> tuple[Batch, Parses] | None:
        """RETURNS (Optional[Tuple[Batch, Parses]]): The parses, if they are of these very documents, and
        nothing that a parse hangs on was changed since. They are not kept any longer."""
        latest, self._latest = self._latest, None
        if latest is None or len(latest[0].docs) != len(docs):
            return None
        same = all(known is doc for known, doc in zip(latest[0].docs, docs, strict=True))
        return latest if same and self._read.is_current(latest[0]) else None

    def __getstate__(self) -> dict[str, Any]:
        # charts do not travel to other processes
        return self.__dict__ | {"_latest": None}
