"""Text files as blocks of lines: plain, .gz, JSONL and DocBin, one line per passage.

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
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import srsly

from ...base.errors import Errors

BLOCK_SIZE = 1 << 20
PART_SIZE = 1 << 23
# words of some languages contain spaces; inside a line they are written with this byte instead
INNER_SPACE = "\x1f"
_BOM = b"\xef\xbb\xbf"
# what ends a chunk for the compiled counters
_SPACE = b" \t\n\v\f\r"


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
    parts: list[Part] = []
    for path in map(Path, paths):
        if path.is_dir():
            raise ValueError(Errors.S225.format(path=path))
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
        return record.get("tokens") is not None
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
    """Read a part as blocks of valid UTF-8, which together are its lines.

    part (Part): What to read.
    report (Callable[[int], Any]): Called with the number of bytes read since the last call.
    YIELDS (bytes): Blocks of about BLOCK_SIZE bytes, however long the lines; none ends inside of a chunk.
    """
    path = Path(part.path)
    if path.suffix == ".spacy":
        yield from _join_lines(_doc_bin_lines(path))
        report(part.size)
    elif ".jsonl" in path.suffixes:
        yield from _join_lines(_record_line(record) for record in _records(part, report))
    else:
        yield from _text_blocks(part, report, _SPACE)


def _raw_blocks(part: Part, report: Callable[[int], Any]) -> Iterator[bytes]:
    """The lines that begin in a part, cut anywhere."""
    with open(part.path, "rb") as raw:
        if part.path.endswith(".gz"):
            file: Any = gzip.GzipFile(fileobj=raw)
            end = float("inf")
        else:
            file, end = raw, part.end
        if part.start:
            # the line that began in the part before belongs to that part
            file.seek(part.start - 1)
            for piece in iter(partial(file.readline, BLOCK_SIZE), b""):
                if piece.endswith(b"\n") or file.tell() >= end:
                    break
        done = raw.tell()
        at_line_start = True
        while True:
            try:
                if file.tell() < end:
                    block = file.read(int(min(BLOCK_SIZE, end - file.tell())))
                else:
                    block = b"" if at_line_start else file.readline(BLOCK_SIZE)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(Errors.S202.format(path=part.path, reason=error)) from error
            if not block:
                break
            report(raw.tell() - done)
            done = raw.tell()
            at_line_start = block.endswith(b"\n")
            yield block


def _text_blocks(part: Part, report: Callable[[int], Any], ends: bytes) -> Iterator[bytes]:
    """The lines that begin in a part, cut after one of the bytes `ends`."""
    at_file_start = part.start == 0
    rest: list[bytes] = []
    for block in chain(_raw_blocks(part, report), [b""]):
        end = max(map(block.rfind, ends)) + 1
        if block and not end:
            rest.append(block)
            continue
        whole = b"".join([*rest, block[:end]])
        rest = [block[end:]]
        _check_utf8(Path(part.path), whole)
        yield whole.removeprefix(_BOM) if at_file_start else whole
        at_file_start = False


def _check_utf8(path: Path, block: bytes) -> None:
    try:
        block.decode("utf8")
    except UnicodeDecodeError as error:
        line_start = block.rfind(b"\n", 0, error.start) + 1
        line = block[line_start:].split(b"\n", 1)[0][:60]
        raise ValueError(Errors.S203.format(path=path, reason=error.reason, line=line)) from error


def _records(part: Part, report: Callable[[int], Any]) -> Iterator[dict]:
    path = Path(part.path)
    for block in _text_blocks(part, report, b"\n"):
        for line in io.BytesIO(block):
            if not line.strip():
                continue
            try:
                record = srsly.json_loads(line)
            except ValueError as error:
                raise ValueError(
                    Errors.S204.format(path=path, line=line[:60], reason=error)
                ) from error
            reason = _fault(record)
            if reason:
                raise ValueError(Errors.S204.format(path=path, line=line[:60], reason=reason))
            yield record


def _fault(record: Any) -> str | None:
    """What is wrong with a record, if anything is."""
    if not isinstance(record, dict):
        return "not an object"
    if record.get("tokens") is not None:
        tokens = record["tokens"]
        if isinstance(tokens, list) and all(isinstance(_form(token), str) for token in tokens):
            return None
        return '"tokens" is not a list of strings'
    if record.get("text") is not None:
        return None if isinstance(record["text"], str) else '"text" is not a string'
    return 'neither "text" nor "tokens"'


def _form(token: Any) -> Any:
    # spaCy's own JSON formats have dicts with offsets here, other tools plain strings
    return token.get("orth", token.get("text", "")) if isinstance(token, dict) else token


def _record_line(record: dict) -> str:
    tokens = record.get("tokens")
    if tokens is None:
        # a passage may contain line ends, but it is one line here
        return " ".join(record["text"].split())
    return join_tokens(map(_form, tokens))


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
