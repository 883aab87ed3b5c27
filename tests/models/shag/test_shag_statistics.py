"""What is counted, against counting by hand."""

from collections import Counter

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import modifiers, projective_trees
from spacy_spectral.models.shag.estimate import (
    LEFT,
    RIGHT,
    NgramCounts,
    SequenceSet,
    modifier_sequences,
    pooled,
)
from spacy_spectral.trees.sentences import MISSING

N_SYMBOLS = 3


@st.composite
def sentences(draw):
    """Symbols and heads of a projective tree, some heads taken away."""
    n = draw(st.integers(1, 5))
    heads = list(draw(st.sampled_from(projective_trees(n))))
    symbols = draw(st.lists(st.integers(0, N_SYMBOLS - 1), min_size=n, max_size=n))
    for m in draw(st.sets(st.integers(0, n - 1), max_size=2)):
        heads[m] = MISSING
    return symbols, heads


def counted_by_hand(treebank):
    """Counters of tuples of symbols by (head symbol, direction)."""
    counters = {(h, d): Counter() for h in range(N_SYMBOLS + 1) for d in (LEFT, RIGHT)}
    for symbols, heads in treebank:
        n = len(symbols)
        for m, head in enumerate(heads, start=1):
            if head == 0:
                counters[N_SYMBOLS, RIGHT][symbols[m - 1],] += 1
        for h in range(1, n + 1):
            sides = {LEFT: range(1, h), RIGHT: range(h + 1, n + 1)}
            for side, sequence in zip((LEFT, RIGHT), modifiers(heads, h), strict=True):
                if all(heads[m - 1] != MISSING for m in sides[side]):
                    counters[symbols[h - 1], side][tuple(symbols[m - 1] for m in sequence)] += 1
    return counters


def as_counter(own):
    counter = Counter()
    for sequence, count in own:
        counter[tuple(sequence.tolist())] += count
    return counter


def columns(treebank):
    return [
        [numpy.array(part, dtype="int32") for part in parts]
        for parts in zip(*treebank, strict=True)
    ]


@settings(deadline=None)
@given(st.lists(sentences(), min_size=1, max_size=6))
def test_sequences(treebank):
    expected = counted_by_hand(treebank)
    found = modifier_sequences(*columns(treebank), N_SYMBOLS)
    for (head, direction), counter in expected.items():
        own = found[head][direction]
        assert as_counter(own) == counter
        assert len(own.counts) == len(counter)
        assert own.total == sum(counter.values())


@settings(deadline=None)
@given(st.lists(sentences(), min_size=1, max_size=4))
def test_pooled_sequences(treebank):
    found = modifier_sequences(*columns(treebank), N_SYMBOLS)
    for direction in (LEFT, RIGHT):
        together = Counter()
        for head in range(N_SYMBOLS):
            together.update(as_counter(found[head][direction]))
        assert as_counter(pooled([pair[direction] for pair in found[:N_SYMBOLS]])) == together


counted = st.dictionaries(
    st.lists(st.integers(0, N_SYMBOLS - 1), max_size=4).map(tuple),
    st.sampled_from([0.125, 0.5, 1.0, 7.0]),
    max_size=5,
)


def as_set(counter):
    return SequenceSet.from_counter(
        {numpy.array(s, dtype="int32").tobytes(): count for s, count in counter.items()}
    )


def dense(counts):
    trigrams = numpy.zeros((N_SYMBOLS + 1,) * 3)
    keys = (counts.previous, counts.symbols, counts.following)
    numpy.add.at(trigrams, keys, counts.counts)
    return counts.bigrams, trigrams


def expected_ngrams(counter):
    """Expected n-grams of START x1 .. xm STOP; both markers have the index N_SYMBOLS."""
    bigrams, trigrams = numpy.zeros((N_SYMBOLS + 1,) * 2), numpy.zeros((N_SYMBOLS + 1,) * 3)
    total = sum(counter.values())
    for sequence, count in counter.items():
        wrapped = [N_SYMBOLS, *sequence, N_SYMBOLS]
        for k in range(len(wrapped) - 1):
            bigrams[wrapped[k + 1], wrapped[k]] += count / total
        for k in range(len(wrapped) - 2):
            trigrams[wrapped[k], wrapped[k + 1], wrapped[k + 2]] += count / total
    return bigrams, trigrams


@settings(deadline=None)
@given(counted)
def test_ngrams(counter):
    counts = NgramCounts.from_sequences(as_set(counter), N_SYMBOLS)
    assert counts.weight == sum(counter.values())
    for found, expected in zip(dense(counts), expected_ngrams(counter), strict=True):
        numpy.testing.assert_allclose(found, expected, atol=1e-12)


@settings(deadline=None)
@given(counted, counted, st.sampled_from([0.25, 10.0]))
def test_mixed_ngrams(own, other, weight):
    """As if `weight` sequences of the other distribution had been seen too."""
    mixed = NgramCounts.from_sequences(as_set(own), N_SYMBOLS)
    mixed = mixed.plus(NgramCounts.from_sequences(as_set(other), N_SYMBOLS), weight)
    together = Counter(own)
    for sequence, count in other.items():
        together[sequence] += count * weight / sum(other.values())
    assert mixed.weight == pytest.approx(sum(own.values()) + weight)
    if other:
        for found, expected in zip(dense(mixed), expected_ngrams(together), strict=True):
            numpy.testing.assert_allclose(found, expected, atol=1e-12)
