"""Sentences as arrays: one row of 64-bit columns per token (see `templates.COLUMNS`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ._features import hash_strings
from .templates import COLUMNS

N_WORD_COLUMNS = COLUMNS.index("tag")
N_CLUSTERS = sum(name.startswith("cluster") for name in COLUMNS)
_MAX_CACHED = 500_000


@dataclass
class Sentences:
    """Encoded sentences.

    columns (uint64[n, columns]): What the templates look at; 0 where there is nothing.
    starts (int32[sentences + 1]): Where sentences start.
    tags (int32[n]): Indices into the model's tags, 0 for one it does not know.
    wordlike (bool[n]): Whether the token has a letter or a digit.
    """

    columns: np.ndarray
    starts: np.ndarray
    tags: np.ndarray
    wordlike: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, begin: int, end: int) -> "Sentences":
        """RETURNS (Sentences): Some of the sentences, sharing memory with this."""
        first, last = int(self.starts[begin]), int(self.starts[end])
        return Sentences(
            self.columns[first:last],
            self.starts[begin : end + 1] - np.int32(first),
            self.tags[first:last],
            self.wordlike[first:last],
        )


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


class _Cache:
    """Hashes of strings, computed once per distinct string."""

    def __init__(self, n_columns: int, describe) -> None:
        self.describe = describe
        self.n_columns = n_columns
        self.clear()

    def clear(self) -> None:
        self.index: dict[str, int] = {}
        self.table = np.zeros((0, self.n_columns), dtype=np.uint64)
        self.wordlike = np.zeros(0, dtype=bool)

    def __call__(self, strings: Sequence[str]) -> np.ndarray:
        """RETURNS (np.ndarray): The rows of the strings."""
        if len(self.index) > _MAX_CACHED:
            self.clear()
        get = self.index.get
        rows = [get(string, -1) for string in strings]
        if -1 in rows:
            fresh = list(dict.fromkeys(s for s, row in zip(strings, rows, strict=True) if row < 0))
            self.index.update(
                zip(fresh, range(len(self.index), len(self.index) + len(fresh)), strict=True)
            )
            described = list(chain.from_iterable(self.describe(string) for string in fresh))
            hashes = hash_strings(described).reshape(len(fresh), self.n_columns)
            self.table = np.concatenate([self.table, hashes])
            letters = [any(map(str.isalnum, string)) for string in fresh]
            self.wordlike = np.concatenate([self.wordlike, np.asarray(letters, dtype=bool)])
            rows = [self.index[string] for string in strings]
        return np.asarray(rows, dtype=np.intp)


def _describe_word(word: str) -> tuple[str, ...]:
    lower = word.lower()
    return (word, lower, lower[:3], lower[-2:], lower[-3:], _shape(word))


class Encoder:
    """Encodes sentences for a model.

    tags (Sequence[str]): The tags of the model, without the unknown one.
    """

    def __init__(self, tags: Iterable[str]) -> None:
        self.tag_index = {tag: i for i, tag in enumerate(tags, 1)}
        self._words = _Cache(N_WORD_COLUMNS, _describe_word)
        self._strings = _Cache(1, lambda string: (string,))

    def __call__(
        self,
        words: Sequence[Sequence[str]],
        tags: Sequence[Sequence[str]],
        *,
        second: Sequence[Sequence[str]] | None = None,
        pos: Sequence[Sequence[str]] | None = None,
        morphs: Sequence[Sequence[str]] | None = None,
        clusters: np.ndarray | None = None,
    ) -> Sentences:
        """Encode sentences.

        words (Sequence[Sequence[str]]): The words of each sentence.
        tags (Sequence[Sequence[str]]): Their tags.
        second (Optional[Sequence[Sequence[str]]]): Second-best tags, with a bucket of their
            probability if you like ("NN:2"); "" for a tag without a rival.
        pos, morphs (Optional[Sequence[Sequence[str]]]): Coarse tags and morphology, "" for none.
        clusters (Optional[np.ndarray]): Word clusters of all tokens in order, one column per
            granularity, coarse to fine, -1 for a word without one.
        RETURNS (Sentences): The arrays.
        """
        lengths = np.fromiter(map(len, words), dtype=np.int32, count=len(words))
        starts = np.zeros(len(words) + 1, dtype=np.int32)
        np.cumsum(lengths, out=starts[1:])
        columns = np.zeros((int(starts[-1]), len(COLUMNS)), dtype=np.uint64)
        flat_tags = list(chain.from_iterable(tags))
        rows = self._words(list(chain.from_iterable(words)))
        columns[:, :N_WORD_COLUMNS] = self._words.table[rows]
        wordlike = self._words.wordlike[rows]
        self._fill(columns, "tag", flat_tags)
        for name, values in (("second", second), ("pos", pos), ("morph", morphs)):
            if values is not None:
                self._fill(columns, name, list(chain.from_iterable(values)))
        if clusters is not None:
            first = COLUMNS.index("cluster0")
            known = np.asarray(clusters)[:, :N_CLUSTERS].astype(np.int64) + 1
            columns[:, first : first + known.shape[1]] = known.astype(np.uint64)
        get = self.tag_index.get
        ids = np.fromiter((get(tag, 0) for tag in flat_tags), dtype=np.int32, count=len(flat_tags))
        return Sentences(columns, starts, ids, wordlike)

    def _fill(self, columns: np.ndarray, name: str, strings: list[str]) -> None:
        rows = self._strings(strings)
        hashes = self._strings.table[rows, 0]
        absent = self._strings.index.get("")
        if absent is not None:
            hashes = np.where(rows == absent, np.uint64(0), hashes)
        columns[:, COLUMNS.index(name)] = hashes
