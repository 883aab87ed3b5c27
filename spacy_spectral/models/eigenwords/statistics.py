"""What is counted: how often word b follows word a at distance 1, 2, ... within a line.

These counts serve every kind of context: b has a on its left, a has b on its right. They are
integers and add up, so any division of a corpus among workers gives the same bytes in the end.

A corpus is read twice: once for the chunks, once for the pairs of words. An exact minimum count
needs the whole corpus before the first pair is counted, and the pairs of all the rare words would
need memory that grows with the corpus.

Files are plain text, .gz, JSONL or DocBin, one line per passage. A line is a sequence of chunks separated by
whitespace, and contexts do not cross its end. Everything that is counted goes through `read_blocks`, so all
formats end in the same compiled loop. Large plain and JSONL files are divided into byte ranges, which workers
share among themselves.
"""

import operator
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
from tqdm import tqdm

from ...base.distribute import open_workers
from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bool, Format, Int, Stored, Strings
from ...base.text_files import (
    BLOCK_SIZE,
    PART_SIZE,
    Part,
    find_parts,
    read_records,
    text_blocks,
    token_form,
)
from ._kernels import PairCounter
from .vocabulary import ChunkMap, Tokenize, Vocabulary, build_vocabulary, join_tokens

MAX_WINDOW = 5
# what ends a chunk for the compiled counters
_SPACE = b" \t\n\v\f\r"
_FORMAT = Format(
    "eigenword-counts",
    1,
    words=Strings("words"),
    classes=Strings("classes"),
    word_counts=Array(("int64", "float64"), "words+classes+1", low=0),
    lowercase=Bool(),
    window=Int(low=1, high=2 * MAX_WINDOW),
    keys=Array("uint64", "pairs", order="strict"),
    counts=Array("int64", "pairs", low=0),
    n_tokens=Int(low=0),
)
Report = Callable[[int], Any]
ChunkCounts = Counter[bytes]


def is_tokenized(part: Part) -> bool:
    """Whether the chunks are tokens already (DocBin, JSONL with "tokens")."""
    path = Path(part.path)
    if ".jsonl" not in path.suffixes:
        return path.suffix == ".spacy"
    for record in read_records(Part(part.path, 0, path.stat().st_size), lambda n: None):
        return record.get("tokens") is not None
    return False


def read_blocks(part: Part, report: Callable[[int], Any] = lambda n: None) -> Iterator[bytes]:
    """Read a part as blocks of about BLOCK_SIZE bytes of valid UTF-8, which together are its lines,
    however long; none ends inside of a chunk."""
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
        raise SpectralError(Errors.S202.format(path=path, reason=error)) from error


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


@dataclass
class PairCounts:
    """Sorted keys ((distance - 1) * n_words + a) * n_words + b, and how often each occurs."""

    keys: numpy.ndarray
    counts: numpy.ndarray
    n_tokens: int


