"""What is to be parsed, in parts of bounded size: plain text, .jsonl, CoNLL-U, bracketed trees; .gz of them.

A plain text is one document, with its line ends. A long one is cut into several: after an empty line if there
is one in reach, else after a line, else after a space, else anywhere.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from ..base.errors import Errors, SpectralError
from ..base.text_files import STDIN, decoded_blocks, is_stream, read_records, token_form, whole_file
from .brackets import EMPTY, TREE_SUFFIXES, is_bracketed, read_trees
from .conllu import Sentence, TreebankError, scan_conllu
from .documents import CONLLU_SUFFIXES, written_documents

# Characters of a document and of a part, and words of a document of CoNLL-U.
DOCUMENT, PART, WORDS = 1 << 18, 1 << 20, 1 << 15
# How many characters of comments and the like are as much as one of text.
_COMMENTS = 64
_EMPTY_LINES = ("\n\n", "\n\r\n")

Report = Callable[[int], Any]


@dataclass
class Source:
    """A document to be parsed: a text, tokens or sentences."""

    name: str
    text: str = ""
    tokens: list[str] = field(default_factory=list)
    sentences: list[Sentence] = field(default_factory=list)

    def __len__(self) -> int:
        words = sum(len(word) + 1 for s in self.sentences for word in s.words)
        text = len(self.text) + sum(len(token) + 1 for token in self.tokens) + words
        # names and comments count where they are most of it; and what has no text is not nothing
        comments = sum(sentence.n_other_chars for sentence in self.sentences)
        return max(text, (len(self.name) + comments) // _COMMENTS, 0 if text else _COMMENTS)


@dataclass
class TextPart:
    """Some documents of a file: which part it is, from 1, and how many bytes were read for it."""

    number: int
    sources: list[Source]
    is_whole: bool = False
    size: int = 0


def stem(path: Path) -> str:
    """The name of a file without the endings that tell its format."""
    if str(path) == STDIN:
        return "stdin"
    name = path.name.removesuffix(".gz")
    known = (".txt", ".jsonl", *CONLLU_SUFFIXES, *TREE_SUFFIXES)
    short = next((name.removesuffix(ending) for ending in known if name.endswith(ending)), name)
    # "" and "." are no names of files, and ".." is another directory
    return short if short.strip(".") else path.name


def read_parts(path: Path, *, lines: bool = False) -> Iterator[TextPart]:
    """The documents of a file, in order; one part at least."""
    done = 0  # bytes read for the part at hand

    def report(n: int) -> None:
        nonlocal done
        done += n

    waiting: TextPart | None = None
    found: list[Source] = []
    size = 0
    for source in _read(path, report, lines):
        found.append(source)
        size += len(source)
        if size >= PART:
            if waiting is not None:
                yield waiting
            number = 1 if waiting is None else waiting.number + 1
            waiting, found, size, done = TextPart(number, found, size=done), [], 0, 0
    if waiting is None:
        yield TextPart(1, found, is_whole=True, size=done)
    else:
        waiting.is_whole = not found and waiting.number == 1
        yield waiting
        if found:
            yield TextPart(waiting.number + 1, found, size=done)


def _read(path: Path, report: Report, lines: bool) -> Iterator[Source]:
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    if not path.is_file() and not is_stream(path):
        raise SpectralError(Errors.S201.format(path=path))
    if ending == ".spacy":
        raise SpectralError(Errors.S609.format(path=path))
    own = "_".join(stem(path).split()) or "text"
    if ending in CONLLU_SUFFIXES:
        yield from _conllu(path, own, report)
    elif is_bracketed(path):
        yield from _brackets(path, own, report)
    elif ending == ".jsonl":
        yield from _jsonl(path, own, report)
    else:
        yield from _plain(path, own, report, lines)


def _plain(path: Path, name: str, report: Report, lines: bool) -> Iterator[Source]:
    blocks = decoded_blocks(path, report)
    texts = _lines(blocks) if lines else _pieces(blocks)
    waiting = ""
    for number, text in enumerate((text for text in texts if text.strip()), start=1):
        if waiting:
            yield Source(f"{name}-{number - 1}", waiting)
        waiting = text
    if waiting:
        n = number
        yield Source(name if n == 1 and not lines else f"{name}-{n}", waiting)


def _pieces(blocks: Iterator[str]) -> Iterator[str]:
    """Texts of bounded length, which together are the text."""
    rest = ""
    for block in blocks:
        rest += block
        while len(rest) > DOCUMENT:
            end = _end(rest)
            yield rest[:end]
            rest = rest[end:]
    yield rest


def _end(text: str) -> int:
    """Where a text is cut that is too long."""
    for ends in (_EMPTY_LINES, ("\n",), (" ", "\t")):
        found = max(text.rfind(end, 0, DOCUMENT) + len(end) for end in ends)
        # a piece may be short, but not so short that there is no end of them
        if found > DOCUMENT // 16:
            return found
    return DOCUMENT


def _lines(blocks: Iterator[str]) -> Iterator[str]:
    """Lines, but for long ones, which come in pieces."""
    rest = ""
    for block in blocks:
        *whole, rest = (rest + block).split("\n")
        for line in whole:
            yield from _pieces(iter([line]))
        if len(rest) > DOCUMENT:
            *cut, rest = _pieces(iter([rest]))
            yield from cut
    yield rest


def _jsonl(path: Path, name: str, report: Report) -> Iterator[Source]:
    for number, record in enumerate(read_records(whole_file(path), report), start=1):
        given = record.get("id", "")
        own = "_".join(str(given).split()) if isinstance(given, str | int) else ""
        own = own or f"{name}-{number}"
        if record.get("tokens") is not None:
            yield Source(own, tokens=[token_form(token) for token in record["tokens"]])
            continue
        pieces = [piece for piece in _pieces(iter([record["text"]])) if piece.strip()]
        for i, piece in enumerate(pieces, start=1):
            yield Source(own if len(pieces) == 1 else f"{own}-{i}", piece)


def _conllu(path: Path, name: str, report: Report) -> Iterator[Source]:
    numbers = count(1)
    items = scan_conllu(path, trees=False, report=report)
    for group in written_documents(items, most_words=WORDS):
        sentences = []
        for item in group:
            if isinstance(item, TreebankError):
                raise item
            sentences.append(item)
        own = sentences[0].comment("newdoc") or f"{name}-{next(numbers)}"
        yield Source("_".join(own.split()), sentences=sentences)


def _brackets(path: Path, name: str, report: Report) -> Iterator[Source]:
    for number, tree in enumerate(read_trees(path), start=1):
        words = [leaf.word for leaf in tree.leaves() if leaf.label != EMPTY]
        sentence = Sentence.of_words(words, [" "] * len(words))
        yield Source(f"{name}-{number}", sentences=[sentence])
    report(path.stat().st_size)
