"""Labellings: sub-tags found by spectral clusters and by split-merge EM."""

import numpy
import pytest

from refine_data import make_tokens, treebank
from spacy_spectral.models.refine.spectral import spectral_labelling, states_by_tag
from spacy_spectral.models.refine.split_merge import SplitMerge
from spacy_spectral.models.refine.statistics import Labelling, Trees
from spacy_spectral.trees.sentences import Treebank


def test_labellings_are_numbered_by_tag_and_size():
    tags = numpy.array([1, 1, 1, 0, 1, 3], dtype="int32")
    labelling = Labelling.from_parts(tags, numpy.array([7, 2, 2, 5, 2, 0]), 5)
    assert labelling.tag_of.tolist() == [0, 1, 1, 2, 3, 4]
    assert labelling.states.tolist() == [2, 1, 1, 0, 1, 4]


def test_states_are_shared_out():
    sizes = states_by_tag(numpy.array([0, 1, 90, 10000, 40000]), 20, most=16)
    assert sizes[:2].tolist() == [1, 1] and sizes[2] <= 2
    assert sizes.sum() <= 20 and sizes[4] > sizes[3]
    many = states_by_tag(numpy.array([10**6] * 3), 300, most=16)
    assert many.tolist() == [16, 16, 16]


def as_trees(bank):
    names = sorted(set(bank.tokens.symbols))
    tags = numpy.array([names.index(tag) for tag in bank.tokens.symbols], dtype="int32")
    return Trees(bank.tokens.starts, bank.tokens.words, tags, bank.heads), len(names)


def hidden_treebank(size=400, seed=0):
    """One tag N in three hidden kinds: roots, left modifiers that are leaves, right ones with a leaf."""
    random = numpy.random.default_rng(seed)
    sentences, heads, kinds = [], [], []
    for _ in range(size):
        left = int(random.integers(1, 4))
        own = [left + 1] * left + [0]
        kind = [1] * left + [0]
        for _ in range(int(random.integers(1, 3))):
            own += [left + 1, len(own) + 1]
            kind += [2, 1]
        heads += own
        kinds += kind
        sentences.append([(f"w{k}{random.integers(4)}", "N") for k in kind])
    bank = Treebank(make_tokens(sentences), numpy.array(heads, dtype="int32"), ["x"] * len(heads))
    return bank, numpy.array(kinds)


def purity(labels, kinds):
    pairs, counts = numpy.unique(numpy.stack([labels, kinds]), axis=1, return_counts=True)
    return sum(counts[pairs[0] == own].max() for own in numpy.unique(pairs[0])) / len(labels)


def test_spectral_labelling_finds_hidden_kinds():
    bank, kinds = hidden_treebank()
    trees, n_tags = as_trees(bank)
    labelling = spectral_labelling(trees, n_tags, states=3, dimensions=2)
    assert labelling.n_states == 3
    assert purity(labelling.states, kinds) > 0.95


def test_em_raises_the_likelihood_and_finds_hidden_kinds():
    bank, kinds = hidden_treebank()
    trees, n_tags = as_trees(bank)
    model = SplitMerge(trees, n_tags, most_states=4, seed=0)
    values = []
    for _ in range(2):
        pairs = model.split()
        for _ in range(15):
            model.iterate()
            values.append(model.log_likelihood)
        model.merge(pairs, share=0.0)
    assert values[14] > values[0] and values[29] > values[14]
    labelling = model.labelling()
    assert purity(labelling.states, kinds) > 0.95
    totals = model.expected.weights.sum(axis=1)
    numpy.testing.assert_allclose(totals, 1.0)
    # what was counted is what there is: one event for each child and each STOP
    assert model.expected.counts.sum() == pytest.approx(len(trees.events.child))


def test_merging_everything_undoes_a_split():
    trees, n_tags = as_trees(treebank(size=400))
    model = SplitMerge(trees, n_tags, most_states=30, seed=0)
    before = model.expected.counts
    pairs = model.split()
    assert len(pairs) == n_tags and model.expected.tag_states.n_states == 2 * n_tags
    model.iterate()
    model.merge(pairs, share=1.0)
    assert model.expected.tag_states.tag_of.tolist() == list(range(n_tags))
    numpy.testing.assert_allclose(model.expected.counts, before, atol=1e-6)
