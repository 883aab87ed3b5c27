"""The latent tree model against sums over all hidden states, exact moments and known models."""

from itertools import pairwise, product

import numpy
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix

from spacy_spectral.models.rerank.tree_estimate import (
    Moments,
    Trees,
    TreeSettings,
    bigram_counts,
    em_step,
    estimate_tree_model,
    projected,
    recover,
    symbol_vectors,
    whitened,
)
from spacy_spectral.models.rerank.tree_model import Alphabet, TreeModel

WORDS = list("abcdef")
EMISSIONS = numpy.array(
    [
        [0.5, 0.05, 0.1],
        [0.3, 0.05, 0.1],
        [0.05, 0.4, 0.1],
        [0.05, 0.4, 0.1],
        [0.05, 0.05, 0.2],
        [0.05, 0.05, 0.4],
    ]
)
LEFT = numpy.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.6, 0.1]])
RIGHT = numpy.array([[0.1, 0.3, 0.6], [0.5, 0.4, 0.1], [0.2, 0.1, 0.7]])
TRANSITIONS = numpy.stack([LEFT, RIGHT])
ROOT = numpy.array([0.2, 0.5, 0.3])
# the states of tokens that have children on both sides; any will do
PARENTS = numpy.array([0.35, 0.4, 0.25])


def all_trees(n):
    """Heads of every tree of n tokens with one root, crossing arcs included."""
    for heads in product(range(n + 1), repeat=n):
        if heads.count(0) != 1 or any(head == i for i, head in enumerate(heads, start=1)):
            continue
        if all(_reaches_root(heads, i) for i in range(1, n + 1)):
            yield heads


def _reaches_root(heads, i):
    for _ in heads:
        i = heads[i - 1]
        if i == 0:
            return True
    return False


def brute_force(symbols, heads, emissions=EMISSIONS, transitions=TRANSITIONS, root=ROOT):
    """p(tree): the sum over all hidden states."""
    total = 0.0
    for states in product(range(len(root)), repeat=len(symbols)):
        p = 1.0
        for i, (symbol, head, state) in enumerate(zip(symbols, heads, states, strict=True), 1):
            p *= emissions[symbol, state]
            p *= root[state] if head == 0 else transitions[int(i > head), states[head - 1], state]
        total += p
    return total


def exact_bigrams():
    blocks = []
    for transition in TRANSITIONS:
        blocks.append(EMISSIONS @ transition.T @ numpy.diag(PARENTS) @ EMISSIONS.T)
    return numpy.concatenate([*blocks, *(block.T for block in blocks)], axis=1)


def exact_moments(vectors):
    means = vectors.T @ EMISSIONS
    children = [means @ transition.T for transition in TRANSITIONS]
    return Moments(
        sigma_left=means * PARENTS @ children[0].T,
        sigma_right=means * PARENTS @ children[1].T,
        lambda_left=children[0] * PARENTS @ children[1].T,
        third=numpy.stack([children[0] * PARENTS * row @ children[1].T for row in means]),
        roots=means @ ROOT,
        n=numpy.inf,
    )


def exact_parameters():
    bigrams = exact_bigrams()
    frequency = bigrams.sum(axis=1) / bigrams.sum()
    # so many that the correction for rare symbols does not matter
    vectors = whitened(symbol_vectors(csr_matrix(1e14 * bigrams), 2), frequency, 3)
    return recover(exact_moments(vectors), vectors, frequency), frequency


def known_model():
    return TreeModel.from_emissions(
        Alphabet(WORDS, words=False), 1e6 * EMISSIONS @ PARENTS, EMISSIONS, TRANSITIONS, ROOT
    )


