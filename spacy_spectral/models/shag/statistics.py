"""What is counted: the head-outward modifier sequences of a treebank, and their n-grams."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...trees.sentences import MISSING

LEFT, RIGHT = 0, 1


@dataclass
class SequenceSet:
    """The distinct modifier sequences of one head symbol in one direction, with their counts.

    Sequence k is `symbols[offsets[k]:offsets[k + 1]]`, nearest modifier first.
    """

    symbols: NDArray[numpy.int32]
    offsets: NDArray[numpy.int64]
    counts: NDArray[numpy.float64]

    @classmethod
    def from_counter(cls, counter: Mapping[bytes, float]) -> "SequenceSet":
        keys = sorted(counter)
        lengths = [len(key) // 4 for key in keys]
        return cls(
            numpy.frombuffer(b"".join(keys), dtype="int32"),
            numpy.concatenate([[0], numpy.cumsum(lengths)]).astype("int64"),
            numpy.array([counter[key] for key in keys], dtype="float64"),
        )

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def __iter__(self):
        for k, count in enumerate(self.counts):
            yield self.symbols[self.offsets[k] : self.offsets[k + 1]], float(count)


def modifier_sequences(
    symbols: Sequence[NDArray[numpy.int32]],
    heads: Sequence[NDArray[numpy.int32]],
    n_symbols: int,
    *,
    aggregate: bool = True,
) -> list[list[SequenceSet]]:
    """Collect the modifier sequences of every head symbol and direction.

    The root is head symbol `n_symbols` and has modifiers on its right only. Where a token's head is
    missing, it could belong to any head that can see it: a half is counted only if all tokens on that
    side of its head are annotated.

    symbols (Sequence[ndarray]): Symbol ids of every sentence.
    heads (Sequence[ndarray]): Heads of every sentence (1-based, 0 the root, MISSING if unknown).
    n_symbols (int): How many symbols there are.
    aggregate (bool): Whether to count equal sequences together. Only the speed of EM depends on it.
    RETURNS (List[List[SequenceSet]]): By head symbol, then by direction.
    """
    counters: list[list[Counter[bytes]]] = [[Counter(), Counter()] for _ in range(n_symbols + 1)]
    serial = 0
    for ids, own_heads in zip(symbols, heads, strict=True):
        n = len(ids)
        modifiers: list[tuple[list[int], list[int]]] = [([], []) for _ in range(n + 1)]
        missing = numpy.flatnonzero(own_heads == MISSING) + 1
        first, last = (missing[0], missing[-1]) if len(missing) else (n + 1, 0)
        own = ids.tolist()
        for m, h in enumerate(own_heads.tolist(), start=1):
            if h > 0:
                modifiers[h][RIGHT if m > h else LEFT].append(own[m - 1])
            elif h == 0:
                _count(counters[n_symbols][RIGHT], [own[m - 1]], serial, aggregate)
        for h in range(1, n + 1):
            left, right = modifiers[h]
            if h <= first:
                _count(counters[own[h - 1]][LEFT], left[::-1], serial, aggregate)
            if h >= last:
                _count(counters[own[h - 1]][RIGHT], right, serial, aggregate)
            serial += 1
    if aggregate:
        return [[SequenceSet.from_counter(c) for c in pair] for pair in counters]
    return [[_unaggregated(c) for c in pair] for pair in counters]


def _count(counter: Counter, sequence: list[int], serial: int, aggregate: bool) -> None:
    key = numpy.array(sequence, dtype="int32").tobytes()
    counter[key if aggregate else (serial, key)] += 1


def _unaggregated(counter: Counter) -> SequenceSet:
    sequences = [key for _, key in counter]
    lengths = [len(key) // 4 for key in sequences]
    return SequenceSet(
        numpy.frombuffer(b"".join(sequences), dtype="int32"),
        numpy.concatenate([[0], numpy.cumsum(lengths)]).astype("int64"),
        numpy.ones(len(sequences)),
    )


@dataclass
class NgramCounts:
    """Expected n-gram counts per sequence of one (head, direction).

    START and STOP share the index X = number of symbols: START only ever comes first and STOP last.

    bigrams (ndarray): P[b, a] = E #(a then b).
    previous, symbols, following, counts: The trigrams (a, x, c) with E #(a then x then c).
    weight (float): How many sequences stand behind the expectations.
    """

    bigrams: NDArray[numpy.float64]
    previous: NDArray[numpy.int32]
    symbols: NDArray[numpy.int32]
    following: NDArray[numpy.int32]
    counts: NDArray[numpy.float64]
    weight: float

    @classmethod
    def from_sequences(cls, sequences: SequenceSet, n_symbols: int) -> "NgramCounts":
        size = n_symbols + 1
        lengths = numpy.diff(sequences.offsets)
        # every sequence wrapped as START x1 .. xm STOP, all in one array
        starts = sequences.offsets[:-1] + 2 * numpy.arange(len(lengths))
        wrapped = numpy.full(len(sequences.symbols) + 2 * len(lengths), n_symbols, dtype="int64")
        inside = numpy.ones(len(wrapped), dtype=bool)
        inside[starts] = False
        inside[starts + lengths + 1] = False
        wrapped[inside] = sequences.symbols
        owner = numpy.repeat(numpy.arange(len(lengths)), lengths + 2)
        weights = sequences.counts[owner]
        scale = 1.0 / sequences.total if sequences.total else 0.0
        bigrams = numpy.zeros((size, size))
        second = numpy.flatnonzero(owner[1:] == owner[:-1]) + 1
        numpy.add.at(bigrams, (wrapped[second], wrapped[second - 1]), weights[second])
        third = numpy.flatnonzero(owner[2:] == owner[:-2]) + 2
        keys = (wrapped[third - 2] * size + wrapped[third - 1]) * size + wrapped[third]
        keys, inverse = numpy.unique(keys, return_inverse=True)
        counts = numpy.bincount(inverse, weights[third], minlength=len(keys))
        return cls(
            bigrams * scale,
            (keys // size**2).astype("int32"),
            (keys // size % size).astype("int32"),
            (keys % size).astype("int32"),
            (counts * scale).astype("float64"),
            sequences.total,
        )

    def plus(self, other: "NgramCounts", weight: float) -> "NgramCounts":
        """Mix in other expectations as if they came from `weight` further sequences."""
        total = self.weight + weight
        own, more = self.weight / total, weight / total
        return NgramCounts(
            own * self.bigrams + more * other.bigrams,
            numpy.concatenate([self.previous, other.previous]),
            numpy.concatenate([self.symbols, other.symbols]),
            numpy.concatenate([self.following, other.following]),
            numpy.concatenate([own * self.counts, more * other.counts]).astype("float64"),
            total,
        )


def pooled(sequences: Sequence[SequenceSet]) -> SequenceSet:
    """All sequences of one direction together, whatever their head."""
    counter: Counter[bytes] = Counter()
    for sequence_set in sequences:
        for symbols, count in sequence_set:
            counter[symbols.tobytes()] += count
    return SequenceSet.from_counter(counter)
