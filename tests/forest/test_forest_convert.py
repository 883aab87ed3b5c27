"""Forests of arcs and of charts against enumeration of all trees."""

from itertools import product

import numpy
import pytest

from brute_force import is_single_root_projective, projective_trees
from spacy_spectral.forest.convert import Edge, from_arcs, from_chart


def random_arcs(seed, n, density):
    """Labelled arcs: some (head, modifier) pairs have two."""
    rng = numpy.random.default_rng(seed)
    arcs = [
        (h, m)
        for m in range(1, n + 1)
        for h in range(n + 1)
        if h != m and rng.random() < density
        for _ in range(rng.integers(1, 3))
    ]
    for m in range(1, n + 1):  # everyone has one at least
        if not any(modifier == m for _, modifier in arcs):
            arcs.append((m - 1, m))
    rng.shuffle(arcs)
    heads, modifiers = numpy.array(arcs, dtype="int32").T
    return heads, modifiers, rng.normal(size=len(arcs))


def trees_of(n, heads, modifiers, logs):
    """All projective trees as sets of arcs, with their scores."""
    by_modifier = [numpy.flatnonzero(modifiers == m).tolist() for m in range(1, n + 1)]
    return {
        chosen: sum(logs[a] for a in chosen)
        for chosen in product(*by_modifier)
        if is_single_root_projective([int(heads[a]) for a in chosen])
    }


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("seed", range(6))
def test_forests_of_arcs(seed, n):
    arcs = random_arcs(seed, n, density=0.35 if n > 4 else 0.6)
    trees = trees_of(n, *arcs)
    forest, by_token = from_arcs(n, *arcs)
    assert forest.count() == pytest.approx(len(trees), abs=1e-9)
    if not trees:
        assert forest.log_z() == -numpy.inf
        return
    scores = numpy.array(list(trees.values()))
    z = numpy.exp(scores).sum()
    assert forest.log_z() == pytest.approx(numpy.log(z), abs=1e-12)
    expected = numpy.zeros(len(arcs[0]))
    for chosen, score in trees.items():
        expected[list(chosen)] += numpy.exp(score) / z
    for numbers, own in zip(by_token, forest.marginals(), strict=True):
        numpy.testing.assert_allclose(own, expected[numbers], atol=1e-12)
    found = from_arcs(n, *arcs)
    best = found.tree(found.forest.best()[0].values)
    assert trees[tuple(best.tolist())] == pytest.approx(scores.max(), abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_arcs_make_all_projective_trees(n):
    pairs = [(h, m) for m in range(1, n + 1) for h in range(n + 1) if h != m]
    heads, modifiers = numpy.array(pairs, dtype="int32").T
    forest = from_arcs(n, heads, modifiers, numpy.zeros(len(pairs))).forest
    assert forest.count() == pytest.approx(len(projective_trees(n)))


def test_too_many_circles_are_an_error():
    n = 40
    pairs = [(h, m) for m in range(1, n + 1) for h in range(n + 1) if h != m]
    heads, modifiers = numpy.array(pairs, dtype="int32").T
    with pytest.raises(ValueError, match="S901"):
        from_arcs(n, heads, modifiers, numpy.zeros(len(pairs)))


def test_a_token_without_arcs():
    with pytest.raises(ValueError, match="S902"):
        from_arcs(2, numpy.array([0]), numpy.array([1]), numpy.zeros(1))


def chart_edges(n, rng):
    """A CKY chart of X -> X Y | w, Y -> Y X | w: every bracketing, two labels."""
    edges = []
    for i in range(n):
        for label in "XY":
            edges.append(Edge((label, i, i + 1), (), float(rng.normal()), {0: 1.0}))
    for size in range(2, n + 1):
        for i in range(n - size + 1):
            for split in range(i + 1, i + size):
                for a, b, c in ("XXY", "YYX", "XYY"):
                    parts = ((b, i, split), (c, split, i + size))
                    edges.append(Edge((a, i, i + size), parts, float(rng.normal()), {1: 1.0}))
    return edges


def derivations(edges, item):
    """All derivations of an item, as lists of edges."""
    for number, edge in enumerate(edges):
        if edge.item == item:
            below = [list(derivations(edges, part)) for part in edge.parts]
            for parts in product(*below):
                yield [number, *(e for part in parts for e in part)]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_forests_of_charts(n):
    edges = chart_edges(n, numpy.random.default_rng(n))
    goal = ("X", 0, n)
    trees = {
        frozenset(tree): sum(edges[e].log_weight for e in tree) for tree in derivations(edges, goal)
    }
    chart = from_chart(edges, goal, max_cells=1 << 25)
    forest = chart.forest
    theta = numpy.zeros(2)
    assert forest.count() == pytest.approx(len(trees))
    z = sum(map(numpy.exp, trees.values()))
    assert forest.log_z(theta) == pytest.approx(numpy.log(z), abs=1e-12)
    found = {frozenset(chart.tree(tree.values)): tree.score for tree in forest.best(theta, k=500)}
    assert found.keys() == trees.keys()
    for tree, score in trees.items():
        assert found[tree] == pytest.approx(score, abs=1e-12)
    # every derivation has n leaves
    assert forest.expectations(theta)[1] == pytest.approx([n, max(n - 1, 0)], abs=1e-9)


def test_features_of_items_far_apart():
    """What no chart of small items can: the first and the last word have the same label."""
    edges = chart_edges(3, numpy.random.default_rng(0))
    goal = ("X", 0, 3)
    chart = from_chart(edges, goal)
    first, last = (chart.items.index(("X", i, i + 1)) for i in (0, 2))
    present = [numpy.arange(chart.forest.domains[i]) > 0 for i in (first, last)]
    same = present[0][:, None] == present[1]
    kept = chart.forest.with_factors([((first, last), same)])
    expected = 0.0
    for tree in derivations(edges, goal):
        items = {edges[e].item for e in tree}
        if (("X", 0, 1) in items) == (("X", 2, 3) in items):
            expected += numpy.exp(sum(edges[e].log_weight for e in tree))
    assert kept.log_z(numpy.zeros(2)) == pytest.approx(numpy.log(expected), abs=1e-12)


def test_charts_that_go_round_in_a_circle():
    with pytest.raises(ValueError, match=r"S908.*itself"):
        from_chart([Edge("a", ["b"]), Edge("b", ["a"]), Edge("b", [])], "a")
    with pytest.raises(ValueError, match=r"S908.*twice"):
        from_chart([Edge("a", ["b", "b"]), Edge("b", [])], "a")


def test_charts_without_a_derivation():
    assert from_chart([Edge("a", ["b"])], "a").forest.count() == 0
    assert from_chart([Edge("b", [])], "a").forest.count() == 0
    # what is not below the goal does not count
    assert from_chart([Edge("a", []), Edge("b", [])], "a").forest.count() == pytest.approx(1)
