"""Forests of arcs against enumeration of all trees."""

from itertools import product

import numpy
import pytest

from arc_forests import from_arcs
from brute_force import is_single_root_projective, projective_trees


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