@dataclass
class Counts(Stored):
    """Everything that is known of a corpus: from here on the text is not needed any more."""

    FORMAT = _FORMAT

    vocabulary: Vocabulary
    window: int
    pairs: PairCounts

    def successors(self, distance: int) -> Any:
        """How often word b (columns) stands `distance` after word a (rows)."""
        from scipy.sparse import csr_matrix

        n_words = len(self.vocabulary)
        first, last = numpy.searchsorted(
            self.pairs.keys, [(distance - 1) * n_words**2, distance * n_words**2]
        )
        keys = self.pairs.keys[first:last] - numpy.uint64((distance - 1) * n_words**2)
        rows, columns = numpy.divmod(keys, numpy.uint64(n_words))
        starts = numpy.searchsorted(rows, numpy.arange(n_words + 1, dtype="uint64"))
        values = self.pairs.counts[first:last].astype("float64")
        return csr_matrix((values, columns.astype("int32"), starts), shape=(n_words, n_words))

    def to_payload(self) -> dict[str, Any]:
        return {
            "words": self.vocabulary.words,
            "classes": self.vocabulary.classes,
            "word_counts": self.vocabulary.counts,
            "lowercase": self.vocabulary.lowercase,
            "window": self.window,
            "keys": self.pairs.keys,
            "counts": self.pairs.counts,
            "n_tokens": self.pairs.n_tokens,
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "Counts":
        vocabulary = Vocabulary(
            read["words"], read["classes"], read["word_counts"], lowercase=read["lowercase"]
        )
        limit = len(vocabulary) ** 2 * read["window"]
        _FORMAT.require(read["keys"].max(initial=0) < limit, "keys", "has unknown words")
        pairs = PairCounts(read["keys"], read["counts"], read["n_tokens"])
        return cls(vocabulary, read["window"], pairs)


def count_chunks(
    parts: list[Part], shared: None = None, report: Report = lambda n: None
) -> ChunkCounts:
    """First pass: how often each whitespace-separated chunk occurs."""
    counts: ChunkCounts = Counter()
    for part in parts:
        for block in read_blocks(part, report):
            counts.update(block.split())
    return counts


def count_pairs(
    parts: list[Part], shared: tuple[ChunkMap, int], report: Report = lambda n: None
) -> PairCounts:
    """Second pass: which words follow which."""
    chunk_map, window = shared
    counter = PairCounter(
        chunk_map.chunks, chunk_map.starts, chunk_map.ids, chunk_map.n_words, window
    )
    for part in parts:
        for block in read_blocks(part, report):
            if not counter.add(block):
                raise SpectralError(Errors.S207.format(path=part.path))
        counter.end_line()
    keys, counts = counter.export()
    return PairCounts(keys, counts, counter.n_tokens)


def merge_pairs(left: PairCounts, right: PairCounts) -> PairCounts:
    """The sum of two counts."""
    keys, which = numpy.unique(numpy.concatenate([left.keys, right.keys]), return_inverse=True)
    counts = numpy.zeros(len(keys), dtype="int64")
    numpy.add.at(counts, which.ravel(), numpy.concatenate([left.counts, right.counts]))
    return PairCounts(keys, counts, left.n_tokens + right.n_tokens)


def count_files(
    paths: Iterable[str | Path],
    *,
    tokenize: Tokenize | None = None,
    window: int = 2,
    min_count: int = 5,
    max_words: int = 200_000,
    lowercase: bool = False,
    workers: int = 1,
    scheduler: str | None = None,
    progress: bool = False,
    part_size: int = PART_SIZE,
) -> Counts:
    """Count the words of text files and their contexts.

    tokenize: Splits chunks of raw text into tokens. None: whitespace does.
    window: The largest distance between two words (LR-MVL needs twice its own window).
    min_count: Words seen less often are counted as their class of look-alikes.
    scheduler: Address of a Dask scheduler, or "local" for a Dask cluster of `workers` processes here.
    """
    if not 1 <= window <= 2 * MAX_WINDOW:
        raise SpectralError(Errors.S208.format(window=window, largest=2 * MAX_WINDOW))
    parts = find_parts(paths, part_size=part_size)
    if not parts:
        raise SpectralError(Errors.S205)
    tokenized = [is_tokenized(part) for part in {part.path: part for part in parts}.values()]
    if any(tokenized):
        if tokenize is not None and not all(tokenized):
            raise SpectralError(Errors.S209)
        tokenize = None
    bar = partial(
        tqdm,
        total=sum(part.size for part in parts),
        unit="B",
        unit_scale=True,
        disable=not progress,
    )
    with open_workers(workers=workers, scheduler=scheduler) as pool:
        with bar(desc="Counting words") as words_bar:
            chunks = pool.reduce(count_chunks, parts, None, operator.add, words_bar.update)
        vocabulary, chunk_map = build_vocabulary(
            chunks,
            tokenize=tokenize,
            min_count=min_count,
            max_words=max_words,
            lowercase=lowercase,
        )
        del chunks
        with bar(desc="Counting contexts") as pairs_bar:
            shared = (chunk_map, window)
            pairs = pool.reduce(count_pairs, parts, shared, merge_pairs, pairs_bar.update)
    return Counts(vocabulary, window, pairs)
