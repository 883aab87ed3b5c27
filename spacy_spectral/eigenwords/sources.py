"""Text files as blocks of whole lines: plain, .gz, JSONL and DocBin, one line per passage.

A line is a sequence of chunks separated by whitespace, and contexts do not cross its end.
Everything that is counted goes through `read_blocks`, so all formats end in the same compiled loop.
Large plain and JSONL files are divided into byte ranges, which workers share among themselves.
"""

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import srsly

from ..errors import Errors

BLOCK_SIZE = 1 << 20
PART_SIZE = 1 << 23
# words of some languages contain spaces; inside a line they are written with this byte instead
INNER_SPACE = "\x1f"
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
    """Divide files into parts that can be read independently.

    paths (Iterable[Union[str, Path]]): Files; the format is told by the suffix: .spacy is a DocBin,
        .jsonl has one object a line with "text" or "tokens", anything else is plain text.
        Plain text and .jsonl may be compressed (.gz).
    part_size (int): Bytes per part, roughly.
    RETURNS (List[Part]): The parts, in order. Compressed files and DocBins are one part each.
    """
    parts = []
    for path in map(Path, paths):
        if not path.is_file():
            raise ValueError(Errors.S201.format(path=path))
        size = path.stat().st_size
        step = size if path.suffix in (".gz", ".spacy") else part_size
        starts = range(0, size, step) if size else [0]
        parts.extend(Part(str(path), start, min(start + step, size)) for start in starts)
    return parts


def is_tokenized(part: Part) -> bool:
    """RETURNS (bool): Whether the chunks are tokens already (DocBin, JSONL with "tokens")."""
    path = Path(part.path)
    if ".jsonl" not in path.suffixes:
        return path.suffix == ".spacy"
    for record in _records(Part(part.path, 0, path.stat().st_size), lambda n: None):
        return "tokens" in record
    return False


def join_tokens(tokens: Iterable[str]) -> str:
    """One line of chunks from one list of tokens. Whitespace tokens are left out.

    tokens (Iterable[str]): Tokens, which may contain spaces.
    RETURNS (str): The line.
    """
    return " ".join(INNER_SPACE.join(token.split()) for token in tokens if not token.isspace())


def split_token(chunk: str) -> str:
    """RETURNS (str): The token that `join_tokens` wrote as this chunk."""
    return chunk.replace(INNER_SPACE, " ")


def read_blocks(part: Part, report: Callable[[int], Any] = lambda n: None) -> Iterator[bytes]:
    """Read a part as blocks of whole lines of valid UTF-8.

    part (Part): What to read.
    report (Callable[[int], Any]): Called with the number of bytes read since the last call.
    YIELDS (bytes): Blocks of about BLOCK_SIZE bytes.
    """
    path = Path(part.path)
    if path.suffix == ".spacy":
        yield from _join_lines(_doc_bin_lines(path))
        report(part.size)
    elif ".jsonl" in path.suffixes:
        yield from _join_lines(_record_line(record) for record in _records(part, report))
    else:
        for block in _raw_blocks(part, report):
            _check_utf8(path, block)
            yield block.removeprefix(_BOM)


def _raw_blocks(part: Part, report: Callable[[int], Any]) -> Iterator[bytes]:
    with open(part.path, "rb") as raw:
        if part.path.endswith(".gz"):
            file: Any = gzip.GzipFile(fileobj=raw)
            end = float("inf")
        else:
            file, end = raw, part.end
        if part.start:
            # the line that began in the part before belongs to that part
            file.seek(part.start - 1)
            file.readline()
        done = raw.tell()
        while file.tell() < end:
            try:
                block = file.read(int(min(BLOCK_SIZE, end - file.tell())))
                if block and not block.endswith(b"\n"):
                    block += file.readline()
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(Errors.S202.format(path=part.path, reason=error)) from error
            if not block:
                break
            report(raw.tell() - done)
            done = raw.tell()
            yield block


def _check_utf8(path: Path, block: bytes) -> None:
    try:
        block.decode("utf8")
    except UnicodeDecodeError as error:
        line_start = block.rfind(b"\n", 0, error.start) + 1
        line = block[line_start:].split(b"\n", 1)[0][:60]
        raise ValueError(Errors.S203.format(path=path, reason=error.reason, line=line)) from error


def _records(part: Part, report: Callable[[int], Any]) -> Iterator[dict]:
    path = Path(part.path)
    for block in _raw_blocks(part, report):
        _check_utf8(path, block)
        for line in io.BytesIO(block.removeprefix(_BOM)):
            if not line.strip():
                continue
            try:
                record = srsly.json_loads(line)
            except ValueError as error:
                raise ValueError(
                    Errors.S204.format(path=path, line=line[:60], reason=error)
                ) from error
            if not isinstance(record, dict) or not ("tokens" in record or "text" in record):
                raise ValueError(
                    Errors.S204.format(
                        path=path, line=line[:60], reason='neither "text" nor "tokens"'
                    )
                )
            yield record


def _record_line(record: dict) -> str:
    tokens = record.get("tokens")
    if tokens is None:
        # a passage may contain line ends, but it is one line here
        return " ".join(str(record["text"]).split())
    # spaCy's own JSON formats have dicts with offsets here, other tools plain strings
    return join_tokens(
        t if isinstance(t, str) else str(t.get("orth", t.get("text", ""))) for t in tokens
    )


def _doc_bin_lines(path: Path) -> Iterator[str]:
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    try:
        docs = DocBin().from_disk(path).get_docs(Vocab())
        for doc in docs:
            for span in doc.sents if doc.has_annotation("SENT_START") else [doc]:
                yield join_tokens(token.text for token in span)
    except (ValueError, KeyError, zlib.error, EOFError) as error:
        raise ValueError(Errors.S202.format(path=path, reason=error)) from error


def _join_lines(lines: Iterable[str]) -> Iterator[bytes]:
    block, size = [], 0
    for line in lines:
        encoded = line.encode("utf8", errors="replace") + b"\n"
        block.append(encoded)
        size += len(encoded)
        if size >= BLOCK_SIZE:
            yield b"".join(block)
            block, size = [], 0
    yield b"".join(block)


def write_token_lists(token_lists: Iterable[Iterable[str]], directory: str | Path) -> Path:
    """Write tokens to a file that can be read twice, so that a generator can be counted too.

    token_lists (Iterable[Iterable[str]]): Lists of tokens, one per sentence or passage.
    directory (Union[str, Path]): Where to write.
    RETURNS (Path): The file.
    """
    path = Path(directory) / "tokens.txt"
    with open(path, "wb") as file:
        for block in _join_lines(join_tokens(tokens) for tokens in token_lists):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return path
