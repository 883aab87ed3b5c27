"""Elimination against enumeration of all assignments, and against another library's contractions."""

from itertools import product

import numpy
import opt_einsum
import pytest

from spacy_spectral.forest.packed import Feature, PackedForest, from_list, plan

SEEDS = range(300)


def random_graph(seed, n_factors=None):
    """Variables of 1-4 values and factors of up to 3 of them, a third of all cells forbidden."""
    rng = numpy.random.default_rng(seed)
    domains = rng.integers(1, 5, size=rng.integers(1, 8)).tolist()
    factors = []
    for _ in range(rng.integers(0, 9) if n_factors is None else n_factors):
        size = int(rng.integers(0, min(3, len(domains)) + 1))
        scope = tuple(rng.permutation(len(domains))[:size].tolist())
        table = rng.normal(scale=3, size=[domains[i] for i in scope])
        table = numpy.where(rng.random(table.shape) < 0.3, -numpy.inf, table)
        factors.append((scope, table))
    return domains, factors


def enumerated(domains, factors):
    """All assignments and the logarithms of their weights."""
    values = numpy.array(list(product(*map(range, domains))))
    scores = numpy.zeros(len(values))
    for scope, table in factors:
        scores += table[tuple(values[:, list(scope)].T)]
    return values, scores


