"""The models against enumeration, finite differences and a grammar that is known."""

from dataclasses import replace
from itertools import product

import numpy
import pytest
from scipy.sparse import csr_matrix

from constituency_toy import full_forest, sentence_trees, toy_symbols
from spacy_spectral.models.constituency import _span, statistics
from spacy_spectral.models.constituency._anchored import AnchoredTable
from spacy_spectral.models.constituency._coarse import coarse_items
from spacy_spectral.models.constituency._table import FeatureTable
from spacy_spectral.models.constituency.anchored import gold_forest
from spacy_spectral.models.constituency.estimate import (
    estimate,
    expected,
    from_moments,
    tree_forest,
)
from spacy_spectral.models.constituency.forest import RulePairs
from spacy_spectral.models.constituency.items import Items
from spacy_spectral.models.constituency.kbest import k_best
from spacy_spectral.models.constituency.lexicon import learn_lexicon
from spacy_spectral.models.constituency.mixture import Mixture
from spacy_spectral.models.constituency.model import ConstituencyModel
from spacy_spectral.models.constituency.precision import (
    DENSE,
    MEANS,
    VECTORS,
    grow,
    row_sizes,
    shrink,
)
from spacy_spectral.models.constituency.projections import Projections, _project, project
from spacy_spectral.models.constituency.span import gold_nodes, new_table
from spacy_spectral.models.constituency.templates import compile_templates
from spacy_spectral.models.constituency.tokens import Encoder
from spacy_spectral.models.constituency.training import ConstituencyRecipe, learn_encoder
from spacy_spectral.treebank.brackets import read_brackets

TREES = """
(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .)))
(ROOT (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))
(ROOT (S (NP (NN dog)) (VP (VBZ sees) (NP (NP (DT a) (NN cat)) (PP (IN in) (NP (DT the) (NN park))))) (. .)))
(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NN cat)) (PP (IN in) (NP (DT the) (NN park)))) (. .)))
(ROOT (NP (NN park)))
(ROOT (S (NP (DT a) (NN park)) (VP (VBZ sleeps) (PP (IN in) (NP (DT a) (NN dog)))) (. .)))
"""


def read(tmp_path, text=TREES):
    path = tmp_path / "trees.ptb"
    path.write_text(text, encoding="utf8")
    return list(read_brackets(path))


@pytest.fixture
def corpus(tmp_path):
    return statistics.encode(statistics.binary_trees(read(tmp_path)), min_count=1)


def random_table(corpus, tokens, seed=0, scale=0.3):
    table, _ = new_table(compile_templates(), corpus, tokens, min_count=1)
    slots, row_start, label, weight, n_words, n_phrases = table.parts()
    random = numpy.random.default_rng(seed)
    weight = random.normal(size=len(weight)).astype("float32") * scale
    return FeatureTable(compile_templates(), slots, row_start, label, weight, n_words, n_phrases)


def binary_brackets(begin, end):
    """All ways to bracket some words, as lists of spans."""
    if end - begin == 1:
        return [[(begin, end)]]
    return [
        [(begin, end), *left, *right]
        for k in range(begin + 1, end)
        for left, right in product(binary_brackets(begin, k), binary_brackets(k, end))
    ]


