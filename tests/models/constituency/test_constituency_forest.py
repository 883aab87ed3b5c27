"""Sums and best trees over forests agree with writing down all trees."""

import numpy
import pytest

from constituency_toy import full_forest, sentence_trees, toy_symbols
from spacy_spectral.models.constituency._forest import connect
from spacy_spectral.models.constituency._latent import posteriors
from spacy_spectral.models.constituency.forest import Forest, Items, RulePairs
from spacy_spectral.models.constituency.latent import DENSE, MEANS, VECTORS


def tree_scores(forest, trees, items, edges, roots):
    return numpy.array([
        roots[tree[0][0]] + sum(items[x] + (edges[e] if e >= 0 else 0.0) for x, e in tree)
        for tree in trees
    ])  # fmt: skip


@pytest.fixture(params=range(4))
def scored(request):
    random = numpy.random.default_rng(request.param)
    forest = full_forest(toy_symbols(seed=request.param), 4 + request.param % 2)
    scale = 3.0 if request.param else 300.0  # the largest would overflow without logarithms
    n_items, n_edges = len(forest.begin), len(forest.left)
    scores = [random.normal(size=n) * scale for n in (n_items, n_edges, n_items)]
    return forest, sentence_trees(forest), *scores


def test_posteriors(scored):
    forest, trees, items, edges, roots = scored
    scores = tree_scores(forest, trees, items, edges, roots)
    log_z, item_posteriors, edge_posteriors = forest.posteriors(items, edges, roots)
    expected = numpy.logaddexp.reduce(scores)
    assert log_z[0] == pytest.approx(expected, rel=1e-12)
    probs = numpy.exp(scores - expected)
    by_item, by_edge = numpy.zeros(len(items)), numpy.zeros(len(edges))
    for tree, prob in zip(trees, probs, strict=True):
        for item, edge in tree:
            by_item[item] += prob
            if edge >= 0:
                by_edge[edge] += prob
    numpy.testing.assert_allclose(item_posteriors, by_item, rtol=0, atol=1e-10)
    numpy.testing.assert_allclose(edge_posteriors, by_edge, rtol=0, atol=1e-10)


def test_best(scored):
    forest, trees, items, edges, roots = scored
    scores = tree_scores(forest, trees, items, edges, roots)
    best = trees[int(scores.argmax())]
    assert set(forest.best(items, edges, roots)[0]) == {item for item, _ in best}
    # children before parents, left before right
    found = forest.best(items, edges, roots)[0]
    words = [x for x in found if forest.is_word[x]]
    assert [int(forest.begin[x]) for x in words] == list(range(int(forest.lengths[0])))
    assert forest.is_root[found[-1]]


def test_edges_are_all_there():
    grammar = toy_symbols(seed=3)
    forest = full_forest(grammar, 4)
    rules = {tuple(rule) for rule in grammar.rules.tolist()}
    place = {
        (int(b), int(e), int(s)): x
        for x, (b, e, s) in enumerate(zip(forest.begin, forest.end, forest.symbol, strict=True))
    }
    expected = {
        (place[i, j, a], place[i, k, b], place[k, j, c])
        for i, j, a in place
        for k in range(i + 1, j)
        for b in range(len(grammar))
        for c in range(len(grammar))
        if (a, b, c) in rules and (i, k, b) in place and (k, j, c) in place
    }
    found = set(
        zip(forest.parent.tolist(), forest.left.tolist(), forest.right.tolist(), strict=True)
    )
    assert found == expected
    assert [tuple(grammar.rules[r]) for r in forest.rule] == [
        (forest.symbol[p], forest.symbol[a], forest.symbol[b])
        for p, a, b in zip(forest.parent, forest.left, forest.right, strict=True)
    ]


def test_items_without_trees_are_left_out():
    grammar = toy_symbols(seed=1)
    pairs = RulePairs(grammar)
    # a lonely item in the middle, and a sentence without a root
    begin = numpy.array([0, 1, 2, 0, 0], dtype="int32")
    end = numpy.array([1, 2, 3, 2, 1], dtype="int32")
    symbol = numpy.array([0, 0, 0, 2, 0], dtype="int32")
    lengths, starts = numpy.array([3, 2], dtype="int32"), numpy.array([0, 4, 5])
    forest = Forest.build(pairs, lengths, Items(starts, begin, end, symbol))
    assert len(forest.begin) == 0
    assert forest.starts.tolist() == [0, 0, 0]
    assert forest.best(numpy.zeros(0), numpy.zeros(0), numpy.zeros(0)) == [[], []]
    log_z, *_ = forest.posteriors(numpy.zeros(0), numpy.zeros(0), numpy.zeros(0))
    assert (log_z == -numpy.inf).all()


