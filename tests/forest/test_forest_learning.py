"""Expected properties and conditional likelihood: definitions, slopes by differences, known optima."""

from itertools import product

import numpy
import pytest

from spacy_spectral.forest.learn import fit, loss
from spacy_spectral.forest.packed import Feature, PackedForest, from_list
from spacy_spectral.models.rerank.features import Described
from spacy_spectral.models.rerank.learn import Objective, fit_loglinear, make_lists


def random_forest(rng, n_properties=5):
    domains = rng.integers(2, 4, size=4).tolist()
    features = []
    for _ in range(8):
        scope = tuple(rng.permutation(4)[: rng.integers(0, 4)].tolist())
        holds = rng.random([domains[i] for i in scope]) < 0.5
        chosen = rng.permutation(n_properties)[:2].tolist()
        features.append(Feature(scope, holds, {j: float(rng.normal()) for j in chosen}))
    forbidden = rng.random((domains[0], domains[2])) < 0.2
    forbidden[0, 0] = False
    return PackedForest(domains, [((0, 2), ~forbidden)], features)


def trees_of(forest):
    return [
        values
        for values in product(*map(range, forest.domains))
        if forest.score(values, numpy.zeros(forest.n_properties)) > -numpy.inf
    ]


@pytest.mark.parametrize("seed", range(30))
def test_expected_properties(seed):
    rng = numpy.random.default_rng(seed)
    forest = random_forest(rng)
    theta = rng.normal(size=forest.n_properties)
    rows = numpy.array([forest.properties(values) for values in trees_of(forest)])
    scores = rows @ theta
    log_z, expected = forest.expectations(theta)
    top = scores.max()
    assert log_z == pytest.approx(top + numpy.log(numpy.exp(scores - top).sum()), abs=1e-12)
    numpy.testing.assert_allclose(expected, numpy.exp(scores - log_z) @ rows, atol=1e-12)


def data_of(rng, forests=6):
    """Half of the observations are whole trees, half only partial."""
    data = []
    for i in range(forests):
        forest = random_forest(rng)
        tree = trees_of(forest)[int(rng.integers(len(trees_of(forest))))]
        known = dict(enumerate(tree)) if i % 2 else {0: tree[0], 2: {tree[2], 0}}
        data.append((forest, forest.given(known)))
    return data


def test_slope_by_differences():
    rng = numpy.random.default_rng(1)
    data, theta = data_of(rng), rng.normal(size=5)
    slope = loss(data, theta, l2=0.3)[1]
    for j in range(5):
        step = numpy.zeros(5)
        step[j] = 1e-5
        difference = loss(data, theta + step, l2=0.3)[0] - loss(data, theta - step, l2=0.3)[0]
        assert slope[j] == pytest.approx(difference / 2e-5, rel=1e-7, abs=1e-9)


def test_fit_ends_where_the_slope_is_zero():
    data = data_of(numpy.random.default_rng(2))
    told = []
    theta = fit(data, l2=0.1, report=told.append)
    assert abs(loss(data, theta, l2=0.1)[1]).max() < 1e-6
    assert loss(data, theta, l2=0.1)[0] < loss(data, numpy.zeros(5), l2=0.1)[0]
    assert len(told) == 1
    with pytest.raises(ValueError, match="S906"):
        fit([])


def test_observations_of_nothing_teach_nothing():
    forest = random_forest(numpy.random.default_rng(3))
    value, slope = loss([(forest, forest.given({}))], numpy.ones(5))
    assert value == pytest.approx(0, abs=1e-12)
    numpy.testing.assert_allclose(slope, 0, atol=1e-12)


def test_lists_give_the_optimum_of_the_reranker():
    """An n-best list is a forest of one variable, and conditional likelihood on it is the log-linear
    reranker's own objective (with an observation in place of its soft target)."""
    rng = numpy.random.default_rng(4)
    described, gains, data = [], [], []
    for _ in range(30):
        k = int(rng.integers(2, 6))
        dense = rng.normal(size=(k, 3))
        dense -= dense[0]
        sparse = numpy.zeros(k, "int64"), numpy.zeros(0, "int32"), numpy.zeros(0, "int8")
        described.append(Described(numpy.array([k]), dense, *sparse))
        best = int(rng.integers(k))
        gains.append(numpy.arange(k) == best)
        forest = from_list(numpy.zeros(k), [dict(enumerate(row)) for row in dense.tolist()])
        data.append((forest, forest.given({0: best})))
    lists = make_lists(described, gains)
    penalty = 0.5
    objective = Objective(lists, l2=penalty, sharpness=1e3)
    # the reranker scales its columns, and punishes dense weights a hundred times less
    theta = rng.normal(size=3)
    scaled = theta * objective.scale
    value = objective(scaled)[0] - 0.5 * (objective.penalty * scaled) @ scaled
    assert loss(data, theta)[0] == pytest.approx(value, rel=1e-12)
    known = fit_loglinear(lists, l2=1e-9, sharpness=1e3, max_iterations=500).dense
    numpy.testing.assert_allclose(fit(data, l2=1e-11, max_iterations=500), known, rtol=2e-3)
