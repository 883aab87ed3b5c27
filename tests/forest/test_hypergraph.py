"""Hypergraphs against enumeration of derivations, and against elimination."""

from itertools import product

import numpy
import pytest

from spacy_spectral.forest._hypergraph import Graph


def random_graph(seed, n_items=7, n_slots=9):
    """Items with up to three edges, of up to two different items before them."""
    rng = numpy.random.default_rng(seed)
    start, first, second, slot = [0], [], [], []
    for i in range(n_items):
        for _ in range(rng.integers(1, 4)):
            parts = rng.permutation(i)[: rng.integers(0, 3)].tolist()
            both = [*parts, -1, -1][:2]
            rng.shuffle(both)
            first.append(both[0])
            second.append(both[1])
            slot.append(int(rng.integers(-1, n_slots)))
        start.append(len(first))
    return [numpy.array(column, dtype="int32") for column in (start, first, second, slot)]


def derivations(columns, item=None):
    """All derivations as lists of edges."""
    start, first, second, _ = columns
    item = len(start) - 2 if item is None else item
    if item < 0:
        yield []
        return
    for e in range(start[item], start[item + 1]):
        for one, other in product(derivations(columns, first[e]), derivations(columns, second[e])):
            yield [e, *one, *other]


def scored(columns, scores):
    """Derivations, their scores, and how often each has every slot."""
    found = list(derivations(columns))
    counts = numpy.zeros((len(found), len(scores)))
    for row, edges in zip(counts, found, strict=True):
        for e in edges:
            if columns[3][e] >= 0:
                row[columns[3][e]] += 1
    with numpy.errstate(invalid="ignore"):
        totals = numpy.where(counts > 0, counts * scores, 0.0).sum(axis=1)
    return found, totals, counts


@pytest.mark.parametrize("seed", range(60))
def test_sums_and_the_best(seed):
    columns = random_graph(seed)
    rng = numpy.random.default_rng(seed)
    scores = rng.normal(scale=2, size=9)
    scores[rng.random(9) < 0.1] = -numpy.inf
    graph = Graph(*columns)
    found, totals, counts = scored(columns, scores)
    if len(found) > 3000:
        pytest.skip("too many to enumerate")
    log_z, mu = graph.expectations(scores)
    if totals.max() == -numpy.inf:
        assert log_z == -numpy.inf and not mu.any()
        assert graph.k_best(scores, 3) == [] == graph.sample(scores, rng)
        return
    weights = numpy.exp(totals)
    assert log_z == pytest.approx(numpy.log(weights.sum()), abs=1e-12)
    expected = weights @ counts / weights.sum()
    numpy.testing.assert_allclose(mu, expected[: len(mu)], atol=1e-12)
    for k in (1, 7, 10_000):
        best = graph.k_best(scores, k)
        ranked = numpy.sort(totals[totals > -numpy.inf])[::-1][:k]
        numpy.testing.assert_allclose([score for _, score in best], ranked, atol=1e-12)
        known = {tuple(edges) for edges in found}
        assert {tuple(edges.tolist()) for edges, _ in best} <= known
        assert len({tuple(edges.tolist()) for edges, _ in best}) == len(best)


def test_samples_have_their_probabilities():
    columns = random_graph(4, n_items=5)
    scores = numpy.random.default_rng(0).normal(size=9)
    found, totals, _ = scored(columns, scores)
    probs = numpy.exp(totals) / numpy.exp(totals).sum()
    drawn = Graph(*columns).sample(scores, numpy.random.default_rng(0), 20_000)
    shares = dict.fromkeys((tuple(sorted(edges)) for edges in found), 0.0)
    expected = dict(shares)
    for edges, prob in zip(found, probs, strict=True):
        expected[tuple(sorted(edges))] += prob
    for edges in drawn:
        shares[tuple(sorted(edges.tolist()))] += 1 / len(drawn)
    for key, prob in expected.items():
        assert abs(shares[key] - prob) <= 5 * numpy.sqrt(prob * (1 - prob) / len(drawn)) + 1e-12


def test_bad_hypergraphs():
    good = random_graph(0)
    for column, at, value in (
        (0, 0, 1),
        (0, -1, 99),
        (0, 2, 90),
        (1, 0, 0),
        (2, 0, -2),
        (3, 0, -2),
    ):
        damaged = [own.copy() for own in good]
        damaged[column][at] = value
        with pytest.raises(ValueError, match="S909"):
            Graph(*damaged)
    for column in range(4):
        damaged = [own[:-1] if i == column else own for i, own in enumerate(good)]
        with pytest.raises(ValueError, match="S909"):
            Graph(*damaged)
    empty = numpy.zeros(0, dtype="int32")
    with pytest.raises(ValueError, match="S909"):
        Graph(numpy.zeros(1, dtype="int32"), empty, empty, empty)
    for scores in (numpy.zeros(1), numpy.full(9, numpy.inf), numpy.full(9, numpy.nan)):
        with pytest.raises(ValueError, match="S909"):
            Graph(*good).expectations(scores)
    with pytest.raises(TypeError):
        Graph(None, *good[1:])
    assert Graph(*good).k_best(numpy.zeros(9), 0) == []
