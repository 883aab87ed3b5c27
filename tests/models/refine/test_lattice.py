"""The chart of the refined grammar, and sums over states in given trees, against every tree and every
choice of states."""

from itertools import product

import numpy
import pytest

from brute_force import marginals, modifiers, projective_trees
from spacy_spectral.models.refine._chains import state_posteriors
from spacy_spectral.models.refine._lattice import inside_outside
from spacy_spectral.models.refine.chart import LatticeFactors
from spacy_spectral.models.refine.lexicon import Lattice
from spacy_spectral.models.refine.transitions import Transitions

LEFT, RIGHT = 0, 1


class Sentence:
    """A random grammar and a random sentence."""

    def __init__(self, n, n_states=4, *, most=3, sparse=0.0, seed=0):
        random = numpy.random.default_rng(seed)
        self.n, self.n_states = n, n_states
        self.rows = random.dirichlet(numpy.ones(n_states + 1), 11).astype("float32")
        self.row_of = random.integers(0, 11, (2, n_states, n_states + 1)).astype("int32")
        widths = random.integers(1, most + 1, n)
        self.offsets = numpy.concatenate([[0], numpy.cumsum(widths)]).astype("int32")
        own = [sorted(random.choice(n_states, width, replace=False)) for width in widths]
        self.states = numpy.concatenate(own).astype("int32")
        self.emissions = random.uniform(0.5, 2.0, len(self.states))
        self.weights = random.uniform(0.2, 2.0, (n, n)) * (random.random((n, n)) >= sparse)
        self.root = random.uniform(0.1, 1.0, len(self.states))

    def arguments(self):
        names = ("offsets", "states", "emissions", "rows", "row_of", "weights", "root")
        return [getattr(self, name) for name in names]

    def factors(self):
        lattice = Lattice(self.offsets, self.states, self.emissions)
        return LatticeFactors(lattice, Transitions(self.rows, self.row_of), self.weights, self.root)

    def probability(self, side, head, previous, child):
        return float(self.rows[self.row_of[side, head, previous], child])

    def events(self, heads, chosen):
        """(side, head, previous, child) of every step of a tree, as states of the grammar."""
        state = [int(self.states[i]) for i in chosen]
        for h in range(1, self.n + 1):
            for side, sequence in enumerate(modifiers(heads, h)):
                previous = self.n_states
                for m in sequence:
                    yield side, state[h - 1], previous, state[m - 1]
                    previous = state[m - 1]
                yield side, state[h - 1], previous, self.n_states

    def score(self, heads, chosen):
        """By definition: the product of everything."""
        value = numpy.prod(self.emissions[list(chosen)])
        for m, h in enumerate(heads):
            value *= self.root[chosen[m]] if h == 0 else self.weights[h - 1, m]
        for event in self.events(heads, chosen):
            value *= self.probability(*event)
        return value

    def choices(self):
        pairs = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        return list(product(*(range(a, b) for a, b in pairs)))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("sparse", [0.0, 0.4])
def test_chart_equals_enumeration(n, sparse):
    sentence = Sentence(n, most=3 if n < 5 else 2, sparse=sparse, seed=n)
    trees = projective_trees(n)
    z, arcs, states, largest = inside_outside(*sentence.arguments())
    scores = numpy.zeros(len(trees))
    expected = numpy.zeros(len(states))
    for chosen in sentence.choices():
        own = numpy.array([sentence.score(heads, chosen) for heads in trees])
        scores += own
        expected[list(chosen)] += own.sum()
    assert z == pytest.approx(scores.sum(), rel=1e-10)
    numpy.testing.assert_allclose(arcs, marginals(scores, trees), atol=1e-10 * (z or 1))
    numpy.testing.assert_allclose(states, expected, atol=1e-10 * (z or 1))
    if z > 0:
        with numpy.errstate(divide="ignore"):
            found, _ = sentence.factors().tree_scores(numpy.array(trees, dtype="int32"))
            numpy.testing.assert_allclose(found, numpy.log(scores), atol=1e-9)
    assert largest.shape == (n,) and (largest >= 0).all()


def test_no_tree_and_no_token():
    sentence = Sentence(3)
    sentence.weights[:] = 0.0
    z, arcs, states, _ = inside_outside(*sentence.arguments())
    assert z == 0.0 and not arcs.any() and not states.any()
    empty = numpy.zeros(0)
    arguments = (
        numpy.zeros(1, dtype="int32"), numpy.zeros(0, dtype="int32"), empty,
        sentence.rows, sentence.row_of, numpy.zeros((0, 0)), empty,
    )  # fmt: skip
    assert inside_outside(*arguments)[0] == 1.0


