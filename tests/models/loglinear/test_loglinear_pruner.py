"""The pruner of arcs against enumeration of all trees."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from brute_force import projective_trees
from loglinear_data import TAGS, long_sentence, random_corpus
from spacy_spectral.models.loglinear import model as model_module
from spacy_spectral.models.loglinear._pruner import train_pruner
from spacy_spectral.models.loglinear.encode import COLUMNS, PRUNER, Encoder, compile_templates
from spacy_spectral.models.loglinear.model import ArcPruner


def test_pruner_keeps_the_likeliest_arcs_among_ties():
    rng = np.random.default_rng(3)
    data, *_ = random_corpus(rng, [5, 4, 5, 3])
    templates = compile_templates(set(), pairs=PRUNER, unaries="", siblings="")
    flat = np.zeros(1 << 10, dtype=np.float32)
    bits = np.zeros(len(TAGS) + 1, dtype=np.uint8)
    every = ArcPruner(templates, flat, bits, 0.0, 20)(data)
    for most in range(1, 5):
        kept = ArcPruner(templates, flat, bits, 0.0, most)(data)
        for token, (begin, end) in enumerate(pairwise(every.starts)):
            best = sorted(every.probs[begin:end], reverse=True)[:most]
            own = kept.probs[kept.starts[token] : kept.starts[token + 1]]
            assert sorted(own, reverse=True)[: len(best)] == best
            assert len(best) <= len(own) <= len(best) + 1  # and the one to the left


def test_pruner_learns_nothing_of_tokens_that_no_candidate_tree_explains():
    n = 30
    data = Encoder(TAGS)([[f"w{i}" for i in range(n)]], [["N"] * n])
    heads = np.full(n, -1, dtype=np.int32)
    heads[[0, 3]] = 0, 25  # then some token after the 25th hangs on the first three
    templates = compile_templates(set(), pairs=PRUNER, unaries="", siblings="")
    bits = np.zeros(len(TAGS) + 1, dtype=np.uint8)
    weights, squares = np.zeros(1 << 16, dtype=np.float32), np.ones(1 << 16, dtype=np.float32)
    train_pruner(
        data.columns, data.starts, data.tags, heads, templates.composites, templates.pairs, bits,
        weights, squares, np.zeros(1, dtype=np.int32), 0.1, 3, 0,
    )  # fmt: skip
    # the root, three neighbours on either side, the head that is given
    n_arcs = (1 + 3) + (1 + 6 + 1)
    assert 0 < np.count_nonzero(weights) <= n_arcs * len(templates.pairs)


WORD = (1 << 64) - 1


def mixed(value):
    value ^= value >> 32
    value = value * 0xD6E8FEB86659FD93 & WORD
    return value ^ value >> 32


def pruner_scores(pruner, data):
    """First-order scores of all arcs of the only sentence, by the hashing of the kernels."""
    n, templates = len(data.tags), pruner.templates
    values = np.zeros((n + 1, len(templates.composites)), dtype=object)
    for position, (k, parts) in product(range(n + 1), enumerate(templates.composites.tolist())):
        value = k + 1
        for offset, column in parts:
            if column >= 0:
                at = position + offset
                atom = 11 - at if at <= 0 else 101 + at - n
                if 1 <= at <= n:
                    atom = int(data.columns[at - 1, column])
                value = (value ^ atom) * 0x9FB21C651E98DF25 & WORD
                value ^= value >> 29
        values[position, k] = value
    scores = np.full((n + 1, n + 1), -np.inf)
    for h, m in product(range(n + 1), range(1, n + 1)):
        if h == m:
            continue
        between = 0
        for tag in data.tags[min(h, m) : max(h, m) - 1] if h else ():
            between |= int(pruner.between_bit[tag])
        scores[h, m] = 0
        for t, (head, mod, kind) in enumerate(templates.pairs.tolist()):
            extra = (2 if h == 0 else int(m > h)) + 64 * (1 + between) * (kind >> 1)
            extra += 4 * (1 + (abs(h - m) if h else 0)) * (kind & 1)
            seed = 0xD1B54A32D192ED03 * (t + 1) + extra * 0x9FB21C651E98DF25
            rotated = values[m, mod] << 27 & WORD | values[m, mod] >> 37
            key = (values[h, head] + seed) * 0x9E3779B97F4A7C15 & WORD ^ rotated
            scores[h, m] += pruner.weights[mixed(key) & (len(pruner.weights) - 1)]
    return scores


@pytest.mark.parametrize("reach, n_far", [(32, 16), (2, 2), (1, 1), (1, 0)])
def test_pruner_gives_the_marginals_of_enumeration(monkeypatch, reach, n_far):
    monkeypatch.setattr(model_module, "REACH", reach)
    monkeypatch.setattr(model_module, "N_FAR", n_far)
    rng = np.random.default_rng(5)
    data, heads, _ = random_corpus(rng, [1, 2, 3, 4, 5, 5])
    missing = {name for i, name in enumerate(COLUMNS) if not data.columns[:, i].any()}
    templates = compile_templates(missing, pairs=PRUNER, unaries="", siblings="")
    weights = rng.normal(size=1 << 12).astype(np.float32)
    weights[0] = 0
    pruner = ArcPruner(templates, weights, np.asarray([0, 1, 0, 2, 4], dtype=np.uint8), 0, 100)
    for keep in (None, heads):
        arcs = pruner(data, keep)
        for s, (first, last) in enumerate(pairwise(data.starts.tolist())):
            n = last - first
            scores = pruner_scores(pruner, data.part(s, s + 1))
            far = 1 + np.argsort(-scores[0, 1:])[:n_far]
            for h, m in product(range(1, n + 1), range(1, n + 1)):
                kept = keep is not None and keep[first + m - 1] == h
                if abs(h - m) > reach and h not in far and not kept:
                    scores[h, m] = -np.inf
            found = np.zeros((n + 1, n + 1))
            for m in range(1, n + 1):
                own = slice(arcs.starts[first + m - 1], arcs.starts[first + m])
                found[arcs.heads[own], m] = arcs.probs[own]
                assert set(arcs.heads[own]) == set(np.flatnonzero(scores[:, m] > -np.inf))
            expected = np.zeros_like(found)
            for tree in projective_trees(n):
                at = (list(tree), range(1, n + 1))
                expected[at] += np.exp(scores[at].sum())
            assert found == pytest.approx(expected / expected[0].sum(), abs=1e-6)


@pytest.mark.parametrize("same", [False, True])
def test_pruner_of_very_long_sentences(toy_model, same):
    n = 900
    everything = replace(toy_model.pruner, threshold=0.0, most=200)
    arcs = everything(long_sentence(n, same))
    sums = np.bincount(np.repeat(np.arange(n), np.diff(arcs.starts)), arcs.probs)
    assert sums == pytest.approx(1, abs=1e-4)
    # of trees, not of single tokens: there is one root
    assert arcs.probs[arcs.heads == 0].sum() == pytest.approx(1, abs=1e-4)
