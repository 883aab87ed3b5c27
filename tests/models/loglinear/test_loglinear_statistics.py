"""What is counted before training, and templates of features."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from spacy_spectral.models.loglinear import statistics as statistics_module
from spacy_spectral.models.loglinear._features import kernel_bins
from spacy_spectral.models.loglinear.encode import COLUMNS, Sentences, compile_templates
from spacy_spectral.models.loglinear.statistics import separators
from spacy_spectral.trees.sentences import N_BINS, distance_bins


def test_kernels_have_the_bins_of_the_tables():
    assert kernel_bins(40) == distance_bins(np.arange(1, 41)).tolist()
    assert max(kernel_bins(40)) == N_BINS - 1


def test_templates_without_columns():
    everything = compile_templates(set())
    without = compile_templates({name for name in COLUMNS if name.startswith("cluster")})
    assert len(without.pairs) < len(everything.pairs)
    assert without.composites[..., 1].max() < len(COLUMNS)


def tagged_sentences(rng, lengths, n_tags):
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tags = rng.integers(0, n_tags, starts[-1]).astype(np.int32)
    heads = np.concatenate([rng.integers(-1, n + 1, n) for n in lengths]).astype(np.int32)
    columns = np.zeros((len(tags), len(COLUMNS)), dtype=np.uint64)
    return Sentences(columns, starts, tags, np.ones(len(tags), dtype=bool)), heads


def separators_by_definition(data, heads, n_tags, n_bits):
    """Every arc with a mirror image, every tag: is it between?"""
    counts = np.full((2, N_BINS, n_tags), 0.5)
    totals = np.zeros(N_BINS)
    for begin, end in pairwise(data.starts):
        tags = data.tags[begin:end]
        for m, h in enumerate(heads[begin:end], 1):
            if h <= 0 or abs(h - m) == 1 or not 1 <= 2 * m - h <= end - begin or h == m:
                continue
            distance = distance_bins(np.asarray(h - m))
            totals[distance] += 1
            for which, other in enumerate((h, 2 * m - h)):
                for tag in set(tags[min(m, other) : max(m, other) - 1].tolist()):
                    counts[which, distance, tag] += 1
    gain = np.zeros(n_tags)
    for n, x, y in zip(totals, *counts, strict=True):
        for a, b in ((x, y), (n + 1 - x, n + 1 - y)):
            gain += (a + b) * np.log(2) + a * np.log(a / (a + b)) + b * np.log(b / (a + b))
    best = sorted(range(1, n_tags), key=lambda tag: (-round(gain[tag], 9), tag))[:n_bits]
    return [1 << best.index(tag) if tag in best else 0 for tag in range(n_tags)]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
def test_separators_are_those_of_the_definition(monkeypatch, chunk):
    monkeypatch.setattr(statistics_module, "_CHUNK", chunk)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n_tags = int(rng.integers(2, 20))
        data, heads = tagged_sentences(rng, rng.integers(1, 15, size=8), n_tags)
        bits = separators(data, heads, n_tags=n_tags, n_bits=4)
        assert bits.tolist() == separators_by_definition(data, heads, n_tags, 4)


def test_separators_take_little_memory_with_many_tags():
    data, heads = tagged_sentences(np.random.default_rng(0), [20] * 500, 1500)
    tracemalloc.start()
    separators(data, heads, n_tags=1500, n_bits=8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000 * 1500  # not even a byte for every token and tag
