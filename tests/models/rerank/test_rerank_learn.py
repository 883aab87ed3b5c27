"""Learners against known optima, finite differences and a naive perceptron."""

import numpy
import pytest

from spacy_spectral.models.rerank.features import BITS, Described
from spacy_spectral.models.rerank.learn import (
    Objective,
    fit_loglinear,
    fit_perceptron,
    make_lists,
    softmax,
    spread,
)


def random_lists(seed=0, sentences=12):
    rng = numpy.random.default_rng(seed)
    described, gains = [], []
    for _ in range(sentences):
        k = int(rng.integers(2, 6))
        lengths = numpy.concatenate([[0], rng.integers(0, 5, size=k - 1)])
        indices = rng.integers(0, 20, size=lengths.sum()).astype("int32")
        values = rng.choice([-1, 1], size=lengths.sum()).astype("int8")
        dense = rng.normal(size=(k, 3))
        dense[0] = 0
        described.append(Described(numpy.array([k]), dense, lengths, indices, values))
        gains.append(rng.integers(0, 10, size=k))
    return make_lists(described, gains)


def coin_lists(heads, tails):
    """Lists of two trees whose only feature is a number that tells them apart."""
    n = heads + tails
    no = [numpy.zeros(size, dtype=kind) for size, kind in ((2 * n, int), (0, "int32"), (0, "int8"))]
    described = Described(numpy.full(n, 2), numpy.array([[0.0], [1.0]] * n), *no)
    return make_lists([described], [[0, 1]] * heads + [[1, 0]] * tails)


def test_softmax_of_lists():
    scores = numpy.array([0.0, 1000.0, 1000.0, 5.0, -2.0, 0.0])
    probs, logs = softmax(scores, numpy.array([0, 3, 4, 6]))
    odds = numpy.exp(-2.0)
    numpy.testing.assert_allclose(probs, [0, 0.5, 0.5, 1, odds / (1 + odds), 1 / (1 + odds)])
    numpy.testing.assert_allclose(logs, [1000 + numpy.log(2), 5, numpy.log(1 + odds)])
    assert [len(part) for part in softmax(numpy.zeros(0), numpy.zeros(1, dtype="int64"))] == [0, 0]


def test_gradient_by_finite_differences():
    objective = Objective(random_lists(), l2=0.3, sharpness=0.7)
    rng = numpy.random.default_rng(2)
    assert objective.size == 3 + len(set(objective.lists.indices.tolist()))
    x = rng.normal(size=objective.size)
    _, gradient = objective(x)
    for i in range(objective.size):
        step = numpy.zeros(objective.size)
        step[i] = 1e-6
        slope = (objective(x + step)[0] - objective(x - step)[0]) / 2e-6
        assert gradient[i] == pytest.approx(slope, abs=1e-5)


def test_loglinear_optimum_is_known_for_a_coin():
    # three times out of four the second tree is right: its odds must come out
    weights = fit_loglinear(coin_lists(30, 10), l2=1e-6, sharpness=1e3)
    assert weights.dense[0] == pytest.approx(numpy.log(3), abs=1e-3)
    # a soft target, sharpness s: the share of the better tree is 1 / (1 + exp(-s))
    weights = fit_loglinear(coin_lists(40, 0), l2=1e-6, sharpness=1.5)
    assert weights.dense[0] == pytest.approx(1.5, abs=1e-3)


def test_loglinear_stops_where_the_gradient_vanishes():
    lists = random_lists(3)
    weights = fit_loglinear(lists, l2=0.5, sharpness=1.0, max_iterations=500)
    objective = Objective(lists, l2=0.5, sharpness=1.0)
    sparse = weights.sparse[objective.used].astype("float64")
    x = numpy.concatenate([weights.dense * objective.scale, sparse])
    assert numpy.count_nonzero(weights.sparse) == numpy.count_nonzero(sparse) > 0
    assert numpy.abs(objective(x)[1]).max() < 1e-3


def naive_perceptron(lists, epochs, seed):
    """Averages by adding up the weights after every step."""
    n = lists.dense.shape[1]
    rows = numpy.zeros((len(lists.gains), n + 2**5))
    rows[:, :n] = lists.dense / spread(lists.dense)
    for row in range(len(rows)):
        for i in range(lists.sparse_starts[row], lists.sparse_starts[row + 1]):
            rows[row, n + lists.indices[i]] += lists.values[i]
    weights, total, steps = numpy.zeros(n + 2**5), numpy.zeros(n + 2**5), 1
    order = numpy.random.default_rng(seed)
    for _ in range(epochs):
        for s in order.permutation(len(lists)):
            total += weights
            steps += 1
            own = rows[lists.starts[s] : lists.starts[s + 1]]
            gains = lists.gains[lists.starts[s] : lists.starts[s + 1]]
            guess, best = (own @ weights).argmax(), gains.argmax()
            if gains[guess] < gains[best]:
                weights = weights + own[best] - own[guess]
    total += weights
    return total / steps


def test_perceptron_is_averaged():
    lists = random_lists(5, sentences=30)
    found = fit_perceptron(lists, epochs=3, seed=4)
    expected = naive_perceptron(lists, epochs=3, seed=4)
    n = lists.dense.shape[1]
    found = numpy.concatenate([found.dense * spread(lists.dense), found.sparse[: 2**5]])
    # equal but for the scale, which is chosen for the sake of probabilities
    scale = found @ expected / (expected @ expected)
    assert scale > 0
    numpy.testing.assert_allclose(found, scale * expected, rtol=1e-4, atol=1e-5)
    assert n == 3


def test_perceptron_tells_probabilities():
    probs = []
    for heads, tails in ((30, 10), (38, 2)):
        lists = coin_lists(heads, tails)
        weights = fit_perceptron(lists, epochs=2)
        probs.append(softmax(lists.dense @ weights.dense, lists.starts)[0][1])
    assert probs[0] == pytest.approx(0.75, abs=0.01)
    assert probs[1] == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("fit", [fit_loglinear, fit_perceptron])
def test_learning_is_deterministic_and_told(fit):
    told = []
    first, second = (fit(random_lists(7), report=told.append) for _ in range(2))
    assert first.dense.tobytes() == second.dense.tobytes()
    assert first.sparse.tobytes() == second.sparse.tobytes()
    assert len(first.sparse) == 2**BITS
    assert told
