"""Features of candidate trees against a slow description of the same thing."""

from collections import Counter
from itertools import pairwise
from zlib import crc32

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_spectral.models.rerank._features import extract, times
from spacy_spectral.models.rerank.features import BITS, DENSE, GROUPS, SPARSE, Candidates, Features
from spacy_spectral.models.rerank.learn import Weights
from spacy_spectral.models.rerank.model import Reranker
from spacy_spectral.trees.sentences import Tokens

ALL = sum(SPARSE.values())


def mix(h, value):
    x = ((h ^ value) * 0x9E3779B97F4A7C15) % 2**64
    x ^= x >> 29
    return (x * 0xBF58476D1CE4E5B9) % 2**64 >> 32


def size_class(n):
    bounds = [(4, n), (6, 5), (10, 6), (20, 7)]
    return next((value for most, value in bounds if n <= most), 8)


def naive_features(heads, labels, columns, mask):
    """The features of one tree, token by token, as the paper would write them."""
    n = len(heads)
    head = dict(enumerate(heads, start=1))
    label = {0: 0, **dict(enumerate(labels, start=1))}
    children = {h: [m for m in head if head[m] == h] for h in range(n + 1)}

    def span(m):
        inside, todo = set(), [m]
        while todo:
            inside.add(todo[-1])
            todo += children[todo.pop()]
        return min(inside), max(inside)

    def frame(modifiers):
        value = 0
        for m in modifiers:
            value = mix(value, label[m])
        return value

    found = Counter()
    for m, h in head.items():
        left = [c for c in reversed(children[m]) if c < m]
        right = [c for c in children[m] if c > m]
        between = [s for s in children[h] if h and min(h, m) < s < max(h, m)]
        s = (between[-1] if h < m else between[0]) if between else 0
        g = head[h] if h else 0
        side = (m < h) | (h < g) << 1 | (h == 0) << 2
        first, last = span(m)
        tag, pos, word = columns[m]
        t, p, w = (lambda i, c=c: columns[i][c] for c in range(3))
        before, after = t(first - 1), t(last + 1)
        frames = frame(left), frame(right)
        inner = t(left[0] if left else 0), t(right[0] if right else 0)
        size = size_class(last - first + 1)
        groups = {
            "pos": [
                (1, inner[0], tag, inner[1], 0),
                (2, tag, t(h), t(g), 0),
                (3, tag, t(h), t(g), side),
                (4, pos, p(h), p(g), side),
                (5, tag, t(s), t(h), side),
            ],
            "labels": [
                (20, label[m], label[h], t(h), side),
                (21, label[m], label[h], tag, t(h)),
                (22, label[m], label[s], t(h), side),
                (23, label[m], label[s], label[h], side),
                (24, tag, *frames, 0),
                (25, pos, label[m], *frames),
                (26, label[m], tag, t(g), side),
            ],
            "words": [
                (40, word, t(h), t(g), side),
                (41, tag, w(h), t(g), side),
                (42, tag, t(h), w(g), side),
                (43, word, w(g), label[m], side),
                (44, word, *frames, 0),
                (45, word, label[m], label[h], side),
                (46, w(h), label[m], label[s], side),
            ],
            "spans": [
                (60, label[m], tag, size, side),
                (61, label[m], before, after, side),
                (62, tag, t(h), size, side),
                (63, label[m], t(first), t(last), 0),
                (64, tag, before, after, t(h)),
                (65, label[m], t(h), size_class(abs(m - h)), after),
            ],
        }
        for group, features in groups.items():
            if mask & SPARSE[group]:
                for feature in features:
                    value = 1
                    for part in feature:
                        value = mix(value, part)
                    found[value % 2**BITS] += 1
    return found


@st.composite
def sentences(draw):
    """Some random trees, crossing arcs and all, and columns."""
    n = draw(st.integers(1, 7))
    trees = []
    for _ in range(draw(st.integers(1, 4))):
        order = draw(st.permutations(range(1, n + 1)))
        heads = [0] * n
        for i, m in enumerate(order[1:], start=1):
            heads[m - 1] = order[draw(st.integers(0, i - 1))]
        trees.append(heads)
    numbers = st.integers(0, 2**32 - 1)
    labels = draw(
        st.lists(
            st.lists(st.integers(0, 2), min_size=n, max_size=n),
            min_size=len(trees),
            max_size=len(trees),
        )
    )
    names = draw(st.lists(numbers, min_size=3, max_size=3))
    tags = draw(st.lists(st.integers(0, 3), min_size=3 * (n + 2), max_size=3 * (n + 2)))
    return (
        numpy.array(trees, dtype="int32"),
        numpy.array(labels, dtype="int32"),
        numpy.array(names, dtype="uint32"),
        numpy.array(tags, dtype="uint32").reshape(n + 2, 3),
    )


@given(sentences(), st.integers(1, ALL))
def test_features_are_those_of_a_naive_description(sentence, mask):
    heads, labels, names, columns = sentence
    lengths, indices, values = extract(heads, labels, names, columns, mask, BITS)
    starts = numpy.cumsum([0, *lengths])
    all_found = [
        naive_features(h, names[own].tolist(), columns.tolist(), mask)
        for h, own in zip(heads.tolist(), labels, strict=True)
    ]
    first = Counter(all_found[0])
    for t, expected in enumerate(all_found):
        found = Counter()
        for i in range(starts[t], starts[t + 1]):
            found[int(indices[i])] += int(values[i])
        expected.subtract(first)
        assert {k: v for k, v in found.items() if v} == {k: v for k, v in expected.items() if v}


