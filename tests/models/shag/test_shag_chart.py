"""The chart, decoding and posteriors against enumeration of every projective tree."""

from copy import copy
from itertools import product

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import Automata, is_single_root_projective, marginals, projective_trees
from spacy_spectral.models.shag._chart import AutomataChart
from spacy_spectral.models.shag.grammar import AutomataFactors
from spacy_spectral.models.shag.model import OperatorModel
from spacy_spectral.trees._eisner import best_tree, greedy_tree, is_projective_tree, k_best_trees
from spacy_spectral.trees.posterior import Posterior, _run_chart

relaxed = settings(deadline=None, max_examples=60)


@pytest.mark.parametrize("states", [1, 6, 8])
def test_states_that_the_chart_cannot_use(states):
    sentence = random_automata(0, symbols=[0], n_symbols=1, states=4, classes=1, signed=False)
    with pytest.raises(ValueError, match="multiple of four"):
        AutomataChart(*sentence.arguments(), states)


def test_number_of_trees():
    """Projective trees with one root: n, with binom(3n - 2, n - 1) / n for their number."""
    assert [len(projective_trees(n)) for n in range(1, 7)] == [1, 2, 7, 30, 143, 728]


def random_automata(seed, *, symbols, n_symbols, states, classes, signed, zeros=0.0, extra=0):
    """Automata of so many states, padded with zeros to a multiple of four, and `extra` states behind
    these that the chart is told not to use."""
    rng = numpy.random.default_rng(seed)
    n = len(symbols)
    padded = -(-states // 4) * 4

    def draw(*shape, axes=()):
        values = rng.normal(size=shape) if signed else rng.exponential(size=shape)
        values *= rng.random(shape) >= zeros
        for axis in axes:
            numpy.moveaxis(values, axis, 0)[states:padded] = 0.0
        return values

    return Automata(
        symbols,
        rng.integers(0, classes, n).tolist(),
        draw(n_symbols + 1, 2, padded + extra, axes=[-1]),
        draw(n_symbols + 1, 2, n_symbols, padded + extra, padded + extra, axes=[-1, -2]),
        draw(n, n, classes),
        draw(n, 2, classes, padded, axes=[-1]).reshape(n, 2, -1),
        draw(n),
        padded,
    )


@st.composite
def automata(draw, signed=None, max_length=6, exact_states=False):
    n_symbols = draw(st.integers(1, 3))
    length = draw(st.integers(1, max_length))
    states = draw(st.sampled_from([1, 2, 3, 4, 6]))
    return random_automata(
        draw(st.integers(0, 2**32)),
        symbols=draw(st.lists(st.integers(0, n_symbols - 1), min_size=length, max_size=length)),
        n_symbols=n_symbols,
        states=states,
        extra=0 if exact_states else draw(st.sampled_from([0, 4])),
        classes=draw(st.integers(1, 4)),
        signed=draw(st.booleans()) if signed is None else signed,
        zeros=draw(st.sampled_from([0.0, 0.3])),
    )


def check_sums(sentence):
    trees = projective_trees(len(sentence.symbols))
    scores = sentence.scores(trees)
    scale = numpy.abs(scores).sum()
    chart = AutomataChart(*sentence.arguments(), sentence.states)
    z, found, _ = chart.inside_outside()
    assert z == pytest.approx(scores.sum(), rel=1e-11, abs=1e-12 * scale)
    numpy.testing.assert_allclose(found, marginals(scores, trees), rtol=1e-10, atol=1e-11 * scale)
    logs, signs = chart.tree_scores(numpy.array(trees, dtype="int32"))
    numpy.testing.assert_allclose(signs * numpy.exp(logs), scores, rtol=1e-9, atol=1e-12 * scale)


@relaxed
@given(automata())
def test_sums_over_trees(sentence):
    check_sums(sentence)


@pytest.mark.parametrize("length", range(1, 7))
def test_all_sentences_of_two_symbols(length):
    for number, symbols in enumerate(product(range(2), repeat=length)):
        check_sums(
            random_automata(
                number, symbols=list(symbols), n_symbols=2, states=2, extra=4, classes=1,
                signed=number % 2 == 1,
            )
        )  # fmt: skip


def arc_score(arcs, heads):
    return sum(arcs[h, m] for m, h in enumerate(heads, start=1))


@st.composite
def arc_matrices(draw, integers, max_length=5):
    """Scores of arcs; integers add up exactly and have many ties."""
    n = draw(st.integers(1, max_length))
    rng = numpy.random.default_rng(draw(st.integers(0, 2**32)))
    arcs = (
        rng.integers(-2, 3, (n + 1, n + 1)).astype(float)
        if integers
        else rng.normal(size=(n + 1, n + 1))
    )
    arcs[rng.random(arcs.shape) < draw(st.sampled_from([0.0, 0.2, 0.6]))] = -numpy.inf
    return arcs


def heads_of(trees):
    return [tuple(heads) for heads in trees.tolist()]


@relaxed
@given(arc_matrices(integers=True))
def test_best_and_k_best_with_ties(arcs):
    trees = {heads: arc_score(arcs, heads) for heads in projective_trees(len(arcs) - 1)}
    possible = {heads: score for heads, score in trees.items() if score > -numpy.inf}
    expected = sorted(possible.values(), reverse=True)
    heads, score = best_tree(arcs)
    assert score == max(trees.values())
    assert tuple(heads.tolist()) in trees
    if possible:
        assert trees[tuple(heads.tolist())] == score
    found, scores = k_best_trees(arcs, len(trees) + 3)
    complete = heads_of(found)
    assert len(complete) == len(set(complete)) and set(complete) == set(possible)
    assert scores.tolist() == expected == [trees[heads] for heads in complete]
    for k in range(len(trees) + 1):
        found, scores = k_best_trees(arcs, k)
        assert heads_of(found) == complete[:k]
        assert scores.tolist() == expected[:k]


@relaxed
@given(arc_matrices(integers=False, max_length=6))
def test_best_and_k_best_without_ties(arcs):
    trees = projective_trees(len(arcs) - 1)
    expected = [heads for heads in trees if arc_score(arcs, heads) > -numpy.inf]
    expected.sort(key=lambda heads: -arc_score(arcs, heads))
    found, scores = k_best_trees(arcs, len(trees))
    assert heads_of(found) == expected
    numpy.testing.assert_allclose(scores, [arc_score(arcs, heads) for heads in expected])
    if expected:
        assert tuple(best_tree(arcs)[0].tolist()) == expected[0]


def test_no_tokens_and_no_trees():
    heads, score = best_tree(numpy.zeros((1, 1)))
    assert len(heads) == 0 and score == 0.0
    assert len(k_best_trees(numpy.zeros((1, 1)), 3)[0]) == 0
    assert len(k_best_trees(numpy.zeros((3, 3)), 0)[0]) == 0
    assert len(k_best_trees(numpy.zeros((3, 3)), -1)[0]) == 0


@relaxed
@given(arc_matrices(integers=False, max_length=6), st.floats(0, 6))
def test_greedy_tree_is_the_best_tree_if_it_is_one(arcs, preference):
    arcs = numpy.where(numpy.isfinite(arcs), arcs, -30.0)
    n = len(arcs) - 1
    # push a random tree so that both outcomes occur
    tree = projective_trees(n)[int(preference * 1000) % len(projective_trees(n))]
    for m, h in enumerate(tree, start=1):
        arcs[h, m] += preference
    greedy = [max((arcs[h, m], -h) for h in range(n + 1) if h != m)[1] for m in range(1, n + 1)]
    greedy = tuple(-h for h in greedy)
    found = greedy_tree(numpy.exp(arcs))
    if greedy in projective_trees(n):
        assert tuple(found.tolist()) == greedy == tuple(best_tree(arcs)[0].tolist())
    else:
        assert found is None


@pytest.mark.parametrize("n", range(1, 6))
def test_is_projective_tree(n):
    for heads in product(range(n + 1), repeat=n):
        expected = all(h != m for m, h in enumerate(heads, start=1)) and is_single_root_projective(
            heads
        )
        assert is_projective_tree(numpy.array(heads, dtype="int32")) == expected


@pytest.mark.parametrize("heads", [[-1, 0], [0, 3], [2, 70000], [0, -5, 1]])
def test_heads_out_of_range_are_no_tree(heads):
    assert not is_projective_tree(numpy.array(heads, dtype="int32"))


# Posteriors


def as_factors(sentence, *, non_negative):
    symbols, word_class, start, operators, weights, stop, root = sentence.arguments()
    model = OperatorModel(start, numpy.zeros_like(start), operators, non_negative)
    return AutomataFactors(symbols, word_class, model, sentence.states, weights, stop, root)


def exact_posterior(sentence):
    trees = projective_trees(len(sentence.symbols))
    scores = sentence.scores(trees)
    with numpy.errstate(invalid="ignore", divide="ignore"):
        return trees, scores, marginals(scores, trees) / scores.sum()


def column_sums(posterior):
    return posterior.marginals[:, 1:].sum(axis=0)


@relaxed
@given(automata(signed=False, exact_states=True), st.sampled_from([1e-90, 1e-30, 1.0, 1e30, 1e90]))
def test_posterior_of_non_negative_automata(sentence, factor):
    """Also far outside of the range that products of weights can have."""
    trees, scores, expected = exact_posterior(sentence)
    sentence.weights = sentence.weights * factor
    sentence.root = sentence.root * factor
    posterior = Posterior.from_factors([as_factors(sentence, non_negative=True)], None)
    if scores.sum() == 0:
        numpy.testing.assert_allclose(column_sums(posterior), 1.0)
        assert tuple(posterior.heads.tolist()) in trees
        return
    numpy.testing.assert_allclose(posterior.marginals, expected, rtol=1e-9, atol=1e-12)
    for heads, score in zip(trees, scores, strict=True):
        if score > 0:
            log_probability = posterior.log_probability(numpy.array(heads))
            assert log_probability == pytest.approx(numpy.log(score / scores.sum()), abs=1e-8)
    logs = numpy.log(numpy.maximum(expected, 1e-9))
    best = max(arc_score(logs, heads) for heads in trees)
    assert arc_score(logs, posterior.heads.tolist()) == pytest.approx(best, abs=1e-8)
    found = posterior.k_best(5)
    values = [value for _, value in found]
    assert len({tuple(heads) for heads, _ in found}) == len(found) == min(5, len(trees))
    assert values == sorted(values, reverse=True) and max(values) <= 1e-12
    assert posterior.log_probability(numpy.array([9] * len(expected))) == -numpy.inf
    assert posterior.log_probability(posterior.heads * 0 - 1) == -numpy.inf


@relaxed
@given(automata(signed=True, exact_states=True))
def test_posterior_of_signed_automata_is_always_sound(sentence):
    trees, scores, expected = exact_posterior(sentence)
    posterior = Posterior.from_factors([as_factors(sentence, non_negative=False)], None)
    assert numpy.isfinite(posterior.marginals).all() and (posterior.marginals >= 0).all()
    numpy.testing.assert_allclose(column_sums(posterior), 1.0)
    assert tuple(posterior.heads.tolist()) in trees
    if scores.sum() > 1e-6 * numpy.abs(scores).sum():
        clipped = numpy.maximum(expected, 0.0)
        clipped[:, 1:] /= clipped[:, 1:].sum(axis=0)
        numpy.testing.assert_allclose(posterior.marginals, clipped, rtol=1e-6, atol=1e-8)
    for heads, value in posterior.k_best(10):
        assert tuple(heads.tolist()) in trees and value <= 0.0
        assert value > -numpy.inf or scores[trees.index(tuple(heads.tolist()))] == 0


def test_the_first_model_with_a_positive_total_is_used():
    options = {"symbols": [0, 1, 0], "n_symbols": 2, "states": 2, "classes": 1}
    good = random_automata(1, signed=False, **options)
    bad = random_automata(1, signed=False, **options)
    bad.root = -bad.root
    impossible = random_automata(1, signed=False, **options)
    impossible.root = 0 * impossible.root
    attempts = [as_factors(s, non_negative=False) for s in (bad, impossible, good)]
    posterior = Posterior.from_factors(iter(attempts), None)
    numpy.testing.assert_allclose(posterior.marginals, exact_posterior(good)[2], atol=1e-12)
    # nothing left: every arc is as good as another, but there is a tree
    posterior = Posterior.from_factors(iter(attempts[:2]), None)
    assert tuple(posterior.heads.tolist()) in projective_trees(3)
    numpy.testing.assert_allclose(posterior.marginals[:, 1], [1 / 3, 0, 1 / 3, 1 / 3])
    assert posterior.log_probability(posterior.heads) == pytest.approx(3 * numpy.log(1 / 3))
    assert len(posterior.k_best(3)) == 3


@relaxed
@given(automata(signed=False, exact_states=True, max_length=5), st.data())
def test_constraints(sentence, data):
    n = len(sentence.symbols)
    allowed = numpy.ones((n + 1, n + 1), dtype=bool)
    for m in data.draw(st.lists(st.integers(1, n), max_size=n)):
        allowed[:, m] = False
        allowed[data.draw(st.integers(0, n).filter(lambda h, m=m: h != m)), m] = True
    trees, scores, _ = exact_posterior(sentence)
    fits = numpy.array([allowed[list(heads), range(1, n + 1)].all() for heads in trees])
    posterior = Posterior.from_factors([as_factors(sentence, non_negative=True)], allowed)
    numpy.testing.assert_allclose(column_sums(posterior), 1.0)
    chosen = tuple(posterior.heads.tolist())
    assert chosen in trees
    kept = allowed[list(chosen), range(1, n + 1)].sum()
    if (scores * fits).sum() > 0:
        expected = marginals(scores * fits, trees) / (scores * fits).sum()
        numpy.testing.assert_allclose(posterior.marginals, expected, rtol=1e-9, atol=1e-12)
        assert all(allowed[list(h), range(1, n + 1)].all() for h, _ in posterior.k_best(20))
    # no tree keeps more of what was fixed, possible or not
    most = max(allowed[list(heads), range(1, n + 1)].sum() for heads in trees)
    assert kept == most


@pytest.fixture(scope="module", params=[False, True], ids=["False", "True"])
def long_sentence(request):
    """300 tokens, whether their numbers are signed, and their marginals when scaled well."""
    n, signed = 300, request.param
    rng = numpy.random.default_rng(5)
    sentence = random_automata(
        7, symbols=rng.integers(0, 3, n).tolist(), n_symbols=3, states=3, classes=1,
        signed=False,
    )  # fmt: skip
    if signed:
        # another basis of the same automata: signed numbers, equal sums
        turn = numpy.eye(4)
        turn[:3, :3] = numpy.linalg.qr(rng.normal(size=(3, 3)))[0]
        sentence.start = sentence.start @ turn.T
        sentence.operators = turn @ sentence.operators @ turn.T
        sentence.stop = sentence.stop @ turn.T
    reference = as_factors(sentence, non_negative=not signed)
    _, z, expected = _run_chart(reference)
    assert 0 < z < numpy.inf
    return sentence, signed, expected / z


@pytest.mark.parametrize("factor", [1e-60, 1e-3, 1.0, 1e3, 1e60])
def test_long_sentences_are_rescaled(factor, long_sentence):
    """The total is far beyond the doubles: the same marginals as when scaled well."""
    sentence, signed, expected = copy(long_sentence[0]), *long_sentence[1:]
    sentence.weights = sentence.weights * factor
    sentence.root = sentence.root * factor
    posterior = Posterior.from_factors([as_factors(sentence, non_negative=not signed)], None)
    numpy.testing.assert_allclose(column_sums(posterior), 1.0)
    numpy.testing.assert_allclose(posterior.marginals, expected, rtol=1e-5, atol=1e-9)
    assert is_single_root_projective(posterior.heads.tolist())
    assert -numpy.inf < posterior.log_probability(posterior.heads) < 0


@pytest.mark.parametrize("value", [1e300, 1e-300, 1e308, 5e-324, numpy.inf, numpy.nan])
def test_absurd_weights_give_a_sound_posterior(value):
    sentence = random_automata(
        7, symbols=[0, 1, 0, 1, 1], n_symbols=2, states=2, classes=2, signed=False
    )
    sentence.weights = numpy.full_like(sentence.weights, value)
    posterior = Posterior.from_factors([as_factors(sentence, non_negative=False)], None)
    assert numpy.isfinite(posterior.marginals).all()
    numpy.testing.assert_allclose(column_sums(posterior), 1.0)
    assert tuple(posterior.heads.tolist()) in projective_trees(5)