def draw(n_trees, seed, length=7):
    """Trees of random shapes with states and symbols of the known model."""
    random = numpy.random.default_rng(seed)
    sentences = []
    for _ in range(n_trees):
        heads = numpy.zeros(length, dtype="int64")
        order = random.permutation(length)
        for at in range(1, length):
            heads[order[at]] = order[random.integers(at)] + 1
        states = numpy.zeros(length, dtype="int64")
        for i in order:
            head = heads[i] - 1
            weights = ROOT if head < 0 else TRANSITIONS[int(i > head), states[head]]
            states[i] = random.choice(3, p=weights)
        words = [WORDS[random.choice(6, p=EMISSIONS[:, state])] for state in states]
        sentences.append((words, heads.tolist()))
    return sentences


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_scores_are_sums_over_hidden_states(n):
    model = known_model()
    symbols = numpy.arange(n, dtype="int32")[::-1].copy()
    trees = numpy.array(list(all_trees(n)), dtype="int32")
    logs, signs = model.log_scores(symbols, trees)
    expected = [brute_force(symbols, heads) for heads in trees]
    assert_allclose(numpy.exp(logs), expected, rtol=1e-10)
    assert (signs == 1).all()
    # whichever tree is the first, with which the others are compared
    for shift in range(0, len(trees), 5):
        rolled = model.log_scores(symbols, numpy.roll(trees, shift, axis=0))[0]
        assert_allclose(numpy.exp(rolled), numpy.roll(expected, shift), rtol=1e-10)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_exact_moments_give_the_exact_model(n):
    (emissions, transitions, root), _ = exact_parameters()
    recovered = TreeModel.from_emissions(
        Alphabet(WORDS, words=False), 1e6 * EMISSIONS @ PARENTS, emissions, transitions, root
    )
    trees = numpy.array(list(all_trees(n)), dtype="int32")
    symbols = numpy.random.default_rng(n).integers(0, 6, size=trees.shape).astype("int32")
    logs, signs = recovered.log_scores(symbols, trees)
    # `log_scores` of the known parameters is tested above against the sum; here against it where it is
    # cheap, and against the sum itself for some of the larger trees
    expected, _ = known_model().log_scores(symbols, trees)
    assert_allclose(logs, expected, atol=1e-8)
    assert (signs == 1).all()
    for t in range(0, len(trees), max(1, len(trees) // 20)):
        assert_allclose(numpy.exp(logs[t]), brute_force(symbols[t], trees[t]), rtol=1e-8)


def test_exact_moments_give_probabilities():
    (emissions, transitions, root), frequency = exact_parameters()
    order = [int(numpy.abs(emissions.T - column).sum(axis=1).argmin()) for column in EMISSIONS.T]
    assert sorted(order) == [0, 1, 2]
    assert_allclose(emissions[:, order], EMISSIONS, atol=1e-9)
    assert_allclose(transitions[:, order][:, :, order], TRANSITIONS, atol=1e-9)
    assert_allclose(root[order], ROOT, atol=1e-9)
    for found, given in zip(
        projected(emissions, transitions, root, frequency, softness=0.0),
        (emissions, transitions, root),
        strict=True,
    ):
        assert_allclose(found, given, atol=1e-9)


def draw_triples(n, seed):
    """Trees of a parent with a child on either side."""
    random = numpy.random.default_rng(seed)

    def choose(weights):
        return (random.random(len(weights))[:, None] > weights.cumsum(axis=1)).sum(axis=1)

    parents = choose(numpy.tile(ROOT, (n, 1)))
    states = numpy.stack([choose(LEFT[parents]), parents, choose(RIGHT[parents])], axis=1).ravel()
    symbols = choose(EMISSIONS.T[states]).astype("int32")
    heads = numpy.tile(numpy.array([2, 0, 2], "int32"), n)
    return Trees(symbols, heads, numpy.arange(0, 3 * n + 1, 3, dtype="int32"))


def test_moments_of_samples_converge():
    errors = []
    shapes = numpy.array(list(all_trees(4)), dtype="int32")
    symbols = numpy.random.default_rng(0).integers(0, 6, size=shapes.shape).astype("int32")
    exact = numpy.exp(known_model().log_scores(symbols, shapes)[0])
    for n in (5_000, 50_000, 500_000):
        trees = draw_triples(n, seed=1)
        frequency = numpy.bincount(trees.symbols, minlength=6) / len(trees.symbols)
        vectors = whitened(symbol_vectors(bigram_counts(trees, 6), 2), frequency, 3)
        parameters = recover(Moments.count(trees, vectors), vectors, frequency)
        model = TreeModel.from_emissions(Alphabet(WORDS, words=False), 1e6 * frequency, *parameters)
        logs, signs = model.log_scores(symbols, shapes)
        errors.append(numpy.abs(signs * numpy.exp(logs) - exact).sum() / exact.sum())
    # like 1 / sqrt(n), with room for luck
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.05, errors


def test_moments_are_those_of_all_triples():
    sentences = draw(50, seed=3)
    alphabet = Alphabet(WORDS, words=False)
    vectors = numpy.random.default_rng(0).standard_normal((6, 3))
    trees = Trees(
        numpy.concatenate([alphabet.encode(words) for words, _ in sentences]),
        numpy.array([h for _, heads in sentences for h in heads], dtype="int32"),
        numpy.arange(0, 7 * 50 + 1, 7, dtype="int32"),
    )
    triples = []
    for words, heads in sentences:
        y = vectors[alphabet.encode(words)]
        for parent in range(1, 8):
            children = [i for i in range(1, 8) if heads[i - 1] == parent]
            for left, right in product(children, children):
                if left < parent < right:
                    triples.append((y[left - 1], y[parent - 1], y[right - 1]))
    left, parent, right = numpy.array(triples).transpose(1, 0, 2)
    moments = Moments.count(trees, vectors)
    assert moments.n == len(triples)
    assert_allclose(moments.sigma_left, parent.T @ left / len(triples), atol=1e-12)
    assert_allclose(moments.sigma_right, parent.T @ right / len(triples), atol=1e-12)
    assert_allclose(moments.lambda_left, left.T @ right / len(triples), atol=1e-12)
    third = numpy.einsum("ta,tb,tc->bac", left, parent, right) / len(triples)
    assert_allclose(moments.third, third, atol=1e-12)


def test_em_raises_the_likelihood():
    sentences = draw(300, seed=2)
    likelihoods = []
    for iterations in (0, 1, 2, 5, 10):
        model = estimate_tree_model(
            sentences, words=False, settings=TreeSettings(states=3, em_iterations=iterations)
        )
        logs = [model.log_scores(model.encode(w), numpy.array([h]))[0][0] for w, h in sentences]
        likelihoods.append(sum(logs))
    assert all(after > before for before, after in pairwise(likelihoods))


def test_em_counts_are_expectations():
    """The expected counts of one tree, against posteriors by enumeration."""
    symbols, heads = numpy.array([3, 0, 5, 1], "int32"), numpy.array([2, 0, 4, 2], "int32")
    trees = Trees(symbols, heads, numpy.array([0, 4], "int32"))
    pairs = numpy.zeros((2, 3, 3))
    roots = numpy.zeros(3)
    total = 0.0
    for states in product(range(3), repeat=4):
        p = ROOT[states[1]] * numpy.prod(EMISSIONS[symbols, list(states)])
        for i in (0, 2, 3):
            p *= TRANSITIONS[int(i + 1 > heads[i]), states[heads[i] - 1], states[i]]
        total += p
        roots[states[1]] += p
        for i in (0, 2, 3):
            pairs[int(i + 1 > heads[i]), states[heads[i] - 1], states[i]] += p
    _, transitions, root = em_step(trees, EMISSIONS, TRANSITIONS, ROOT, numpy.full(6, 1 / 6))
    expected = pairs / total + 0.1
    assert_allclose(transitions, expected / expected.sum(axis=2, keepdims=True), rtol=1e-10)
    expected = roots / total + 0.1
    assert_allclose(root, expected / expected.sum(), rtol=1e-10)


def test_head_probabilities_compare_whole_trees():
    model = known_model()
    random = numpy.random.default_rng(4)
    for words, heads in draw(20, seed=5, length=6):
        ids = model.encode(words)
        probs = model.head_probs(ids, heads)
        for i in random.permutation(6)[:3]:
            if heads[i] == 0:
                assert (probs[i] == 0).all()
                continue
            scores = numpy.zeros(6)
            for head in range(1, 7):
                moved = [*heads[:i], head, *heads[i + 1 :]]
                if head != i + 1 and all(_reaches_root(moved, j) for j in range(1, 7)):
                    scores[head - 1] = brute_force(ids, moved)
            assert_allclose(probs[i], scores / scores.sum(), atol=1e-10)


def test_trees_of_a_list_do_not_influence_each_other():
    model = known_model()
    trees = numpy.array(list(all_trees(4)), dtype="int32")
    symbols = numpy.random.default_rng(0).integers(0, 6, size=trees.shape).astype("int32")
    together = model.log_scores(symbols, trees)[0]
    alone = [model.log_scores(s, t[None])[0][0] for s, t in zip(symbols, trees, strict=True)]
    assert_allclose(together, alone, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 50, 3000])
def test_any_length_gives_a_finite_value(n):
    model = known_model()
    chain = numpy.arange(n, dtype="int32")  # each token hangs on the one before
    flat = numpy.ones(n, dtype="int32")
    flat[0] = 0
    logs, signs = model.log_scores(numpy.arange(n, dtype="int32") % 7, numpy.stack([chain, flat]))
    assert numpy.isfinite(logs).all()
    assert (signs == 1).all()
    assert (logs > -10 * n).all()


def test_negative_values_have_a_sign():
    model = TreeModel.from_emissions(
        Alphabet(WORDS, words=False), numpy.ones(6), EMISSIONS, TRANSITIONS, -ROOT
    )
    logs, signs = model.log_scores(numpy.array([1], "int32"), numpy.array([[0]]))
    assert signs.tolist() == [-1]
    assert_allclose(numpy.exp(logs[0]), EMISSIONS[1] @ ROOT)
    model.root[:] = 0
    logs, signs = model.log_scores(numpy.array([1], "int32"), numpy.array([[0]]))
    assert signs.tolist() == [0]
    assert numpy.isfinite(logs).all()


def test_unknown_words_are_taken_as_their_class():
    sentences = [
        (["The", "dog", "barked", "loudly"], [2, 3, 0, 3]),
        (["The", "cat", "jumped", "quickly"], [2, 3, 0, 3]),
        (["The", "cow", "walked", "slowly"], [2, 3, 0, 3]),
    ]
    model = estimate_tree_model(sentences, settings=TreeSettings(states=2))
    assert "The" in model.alphabet.symbols and "barked" not in model.alphabet.symbols
    # all words in -ed share a class, and unseen ones join it
    assert model.encode(["talked"]) == model.encode(["barked"])
    unknown = model.encode(["日本語"])[0]
    assert 0 <= unknown <= len(model.alphabet)
    logs, _ = model.log_scores(model.encode(["日本語", "talked"]), numpy.array([[2, 0]]))
    assert numpy.isfinite(logs).all()


def test_unknown_tags_fit_every_state():
    model = estimate_tree_model(draw(50, seed=0), words=False, settings=TreeSettings(states=3))
    (unknown,) = model.encode(["new"])
    assert unknown == len(model.alphabet)
    assert (model.ratios[unknown] == 1).all()


def test_words_of_a_dictionary_are_known():
    random = numpy.random.default_rng(0)
    sentences = draw(400, seed=0)
    # vectors that tell the words' states apart, and one for a word like "a" that no tree has
    vectors = EMISSIONS / EMISSIONS.sum(axis=1, keepdims=True)
    vectors = numpy.concatenate([vectors, vectors[:1]]) + 0.01 * random.standard_normal((7, 3))
    settings = TreeSettings(states=3)
    model = estimate_tree_model(sentences, dictionary=([*WORDS, "new"], vectors), settings=settings)
    known, new, other = model.ratios[model.encode(["a", "new", "c"])]
    assert numpy.abs(known - new).sum() < numpy.abs(other - new).sum()


def test_round_trip_and_same_bytes_again():
    sentences = draw(100, seed=0)
    settings = TreeSettings(states=3)
    first = estimate_tree_model(sentences, words=False, settings=settings)
    again = estimate_tree_model(sentences, words=False, settings=settings)
    data = first.to_bytes()
    assert data == again.to_bytes()
    loaded = TreeModel.from_bytes(data)
    assert loaded.to_bytes() == data
    words, heads = sentences[0]
    scores = [m.log_scores(m.encode(words), numpy.array([heads]))[0] for m in (first, loaded)]
    assert scores[0] == scores[1]


def test_bad_input_is_named():
    model = known_model()
    ids = numpy.array([0, 1, 2], "int32")
    for heads, code in (
        ([[2, 1, 0]], "S504"),  # a cycle
        ([[0, 0, 1]], "S504"),  # two roots
        ([[0, 1]], "S505"),
        ([[0, 1, 4]], "S505"),
    ):
        with pytest.raises(ValueError, match=code):
            model.log_scores(ids, numpy.array(heads))
    with pytest.raises(ValueError, match="S506"):
        model.log_scores(ids + 10, numpy.array([[0, 1, 2]]))
    with pytest.raises(ValueError, match="S503"):
        estimate_tree_model([(["a", "b"], [-1, -1])])
    with pytest.raises(ValueError, match="S501"):
        TreeSettings(estimator="magic")
    with pytest.raises(ValueError, match="S502"):
        TreeSettings(states=0)
    with pytest.raises(ValueError, match="S002"):
        TreeModel.from_bytes(b"no model")


def test_incomplete_trees_are_left_out():
    sentences = draw(60, seed=0)
    model = estimate_tree_model(
        [*sentences, (["x", "y"], [-1, 1]), (["x", "y"], [0, 0])],
        words=False,
        settings=TreeSettings(states=3),
    )
    alone = estimate_tree_model(sentences, words=False, settings=TreeSettings(states=3))
    assert model.to_bytes() == alone.to_bytes()