def test_model_of_spans_against_enumeration(corpus):
    _, tokens = learn_encoder(corpus, None, 0)
    table = random_table(corpus, tokens)
    s = 1  # five nodes of words, so that all trees can be written down
    first, last = corpus.starts[s], corpus.starts[s + 1]
    n = int(last - first)
    one, starts = tokens[first:last], numpy.array([0, n])
    item_starts, begin, end, symbol, probs, is_best = _span.items(table, one, starts, 0.0)
    assert item_starts.tolist() == [0, len(begin)]
    # the scores of items: log-likelihoods of trees differ by them
    n_words, n_phrases = table.n_words, table.n_phrases
    spans = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]

    def loss(labels, tree):
        nodes = numpy.array([(i, j, labels[i, j]) for i, j in tree], dtype="int32")
        columns = (numpy.ascontiguousarray(column) for column in nodes.T)
        order = numpy.zeros(1, dtype="int32")
        return _span.learn(
            table, one, starts, numpy.array([0, len(tree)]), *columns, order, 0.1, False
        )

    trees = binary_brackets(0, n)
    base = {(i, j): 0 if j - i == 1 else n_words for i, j in spans}
    scores = {}
    for i, j in spans:
        tree = next(tree for tree in trees if (i, j) in tree)
        size, offset = (n_words, 0) if j - i == 1 else (n_phrases, n_words)
        start = loss(base, tree)
        scores[i, j] = numpy.array([
            start - loss(base | {(i, j): offset + label}, tree) for label in range(size)
        ])  # fmt: skip
    totals = numpy.array([
        -loss(base, tree) + sum(numpy.logaddexp.reduce(scores[span]) for span in tree) for tree in trees
    ])  # fmt: skip
    # probabilities of all labelled trees add up to one
    assert numpy.exp(totals).sum() == pytest.approx(1.0, abs=1e-5)
    expected_probs = {}
    for tree, total in zip(trees, totals, strict=True):
        for span in tree:
            own = numpy.exp(scores[span] - numpy.logaddexp.reduce(scores[span]) + total)
            expected_probs[span] = expected_probs.get(span, 0) + own
    for i, j, label, prob in zip(begin, end, symbol, probs, strict=True):
        expected_prob = expected_probs[int(i), int(j)][label - (n_words if j - i > 1 else 0)]
        assert prob == pytest.approx(expected_prob, abs=1e-5)
    # the best tree has the largest sum of posteriors of spans
    sums = [sum(expected_probs[span].sum() for span in tree) for tree in trees]
    best = trees[int(numpy.argmax(sums))]
    found = {(int(i), int(j)) for i, j, own in zip(begin, end, is_best, strict=True) if own}
    assert found == set(best)
    assert is_best.sum() == 2 * n - 1


def gradient_of(table, learn, weights):
    """Gradients: a step of AdaGrad whose sums of squares are huge is linear in them."""
    before = weights()
    huge = 1e8
    table.begin_learning(huge)
    learn(numpy.sqrt(huge) * 1e-3)
    return (weights() - before) / 1e-3


def test_gradient_of_spans(corpus):
    _, tokens = learn_encoder(corpus, None, 0)
    nodes = gold_nodes(corpus)
    order = numpy.arange(len(corpus), dtype="int32")[:1]
    table = random_table(corpus, tokens)
    start = table.parts()[3].copy()

    def loss(weights):
        own = FeatureTable(compile_templates(), *table.parts()[:3], weights, *table.parts()[4:])
        return _span.learn(own, tokens, corpus.starts, *nodes, order, 0.1, False)

    gradient = gradient_of(
        table,
        lambda rate: _span.learn(table, tokens, corpus.starts, *nodes, order, rate),
        lambda: table.parts()[3].astype("float64"),
    )
    random = numpy.random.default_rng(0)
    for _ in range(5):
        direction = random.normal(size=len(start)).astype("float32")
        step = 1e-3
        slope = (loss(start + step * direction) - loss(start - step * direction)) / (2 * step)
        assert -(gradient @ direction) == pytest.approx(slope, rel=2e-2, abs=2e-2)


