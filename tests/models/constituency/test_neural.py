"""The network of spans: enumeration, gradients, and what it must give whatever stands beside a sentence."""

from itertools import product

import numpy
import pytest
from thinc.api import set_dropout_rate

from constituency_toy import TREES, binary_brackets
from gradients import check_gradients
from spacy_spectral.models.biaffine.embed import TokenNumbers
from spacy_spectral.models.biaffine.estimate import flat_weights, parameters, seeded
from spacy_spectral.models.constituency._span import given_gradient, given_items
from spacy_spectral.models.constituency.architecture import (
    ConstituencyRecipe,
    NeuralSpanRecipe,
    learn_encoder,
)
from spacy_spectral.models.constituency.model import ConstituencyModel
from spacy_spectral.models.constituency.neural import (
    Layers,
    SpanNetwork,
    SpanNetworkSettings,
    all_spans,
    predicted,
    tokens_of,
)
from spacy_spectral.models.constituency.span import gold_nodes
from spacy_spectral.treebank.brackets import read_brackets

SMALL = {"mix_size": 6, "scan_size": 4, "scan_depth": 1, "span_size": 5}


@pytest.fixture
def network(corpus):
    """Two networks with random weights, and their inputs."""
    encoder, rows = learn_encoder(corpus, None, 0)
    tokens = tokens_of(encoder, corpus.words, corpus.starts, rows)
    lexicon = TokenNumbers.fit(tokens, clusters=None, vectors=None)
    grammar = corpus.grammar
    n_phrases = len(grammar) - grammar.n_words
    settings, members = SpanNetworkSettings(**SMALL, networks=2), []
    for seed in (1, 2):
        with seeded(seed):
            members.append(Layers.make(settings, lexicon, grammar.n_words, n_phrases))
            for value in parameters(members[-1]).values():  # nothing is zero: nothing is hidden
                value += numpy.random.normal(0, 0.3, value.shape).astype("float32")
        for layer in members[-1]:
            set_dropout_rate(layer, 0.0)
    return SpanNetwork(lexicon, settings, members), tokens


