"""Estimators against closed forms, a second implementation and scikit-splearn."""

from collections import Counter
from itertools import pairwise, product

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_spectral.models.shag import estimate as module
from spacy_spectral.models.shag._learn import expectation_maximisation
from spacy_spectral.models.shag.estimate import (
    ESTIMATORS,
    LEFT,
    RIGHT,
    EstimatorSettings,
    NgramCounts,
    SequenceSet,
    estimate,
    modifier_sequences,
)

EXACT = EstimatorSettings(states=8, rank_tolerance=0.0, ridge=0.0)


def sequences_up_to(length, n_symbols):
    return [s for n in range(length + 1) for s in product(range(n_symbols), repeat=n)]


def probability(automaton, sequence):
    start, operators, stop = automaton
    for x in sequence:
        start = operators[x] @ start
    return float(stop @ start)


def random_pnfa(seed, *, states=3, n_symbols=4):
    """Every state's moves and its stopping sum to one."""
    rng = numpy.random.default_rng(seed)
    operators = rng.exponential(size=(n_symbols, states, states)) ** 2
    stop = operators.sum(axis=(0, 1)) * rng.uniform(0.3, 1.0, states)
    total = operators.sum(axis=(0, 1)) + stop
    return rng.dirichlet(numpy.ones(states)), operators / total, stop / total


def exact_counts(automaton, weight):
    """Expected n-grams in closed form: (I - sum A)^-1 start are the expected visits of each state."""
    start, operators, stop = automaton
    n = len(operators)
    total = operators.sum(axis=0)
    visits = numpy.linalg.inv(numpy.eye(len(start)) - total) @ start
    before = [operators[a] @ visits for a in range(n)] + [start]  # state vectors after a, or START
    after = [numpy.ones(len(start)) @ operators[b] for b in range(n)] + [stop]
    bigrams = numpy.array([[after[b] @ before[a] for a in range(n + 1)] for b in range(n + 1)])
    trigrams = [(a, x, c) for a in range(n + 1) for x in range(n) for c in range(n + 1)]
    columns = numpy.array(trigrams, dtype="int32").T.copy()
    values = numpy.array([after[c] @ operators[x] @ before[a] for a, x, c in trigrams])
    return NgramCounts(bigrams, *columns, values, weight)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("states", [3, 8])
def test_exact_statistics_give_the_distribution_back(seed, states):
    truth = random_pnfa(seed)
    settings = EstimatorSettings(states=states, rank_tolerance=1e-7, ridge=0.0)
    learnt = module._spectral(None, exact_counts(truth, 1.0), settings, None)
    assert len(learnt[0]) == 3
    for sequence in sequences_up_to(5, 4):
        assert probability(learnt, sequence) == pytest.approx(
            probability(truth, sequence), abs=1e-10
        )


