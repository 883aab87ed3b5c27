"""Text files in blocks: plain and .jsonl, either of them .gz. Large ones can be divided into byte ranges."""

import gzip
import io
import sys
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import srsly

from .errors import Errors, SpectralError

BLOCK_SIZE = 1 << 20
PART_SIZE = 1 << 23
# What has to be in memory as a whole, a line of .jsonl or a sentence, has no more bytes than this. It is
# several times the longest novels; the objects made of so many bytes take less than a gigabyte.
LONGEST = 1 << 24
STDIN = "-"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Part:
    """A byte range of a file; a line belongs to the part in which it begins."""

    path: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def find_parts(paths: Iterable[str | Path], *, part_size: int = PART_SIZE) -> list[Part]:
    """Divide files into parts that can be read independently, in order. The suffix tells the format:
    .spacy is a DocBin, .jsonl has one object a line with "text" or "tokens", anything else is plain
    text; these two may be compressed (.gz). Compressed files and DocBins are one part each."""
    parts: list[Part] = []
    for path in map(Path, paths):
        if path.is_dir():
            raise SpectralError(Errors.S225.format(path=path))
        if not path.is_file():
            raise SpectralError(Errors.S201.format(path=path))
        size = path.stat().st_size
        step = size if path.suffix in (".gz", ".spacy") else part_size
        starts = range(0, size, step) if size else [0]
        parts.extend(Part(str(path), start, min(start + step, size)) for start in starts)
    return parts


def is_stream(path: str | Path) -> bool:
    """Whether it is standard input or a pipe, which can be read once, from its beginning."""
    path = Path(path)
    return str(path) == STDIN or path.is_fifo() or path.is_char_device() or path.is_socket()


def whole_file(path: str | Path) -> Part:
    """All of a file or stream."""
    return Part(str(path), 0, sys.maxsize if is_stream(path) else Path(path).stat().st_size)


@contextmanager
def opened(path: str | Path) -> Iterator[tuple[Any, Callable[[], int]]]:
    """What is to be read of a file or stream, and how many bytes of the file were, as far as that is
    known."""
    if str(path) == STDIN:
        yield sys.stdin.buffer, lambda: 0
        return
    with open(path, "rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if str(path).endswith(".gz") else raw
        yield file, raw.tell if raw.seekable() else lambda: 0


def raw_blocks(part: Part, report: Callable[[int], Any]) -> Iterator[bytes]:
    """The lines that begin in a part, in blocks of about BLOCK_SIZE bytes, cut anywhere."""
    with opened(part.path) as (file, n_read):
        end = sys.maxsize if part.path.endswith(".gz") else part.end
        at = part.start
        if part.start:
            # the line that began in the part before belongs to that part
            at = file.seek(part.start - 1)
            for piece in iter(partial(file.readline, BLOCK_SIZE), b""):
                at += len(piece)
                if piece.endswith(b"\n") or at >= end:
                    break
        done = n_read()
        at_line_start = True
        while True:
            try:
                if at < end:
                    block = file.read(min(BLOCK_SIZE, end - at))
                else:
                    block = b"" if at_line_start else file.readline(BLOCK_SIZE)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise SpectralError(Errors.S202.format(path=part.path, reason=error)) from error
            if not block:
                break
            at += len(block)
            before, done = done, n_read()
            report(done - before)
            at_line_start = block.endswith(b"\n")
            yield block


def text_blocks(part: Part, report: Callable[[int], Any], ends: bytes) -> Iterator[bytes]:
    """The lines that begin in a part, in blocks of valid UTF-8, cut after one of the bytes `ends`."""
    at_file_start = part.start == 0
    rest: list[bytes] = []
    n_lines = 1
    for block in chain(raw_blocks(part, report), [b""]):
        end = max(map(block.rfind, ends)) + 1
        if block and not end:
            rest.append(block)
            if sum(map(len, rest)) > LONGEST:
                line = n_lines + _lines_before(part)
                raise SpectralError(
                    Errors.S619.format(path=part.path, line=line, most=LONGEST >> 20)
                )
            continue
        n_lines += block.count(b"\n")
        whole = b"".join([*rest, block[:end]])
        rest = [block[end:]]
        try:
            whole.decode("utf8")
        except UnicodeDecodeError as error:
            raise _not_utf8(part.path, error) from error
        yield whole.removeprefix(_BOM) if at_file_start else whole
        at_file_start = False


def decoded_blocks(path: str | Path, report: Callable[[int], Any]) -> Iterator[str]:
    """The text of a file in blocks that are cut anywhere, but not inside of a character."""
    decoder = getincrementaldecoder("utf-8-sig")()
    for block in chain(raw_blocks(whole_file(path), report), [b""]):
        try:
            yield decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            raise _not_utf8(path, error) from error


def _lines_before(part: Part) -> int:
    """How many lines end before the first that begins in a part."""
    if not part.start:
        return 0
    before = Part(part.path, 0, part.start)
    return sum(block.count(b"\n") for block in raw_blocks(before, lambda n: None))


def _not_utf8(path: str | Path, error: UnicodeDecodeError) -> ValueError:
    line_start = error.object.rfind(b"\n", 0, error.start) + 1
    line = error.object[line_start:].split(b"\n", 1)[0][:60]
    return SpectralError(Errors.S203.format(path=path, reason=error.reason, line=line))


def read_records(part: Part, report: Callable[[int], Any]) -> Iterator[dict]:
    """The objects of a .jsonl file that begin in a part, with "text" (a string) or "tokens" (see
    `token_form`)."""
    path = Path(part.path)
    for block in text_blocks(part, report, b"\n"):
        for line in io.BytesIO(block):
            if not line.strip():
                continue
            try:
                record = srsly.json_loads(line)
            except ValueError as error:
                raise SpectralError(
                    Errors.S204.format(path=path, line=line[:60], reason=error)
                ) from error
            reason = _fault(record)
            if reason:
                raise SpectralError(Errors.S204.format(path=path, line=line[:60], reason=reason))
            yield record


def _fault(record: Any) -> str | None:
    """What is wrong with a record, if anything is."""
    if not isinstance(record, dict):
        return "not an object"
    if record.get("tokens") is not None:
        tokens = record["tokens"]
        if isinstance(tokens, list) and all(isinstance(token_form(token), str) for token in tokens):
            return None
        return '"tokens" is not a list of strings'
    if record.get("text") is not None:
        return None if isinstance(record["text"], str) else '"text" is not a string'
    return 'neither "text" nor "tokens"'


def token_form(token: Any) -> Any:
    """The form of an entry of "tokens"."""
    # spaCy's own JSON formats have dicts with offsets here, other tools plain strings
    return token.get("orth", token.get("text", "")) if isinstance(token, dict) else token
