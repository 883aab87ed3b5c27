"""Text files as blocks of lines: plain, .gz, JSONL and DocBin, one line per passage.

A line is a sequence of chunks separated by whitespace, and contexts do not cross its end.
Everything that is counted goes through `read_blocks`, so all formats end in the same compiled loop.
Large plain and JSONL files are divided into byte ranges, which workers share among themselves.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ...base.errors import Errors
from ...base.text_files import BLOCK_SIZE, Part, read_records, text_blocks, token_form

# words of some languages contain spaces; inside a line they are written with this byte instead
INNER_SPACE = "\x1f"
# what ends a chunk for the compiled counters
_SPACE = b" \t\n\v\f\r"


def is_tokenized(part: Part) -> bool:
    """Whether the chunks are tokens already (DocBin, JSONL with "tokens")."""
    path = Path(part.path)
    if ".jsonl" not in path.suffixes:
        return path.suffix == ".spacy"
    for record in read_records(Part(part.path, 0, path.stat().st_size), lambda n: None):
        return record.get("tokens") is not None
    return False


def join_tokens(tokens: Iterable[str]) -> str:
    """One line of chunks from one list of tokens. Whitespace tokens are left out."""
    return " ".join(INNER_SPACE.join(token.split()) for token in tokens if not token.isspace())


def split_token(chunk: str) -> str:
    """The token that `join_tokens` wrote as this chunk."""
    return chunk.replace(INNER_SPACE, " ")


def read_blocks(part: Part, report: Callable[[int], Any] = lambda n: None) -> Iterator[bytes]:
    """Read a part as blocks of valid UTF-8, which together are its lines.

    YIELDS: Blocks of about BLOCK_SIZE bytes, however long the lines; none ends inside of a
        chunk.
    """
    path = Path(part.path)
    if path.suffix == ".spacy":
        yield from _join_lines(_doc_bin_lines(path))
        report(part.size)
    elif ".jsonl" in path.suffixes:
        yield from _join_lines(_record_line(record) for record in read_records(part, report))
    else:
        yield from text_blocks(part, report, _SPACE)


def _record_line(record: dict) -> str:
    tokens = record.get("tokens")
    if tokens is None:
        # a passage may contain line ends, but it is one line here
        return " ".join(record["text"].split())
    return join_tokens(map(token_form, tokens))


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
    """Write tokens to a file that can be read twice, so that a generator can be counted too."""
    path = Path(directory) / "tokens.txt"
    with open(path, "wb") as file:
        for block in _join_lines(join_tokens(tokens) for tokens in token_lists):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return path