def draw(automaton, rng, size):
    start, operators, stop = automaton
    n, states = operators.shape[:2]
    drawn = Counter()
    for _ in range(size):
        state = rng.choice(states, p=start)
        sequence = []
        while True:
            moves = numpy.append(operators[:, :, state].ravel(), stop[state])
            choice = rng.choice(len(moves), p=moves / moves.sum())
            if choice == n * states:
                break
            sequence.append(choice // states)
            state = choice % states
        drawn[numpy.array(sequence, dtype="int32").tobytes()] += 1
    return drawn


def test_error_falls_with_the_root_of_the_sample():
    truth = random_pnfa(1, states=2, n_symbols=2)
    wanted = sequences_up_to(4, 2)
    expected = numpy.array([probability(truth, s) for s in wanted])
    settings = EstimatorSettings(states=2, rank_tolerance=0.0, ridge=0.0)
    sizes = [100, 1600]
    errors = {size: [] for size in sizes}
    for seed in range(8):
        rng = numpy.random.default_rng(seed)
        for size in sizes:
            counts = NgramCounts.from_sequences(SequenceSet.from_counter(draw(truth, rng, size)), 2)
            learnt = module._spectral(None, counts, settings, None)
            found = numpy.array([probability(learnt, s) for s in wanted])
            errors[size].append(numpy.abs(found - expected).sum())
    small, large = (numpy.median(errors[size]) for size in sizes)
    # 16 times the data: a quarter of the error, within a factor of two either way
    assert 2 < small / large < 8


def finite_sample():
    """A multiset that follows a PNFA of four states exactly: at most two modifiers.

    States: 0 before the first, 1 and 2 after it, 3 after the second.
    """
    operators = numpy.zeros((4, 4, 4))
    operators[:, 1, 0] = numpy.array([2, 1, 1, 0]) / 10
    operators[:, 2, 0] = numpy.array([0, 1, 1, 2]) / 10
    operators[:, 3, 1] = numpy.array([4, 0, 1, 0]) / 10
    operators[:, 3, 2] = numpy.array([0, 3, 1, 2]) / 10
    automaton = (numpy.eye(4)[0], operators, 1 - operators.sum(axis=(0, 1)))
    sample = {s: round(100 * probability(automaton, s)) for s in sequences_up_to(2, 4)}
    assert sum(sample.values()) == 100
    return automaton, sample


def as_set(sample):
    return SequenceSet.from_counter(
        {numpy.array(s, dtype="int32").tobytes(): count for s, count in sample.items() if count}
    )


def test_a_sample_that_follows_an_automaton_gives_that_automaton():
    truth, sample = finite_sample()
    learnt = module._spectral(None, NgramCounts.from_sequences(as_set(sample), 4), EXACT, None)
    assert len(learnt[0]) == 4
    for sequence in sequences_up_to(4, 4):
        assert probability(learnt, sequence) == pytest.approx(
            probability(truth, sequence), abs=1e-10
        )


@pytest.fixture
def old_numpy_names(monkeypatch):
    """scikit-splearn 1.2 knows numpy before 2.0."""
    monkeypatch.setattr(numpy, "float_", numpy.float64, raising=False)


def test_the_same_as_splearn_from_the_same_sample(old_numpy_names):
    splearn = pytest.importorskip("splearn.spectral")
    from splearn.datasets.data_sample import SplearnArray

    _, sample = finite_sample()
    rows = [list(s) + [-1] * (2 - len(s)) for s, count in sample.items() for _ in range(count)]
    data = SplearnArray(numpy.array(rows), nbL=4, nbEx=len(rows))
    other = splearn.Spectral(
        rank=4, lrows=2, lcolumns=2, version="classic", sparse=False, full_svd_calculation=True,
        mode_quiet=True,
    ).fit(data)  # fmt: skip
    learnt = module._spectral(None, NgramCounts.from_sequences(as_set(sample), 4), EXACT, None)
    for sequence in sequences_up_to(4, 4):
        assert probability(learnt, sequence) == pytest.approx(
            float(other.automaton.val(list(sequence))), abs=1e-8
        )


def noisy_counts(seed=3, n_symbols=3, size=400):
    drawn = draw(random_pnfa(seed, n_symbols=n_symbols), numpy.random.default_rng(seed), size)
    own = SequenceSet.from_counter(drawn)
    return own, NgramCounts.from_sequences(own, n_symbols)


def hankel_blocks(own, n_symbols):
    """P and P_x as plain counts over START x1 .. xm STOP."""
    bigrams = numpy.zeros((n_symbols + 1, n_symbols + 1))
    trigrams = numpy.zeros((n_symbols, n_symbols + 1, n_symbols + 1))
    for sequence, count in own:
        wrapped = [n_symbols, *sequence.tolist(), n_symbols]
        for a, b in pairwise(wrapped):
            bigrams[b, a] += count / own.total
        for a, x, c in zip(wrapped, wrapped[1:], wrapped[2:], strict=False):
            trigrams[x, c, a] += count / own.total
    return bigrams, trigrams


def test_the_same_as_splearn_from_the_same_noisy_statistics(old_numpy_names):
    """With as many states as symbols the basis is all that the two could differ in."""
    hankel = pytest.importorskip("splearn.hankel")
    own, counts = noisy_counts()
    bigrams, trigrams = hankel_blocks(own, 3)
    order = [3, 0, 1, 2]  # splearn reads START and STOP off the first row and column
    blocks = [block.T[numpy.ix_(order, order)] for block in (bigrams, *trigrams)]
    other = hankel.Hankel(lhankel=blocks, sparse=False, full_svd_calculation=True, mode_quiet=True)
    other = other.to_automaton(4, mode_quiet=True)
    learnt = module._spectral(None, counts, EXACT, None)
    assert len(learnt[0]) == 4
    for sequence in sequences_up_to(5, 3):
        assert probability(learnt, sequence) == pytest.approx(
            float(other.val(list(sequence))), abs=1e-9
        )


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_the_same_as_a_plain_implementation(rank, ridge):
    """Every matrix written out, also where low rank and ridge change the distribution."""
    own, counts = noisy_counts()
    bigrams, trigrams = hankel_blocks(own, 3)
    left = numpy.diag((bigrams.sum(axis=1) + 1e-4) ** -0.25)
    right = numpy.diag((bigrams.sum(axis=0) + 1e-4) ** -0.25)
    u, s, vt = numpy.linalg.svd(left @ bigrams @ right)
    u, s, vt = u[:, :rank], s[:rank], vt[:rank]
    inverse = vt.T @ numpy.diag(s / (s**2 + ridge**2 / own.total))
    plain = (
        u.T @ left @ bigrams[:, 3],
        numpy.array([u.T @ left @ block @ right @ inverse for block in trigrams]),
        numpy.linalg.inv(left)[3] @ u,
    )
    settings = EstimatorSettings(states=rank, rank_tolerance=0.0, ridge=ridge)
    learnt = module._spectral(None, counts, settings, None)
    for sequence in sequences_up_to(5, 3):
        assert probability(learnt, sequence) == pytest.approx(
            probability(plain, sequence), abs=1e-12
        )


def test_lower_ranks_are_leading_blocks_and_signs_are_fixed():
    _, counts = noisy_counts()
    settings = [EstimatorSettings(states=n, rank_tolerance=0.0) for n in (4, 2)]
    full, low, again = (module._spectral(None, counts, s, None) for s in (*settings, settings[0]))
    numpy.testing.assert_allclose(full[0][:2], low[0], rtol=1e-12)
    numpy.testing.assert_allclose(full[1][:, :2, :2], low[1], rtol=1e-10, atol=1e-14)
    numpy.testing.assert_allclose(full[2][:2], low[2], rtol=1e-12)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(full, again, strict=True))


