"""From a treebank to automata: the head-outward sequences of modifiers and their n-grams are counted, and
every estimator makes an `OperatorModel` of the counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, require_choice, require_settings
from ...base.linalg import svd
from ...trees.sentences import MISSING, Floats, Ints, Longs
from ._learn import add_operators, expectation_maximisation
from .model import OperatorModel

LEFT, RIGHT = 0, 1


@dataclass
class SequenceSet:
    """The distinct modifier sequences of one head symbol in one direction, with their counts. Sequence k
    is `symbols[offsets[k]:offsets[k + 1]]`, nearest modifier first."""

    symbols: Ints
    offsets: Longs
    counts: Floats

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
    symbols: Sequence[Ints], heads: Sequence[Ints], n_symbols: int
) -> list[list[SequenceSet]]:
    """The modifier sequences of every head symbol and direction.

    The root is head symbol `n_symbols` and has modifiers on its right only. Where a token's head is
    missing, it could belong to any head that can see it: a half is counted only if all tokens on that
    side of its head are annotated.
    """
    counters: list[list[Counter[bytes]]] = [[Counter(), Counter()] for _ in range(n_symbols + 1)]
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
                _count(counters[n_symbols][RIGHT], [own[m - 1]])
        for h in range(1, n + 1):
            left, right = modifiers[h]
            if h <= first:
                _count(counters[own[h - 1]][LEFT], left[::-1])
            if h >= last:
                _count(counters[own[h - 1]][RIGHT], right)
    return [[SequenceSet.from_counter(c) for c in pair] for pair in counters]


def _count(counter: Counter, sequence: list[int]) -> None:
    key = numpy.array(sequence, dtype="int32").tobytes()
    counter[key] += 1


@dataclass
class NgramCounts:
    """Expected n-gram counts per sequence of one (head, direction): of bigrams P[b, a] = E #(a then b),
    and of the trigrams (previous, symbols, following).

    START and STOP share the index X = number of symbols: START only ever comes first and STOP last.
    """

    bigrams: Floats
    previous: Ints
    symbols: Ints
    following: Ints
    counts: Floats
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


ESTIMATORS = ("det", "det+f", "spectral", "em")

# Every symbol as the only modifier, this many times, before pooling: no symbol is impossible.
_UNSEEN_COUNT = 0.1


@dataclass(frozen=True)
class EstimatorSettings:
    """How automata are learnt.

    estimator: One of ESTIMATORS.
    states: Most hidden states of an automaton.
    smoothing: Every automaton is learnt from its own sequences and this many drawn from all
        heads of its direction.
    rank_tolerance: A singular value counts as signal if it exceeds this times 1 / sqrt(number
        of sequences), the order of the sampling error: few data, few states.
    ridge: Softens the pseudo-inverse; in the unit of the sampling error, too.
    em_iterations: Most iterations of EM.
    em_tolerance: Least relative gain in log-likelihood for another iteration.
    seed: Of the random start of EM.
    """

    estimator: str = "spectral"
    states: int = 8
    smoothing: float = 10.0
    rank_tolerance: float = 1.0
    ridge: float = 2.0
    em_iterations: int = 100
    em_tolerance: float = 1e-6
    seed: int = 0

    def __post_init__(self) -> None:
        require_choice(Errors.S101, self.estimator, ESTIMATORS)
        bounds = {"states": ">= 1", "smoothing": "> 0", "em_iterations": ">= 1"}
        require_settings(Errors.S102, self, **bounds)


def estimate(
    sequences: Sequence[Sequence[SequenceSet]],
    settings: EstimatorSettings,
    *,
    progress: Callable[[Iterable], Iterable] = iter,
) -> OperatorModel:
    """Learn the automata of all head symbols; `progress` wraps the loop."""
    n_symbols = len(sequences) - 1
    states = {"det": 1, "det+f": 2}.get(settings.estimator, settings.states)
    model = OperatorModel.zeros(n_symbols, states, non_negative=settings.estimator != "spectral")
    _set_root(model, sequences[n_symbols][RIGHT])
    background = [_background(sequences, direction, n_symbols) for direction in (LEFT, RIGHT)]
    from threadpoolctl import threadpool_limits

    jobs = [(head, direction) for head in range(n_symbols) for direction in (LEFT, RIGHT)]
    # Small matrices: more threads only wait for each other, and could change the last digits.
    with threadpool_limits(1, user_api="blas"):
        for head, direction in progress(jobs):
            own = sequences[head][direction]
            counts = NgramCounts.from_sequences(own, n_symbols)
            counts = counts.plus(background[direction], settings.smoothing)
            rng = numpy.random.default_rng([settings.seed, head, direction])
            start, operators, stop = _LEARNERS[settings.estimator](own, counts, settings, rng)
            n = len(start)
            model.start[head, direction, :n] = start
            model.stop[head, direction, :n] = stop
            model.operators[head, direction, :, :n, :n] = operators
    _set_unseen_symbols(model, sequences)
    return model


Automaton = tuple[NDArray, NDArray, NDArray]


def _background(sequences, direction: int, n_symbols: int) -> NgramCounts:
    """Expected n-grams over all heads of a direction."""
    together = pooled([pair[direction] for pair in sequences[:n_symbols]])
    single = SequenceSet(
        numpy.arange(n_symbols, dtype="int32"),
        numpy.arange(n_symbols + 1, dtype="int64"),
        numpy.full(n_symbols, _UNSEEN_COUNT),
    )
    counts = NgramCounts.from_sequences(together, n_symbols)
    return counts.plus(NgramCounts.from_sequences(single, n_symbols), single.total)


def _set_root(model: OperatorModel, sequences: SequenceSet) -> None:
    """The chart gives the root exactly one child, so one state says it all."""
    n_symbols = model.n_symbols
    seen = numpy.bincount(sequences.symbols, sequences.counts, minlength=n_symbols)
    counts = seen + _UNSEEN_COUNT
    model.start[model.root, :, 0] = 1.0
    model.stop[model.root, :, 0] = 1.0
    model.operators[model.root, RIGHT, :, 0, 0] = counts / counts.sum()


def _set_unseen_symbols(model: OperatorModel, sequences) -> None:
    """A symbol never seen as a modifier (the back-off symbol, mostly) behaves like the average one.
    Every tree generates every token exactly once, so only its proportions matter, not its scale."""
    frequency = numpy.zeros(model.n_symbols)
    for pair in sequences:
        for own in pair:
            frequency += numpy.bincount(own.symbols, _per_token(own), minlength=model.n_symbols)
    unseen = numpy.flatnonzero(frequency == 0)
    frequency /= max(frequency.sum(), 1.0)
    heads = slice(0, model.root)
    average = numpy.einsum("x,hdxab->hdab", frequency, model.operators[heads])
    model.operators[heads, :, unseen] = average[:, :, None]


def _per_token(sequences: SequenceSet) -> NDArray:
    return numpy.repeat(sequences.counts, numpy.diff(sequences.offsets))


def _deterministic(own, counts: NgramCounts, settings, rng) -> Automaton:
    """DET: one state, P(x | h, d)."""
    events = counts.bigrams.sum(axis=1)
    events = events / events.sum()
    return numpy.ones(1), events[:-1, None, None], events[-1:]


def _first_or_rest(own, counts: NgramCounts, settings, rng) -> Automaton:
    """DET+F: state 0 before the first modifier, state 1 after it."""
    first, rest = counts.bigrams[:, -1], counts.bigrams[:, :-1].sum(axis=1)
    first, rest = first / first.sum(), rest / rest.sum()
    operators = numpy.zeros((len(first) - 1, 2, 2))
    operators[:, 1, 0] = first[:-1]
    operators[:, 1, 1] = rest[:-1]
    return numpy.array([1.0, 0.0]), operators, numpy.array([first[-1], rest[-1]])


def _spectral(own, counts: NgramCounts, settings: EstimatorSettings, rng) -> Automaton:
    """SPECTRAL: operators from the SVD of the bigram matrix (Luque et al. 2012, eqs. 13-15).

    Rows and columns are scaled by count^-1/4 before the SVD, so that the largest counts do not decide
    alone which directions are kept. With R = D_b U and C = D_a V S^-1 from U S V' = D_b P D_a

        start = R' P[:, START]      stop = U[STOP] / D_b[STOP]      A_x = R' P_x C

    which is the textbook form for D_b = D_a = 1 and the same distribution for exact statistics.
    The parameters for rank n are the leading blocks of those for any higher rank.
    """
    scale_b, scale_a = ((counts.bigrams.sum(axis=k) + 1e-4) ** -0.25 for k in (1, 0))
    u, s, v = svd(counts.bigrams * scale_b[:, None] * scale_a)
    noise = 1.0 / numpy.sqrt(counts.weight)
    rank = int(numpy.count_nonzero(s > max(settings.rank_tolerance * noise, 1e-12)))
    rank = max(1, min(rank, settings.states))
    u, s, v = u[:, :rank], s[:rank], v[:, :rank]
    inverse = s / (s**2 + (settings.ridge * noise) ** 2)
    rows = u * scale_b[:, None]
    columns = v * inverse * scale_a[:, None]
    operators = numpy.zeros((len(counts.bigrams) - 1, rank, rank))
    add_operators(
        counts.previous,
        counts.symbols,
        counts.following,
        counts.counts,
        numpy.ascontiguousarray(rows),
        numpy.ascontiguousarray(columns),
        operators,
    )
    return rows.T @ counts.bigrams[:, -1], operators, u[-1] / scale_b[-1]


def _em(own: SequenceSet, counts: NgramCounts, settings: EstimatorSettings, rng) -> Automaton:
    """EM from a random start around DET. Smoothing enters as a Dirichlet prior with the background's symbol
    frequencies."""
    smoothed = counts.bigrams.sum(axis=1)
    events = smoothed / smoothed.sum()
    # no more states than there are distinct sequences to tell apart
    distinct = {sequence.tobytes() for sequence, _ in own}
    n = max(1, min(settings.states, len(distinct)))
    n_symbols = len(events) - 1
    operators = events[:-1, None, None] * rng.exponential(1.0, (n_symbols, n, n)) / n
    stop = events[-1] * rng.exponential(1.0, n)
    total = operators.sum(axis=(0, 1)) + stop
    start, operators, stop = rng.dirichlet(numpy.ones(n)), operators / total, stop / total
    observed = numpy.bincount(own.symbols, _per_token(own), minlength=n_symbols)
    prior = numpy.maximum(smoothed * counts.weight - numpy.append(observed, own.total), 0.0)
    expectation_maximisation(
        own.symbols,
        own.offsets,
        own.counts,
        start,
        operators,
        stop,
        prior[:-1].copy(),
        float(prior[-1]),
        settings.em_iterations,
        settings.em_tolerance,
    )
    return start, operators, stop


_LEARNERS = {
    "det": _deterministic,
    "det+f": _first_or_rest,
    "spectral": _spectral,
    "em": _em,
}
