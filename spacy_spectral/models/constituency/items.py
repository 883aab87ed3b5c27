"""Labelled spans of the sentences of a batch."""

from typing import NamedTuple

import numpy
from numpy.typing import NDArray


class Items(NamedTuple):
    """Items of all sentences of a batch.

    starts (ndarray): int64, where the items of sentences start, closed by the number of items.
    begin, end (ndarray): int32, the words that items cover, counted in their sentences; `end` exclusive.
    symbol (ndarray): int32.
    """

    starts: NDArray[numpy.int64]
    begin: NDArray[numpy.int32]
    end: NDArray[numpy.int32]
    symbol: NDArray[numpy.int32]

    @classmethod
    def from_keys(cls, keys: NDArray[numpy.int64], n_sentences: int) -> "Items":
        """RETURNS (Items): The items of `keys`, which are sorted."""
        starts = numpy.searchsorted(keys >> 44, numpy.arange(n_sentences + 1))
        width, begin, symbol = (keys >> 28) & 0xFFFF, (keys >> 12) & 0xFFFF, keys & 0xFFF
        return cls(starts, *(own.astype("int32") for own in (begin, begin + width, symbol)))

    @property
    def sentence(self) -> NDArray[numpy.int64]:
        """RETURNS (ndarray): The sentence of every item."""
        n = len(self.starts) - 1
        return numpy.repeat(numpy.arange(n, dtype="int64"), numpy.diff(self.starts))

    def keys(self) -> NDArray[numpy.int64]:
        """RETURNS (ndarray): A number for each item. Their order is that of forests: by sentence, width,
        beginning and symbol."""
        key = (self.sentence << 16 | (self.end - self.begin)) << 16 | self.begin
        return key << 12 | self.symbol