def test_few_data_few_states():
    ranks = []
    for size in (1, 10, 100, 2000):
        _, counts = noisy_counts(size=size)
        ranks.append(len(module._spectral(None, counts, EstimatorSettings(states=4), None)[0]))
    assert ranks == sorted(ranks)
    assert ranks[0] == 1 and ranks[-1] > 1


# Whole models


def treebank(seed=0, n_symbols=4, size=60):
    """Trees with a chain up to the root on its left and any trees on its right."""
    rng = numpy.random.default_rng(seed)
    symbols, heads = [], []
    for _ in range(size):
        n = int(rng.integers(1, 8))
        symbols.append(rng.integers(0, n_symbols, n).astype("int32"))
        root = int(rng.integers(0, n))
        towards = [
            m + 2 if m < root else (0 if m == root else int(rng.integers(root, m)) + 1)
            for m in range(n)
        ]
        heads.append(numpy.array(towards, dtype="int32"))
    return symbols, heads


@pytest.fixture(scope="module")
def sequences():
    return modifier_sequences(*treebank(), 4)


def learn(sequences, **options):
    return estimate(sequences, EstimatorSettings(**options))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_repetition_gives_the_same_bytes(sequences, estimator):
    first, second = (learn(sequences, estimator=estimator, states=3) for _ in range(2))
    for name in ("start", "operators", "stop"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


@pytest.mark.parametrize("estimator", ["det", "det+f"])
def test_deterministic_models_are_relative_frequencies(sequences, estimator):
    """With next to no smoothing; conditions seen often enough for it not to matter."""
    model = learn(sequences, estimator=estimator, smoothing=1e-9)
    for head, direction in product(range(4), (LEFT, RIGHT)):
        events = {False: Counter(), True: Counter()}
        for sequence, count in sequences[head][direction]:
            for position, event in enumerate([*sequence.tolist(), "stop"]):
                events[position > 0 and estimator == "det+f"][event] += count

        def share(event, later, events=events):
            seen = events[later and estimator == "det+f"]
            return seen[event] / sum(seen.values())

        for sequence in sequences_up_to(3, 4):
            expected = 1.0
            for position, event in enumerate([*sequence, "stop"]):
                if not events[position > 0 and estimator == "det+f"]:
                    break
                expected *= share(event, position > 0)
            else:
                found = model.probability(head, direction, sequence)
                assert found == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("estimator", ["det", "det+f", "em"])
def test_non_negative_models_are_normalised(sequences, estimator):
    model = learn(sequences, estimator=estimator, states=3)
    assert model.non_negative
    for array in (model.start, model.operators, model.stop):
        assert (array >= 0).all()
    heads = slice(0, model.root)
    numpy.testing.assert_allclose(model.start[heads].sum(axis=-1), 1.0)
    # the back-off operators of unseen symbols stand beside the distribution, not in it
    leaving = model.operators[heads, :, :4].sum(axis=(2, 3)) + model.stop[heads]
    used = leaving > 0
    assert used.any()
    numpy.testing.assert_allclose(leaving[used], 1.0)
    assert not model.start[heads][~used].any()


def test_root_automaton(sequences):
    model = learn(sequences)
    counts = Counter()
    for (symbol,), count in sequences[4][RIGHT]:
        counts[symbol] += count
    total = sum(counts.values()) + 0.4
    for symbol in range(4):
        assert model.probability(4, RIGHT, [symbol]) == pytest.approx(
            (counts[symbol] + 0.1) / total
        )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_symbol_is_possible_and_unseen_ones_are_average(estimator):
    symbols, heads = treebank()
    # symbols 4 and 5 never occur
    model = estimate(modifier_sequences(symbols, heads, 6), EstimatorSettings(estimator=estimator))
    frequency = numpy.bincount(numpy.concatenate(symbols), minlength=6).astype(float)
    frequency /= frequency.sum()
    for head, direction in product(range(6), (LEFT, RIGHT)):
        operators = model.operators[head, direction]
        expected = sum(frequency[x] * operators[x] for x in range(4))
        for unseen in (4, 5):
            numpy.testing.assert_allclose(operators[unseen], expected, atol=1e-12)
        for sequence in [(), *((x,) for x in range(6))]:
            assert model.probability(head, direction, sequence) > 0


# EM


def em_problem(seed, *, n=3, n_symbols=3, size=80):
    own, _ = noisy_counts(seed, n_symbols, size)
    start, operators, stop = random_pnfa(seed + 100, states=n, n_symbols=n_symbols)
    return own, start, operators, stop


def log_likelihood(own, start, operators, stop):
    return sum(
        count * numpy.log(probability((start, operators, stop), sequence))
        for sequence, count in own
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.5, 5.0]))
def test_em_never_loses_and_stays_normalised(seed, strength):
    own, start, operators, stop = em_problem(seed)
    prior, prior_stop = numpy.full(3, strength), 2 * strength

    def objective():
        penalty = (prior[:, None, None] / 9 * numpy.log(operators)).sum() if strength else 0.0
        penalty += (prior_stop / 3 * numpy.log(stop)).sum() if strength else 0.0
        return log_likelihood(own, start, operators, stop) + penalty

    values = [objective()]
    for _ in range(8):
        (before,) = expectation_maximisation(
            own.symbols, own.offsets, own.counts, start, operators, stop, prior, prior_stop, 1, 0.0
        )
        values.append(objective())
        if not strength:
            assert before == pytest.approx(values[-2], rel=1e-10)
        numpy.testing.assert_allclose(operators.sum(axis=(0, 1)) + stop, 1.0)
        assert start.sum() == pytest.approx(1.0)
        assert min(start.min(), operators.min(), stop.min()) >= 0
    assert all(later >= earlier - 1e-8 for earlier, later in pairwise(values))
    assert values[-1] > values[0]


