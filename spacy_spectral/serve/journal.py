"""What was annotated, on disk: a journal that only grows, and the CoNLL-U file that it stands for.

The journal `FILE.conllu.journal` begins with all sentences as they were at first. Each further line is one
change: so many sentences at a place are replaced by others. A line counts when its end is there; a
process that is killed while writing one leaves the state before it. What must not be lost is on the disk
(fsync) before `append` returns, and the file is replaced as a whole after it. So the journal is never behind
the file.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..base.errors import Errors, SpectralError, reason_of
from ..base.files import require_writable, write_atomically

OPEN, ACCEPTED, SKIPPED = "open", "accepted", "skipped"
_HEADER = {"journal": "spacy spectral annotate", "version": 1}


@dataclass(frozen=True)
class Item:
    """A sentence on its way to be annotated.

    id: What tells it from others, whatever comes before it.
    block: Its text in the file; see `blocks`.
    edits: What was fixed and is not in the block yet, by word and column; "_" for what was released.
    fixes: How many corrections it took so far.
    proposed: Right arcs, right labelled arcs and words of the tree that a model gave by itself, when the
        sentence was accepted; and the number of the model.
    """

    id: int
    block: str
    status: str = OPEN
    edits: dict[int, dict[str, str]] = field(default_factory=dict)
    fixes: int = 0
    proposed: tuple[int, int, int, int] | None = None

    @classmethod
    def read(cls, found: dict[str, Any]) -> "Item":
        edits = {int(word): dict(own) for word, own in found.pop("edits", {}).items()}
        proposed = found.pop("proposed", None)
        return cls(edits=edits, proposed=None if proposed is None else tuple(proposed), **found)


class Change(NamedTuple):
    """A change: what replaces `remove` sentences from `at` on."""

    at: int
    remove: int
    put: tuple[Item, ...]

    def made(self, items: Sequence[Item]) -> tuple[list[Item], "Change"]:
        """RETURNS: The sentences after it, and the change back."""
        end = self.at + self.remove
        back = Change(self.at, len(self.put), tuple(items[self.at : end]))
        return [*items[: self.at], *self.put, *items[end:]], back


class Journal:
    """The journal of a file. One process has it at a time."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.path = output.with_name(output.name + ".journal")
        self.items: list[Item] = []
        self._lock = _Lock(output.with_name(f".{output.name}.lock"))
        self._file: Any = None

    def open(self, source: str, blocks: Iterable[str] | None, *, in_place: bool = False) -> None:
        """Take the file, and read what was annotated before.

        source: What tells the input from others.
        blocks: The sentences of the input, for a journal that begins; None if there has to be one.
        in_place: Whether the input is the file that is written.
        """
        require_writable(self.output)
        require_writable(self.path)
        if not self._lock.take():
            raise SpectralError(Errors.S663.format(path=self.output))
        try:
            if not self.path.exists():
                self._begin(source, list(blocks or ()), in_place)
            old, self.items, size = self._read(source, in_place)
            expected = {_digest(_joined(old)), _digest(_joined(self.items))}
            if self.output.exists() and _digest(self.output.read_bytes()) not in expected:
                raise SpectralError(Errors.S664.format(path=self.output, journal=self.path))
            self._file = open(self.path, "r+b")  # noqa: SIM115
            self._file.truncate(size)
            self._file.seek(size)
            self.write()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the file back to others."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.release()

    def append(self, change: Change, *, sync: bool) -> Change:
        """Make a change.

        sync: Whether it is on the disk, and in the file, before this returns.
        RETURNS: The change back.
        """
        items, back = change.made(self.items)
        line = json.dumps(
            {"at": change.at, "remove": change.remove, "put": [asdict(i) for i in change.put]},
            ensure_ascii=False,
        )
        before = self._file.tell()
        try:
            self._file.write(line.encode("utf8") + b"\n")
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            # half a line would swallow the next one
            self._file = open(self.path, "r+b")  # noqa: SIM115
            self._file.truncate(before)
            self._file.seek(before)
            raise SpectralError(
                Errors.S004.format(path=self.path, reason=reason_of(error))
            ) from error
        same = [item.block for item in back.put] == [item.block for item in change.put]
        self.items = items
        if sync and not same:
            self.write()
        return back

    def write(self) -> None:
        """Write the file as it is now, if it is another."""
        data = _joined(self.items)
        if not self.output.exists() or self.output.read_bytes() != data:
            write_atomically(self.output, data)

    def _begin(self, source: str, blocks: list[str], in_place: bool) -> None:
        if self.output.exists() and not in_place:
            raise SpectralError(Errors.S665.format(path=self.output, journal=self.path))
        lines = [json.dumps(_HEADER | {"source": source})]
        lines += [
            json.dumps({"id": i, "block": block}, ensure_ascii=False)
            for i, block in enumerate(blocks)
        ]
        lines.append(json.dumps({"sentences": len(blocks)}))
        write_atomically(self.path, "".join(f"{line}\n" for line in lines))

    def _read(self, source: str, in_place: bool) -> tuple[list[Item], list[Item], int]:
        """The sentences before the last change and after it, and where the last whole line ends."""
        data = self.path.read_bytes()
        size = data.rfind(b"\n") + 1
        items: list[Item] = []
        old: list[Item] = items
        begun = False
        number = 0
        try:
            for number, line in enumerate(data[:size].split(b"\n")[:-1], start=1):
                found = json.loads(line)
                if number == 1:
                    if {**found, "source": None} != {**_HEADER, "source": None}:
                        raise ValueError("it is no journal")
                    if found["source"] != source and not in_place:
                        raise SpectralError(Errors.S666.format(path=self.output, journal=self.path))
                elif begun:
                    put = tuple(map(Item.read, found["put"]))
                    change = Change(found["at"], found["remove"], put)
                    if not 0 <= change.at <= change.at + change.remove <= len(items):
                        raise ValueError("there are no such sentences")
                    # drafts change no block, so that the file is as it was before them
                    removed = items[change.at : change.at + change.remove]
                    if [item.block for item in removed] != [item.block for item in put]:
                        old = items
                    items = change.made(items)[0]
                elif "sentences" in found:
                    begun = True
                    if found["sentences"] != len(items):
                        raise ValueError("sentences are missing")
                else:
                    items.append(Item.read(found))
        except SpectralError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SpectralError(
                Errors.S667.format(path=self.path, line=number, reason=error)
            ) from error
        if not begun:
            raise SpectralError(Errors.S667.format(path=self.path, line=number, reason="it is cut"))
        return old, items, size


def _joined(items: Iterable[Item]) -> bytes:
    return "".join(item.block for item in items).encode("utf8")


def _digest(data: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(data).digest()


class _Lock:
    """A file that one process has at a time; a process that ends has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None

    def take(self) -> bool:
        """RETURNS: False if another process has it."""
        self._file = open(self._path, "ab")  # noqa: SIM115
        try:
            if os.name == "posix":
                import fcntl

                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                import msvcrt

                self._file.seek(0)
                msvcrt.locking(self._file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            self._file.close()
            self._file = None
            return False
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
