"""The grand-sibling forest against enumeration of all labelled projective trees, and against elimination."""

from itertools import pairwise, product

import numpy
import pytest

from arc_data import labelled_trees, random_arcs
from arc_forests import from_arcs
from brute_force import modifiers
from spacy_spectral.models.forestrank._chart import forest_of_arcs

ROOT, FIRST, NEXT, STOP, EMPTY = range(5)


def parts_of(tree, heads):
    """What a tree is made of, by definition."""
    tokens = [int(heads[a]) for a in tree]
    parts = []
    for h in range(1, len(tree) + 1):
        a = tree[h - 1]
        if tokens[h - 1] == 0:
            parts.append((ROOT, -1, -1, a))
        for side, outward in enumerate(modifiers(tokens, h)):
            if not outward:
                parts.append((EMPTY, a, side, -1))
                continue
            arcs = [tree[m - 1] for m in outward]
            parts.append((FIRST, a, -1, arcs[0]))
            parts += [(NEXT, a, s, c) for s, c in pairwise(arcs)]
            parts.append((STOP, a, -1, arcs[-1]))
    return parts


CASES = [(seed, n) for n in range(1, 7) for seed in range(10)]


@pytest.mark.parametrize(("seed", "n"), CASES)
def test_parts_of_all_trees(seed, n):
    heads, mods = random_arcs(seed, n, density=0.7 if n < 4 else 0.35)
    trees = labelled_trees(n, heads, mods)
    found = forest_of_arcs(n, heads, mods)
    if not trees:
        assert found is None
        return
    graph, rows = found
    slots = {tuple(row): i for i, row in enumerate(rows.tolist())}
    assert len(slots) == len(rows)
    # every part is in some tree, and every tree is made of parts
    needed = {part for tree in trees for part in parts_of(tree, heads)}
    assert needed == slots.keys()
    scores = numpy.random.default_rng(seed).normal(scale=2, size=len(rows))
    totals = numpy.array([sum(scores[slots[p]] for p in parts_of(t, heads)) for t in trees])
    weights = numpy.exp(totals)
    log_z, mu = graph.expectations(scores)
    assert log_z == pytest.approx(numpy.log(weights.sum()), abs=1e-12)
    expected = numpy.zeros(len(rows))
    for tree, weight in zip(trees, weights / weights.sum(), strict=True):
        for part in parts_of(tree, heads):
            expected[slots[part]] += weight
    numpy.testing.assert_allclose(mu, expected, atol=1e-12)
    # the k best are all trees, each once
    best = graph.k_best(scores, len(trees) + 1)
    numpy.testing.assert_allclose([s for _, s in best], numpy.sort(totals)[::-1], atol=1e-11)
    for edges, _ in best:
        chosen = [int(rows[graph.slots[e]][3]) for e in edges.tolist() if graph.slots[e] >= 0]
        assert sorted({c for c in chosen if c >= 0}) in [sorted(tree) for tree in trees]


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_elimination(seed):
    """With scores of arcs alone the forest is that of `from_arcs`, whose variables are heads."""
    n = 6
    heads, mods = random_arcs(seed, n, density=0.3)
    scores = numpy.random.default_rng(seed).normal(size=len(heads))
    eliminated = from_arcs(n, heads, mods, scores)
    found = forest_of_arcs(n, heads, mods)
    if found is None:
        assert eliminated.forest.count() == 0
        return
    graph, rows = found
    linking = rows[:, 0] < STOP
    log_z, mu = graph.expectations(numpy.where(linking, scores[rows[:, 3]], 0.0))
    assert log_z == pytest.approx(eliminated.forest.log_z(), abs=1e-12)
    marginals = numpy.bincount(rows[linking, 3], weights=mu[linking], minlength=len(heads))
    for numbers, own in zip(eliminated.arcs, eliminated.forest.marginals(), strict=True):
        numpy.testing.assert_allclose(marginals[numbers], own, atol=1e-12)


def test_scores_of_siblings_and_grandparents_by_elimination():
    """Two head variables and a feature of both: NEXT and FIRST of one grandparent, as factors."""
    n, pairs = 3, [(0, 1), (3, 1), (1, 2), (3, 2), (0, 3), (1, 3)]
    heads, mods = numpy.array(pairs, dtype="int32").T.copy()
    graph, rows = forest_of_arcs(n, heads, mods)
    rng = numpy.random.default_rng(0)
    pair = rng.normal(size=(len(pairs), len(pairs)))  # of the arc to the head and the arc
    scores = numpy.where(numpy.isin(rows[:, 0], (FIRST, NEXT)), pair[rows[:, 1], rows[:, 3]], 0.0)
    forest, arcs = from_arcs(n, heads, mods, numpy.zeros(len(pairs)))
    factors = []
    for h, m in product(range(1, n + 1), repeat=2):
        if h != m:
            table = [[pair[a, c] * (heads[c] == h) for c in arcs[m - 1]] for a in arcs[h - 1]]
            factors.append(((h - 1, m - 1), numpy.array(table)))
    expected = forest.with_factors(factors).log_z()
    assert graph.expectations(scores)[0] == pytest.approx(expected, abs=1e-12)


def test_large_scores_do_not_overflow():
    heads, mods = random_arcs(3, 6, density=0.5)
    graph, rows = forest_of_arcs(6, heads, mods)
    scores = numpy.random.default_rng(0).normal(scale=2000, size=len(rows))
    log_z, mu = graph.expectations(scores)
    assert numpy.isfinite(log_z) and numpy.isfinite(mu).all()
    assert log_z == pytest.approx(graph.k_best(scores, 1)[0][1], rel=1e-9)


def test_bad_arcs():
    def arcs(*pairs):
        return [numpy.array(column, dtype="int32") for column in zip(*pairs, strict=True)]

    good = [(0, 1), (1, 2)]
    assert forest_of_arcs(2, *arcs(*good)) is not None
    for pairs in (
        [(0, 1)],
        [(1, 2), (0, 1)],
        [(0, 1), (2, 2)],
        [(0, 1), (3, 2)],
        [(0, 1), (-1, 2)],
    ):
        with pytest.raises(ValueError, match="S910"):
            forest_of_arcs(2, *arcs(*pairs))
    with pytest.raises(ValueError, match="S910"):
        forest_of_arcs(1, *arcs(*good))
    with pytest.raises(ValueError, match="S910"):
        forest_of_arcs(2, arcs(*good)[0], arcs((0, 1))[1])
    with pytest.raises(TypeError):
        forest_of_arcs(2, None, arcs(*good)[1])


def test_forests_that_are_too_large_are_an_error():
    n = 30
    pairs = [(h, m) for m in range(1, n + 1) for h in range(n + 1) if h != m]
    heads, mods = numpy.array(pairs, dtype="int32").T.copy()
    with pytest.raises(ValueError, match="S901"):
        forest_of_arcs(n, heads, mods, max_edges=10_000)