def test_one_em_step_by_enumeration_of_paths():
    own, start, operators, stop = em_problem(5, n=2, size=20)
    new_start, new_stop = numpy.zeros(2), numpy.zeros(2)
    new_operators = numpy.zeros_like(operators)
    for sequence, count in own:
        total = probability((start, operators, stop), sequence)
        for path in product(range(2), repeat=len(sequence) + 1):
            p = start[path[0]] * stop[path[-1]]
            for x, a, b in zip(sequence, path[1:], path, strict=False):
                p *= operators[x, a, b]
            new_start[path[0]] += count * p / total
            new_stop[path[-1]] += count * p / total
            for x, a, b in zip(sequence, path[1:], path, strict=False):
                new_operators[x, a, b] += count * p / total
    leaving = new_operators.sum(axis=(0, 1)) + new_stop
    expectation_maximisation(
        own.symbols, own.offsets, own.counts, start, operators, stop, numpy.zeros(3), 0.0, 1, 0.0
    )
    numpy.testing.assert_allclose(start, new_start / new_start.sum(), rtol=1e-10)
    numpy.testing.assert_allclose(operators, new_operators / leaving, rtol=1e-10)
    numpy.testing.assert_allclose(stop, new_stop / leaving, rtol=1e-10)


def one_by_one(own):
    """The same sequences, each as often as it was counted."""
    every = [sequence for sequence, count in own for _ in range(round(count))]
    offsets = numpy.concatenate([[0], numpy.cumsum([len(s) for s in every])]).astype("int64")
    symbols = numpy.concatenate([numpy.zeros(0, dtype="int32"), *every])
    return SequenceSet(symbols, offsets, numpy.ones(len(every)))


