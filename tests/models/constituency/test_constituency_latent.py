"""Grammars with states against a grammar that is known."""

from dataclasses import replace
from itertools import product

import numpy
import pytest
from scipy.sparse import csr_matrix

from constituency_toy import read
from spacy_spectral.models.constituency import statistics
from spacy_spectral.models.constituency.estimate import (
    Projections,
    _project,
    estimate,
    expected,
    from_moments,
    project,
    tree_forest,
)
from spacy_spectral.models.constituency.lexicon import learn_lexicon


def known_grammar(random, n_states=2):
    """A grammar with states over few symbols: S -> A B | A S, words a1 a2 of A, b1 b2 of B."""
    names = ["A", "B", "S"]
    rules = [("S", "A", "B"), ("S", "A", "S")]
    tensors = random.dirichlet(numpy.ones(2 * n_states**2) * 0.6, size=n_states)
    # [rule, parent, left, right]
    tensors = tensors.reshape(n_states, 2, n_states, n_states).transpose(1, 0, 2, 3)
    tensors[1] *= 0.5
    tensors /= tensors.sum(axis=(0, 2, 3), keepdims=True)
    words = {name: random.dirichlet([0.4, 0.4], size=n_states) for name in ("A", "B")}
    return names, rules, tensors, words, random.dirichlet(numpy.ones(n_states))


def draw(random, model, n):
    """Trees and the states of all their nodes, in the order of nodes of `encode`."""
    _names, rules, tensors, words, root = model
    n_states = len(root)
    lines, states = [], []

    def expand(symbol, state):
        if symbol != "S":
            word = random.choice(2, p=words[symbol][state])
            own.append(state)
            return f"({symbol} {symbol.lower()}{word})"
        flat = tensors[:, state].ravel()
        rule, left, right = numpy.unravel_index(
            random.choice(len(flat), p=flat / flat.sum()), tensors[:, state].shape
        )
        a = expand(rules[rule][1], int(left))
        b = expand(rules[rule][2], int(right))
        own.append(state)
        return f"(S {a} {b})"

    for _ in range(n):
        own: list[int] = []
        lines.append(expand("S", int(random.choice(n_states, p=root))))
        states += own
    return lines, numpy.array(states)


def tree_probability(model, line_tree):
    """P(tree) by summing over states."""
    _names, _rules, tensors, words, root = model

    def inside(node):
        if node.word:
            return words[node.label][:, int(node.word[1])]
        left, right = map(inside, node.children)
        rule = 1 if node.children[1].label == "S" else 0
        return numpy.einsum("ijk,j,k->i", tensors[rule], left, right)

    return root @ inside(line_tree)


def counted_grammar(lines, states, n_states=2):
    """The grammar whose parameters are the frequencies in annotated trees, counted one by one."""
    rules = numpy.zeros((2, n_states, n_states, n_states))
    words = {name: numpy.zeros((n_states, 2)) for name in ("A", "B")}
    root, places = numpy.zeros(n_states), iter(states.tolist())

    def count(node):
        if node.word:
            state = next(places)
            words[node.label][state, int(node.word[1])] += 1
            return state
        left, right = map(count, node.children)
        state = next(places)
        rules[int(node.children[1].label == "S"), state, left, right] += 1
        return state

    for tree in lines:
        root[count(tree)] += 1
    rules /= rules.sum(axis=(0, 2, 3))[None, :, None, None]
    for table in words.values():
        table /= table.sum(axis=1, keepdims=True)
    return None, None, rules, words, root / root.sum()


def exact_projections(corpus, states, random, n_states=2):
    """Projections as infinitely many trees would give them: what is expected of the features of a node given
    its state, in place of its features, so that products of the two are moments of the grammar itself."""
    inside, outside = numpy.zeros((2, len(corpus.symbol), n_states))
    for symbol in range(len(corpus.grammar)):
        own = corpus.symbol == symbol
        of_inside, of_outside = random.normal(size=(2, n_states, 7))
        matrices = (csr_matrix(values[states[own]]) for values in (of_inside, of_outside))
        inside[own], outside[own] = _project(*matrices, n_states, 0)
    sizes = numpy.full(len(corpus.grammar), n_states, dtype="int32")
    return Projections(sizes, inside, outside)


def probabilities(grammar, corpus, tmp_path, lines):
    """P(tree) of some trees, by a grammar that was learnt on a corpus."""
    trees = statistics.binary_trees(read(tmp_path, "\n".join(lines)))
    part = statistics.encode(trees, min_count=1)
    # the same numbers of symbols and rules
    names = {symbol: i for i, symbol in enumerate(corpus.grammar.symbols)}
    symbol = numpy.array([names[part.grammar.symbols[s]] for s in part.symbol], dtype="int32")
    number = {tuple(rule): i for i, rule in enumerate(corpus.grammar.rules.tolist())}
    rule = numpy.array([
        number[symbol[v], symbol[part.left[v]], symbol[part.right[v]]] if part.left[v] >= 0 else -1
        for v in range(len(symbol))
    ], dtype="int32")  # fmt: skip
    part = replace(part, symbol=symbol, rule=rule, grammar=corpus.grammar)
    rows = grammar.lexicon.rows(part.words, part.starts)
    log_z, *_ = grammar.posteriors(tree_forest(part), rows, part.starts)
    # scores of words are p(a | w) / p(a): P(w) times them is P(w | a)
    words = dict(zip(*numpy.unique(corpus.words, return_counts=True), strict=True))
    share = [
        numpy.log([words[w] / len(corpus.words) for w in part.words[a:b]]).sum()
        for a, b in zip(part.starts[:-1], part.starts[1:], strict=True)
    ]
    return numpy.exp(log_z + share)