@given(sentences())
def test_scores_are_features_times_weights(sentence):
    weights = numpy.random.default_rng(0).normal(size=2**BITS).astype("float32")
    lengths, indices, values = extract(*sentence, ALL, BITS)
    starts = numpy.cumsum([0, *lengths])
    products = values * weights[indices].astype("float64")
    expected = [products[a:b].sum() for a, b in pairwise(starts)]
    found = times(starts, indices, values, weights)
    numpy.testing.assert_allclose(found, expected, atol=1e-12)


class FakeTreeModel:
    """Scores by the number of tokens that hang on the token (or root) before them."""

    def encode(self, symbols):
        return numpy.array([crc32(symbol.encode()) % 100 for symbol in symbols], dtype="int32")

    def log_scores(self, ids, heads):
        near = (heads == numpy.arange(heads.shape[1])).sum(axis=1)
        return -ids.sum() - near.astype(float), numpy.where(near > 1, -1.0, 1.0)


@pytest.fixture
def two():
    """Two sentences with their candidates."""
    words = ["a", "b", "c", "d"]
    tokens = Tokens(
        numpy.array([0, 3, 4], dtype="int32"), words, ["X", "Y", "X", "Z"], [""] * 4, [""] * 4,
        [""] * 4,
    )  # fmt: skip
    names = ["root", "dep"]
    first = Candidates(
        numpy.array([[0, 1, 1], [2, 0, 2], [0, 1, 2]], dtype="int32"),
        numpy.array([[0, 1, 1], [1, 0, 1], [0, 1, 1]], dtype="int32"),
        names,
        numpy.log([0.5, 0.3, 0.2]),
        numpy.array([[0.7, 0.7, 0.5], [0.3, 0.3, 0.3], [0.7, 0.7, 0.0]]),
    )
    zeros = numpy.zeros((1, 1), dtype="int32")
    return tokens, [first, Candidates(zeros, zeros, names, numpy.zeros(1), numpy.ones((1, 1)))]


def test_numbers_about_trees(two):
    tokens, candidates = two
    model = FakeTreeModel()
    features = Features(["base", "logp"], dict.fromkeys(("words", "tags", "labels"), model))
    assert features.n_dense == len(DENSE["base"]) + len(DENSE["logp"])
    described = features.describe(tokens, candidates)
    assert described.sizes.tolist() == [3, 1]
    first, second = described.dense[:3], described.dense[3:]
    assert first.shape == (3, features.n_dense)
    log = numpy.log(0.3) - numpy.log(0.5)
    logs = numpy.log([0.3, 0.3, 0.3]).sum() - numpy.log([0.7, 0.7, 0.5]).sum()
    tree = [1.0, 1 / 3, 2.0]  # one near head against two
    numpy.testing.assert_allclose(first[1], [log, log / 3, logs, 0.9 - 1.9, *tree, *tree, *tree])
    numpy.testing.assert_allclose(first[2, [4, 6]], [-1.0, 0.0])
    assert numpy.isfinite(first).all()
    assert not second.any()
    assert len(described.indices) == 0


def test_weights_apply_to_what_is_described(two):
    tokens, candidates = two
    model = FakeTreeModel()
    models = dict.fromkeys(("words", "tags", "labels"), model)
    rng = numpy.random.default_rng(1)
    features = Features(GROUPS, models)
    weights = Weights(rng.normal(size=features.n_dense), rng.normal(size=2**BITS).astype("float32"))
    described = features.describe(tokens, candidates)
    rows = numpy.repeat(numpy.arange(4), described.lengths)
    expected = described.dense @ weights.dense + numpy.bincount(
        rows, described.values * weights.sparse[described.indices], minlength=4
    )
    several, single = Reranker(GROUPS, models, weights).rank(tokens, candidates)
    numpy.testing.assert_allclose(several.scores, expected[:3], atol=1e-4)
    assert single.scores == expected[3] == 0 and single.probs == 1
    odds = numpy.exp(several.scores)
    numpy.testing.assert_allclose(several.probs, odds / odds.sum(), atol=1e-12)


@pytest.mark.parametrize("groups", [["base", "colour"], []])
def test_unknown_groups_are_refused(groups):
    with pytest.raises(ValueError, match="S536"):
        Features(groups, {})


def test_right_arcs_are_counted(two):
    _, (candidates, _) = two
    heads, arcs = candidates.correct(numpy.array([0, 1, 1]), ["ROOT", "dep", "other"])
    assert heads.tolist() == [3, 0, 2]
    assert arcs.tolist() == [2, 0, 2]
    heads, arcs = candidates.correct(numpy.array([0, -1, 1]), ["root", "", "dep"])
    assert heads.tolist() == [2, 0, 1]
    assert arcs.tolist() == [2, 0, 1]


def test_unlikely_candidates_can_be_left_out(two):
    _, (candidates, single) = two
    assert len(candidates.within(0.6)) == 2  # log 0.5 - log 0.3 = 0.51, - log 0.2 = 0.92
    assert candidates.within(0.6).heads.tolist() == candidates.heads[:2].tolist()
    assert len(candidates.within(1.0)) == 3
    assert len(single.within(0.1)) == 1