def test_em_on_aggregated_sequences_is_em():
    symbols, heads = treebank(size=200)
    # a head seen three times, twice with the same modifiers
    symbols += [numpy.array([4, x], dtype="int32") for x in (0, 0, 1)]
    heads += [numpy.array([0, 1], dtype="int32")] * 3
    settings = EstimatorSettings(estimator="em", states=4, em_iterations=30, em_tolerance=0.0)
    sequences = modifier_sequences(symbols, heads, 5)
    alone = [[one_by_one(own) for own in pair] for pair in sequences]
    together, single = (estimate(each, settings) for each in (sequences, alone))
    for name in ("start", "operators", "stop"):
        numpy.testing.assert_allclose(
            getattr(together, name), getattr(single, name), rtol=0, atol=1e-10
        )


def test_em_improves_the_likelihood(sequences):
    def likelihood(model):
        return sum(
            count * numpy.log(model.probability(head, direction, sequence))
            for head, direction in product(range(4), (LEFT, RIGHT))
            for sequence, count in sequences[head][direction]
        )

    values = [
        likelihood(learn(sequences, estimator="em", smoothing=1e-6, em_iterations=k))
        for k in (1, 5, 50)
    ]
    assert values == sorted(values) and values[0] < values[-1]
    assert values[0] > likelihood(learn(sequences, estimator="det"))


# Settings


@pytest.mark.parametrize(
    "options",
    [{"estimator": "magic"}, {"states": 0}, {"smoothing": 0.0}, {"em_iterations": 0}],
)
def test_bad_settings(options):
    with pytest.raises(ValueError, match=r"S10[12]"):
        EstimatorSettings(**options)