def test_batches_are_sentences_side_by_side():
    grammar = toy_symbols(seed=2)
    pairs = RulePairs(grammar)
    one, two = full_forest(grammar, 3), full_forest(grammar, 4)
    both = Forest.build(
        pairs,
        numpy.concatenate([one.lengths, two.lengths]),
        Items(
            numpy.array([0, len(one.begin), len(one.begin) + len(two.begin)]),
            *(
                numpy.concatenate([getattr(one, name), getattr(two, name)])
                for name in ("begin", "end", "symbol")
            ),
        ),
    )
    random = numpy.random.default_rng(0)
    items, edges = random.normal(size=len(both.begin)), random.normal(size=len(both.left))
    log_z, item_posteriors, _ = both.posteriors(items, edges, items)
    for forest, start, edge_start, which in (
        (one, 0, 0, 0), (two, len(one.begin), len(one.left), 1),
    ):  # fmt: skip
        own = items[start : start + len(forest.begin)]
        expected = forest.posteriors(own, edges[edge_start : edge_start + len(forest.left)], own)
        assert log_z[which] == pytest.approx(expected[0][0], rel=1e-12)
        numpy.testing.assert_allclose(
            item_posteriors[start : start + len(own)], expected[1], atol=1e-12
        )


def test_connect_needs_arrays():
    with pytest.raises(TypeError):
        connect(*[None] * 10, 3)


def random_tensors(grammar, n_states, z_mean, y_mean, random, low):
    """Rules with tensors, with vectors and with means of symbols, laid out as kernels want them."""
    pieces, kinds, tensors, factors = [], [], [], []
    for a, b, c in grammar.rules.tolist():
        sizes = n_states[a], n_states[b], n_states[c]
        kind = int(random.choice([VECTORS, DENSE, MEANS]))
        factor = random.uniform(0.5, 1.0)
        if kind == DENSE:
            tensor = random.uniform(low, 1.0, size=(sizes[1], sizes[2], sizes[0]))
            pieces.append(tensor.ravel())
        else:
            vectors = [random.uniform(low, 1.0, size=size) for size in sizes]
            if kind == MEANS:
                vectors = [
                    z_mean[a, : sizes[0]] * factor,
                    y_mean[b, : sizes[1]],
                    y_mean[c, : sizes[2]],
                ]
            tensor = vectors[1][:, None, None] * vectors[2][:, None] * vectors[0]
            pieces.append(numpy.concatenate(vectors if kind == VECTORS else [[]]))
        kinds.append(kind)
        tensors.append(tensor)
        factors.append(factor)
    starts = numpy.cumsum([0, *map(len, pieces)])[:-1]
    return (
        numpy.concatenate(pieces),
        starts,
        numpy.array(kinds, dtype="uint8"),
        numpy.array(factors),
        tensors,
    )


@pytest.mark.parametrize("seed", range(20))
def test_states_against_enumeration(seed):
    random = numpy.random.default_rng(seed)
    grammar = toy_symbols(seed=seed, keep=0.6)
    length = 4 if seed % 3 else 5
    forest = full_forest(grammar, length)
    n_states = random.integers(1, 4, size=len(grammar)).astype("int32")
    low = -1.0 if seed % 2 else 0.0
    z_mean, y_mean = random.uniform(low, 1.0, size=(2, len(grammar), 3))
    flat, starts, kinds, factors, tensors = random_tensors(
        grammar, n_states, z_mean, y_mean, random, low
    )
    root = random.uniform(low, 1.0, size=(len(grammar), 3))
    offset = numpy.concatenate([[0], numpy.cumsum(n_states[forest.symbol])])
    words = random.uniform(low, 1.0, size=int(offset[-1]))
    scale = random.normal(size=len(forest.begin)) * (200.0 if seed == 4 else 1.0)

    def inside(tree):
        """The vector at the root of a tree, and what is left of the tree."""
        (item, edge), rest = tree[0], tree[1:]
        if edge < 0:
            factor = numpy.exp(scale[item] - shift[forest.begin[item]])
            return words[offset[item] : offset[item + 1]] * factor, rest
        left, rest = inside(rest)
        right, rest = inside(rest)
        return numpy.einsum("jki,j,k->i", tensors[forest.rule[edge]], left, right), rest

    # what every tree shares, so that enumeration does not overflow
    is_word = forest.is_word.astype(bool)
    shift = numpy.array([scale[is_word & (forest.begin == i)].max() for i in range(length)])
    trees = sentence_trees(forest)
    values = []
    for tree in trees:
        vector, _ = inside(tree)
        symbol = forest.symbol[tree[0][0]]
        values.append(vector @ root[symbol, : n_states[symbol]])
    z = sum(values)
    by_item, by_edge = numpy.zeros(len(forest.begin)), numpy.zeros(len(forest.left))
    for tree, value in zip(trees, values, strict=True):
        for item, edge in tree:
            by_item[item] += value / z
            if edge >= 0:
                by_edge[edge] += value / z
    log_z, items, edges, *_ = posteriors(
        forest.starts, forest.edge_starts, forest.left, forest.right, forest.rule, forest.symbol,
        forest.is_word, forest.is_root, offset, words, scale, n_states, root, flat, starts, kinds,
        factors, z_mean, y_mean,
    )  # fmt: skip
    assert log_z[0] == pytest.approx(numpy.log(abs(z)) + shift.sum(), rel=1e-10)
    size = max(1.0, numpy.abs(by_item).max())
    numpy.testing.assert_allclose(items / size, by_item / size, rtol=0, atol=1e-10)
    numpy.testing.assert_allclose(edges / size, by_edge / size, rtol=0, atol=1e-10)
