"""The models of spans and of anchored rules, and charts, against enumeration and finite differences."""

import numpy
import pytest

from constituency_toy import binary_brackets, full_forest, sentence_trees, toy_symbols
from spacy_spectral.models.constituency import _span, statistics
from spacy_spectral.models.constituency._anchored import AnchoredTable
from spacy_spectral.models.constituency._forest import coarse_items
from spacy_spectral.models.constituency.architecture import learn_encoder
from spacy_spectral.models.constituency.span import gold_forest, gold_nodes, new_table
from spacy_spectral.models.constituency.statistics import Items, RulePairs
from spacy_spectral.models.constituency.tokens import Arcs, fill_arcs


def random_table(corpus, tokens, seed=0, scale=0.3):
    table, _ = new_table(corpus, tokens, min_count=1)
    random = numpy.random.default_rng(seed)
    return table.with_weights(random.normal(size=len(table.weights)).astype("float32") * scale)


def test_model_of_spans_against_enumeration(corpus):
    _, tokens = learn_encoder(corpus, None, 0)
    table = random_table(corpus, tokens)
    table.begin_learning(1.0)
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
        return _span.learn(table, one, starts, numpy.array([0, len(tree)]), *columns, order, 0.0)

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
    start = table.weights.copy()

    def loss(weights):
        own = table.with_weights(weights)
        own.begin_learning(1.0)
        return _span.learn(own, tokens, corpus.starts, *nodes, order, 0.0)

    gradient = gradient_of(
        table,
        lambda rate: _span.learn(table, tokens, corpus.starts, *nodes, order, rate),
        lambda: table.weights.astype("float64"),
    )
    random = numpy.random.default_rng(0)
    for _ in range(5):
        direction = random.normal(size=len(start)).astype("float32")
        step = 1e-3
        slope = (loss(start + step * direction) - loss(start - step * direction)) / (2 * step)
        assert -(gradient @ direction) == pytest.approx(slope, rel=2e-2, abs=2e-2)


@pytest.mark.parametrize("arcs", [False, True])
def test_gradient_of_anchored_rules(corpus, arcs):
    _, tokens = learn_encoder(corpus, None, 0)
    heads = numpy.random.default_rng(2).integers(0, 4, len(corpus.words)).astype("int32")
    fill_arcs(tokens, Arcs(heads, ["nsubj", "obj"] * (len(heads) // 2) + ["x"] * (len(heads) % 2)))
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
    arrays = tokens, corpus.starts, forest, gold, gold_edge, order
    start_items, start_edges = spans.weights.copy(), edges.copy()

    def table(of_items, of_edges):
        of_items = spans.with_weights(of_items)
        found = AnchoredTable(of_items, rules, of_edges.copy(), arcs=arcs)
        found.begin_learning(1.0)
        return found

    learnt = table(start_items, start_edges)
    gradient = gradient_of(
        learnt,
        lambda rate: learnt.learn(*arrays, rate),
        lambda: numpy.concatenate([learnt.spans.weights, learnt.weights]).astype("float64"),
    )
    for _ in range(5):
        along, across = (
            random.normal(size=len(own)).astype("float32") for own in (start_items, start_edges)
        )
        step = 1e-3
        losses = [
            table(start_items + sign * step * along, start_edges + sign * step * across).learn(
                *arrays, 0.0
            )
            for sign in (1, -1)
        ]
        slope = (losses[0] - losses[1]) / (2 * step)
        found = -(gradient @ numpy.concatenate([along, across]))
        assert found == pytest.approx(slope, rel=2e-2, abs=2e-2)
    # what is learnt with agrees with what is parsed with
    items, edge_scores = learnt.scores(*arrays[:3])
    log_z, *_ = forest.posteriors(items, edge_scores, numpy.zeros(len(items)))
    first = forest.starts[1]
    own = (
        items[:first] @ gold[:first]
        + edge_scores[: forest.edge_starts[first]] @ gold_edge[: forest.edge_starts[first]]
    )
    assert learnt.learn(*arrays, 0.0) == pytest.approx(log_z[0] - own, abs=1e-4)


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
        found = forest.k_best(items, edges, roots, k)[0]
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
