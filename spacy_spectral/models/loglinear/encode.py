"""Sentences as arrays: one row of 64-bit columns per token (see `templates.COLUMNS`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy
from numpy.typing import NDArray

from ...base.cache import Repeated, RowCache
from ._features import hash_strings
from .templates import COLUMNS

N_WORD_COLUMNS = COLUMNS.index("tag")
N_CLUSTERS = sum(name.startswith("cluster") for name in COLUMNS)
_CACHE_SIZE = 50_000


@dataclass
class Sentences:
    """Encoded sentences.

    columns (uint64[n, columns]): What the templates look at; 0 where there is nothing.
    starts (int32[sentences + 1]): Where sentences start.
    tags (int32[n]): Indices into the model's tags, 0 for one it does not know.
    wordlike (bool[n]): Whether the token has a letter or a digit.
    """

    columns: NDArray[numpy.uint64]
    starts: NDArray[numpy.int32]
    tags: NDArray[numpy.int32]
    wordlike: NDArray[numpy.bool_]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, begin: int, end: int) -> "Sentences":
        """RETURNS (Sentences): Some of the sentences, sharing memory with this."""
        first, last = int(self.starts[begin]), int(self.starts[end])
        return Sentences(
            self.columns[first:last],
            self.starts[begin : end + 1] - numpy.int32(first),
            self.tags[first:last],
            self.wordlike[first:last],
        )

    def select(self, tokens: NDArray | slice, starts: NDArray[numpy.int32]) -> "Sentences":
        """RETURNS (Sentences): Some of the tokens as sentences that start at `starts`."""
        return Sentences(self.columns[tokens], starts, self.tags[tokens], self.wordlike[tokens])


def _shape(word: str) -> str:
    """Kinds of characters, runs cut to two: "Xx-dd"."""
    shape = ""
    for char in word[:20]:
        kind = "d" if char.isdigit() else char
        if char.isalpha():
            kind = "X" if char.isupper() else "x"
        if not shape.endswith(kind * 2):
            shape += kind
    return shape


def _describe_words(words: list[str]) -> tuple[NDArray, NDArray]:
    """RETURNS (Tuple[ndarray, ndarray]): Hashes of what templates see of words, and which are wordlike."""
    parts: list[str] = []
    for word in words:
        lower = word.lower()
        parts += (word, lower, lower[:3], lower[-2:], lower[-3:], _shape(word))
    wordlike = numpy.array([any(map(str.isalnum, word)) for word in words], dtype=bool)
    return hash_strings(parts).reshape(len(words), N_WORD_COLUMNS), wordlike


def _describe_strings(strings: list[str]) -> tuple[NDArray]:
    """RETURNS (Tuple[ndarray]): Hashes of strings, 0 for the empty one: there is nothing."""
    hashes = hash_strings(strings)
    hashes[[not string for string in strings]] = 0
    return (hashes,)


class Encoder:
    """Encodes sentences for a model.

    tags (Sequence[str]): The tags of the model, without the unknown one.
    """

    def __init__(self, tags: Iterable[str]) -> None:
        self.tag_index = {tag: i for i, tag in enumerate(tags, 1)}
        self._words = RowCache(_describe_words, _describe_words([]), size=_CACHE_SIZE)
        self._strings = RowCache(_describe_strings, _describe_strings([]), size=_CACHE_SIZE)

    def __call__(
        self,
        words: Sequence[Sequence[str]],
        tags: Sequence[Sequence[str]],
        *,
        pos: Sequence[Sequence[str]] | None = None,
        morphs: Sequence[Sequence[str]] | None = None,
        clusters: NDArray[numpy.int32] | None = None,
    ) -> Sentences:
        """Encode sentences.

        words (Sequence[Sequence[str]]): The words of each sentence.
        tags (Sequence[Sequence[str]]): Their tags.
        pos, morphs (Optional[Sequence[Sequence[str]]]): Coarse tags and morphology, "" for none.
        clusters (Optional[ndarray]): Word clusters of all tokens in order, one column per
            granularity, coarse to fine, -1 for a word without one.
        RETURNS (Sentences): The arrays.
        """
        lengths = numpy.fromiter(map(len, words), dtype=numpy.int32, count=len(words))
        starts = numpy.zeros(len(words) + 1, dtype=numpy.int32)
        numpy.cumsum(lengths, out=starts[1:])
        columns = numpy.zeros((int(starts[-1]), len(COLUMNS)), dtype=numpy.uint64)
        flat_tags = _flat(tags)
        rows, (hashes, wordlike) = self._words(_flat(words))
        columns[:, :N_WORD_COLUMNS] = hashes[rows]
        self._fill(columns, "tag", flat_tags)
        for name, values in (("pos", pos), ("morph", morphs)):
            if values is not None:
                self._fill(columns, name, _flat(values))
        if clusters is not None:
            first = COLUMNS.index("cluster0")
            known = numpy.asarray(clusters)[:, :N_CLUSTERS].astype(numpy.int64) + 1
            columns[:, first : first + known.shape[1]] = known.astype(numpy.uint64)
        return Sentences(columns, starts, self._tag_ids(flat_tags), wordlike[rows])

    def _tag_ids(self, tags: Sequence[str]) -> NDArray[numpy.int32]:
        if isinstance(tags, Repeated):
            return self._tag_ids(tags.names)[tags.codes]
        get = self.tag_index.get
        return numpy.fromiter((get(tag, 0) for tag in tags), dtype=numpy.int32, count=len(tags))

    def _fill(self, columns: NDArray[numpy.uint64], name: str, strings: Sequence[str]) -> None:
        rows, (hashes,) = self._strings(strings)
        columns[:, COLUMNS.index(name)] = hashes[rows]


def _flat(sentences: Sequence[Sequence[str]]) -> Sequence[str]:
    """RETURNS (Sequence[str]): All strings; those of a single sentence as they are."""
    return sentences[0] if len(sentences) == 1 else list(chain.from_iterable(sentences))