def test_given_scores_against_enumeration():
    random = numpy.random.default_rng(0)
    n, n_words, n_phrases = 4, 2, 3
    words = random.normal(size=(n, n_words)).astype("float32")
    phrases = random.normal(size=(n * (n - 1) // 2, n_phrases)).astype("float32")
    cells = [(i, i + width) for width in range(1, n + 1) for i in range(n - width + 1)]
    score = {cell: words[i] if i < n else phrases[i - n] for i, cell in enumerate(cells)}
    starts = numpy.array([0, n])
    totals, posts = [], {}
    for tree in binary_brackets(0, n):
        for labels in product(*(range(len(score[cell])) for cell in tree)):
            total = sum(score[cell][y] for cell, y in zip(tree, labels, strict=True))
            totals.append(total)
            for cell, y in zip(tree, labels, strict=True):
                posts[cell, y] = posts.get((cell, y), 0.0) + numpy.exp(total)
    log_z = numpy.logaddexp.reduce(totals)
    _, begin, end, symbol, probs, _ = given_items(words, phrases, starts, 0.0)
    for i, j, y, prob in zip(begin, end, symbol, probs, strict=True):
        own = (int(i), int(j)), int(y) - (n_words if j - i > 1 else 0)
        assert prob == pytest.approx(posts[own] / numpy.exp(log_z), abs=2e-5)
    # of one of the trees, the loss, and the gradient P(span, symbol) - [gold]
    tree = [(0, 4), (0, 1), (1, 4), (1, 3), (1, 2), (2, 3), (3, 4)]
    symbols = [n_words + 1, 1, n_words, n_words + 2, 0, 1, 0]
    columns = [numpy.array(c, dtype="int32") for c in (*zip(*tree, strict=True), symbols)]
    loss, d_words, d_phrases, chosen = given_gradient(words, phrases, starts, *columns, 0.0)
    local = dict(zip(tree, symbols, strict=True))
    gold = {cell: y - (n_words if cell[1] - cell[0] > 1 else 0) for cell, y in local.items()}
    assert loss == pytest.approx(log_z - sum(score[cell][y] for cell, y in gold.items()), abs=2e-5)
    assert chosen.tolist() == list(range(len(phrases)))
    for cell, own in zip(cells, [*d_words, *d_phrases], strict=True):
        for y, value in enumerate(own):
            expected = posts[cell, y] / numpy.exp(log_z) - (gold.get(cell) == y)
            assert value == pytest.approx(expected, abs=2e-5)


def test_gradients_of_every_parameter(corpus, network):
    networks, tokens = network
    made, inputs, nodes = networks.members[0], networks.lexicon(tokens), gold_nodes(corpus)
    nodes_of = nodes.begin, nodes.end, nodes.symbol
    check_gradients(made, lambda: made.step(inputs, tokens.starts, nodes_of), step=2e-3)


def test_scores_do_not_depend_on_other_sentences(network):
    made, tokens = network
    whole, layer = made.read(tokens), made.members[1].scores
    words, phrases = predicted(layer, all_spans(whole.vectors[1], tokens.starts))
    # what training sees is the same
    (own, wider), _ = layer(all_spans(whole.vectors[1], tokens.starts), False)
    assert numpy.array_equal(own, words)
    assert numpy.array_equal(wider, phrases)
    at = 0
    for first, last in tokens.bounds():
        n = last - first
        one = tokens.at(slice(first, last), numpy.array([0, n], dtype="int32"))
        found = predicted(layer, all_spans(made.read(one).vectors[1], one.starts))
        assert numpy.array_equal(found[0], words[first:last])
        assert numpy.array_equal(found[1], phrases[at : at + n * (n - 1) // 2])
        at += n * (n - 1) // 2


def test_several_networks_have_the_mean_of_their_scores(network):
    made, tokens = network
    starts = tokens.starts.astype("int64")
    pairs = [
        predicted(member.scores, all_spans(vectors, tokens.starts))
        for member, vectors in zip(made.members, made.read(tokens).vectors, strict=True)
    ]
    mean = [(one + other) / 2 for one, other in zip(*pairs, strict=True)]
    expected, found = given_items(*mean, starts, 0.01), made.read(tokens).items(0.01)
    assert [own.tolist() for own in found] == [own.tolist() for own in expected]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    trees = read_all(tmp_path_factory.mktemp("trees"))
    recipe = NeuralSpanRecipe(**SMALL | {"span_size": 16}, epochs=60, rate=0.01, batch_size=12)
    return trees, recipe.fit(trees)


def read_all(path):
    (path / "trees.ptb").write_text(TREES, "utf8")
    return list(read_brackets(path / "trees.ptb"))


def test_the_network_learns_its_trees(trained):
    trees, model = trained
    words = [leaf.word for tree in trees for leaf in tree.leaves()]
    starts = numpy.cumsum([0, *(len(list(tree.leaves())) for tree in trees)])
    parsed, lists = model.parse(words, starts, k=3)
    tags = [leaf.label for tree in trees for leaf in tree.leaves()]
    assert [tag for own in parsed for tag in own.tags] == tags
    for tree, nbest in zip(parsed, lists, strict=True):
        # one of the list is the tree, with the same probability
        same = [own for own in nbest if own.nodes == tree.nodes and own.tags == tree.tags]
        assert len(same) == 1
        assert same[0].log_prob == pytest.approx(tree.log_prob, abs=1e-9)
        assert sum(numpy.exp(own.log_prob) for own in nbest) <= 1 + 1e-9
    data = model.to_bytes()
    again = ConstituencyModel.from_bytes(data)
    assert again.to_bytes() == data
    assert again.parse(words, starts)[0] == parsed


def test_the_same_data_give_the_same_bytes(tmp_path):
    trees = read_all(tmp_path)
    recipe = ConstituencyRecipe(states=2, neural=NeuralSpanRecipe(**SMALL, epochs=1, networks=2))
    data = recipe.fit(trees).to_bytes()
    assert recipe.fit(trees).to_bytes() == data
    model = ConstituencyModel.from_bytes(data)
    assert model.neural is not None
    assert model.spans is not None
    assert model.to_bytes() == data
    alone = ConstituencyRecipe(states=2, neural=NeuralSpanRecipe(**SMALL, epochs=1)).fit(trees)
    assert alone.neural is not None
    first, second = (flat_weights(member) for member in model.neural.members)
    assert numpy.array_equal(flat_weights(alone.neural.members[0]), first)
    assert not numpy.array_equal(first, second)


def test_files_that_do_not_say_how_many_networks_have_one(tmp_path):
    recipe = NeuralSpanRecipe(**SMALL, epochs=1)
    model = recipe.fit(read_all(tmp_path))
    payload = model.to_payload()
    del payload["neural"]["settings"]["networks"]
    again = ConstituencyModel.from_bytes(ConstituencyModel.FORMAT.pack(payload))
    assert again.to_bytes() == model.to_bytes()