def log_sum(scores):
    top = scores.max()
    return top + numpy.log(numpy.exp(scores - top).sum()) if top > -numpy.inf else -numpy.inf


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_and_marginals(seed):
    domains, factors = random_graph(seed)
    values, scores = enumerated(domains, factors)
    forest = PackedForest(domains, factors)
    numpy.testing.assert_allclose(forest.log_z(), log_sum(scores), rtol=1e-12, atol=1e-12)
    if scores.max() == -numpy.inf:
        for ask in (forest.marginals, forest.factor_marginals, forest.expectations):
            with pytest.raises(ValueError, match="S905"):
                ask()
        return
    probs = numpy.exp(scores - log_sum(scores))
    for i, own in enumerate(forest.marginals()):
        expected = [probs[values[:, i] == value].sum() for value in range(domains[i])]
        numpy.testing.assert_allclose(own, expected, atol=1e-12)
    for (scope, table), own in zip(factors, forest.factor_marginals(), strict=True):
        expected = numpy.zeros(table.shape)
        for cell, prob in zip(values[:, list(scope)].tolist(), probs, strict=True):
            expected[tuple(cell)] += prob
        numpy.testing.assert_allclose(own, expected, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_against_opt_einsum(seed):
    domains, factors = random_graph(seed)
    whole = [*factors, *(((i,), numpy.zeros(size)) for i, size in enumerate(domains))]
    operands = [part for scope, table in whole for part in (numpy.exp(table), scope)]
    z = float(opt_einsum.contract(*operands, ()))
    found = PackedForest(domains, factors).log_z()
    numpy.testing.assert_allclose(numpy.exp(found), z, rtol=1e-12)
    if z > 0:
        # a marginal is a contraction that keeps one variable
        for i, own in enumerate(PackedForest(domains, factors).marginals()):
            numpy.testing.assert_allclose(
                own, opt_einsum.contract(*operands, (i,)) / z, rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_best(seed):
    domains, factors = random_graph(seed)
    scores = enumerated(domains, factors)[1]
    forest = PackedForest(domains, factors)
    for k in (1, 3, 1000):
        found = forest.best(k=k)
        expected = numpy.sort(scores[scores > -numpy.inf])[::-1][:k]
        numpy.testing.assert_allclose([tree.score for tree in found], expected, atol=1e-12)
        assert len({tuple(tree.values.tolist()) for tree in found}) == len(found)
        for tree in found:
            assert tree.score == pytest.approx(forest.score(tree.values), abs=1e-12)


def test_samples_have_their_probabilities():
    domains, factors = random_graph(5, n_factors=4)
    values, scores = enumerated(domains, factors)
    probs = numpy.exp(scores - log_sum(scores))
    drawn = PackedForest(domains, factors).sample(numpy.random.default_rng(0), 20_000)
    numbers = numpy.ravel_multi_index(numpy.array(drawn).T, domains)
    shares = numpy.bincount(numbers, minlength=len(values)) / len(drawn)
    assert (shares[probs == 0] == 0).all()
    # five standard deviations
    assert (abs(shares - probs) <= 5 * numpy.sqrt(probs * (1 - probs) / len(drawn)) + 1e-12).all()


def test_sums_written_out():
    """max and sum of a(X1,X3) b(X2,X4) c(X3,X4,X5) d(X4,X5) e(X6,X7), message by message, in the manner of
    Geman & Johnson 2002."""
    rng = numpy.random.default_rng(0)
    a, b, d, e = (rng.random((2, 3)), rng.random((3, 2)), rng.random((2, 4)), rng.random((3, 3)))
    c = rng.random((3, 2, 4))
    domains = [2, 3, 3, 2, 4, 3, 3]
    scopes = [(0, 2), (1, 3), (2, 3, 4), (3, 4), (5, 6)]
    factors = [(s, numpy.log(t)) for s, t in zip(scopes, (a, b, c, d, e), strict=True)]
    forest = PackedForest(domains, factors)
    for found, plus in ((forest.log_z(), numpy.sum), (forest.best()[0].score, numpy.max)):
        m1 = plus(a, axis=0)
        m2 = plus(b, axis=0)
        m3 = plus(c * m1[:, None, None], axis=0)
        m4 = plus(d * m2[:, None] * m3, axis=0)
        m5 = plus(m4)
        m7 = plus(plus(e, axis=0))
        assert numpy.exp(found) == pytest.approx(m5 * m7, rel=1e-12)
    # no message is about more than two variables
    assert plan(domains, scopes).width == 2


def test_orders_are_cheap_and_fixed():
    chain = [(i, i + 1) for i in range(400)]
    found = plan([3] * 401, chain)
    assert found.width == 1 and found.largest == 9
    assert plan([2, 2, 2], [(0, 1), (1, 2), (0, 2)]).order == (0, 1, 2)
    # a variable with few values first, though it is the last
    assert plan([4, 4, 2], [(0, 1), (1, 2), (0, 2)]).order[0] == 0
    assert plan([4, 4, 2], [(0, 1), (1, 2)]).order[0] == 2
    assert PackedForest([3] * 401, [(s, numpy.zeros((3, 3))) for s in chain]).log_z() == (
        pytest.approx(401 * numpy.log(3))
    )


def test_tables_that_are_too_large_are_refused_before_they_are_made():
    everything = [((i, j), numpy.zeros((9, 9))) for i in range(30) for j in range(i)]
    with pytest.raises(ValueError, match=r"S901.*e\+28"):
        PackedForest([9] * 30, everything).log_z()
    assert PackedForest([9] * 30, everything).plan().largest == 9**30
    small = PackedForest([9, 9], [((0, 1), numpy.zeros((9, 9)))], max_cells=100)
    assert small.count() == 81
    with pytest.raises(ValueError, match="S901"):
        small.best(k=2)


def test_large_and_small_weights_stay_finite():
    rng = numpy.random.default_rng(3)
    tables = rng.normal(scale=1, size=(50, 3, 3)) + rng.choice([-800.0, 900.0], size=(50, 1, 1))
    factors = [((i, i + 1), table) for i, table in enumerate(tables)]
    forest = PackedForest([3] * 51, factors)
    vector = numpy.zeros(3)  # by the forward recursion
    for table in tables:
        vector = numpy.logaddexp.reduce(vector[:, None] + table, axis=0)
    assert forest.log_z() == pytest.approx(numpy.logaddexp.reduce(vector), rel=1e-12)
    for own in forest.marginals():
        assert own.sum() == pytest.approx(1, abs=1e-12)


def test_the_same_bits_every_time():
    domains, factors = random_graph(5, n_factors=6)
    first, second = PackedForest(domains, factors), PackedForest(domains, factors)
    assert first.log_z() == second.log_z()
    for one, other in zip(first.marginals(), second.marginals(), strict=True):
        assert one.tobytes() == other.tobytes()


def test_bad_forests():
    with pytest.raises(ValueError, match=r"S902.*1"):
        PackedForest([2, 0])
    for scope, table in (
        ((0, 0), numpy.zeros((2, 2))),
        ((2,), numpy.zeros(2)),
        ((-1,), numpy.zeros(2)),
        ((0,), numpy.zeros(3)),
        ((0, 1), numpy.zeros((3, 2))),
        ((0,), [numpy.nan, 0.0]),
        ((0,), [numpy.inf, 0.0]),
    ):
        with pytest.raises(ValueError, match="S903"):
            PackedForest([2, 3], [(scope, table)])
    with pytest.raises(ValueError, match="S903"):
        PackedForest([2], features=[Feature((0,), [True, False], {-1: 1.0})])
    with pytest.raises(ValueError, match="S903"):
        PackedForest([2], features=[Feature((0,), [True, False], {0: numpy.nan})])
    forest = PackedForest([2], features=[Feature((0,), [True, False], {1: 1.0})])
    with pytest.raises(ValueError, match=r"S904.*2 properties.*1 weights"):
        forest.log_z([1.0])
    for values in ({1: 0}, {0: 2}, {0: []}, {0: [0, 5]}):
        with pytest.raises(ValueError, match="S903"):
            forest.given(values)


def test_no_goods_that_go_round_in_a_circle_are_named():
    """Three variables of two values, all different: impossible, and all three conditions are why."""
    other = ~numpy.eye(2, dtype=bool)
    free = ((3,), numpy.array([True, True]))
    forest = PackedForest([2] * 4, [((0, 1), other), free, ((1, 2), other), ((2, 0), other)])
    assert forest.log_z() == -numpy.inf and forest.count() == 0
    assert forest.best() == []
    assert forest.contradiction() == [0, 2, 3]
    assert PackedForest([2] * 4, [((0, 1), other), free]).contradiction() is None
    with pytest.raises(ValueError, match="S905"):
        forest.sample(numpy.random.default_rng(0))


def test_a_forest_without_variables():
    forest = PackedForest([], [((), 2.0)])
    assert forest.log_z() == 2.0 and forest.marginals() == []
    assert [tree.values.tolist() for tree in forest.best(k=3)] == [[]]


def test_lists_are_forests_of_one_variable():
    logs = [0.5, -1.0, 2.0]
    forest = from_list(logs, [{0: 1.0}, {1: 2.0}, {0: 0.5, 1: 1.0}])
    theta = numpy.array([0.3, -0.7])
    scores = numpy.array([0.5 + 0.3, -1.0 - 1.4, 2.0 + 0.15 - 0.7])
    assert forest.log_z(theta) == pytest.approx(log_sum(scores), abs=1e-12)
    assert [int(tree.values[0]) for tree in forest.best(theta, k=2)] == [2, 0]
