"""Back-off distributions against a dictionary of counts and the formula."""

from collections import Counter, defaultdict

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_spectral.base.files import Scope
from spacy_spectral.models.shag.backoff import BACKOFF, BackoffModel, context_keys
from spacy_spectral.trees.sentences import DISTANCE_BINS, N_BINS, length_table

N_OUTCOMES = 5
# most specific first: (a, b, c), (a, b), (a), ()
events = st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.integers(0, N_OUTCOMES - 1)), max_size=40)


def levels(table):
    a, b, c = (numpy.array(column, dtype="int64") for column in table)
    return context_keys([(a, b, c), (a, b), (a,), (0 * a,)])


def plain_probability(observed, query, outcome):
    """P = t f + (1 - t) P_general with t = n / (n + 5 u), from 1 / #outcomes upwards."""
    p = 1 / N_OUTCOMES
    for width in range(4):
        seen = Counter(event[3] for event in observed if event[:width] == query[:width])
        if not seen:
            break
        n, distinct = sum(seen.values()), len(seen)
        trust = n / (n + 5 * distinct)
        p = trust * seen[outcome] / n + (1 - trust) * p
    return p


def fit(observed):
    columns = [list(column) for column in zip(*observed, strict=True)] or [[]] * 4
    return BackoffModel.fit(levels(columns[:3]), numpy.array(columns[3], "int32"), N_OUTCOMES)


@settings(deadline=None)
@given(events, st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=10))
def test_the_formula(observed, queries):
    model = fit(observed)
    contexts = levels(list(zip(*queries, strict=True)))
    found = model.distributions(contexts)
    expected = [[plain_probability(observed, q, o) for o in range(N_OUTCOMES)] for q in queries]
    numpy.testing.assert_allclose(found, expected, rtol=1e-12)
    numpy.testing.assert_allclose(found.sum(axis=1), 1.0)
    for outcome in range(N_OUTCOMES):
        wanted = numpy.full(len(queries), outcome)
        numpy.testing.assert_array_equal(model.probabilities(contexts, wanted), found[:, outcome])


@settings(deadline=None, max_examples=30)
@given(events)
def test_payload_round_trip(observed):
    model = fit(observed)
    again = BackoffModel(**BACKOFF.read(model.to_payload(), Scope("test")))
    contexts = levels(numpy.indices((3, 3, 3)).reshape(3, -1))
    numpy.testing.assert_array_equal(model.distributions(contexts), again.distributions(contexts))


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [
        ("keys", 0, 0),
        ("offsets", -1, 99),
        ("offsets", 1, 2**40),
        ("offsets", 0, 1),
        ("offsets", 2, 0),
        ("outcomes", 0, N_OUTCOMES),
        ("outcomes", 1, -1),
        ("counts", 0, 0.0),
        ("counts", 1, numpy.nan),
        ("counts", 2, numpy.inf),
    ],
)
def test_damaged_payloads(name, position, value):
    payload = fit([(0, 0, 0, 1), (1, 1, 1, 2)]).to_payload()
    payload[name] = payload[name].copy()
    payload[name][position] = value
    with pytest.raises(ValueError, match="S005"):
        BACKOFF.read(payload, Scope("test"))
    payload[name] = payload[name].astype("float32")
    with pytest.raises(ValueError, match=f"S005.*'{name}'"):
        BACKOFF.read(payload, Scope("test"))


def test_contexts_do_not_collide():
    """Levels, orders and neighbours of small numbers all get keys of their own."""
    a, b = (x.ravel() for x in numpy.indices((60, 60)))
    keys = context_keys([(a, b), (b, a), (a, b, 0 * a)])
    assert len(numpy.unique(keys)) == keys.size
    assert keys.all()


def test_length_factor():
    rng = numpy.random.default_rng(0)
    n = 400
    heads, modifiers = rng.integers(0, 3, n), rng.integers(0, 3, n)
    distances = rng.integers(1, 15, n) * rng.choice([-1, 1], n)
    table = length_table(heads, modifiers, distances, 4)
    assert table.shape == (4, 2, 4, N_BINS)
    numpy.testing.assert_allclose(table.sum(axis=-1), 1.0)
    assert (table > 0).all()

    def bin_of(distance):
        return [1, 2, 3, 4, 5, 5, 6, 6, 6, 6, 7][min(abs(distance), 11) - 1] - 1

    exact, general, direction = defaultdict(Counter), defaultdict(Counter), defaultdict(Counter)
    for h, m, distance in zip(heads, modifiers, distances, strict=True):
        side = int(distance > 0)
        exact[h, side, m][bin_of(distance)] += 1
        general[side, m][bin_of(distance)] += 1
        direction[side][bin_of(distance)] += 1
    for h, side, m, k in numpy.ndindex(table.shape):
        p = (direction[side][k] + 1 / 7) / (sum(direction[side].values()) + 1)
        p = (general[side, m][k] + 20 * p) / (sum(general[side, m].values()) + 20)
        p = (exact[h, side, m][k] + 20 * p) / (sum(exact[h, side, m].values()) + 20)
        assert table[h, side, m, k] == pytest.approx(p)
    for distance in range(1, 30):
        assert DISTANCE_BINS[min(distance, len(DISTANCE_BINS) - 1)] == bin_of(distance)