def test_gradient_of_anchored_rules(corpus):
    _, tokens = learn_encoder(corpus, None, 0)
    templates = compile_templates()
    spans = random_table(corpus, tokens)
    items = Items(*_span.items(spans, tokens, corpus.starts, 1e-4)[:4])
    strong = numpy.zeros(len(items.begin), dtype=bool)
    forest, gold, gold_edge = gold_forest(
        corpus, items, strong=strong, pairs=RulePairs(corpus.grammar)
    )
    assert gold.sum() == len(corpus.symbol)
    assert gold_edge.sum() == (corpus.left >= 0).sum()
    rules = statistics.rule_features(corpus.grammar)
    random = numpy.random.default_rng(1)
    edges = (random.normal(size=1 << 12) * 0.3).astype("float32")
    order = numpy.array([0], dtype="int32")
    arrays = (
        tokens, corpus.starts, forest.starts, forest.begin, forest.end, forest.symbol, forest.edge_starts,
        forest.left, forest.right, forest.rule, gold, gold_edge, numpy.zeros(len(forest.left)), order,
    )  # fmt: skip
    parts = spans.parts()
    start_items, start_edges = parts[3].copy(), edges.copy()

    def table(of_items, of_edges):
        own = FeatureTable(templates, *parts[:3], of_items.copy(), *parts[4:])
        return AnchoredTable(own, templates.anchored, rules, of_edges.copy())

    learnt = table(start_items, start_edges)
    gradient = gradient_of(
        learnt,
        lambda rate: learnt.learn(*arrays, rate),
        lambda: numpy.concatenate([learnt.spans.parts()[3], learnt.parts()]).astype("float64"),
    )
    for _ in range(5):
        along, across = (
            random.normal(size=len(own)).astype("float32") for own in (start_items, start_edges)
        )
        step = 1e-3
        losses = [
            table(start_items + sign * step * along, start_edges + sign * step * across).learn(
                *arrays, 0.1, False
            )
            for sign in (1, -1)
        ]
        slope = (losses[0] - losses[1]) / (2 * step)
        found = -(gradient @ numpy.concatenate([along, across]))
        assert found == pytest.approx(slope, rel=2e-2, abs=2e-2)
    # what is learnt with agrees with what is parsed with
    items, edge_scores = learnt.scores(*arrays[:8], forest.rule)
    log_z, *_ = forest.posteriors(items, edge_scores, numpy.zeros(len(items)))
    first = forest.starts[1]
    own = (
        items[:first] @ gold[:first]
        + edge_scores[: forest.edge_starts[first]] @ gold_edge[: forest.edge_starts[first]]
    )
    assert learnt.learn(*arrays, 0.1, False) == pytest.approx(log_z[0] - own, abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_k_best_against_enumeration(seed):
    random = numpy.random.default_rng(seed)
    forest = full_forest(toy_symbols(seed=seed, keep=0.5), 4)
    items, edges, roots = (
        random.normal(size=n) for n in (len(forest.begin), len(forest.left), len(forest.begin))
    )
    trees = sentence_trees(forest)
    scores = sorted(
        (
            roots[tree[0][0]] + sum(items[x] + (edges[e] if e >= 0 else 0.0) for x, e in tree)
            for tree in trees
        ),
        reverse=True,
    )
    for k in (1, 3, len(trees) + 5):
        found = k_best(forest, 0, items, edges, roots, k)
        assert len(found) == min(k, len(trees))
        numpy.testing.assert_allclose([score for _, score in found], scores[:k], rtol=0, atol=1e-10)
        assert len({tuple(tree) for tree, _ in found}) <= len(found)
    if trees:
        assert found[0][0] == forest.best(items, edges, roots)[0]


def test_max_rule_against_enumeration():
    random = numpy.random.default_rng(0)
    forest = full_forest(toy_symbols(seed=1), 4)
    items, edges = random.normal(size=len(forest.begin)), random.normal(size=len(forest.left))
    trees = sentence_trees(forest)

    def value(tree):
        words = numpy.prod([abs(items[x]) for x, e in tree if e < 0])
        return (
            words * numpy.prod([abs(edges[e]) for _, e in tree if e >= 0]) * abs(items[tree[0][0]])
        )

    best = max(trees, key=value)
    log_items, log_edges = numpy.log(numpy.abs(items)), numpy.log(numpy.abs(edges))
    found = forest.best(numpy.where(forest.is_word, log_items, 0.0), log_edges, log_items)
    assert set(found[0]) == {x for x, _ in best}


@pytest.mark.parametrize("beam", [0.0, 1e-9])
def test_plain_chart_against_enumeration(beam):
    random = numpy.random.default_rng(0)
    grammar = toy_symbols(seed=2, keep=0.6)
    n, n_symbols = 4, len(grammar)
    probs = random.uniform(0.1, 1.0, size=len(grammar.rules))
    root = numpy.concatenate([numpy.zeros(2), random.uniform(0.1, 1.0, size=2)])
    scores = random.uniform(0.1, 30.0, size=(n, 2))
    pairs = RulePairs(grammar)
    forest = full_forest(grammar, n)
    values = []
    trees = sentence_trees(forest)
    for tree in trees:
        value = root[forest.symbol[tree[0][0]]]
        for item, edge in tree:
            value *= (
                probs[forest.rule[edge]]
                if edge >= 0
                else scores[forest.begin[item], forest.symbol[item]]
            )
        values.append(value)
    by_item = numpy.zeros(len(forest.begin))
    for tree, value in zip(trees, values, strict=True):
        for item, _ in tree:
            by_item[item] += value / sum(values)
    begin, end, symbol, found, log_z = coarse_items(
        numpy.arange(0, 2 * n + 1, 2, dtype="int32"), numpy.tile([0, 1], n).astype("int32"), scores.ravel(),
        pairs.start, pairs.parent, probs[pairs.rule], root, numpy.ones(n_symbols), beam, 0.0,
    )  # fmt: skip
    assert log_z == pytest.approx(numpy.log(sum(values)), rel=1e-12)
    place = {
        key: i for i, key in enumerate(zip(forest.begin, forest.end, forest.symbol, strict=True))
    }
    for key, prob in zip(zip(begin, end, symbol, strict=True), found, strict=True):
        assert prob == pytest.approx(by_item[place[key]], abs=1e-12)


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


def test_files(tmp_path):
    trees = read(tmp_path)
    for recipe in (
        ConstituencyRecipe(states=2),
        ConstituencyRecipe(spans=False, states=2),
        ConstituencyRecipe(estimator=None, anchored=False),
    ):
        model = recipe.fit(trees)
        data = model.to_bytes()
        assert ConstituencyModel.from_bytes(data).to_bytes() == data
        words, starts = ["a", "dog", "sees", "Rome", "."], numpy.array([0, 3, 5])
        ours, theirs = (
            own.parse(words, starts) for own in (model, ConstituencyModel.from_bytes(data))
        )
        # as text: a tree that is no more than a guess has nan for its probability
        assert str(ours) == str(theirs)
        for damaged in (b"", data[:-5], data[:60] + b"x" + data[61:], data + b"x"):
            with pytest.raises(ValueError, match=r"S00[234]"):
                ConstituencyModel.from_bytes(damaged)


def test_probabilities_add_up(tmp_path):
    model = ConstituencyRecipe(states=2).fit(read(tmp_path))
    words = ["the", "dog", "sees", "a", "cat", "in", "the", "park", "."]
    starts = numpy.array([0, len(words)])
    (parsed,), (best,) = model.parse(words, starts, k=1000)
    probs = numpy.exp([tree.log_prob for tree in best])
    assert probs.sum() == pytest.approx(1.0, abs=1e-4)
    # a constituent is as probable as the trees that have it
    for node in parsed.nodes:
        key = (node.label, node.begin, node.end)
        total = sum(
            prob
            for prob, tree in zip(probs, best, strict=True)
            if any((n.label, n.begin, n.end) == key for n in tree.nodes)
        )
        assert node.prob == pytest.approx(total, abs=1e-3)
    own = [
        tree.log_prob
        for tree in best
        if [n[:3] for n in tree.nodes] == [n[:3] for n in parsed.nodes]
    ]
    assert parsed.log_prob == pytest.approx(max(own), abs=1e-6)


def test_rules_that_were_not_seen(tmp_path):
    # prepositional phrases follow nouns, and verbs have objects: so they may follow verbs
    lines = ["(S (NP (NN a) (PP (IN in) (NN b))) (VP (VBZ c) (NP (DT the) (NN d))))"] * 30
    trees = read(tmp_path, "\n".join(lines))
    corpus = statistics.encode(statistics.binary_trees(trees), min_count=1)
    grammar = corpus.grammar
    possible = grammar.rules[grammar.seen == 0]
    assert len(possible)
    keys = {tuple(rule) for rule in grammar.rules[grammar.seen > 0].tolist()}
    assert not keys & {tuple(rule) for rule in possible.tolist()}
    assert (grammar.backoff[grammar.seen == 0] > 0).all()
    assert (grammar.backoff[grammar.seen > 0] == 0).all()
    by_parent = numpy.bincount(grammar.rules[:, 0], weights=grammar.backoff)
    assert by_parent.max() < 0.5
    names = [symbol.name for symbol in grammar.symbols]
    shown = {tuple(names[i] for i in rule) for rule in possible.tolist()}
    assert ("VP", "VBZ", "PP") in shown
    assert ("NP", "NN", "NP") in shown
    # what was never a head does not become one
    assert not any(right == "IN" and parent != "PP" for parent, _, right in shown)


def test_encoder_tells_known_words_apart(corpus):
    encoder, rows = learn_encoder(corpus, None, 0)
    assert isinstance(encoder, Encoder)
    assert rows.shape == (len(corpus.words), rows.shape[1])
    dog, cat, unknown, same = encoder.words(["dog", "cat", "xyzzy", "plugzzy"])[:, 0]
    assert dog != cat
    assert unknown == same


def test_tensors_as_bytes():
    random = numpy.random.default_rng(0)
    kind = numpy.array([DENSE, VECTORS, MEANS, DENSE], dtype="uint8")
    states = numpy.array([[3, 2, 4], [2, 3, 1], [5, 5, 5], [1, 1, 2]])
    sizes = row_sizes(kind, states)
    assert sizes.tolist() == [3] * 8 + [2, 3, 1] + [1] * 2
    scales = 10.0 ** random.uniform(-20, 3, size=len(sizes))
    values = (random.normal(size=sizes.sum()) * numpy.repeat(scales, sizes)).astype("float32")
    values[:3] = 0
    small, found = shrink(values, sizes)
    again = grow(small, found, sizes)
    # no number is off by more than half a step of its row
    assert (numpy.abs(again - values) <= numpy.repeat(found, sizes) * 0.5001).all()
    rows = numpy.split(values, numpy.cumsum(sizes)[:-1])
    largest = numpy.array([numpy.abs(row).max() for row in rows])
    assert (found <= largest / 127 * 1.002).all()
    # and what was rounded stays as it is
    twice = shrink(again, sizes)
    assert (twice[0] == small).all()
    assert (twice[1] == found).all()


def test_weights_of_the_product(tmp_path):
    """A model whose weight is 0 says nothing."""
    model = ConstituencyRecipe(states=2).fit(read(tmp_path))
    parts = {"encoder": model.encoder, "spans": model.spans, "anchored": model.anchored}
    words, starts = ["the", "dog", "sees", "a", "park", "."], numpy.array([0, 6])
    alone = ConstituencyModel(model.grammar, **parts).score(words, starts)[0]
    both = ConstituencyModel(
        model.grammar, **parts, latent=model.latent, mixture=Mixture(1.0, 0.0, 0.0, 1.0)
    ).score(words, starts)[0]
    numpy.testing.assert_allclose(both.posteriors, alone.posteriors, atol=1e-12)
    # a temperature makes probabilities of trees flatter and keeps their order
    probs = []
    for temperature in (1.0, 4.0):
        mixture = Mixture(1.0, 1.0, 0.0, temperature)
        own = ConstituencyModel(model.grammar, **parts, latent=model.latent, mixture=mixture)
        _, (best,) = own.parse(words, starts, k=200)
        probs.append(numpy.array([tree.log_prob for tree in best]))
    ratio = (probs[0][1:] - probs[0][0]) / (probs[1][1:] - probs[1][0])
    numpy.testing.assert_allclose(ratio, 4.0, rtol=1e-6)
    data = own.to_bytes()
    assert ConstituencyModel.from_bytes(data).mixture == mixture