@pytest.mark.parametrize("seed", range(4))
def test_a_known_grammar_comes_back_from_its_moments(tmp_path, seed):
    """The same distribution over trees, whatever the features are."""
    random = numpy.random.default_rng(seed)
    lines, states = draw(random, known_grammar(random), 400)
    trees = read(tmp_path, "\n".join(lines))
    known = counted_grammar(trees, states)
    corpus = statistics.encode(statistics.binary_trees(trees), min_count=1)
    nodes = exact_projections(corpus, states, random)
    grammar = from_moments(corpus, nodes, dense=1, smooth=False)
    assert (grammar.tensors < 0).any()
    # all trees of two to five words
    every = []
    for n in range(2, 6):
        for words in product("01", repeat=n):
            line = f"(B b{words[-1]})"
            for word in reversed(words[:-1]):
                line = f"(S (A a{word}) {line})"
            every.append(line)
    truth = [tree_probability(known, tree) for tree in read(tmp_path, "\n".join(every))]
    found = probabilities(grammar, corpus, tmp_path, every)
    numpy.testing.assert_allclose(found, truth, rtol=1e-8, atol=1e-12)


def test_error_falls_with_samples(tmp_path):
    """The spectral estimator, on trees of a known grammar: total variation over its most frequent trees."""
    model = known_grammar(numpy.random.default_rng(7))
    errors = []
    for n in (300, 6000):
        lines, _ = draw(numpy.random.default_rng(n), model, n)
        trees = read(tmp_path, "\n".join(lines))
        corpus = statistics.encode(statistics.binary_trees(trees), min_count=1)
        frequent = list(dict.fromkeys(lines))[:40]
        found = probabilities(estimate(corpus, "spectral", states=4), corpus, tmp_path, frequent)
        truth = [tree_probability(model, tree) for tree in read(tmp_path, "\n".join(frequent))]
        errors.append(numpy.abs(found / found.sum() - truth / numpy.sum(truth)).sum() / 2)
    assert errors[1] < errors[0] < 0.5
    assert errors[1] < 0.1


def test_em_improves_the_likelihood(corpus, tmp_path):
    model = known_grammar(numpy.random.default_rng(5))
    lines, _ = draw(numpy.random.default_rng(0), model, 500)
    corpus = statistics.encode(
        statistics.binary_trees(read(tmp_path, "\n".join(lines))), min_count=1
    )
    forest = tree_forest(corpus)
    values = []
    for iterations in (1, 10):
        grammar = estimate(corpus, "em", states=2, seed=1, iterations=iterations)
        rows = grammar.lexicon.rows(corpus.words, corpus.starts)
        values.append(grammar.posteriors(forest, rows, corpus.starts)[0].mean())
        nodes, _ = expected(corpus, forest, grammar)
        numpy.testing.assert_allclose(nodes.inside.sum(axis=1), 1.0, atol=1e-4)
    assert values[1] > values[0]


def test_projections_are_dual(tmp_path):
    model = known_grammar(numpy.random.default_rng(5))
    lines, _ = draw(numpy.random.default_rng(0), model, 2000)
    corpus = statistics.encode(
        statistics.binary_trees(read(tmp_path, "\n".join(lines))), min_count=1
    )
    nodes = project(corpus, states=3)
    for symbol, size in enumerate(nodes.n_states.tolist()):
        own = corpus.symbol == symbol
        y, z = (
            nodes.inside[own, :size].astype("float64"),
            nodes.outside[own, :size].astype("float64"),
        )
        if size > 1:
            numpy.testing.assert_allclose(y.T @ z / own.sum(), numpy.eye(size), atol=5e-2)
            numpy.testing.assert_allclose((y**2).mean(axis=0), 1.0, atol=1e-3)
            assert (y.mean(axis=0) >= -1e-6).all()


def test_lexicon():
    words = ["the", "dog", "runs", "the", "dogs", "sings"] * 3 + ["Paris", "glitters"]
    symbols = numpy.array([0, 1, 2, 0, 1, 2] * 3 + [1, 2], dtype="int32")
    lexicon, units, parents = learn_lexicon(words, symbols, 3)
    starts = numpy.array([0, len(words)])
    rows = lexicon.rows(["the", "blitters", "``"], numpy.array([0, 3]))
    prior = numpy.bincount(symbols) / len(symbols)
    own = slice(lexicon.starts[rows[0]], lexicon.starts[rows[0] + 1])
    probs = lexicon.scores[own] * prior[lexicon.symbols[own]]
    assert probs.sum() == pytest.approx(1.0, abs=1e-3)
    assert lexicon.symbols[own][probs.argmax()] == 0
    # an unknown word is judged by what it looks like
    own = slice(lexicon.starts[rows[1]], lexicon.starts[rows[1] + 1])
    assert lexicon.symbols[own][(lexicon.scores[own] * prior[lexicon.symbols[own]]).argmax()] == 2
    # at the start of a sentence a capital means nothing
    assert lexicon.rows(["Dog"], numpy.array([0, 1]))[0] == lexicon.words.index("dog")
    assert (lexicon.rows(words, starts) < len(words)).all()
    assert (parents[units] >= 0).all()
    assert parents[:3].tolist() == [-1, -1, -1]