@pytest.mark.parametrize("seed", range(4))
def test_marginals_are_derivatives(seed):
    """d log Z / d log w of every arc, by finite differences, on a sentence too long to enumerate."""
    sentence = Sentence(9, 6, seed=seed, sparse=0.3)
    z, arcs, states, _ = inside_outside(*sentence.arguments())
    step = 1e-5
    for h, m in [(2, 5), (7, 1), (0, 8), (4, 3)]:
        kept = sentence.weights[h, m]
        values = []
        for factor in (1 + step, 1 - step):
            sentence.weights[h, m] = kept * factor
            values.append(inside_outside(*sentence.arguments())[0])
        sentence.weights[h, m] = kept
        slope = (values[0] - values[1]) / (2 * step)
        assert slope == pytest.approx(arcs[h + 1, m + 1], rel=1e-6, abs=1e-9 * z)
    assert arcs[:, 1:].sum(axis=0) == pytest.approx(numpy.full(9, z))
    sums = numpy.add.reduceat(states, sentence.offsets[:-1])
    assert sums == pytest.approx(numpy.full(9, z))


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_states_of_given_trees(n):
    sentence = Sentence(n, most=2, seed=10 + n)
    k = sentence.n_states
    trees = projective_trees(n)[:: max(1, len(projective_trees(n)) // 8)]
    prior = numpy.ones(len(sentence.states))
    for heads in trees:
        counts, roots = numpy.zeros((2, k, k + 1, k + 1)), numpy.zeros(k)
        arguments = (
            numpy.array([0, n], dtype="int32"), numpy.array(heads, dtype="int32"),
            numpy.ones((n, 2), dtype="uint8"), *sentence.arguments()[:5], sentence.root, prior,
        )  # fmt: skip
        posterior, _, (log_score,) = state_posteriors(*arguments, counts, roots)
        expected = numpy.zeros(len(posterior))
        expected_counts, expected_roots, total = counts * 0, roots * 0, 0.0
        sentence.weights[:] = 1.0
        for chosen in sentence.choices():
            score = sentence.score(heads, chosen)
            total += score
            expected[list(chosen)] += score
            for event in sentence.events(heads, chosen):
                expected_counts[event] += score
            expected_roots[sentence.states[chosen[heads.index(0)]]] += score
        assert log_score == pytest.approx(numpy.log(total))
        numpy.testing.assert_allclose(posterior, expected / total, atol=1e-12)
        numpy.testing.assert_allclose(counts, expected_counts / total, atol=1e-12)
        numpy.testing.assert_allclose(roots, expected_roots / total, atol=1e-12)
        # the same without counts, and for two sentences at once
        alone, _, _ = state_posteriors(*arguments)
        numpy.testing.assert_array_equal(alone, posterior)
        twice = [
            numpy.array([0, n, 2 * n], dtype="int32"), numpy.tile(arguments[1], 2),
            numpy.tile(arguments[2], (2, 1)),
            numpy.concatenate([sentence.offsets, sentence.offsets[1:] + sentence.offsets[-1]]),
            numpy.tile(sentence.states, 2), numpy.tile(sentence.emissions, 2),
            sentence.rows, sentence.row_of, numpy.tile(sentence.root, 2), numpy.tile(prior, 2),
        ]  # fmt: skip
        both, _, logs = state_posteriors(*twice)
        numpy.testing.assert_array_equal(both, numpy.tile(posterior, 2))
        assert logs.tolist() == [log_score, log_score]


def test_trees_known_in_part():
    """Token 3 of 4 has no head; only the left halves of 1-3 and the right ones of 3-4 are known."""
    sentence = Sentence(4, most=2, seed=3)
    heads = numpy.array([0, -1, -1, 3], dtype="int32")
    counted = numpy.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype="uint8")
    prior = numpy.random.default_rng(0).uniform(0.5, 1.0, len(sentence.states))
    starts = numpy.array([0, 4], dtype="int32")
    k = sentence.n_states
    counts = numpy.zeros((2, k, k + 1, k + 1))
    posterior, _, (log_score,) = state_posteriors(
        starts, heads, counted, *sentence.arguments()[:5], sentence.root, prior, counts
    )
    expected, total = numpy.zeros(len(posterior)), 0.0
    expected_counts = counts * 0
    for chosen in sentence.choices():
        a, b, c, d = (int(sentence.states[i]) for i in chosen)
        events = [
            (LEFT, a, k, k), (LEFT, b, k, k),
            (RIGHT, c, k, d), (RIGHT, c, d, k), (RIGHT, d, k, k),
        ]  # fmt: skip
        score = numpy.prod(sentence.emissions[list(chosen)])
        score *= sentence.root[chosen[0]] * prior[chosen[1]] * prior[chosen[2]]
        for event in events:
            score *= sentence.probability(*event)
        total += score
        expected[list(chosen)] += score
        for event in events:
            expected_counts[event] += score
    assert log_score == pytest.approx(numpy.log(total))
    numpy.testing.assert_allclose(posterior, expected / total, atol=1e-12)
    numpy.testing.assert_allclose(counts, expected_counts / total, atol=1e-12)


def test_large_trees_do_not_underflow():
    """A head with 5,000 children, and a chain of 5,000 heads."""
    n = 5000
    sentence = Sentence(n, most=2, seed=1)
    sentence.emissions *= 1e-3
    prior = numpy.ones(len(sentence.states))
    for heads in (numpy.ones(n), numpy.arange(n)):
        heads = heads.astype("int32")
        heads[0] = 0
        posterior, _, (log_score,) = state_posteriors(
            numpy.array([0, n], dtype="int32"), heads, numpy.ones((n, 2), dtype="uint8"),
            *sentence.arguments()[:5], sentence.root, prior,
        )  # fmt: skip
        assert numpy.isfinite(log_score)
        sums = numpy.add.reduceat(posterior, sentence.offsets[:-1])
        numpy.testing.assert_allclose(sums, 1.0, atol=1e-9)


def test_a_cycle_is_refused():
    sentence = Sentence(3)
    with pytest.raises(ValueError, match="no tree"):
        sentence.factors().tree_scores(numpy.array([[0, 3, 2]], dtype="int32"))
