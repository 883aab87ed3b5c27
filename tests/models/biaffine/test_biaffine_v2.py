"""The network over an embedding of its own: gradients, training, files, words it has never seen."""

from dataclasses import replace

import numpy
import pytest
from thinc.api import set_dropout_rate

from gradients import check_gradients, clear_gradients, nodes_of
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.biaffine import embed, network
from spacy_spectral.models.biaffine.architecture import build_biaffine_v2
from spacy_spectral.models.biaffine.embed import TokenNumbers
from spacy_spectral.models.biaffine.estimate import (
    NetworkSettings,
    build_network,
    parameters,
    seeded,
)
from spacy_spectral.models.biaffine.layers import product
from spacy_spectral.models.biaffine.parser import BiaffineParser
from spacy_spectral.models.eigenwords.clusters import WordClusters, clusters_to_bytes
from spacy_spectral.models.eigenwords.vectors import WordVectors
from spacy_spectral.trees.calibration import judge
from spacy_spectral.trees.interface import AskedArcs, Temperature
from spacy_spectral.trees.pseudoprojective import Inventory
from spacy_spectral.trees.sentences import MISSING, Tokens, Treebank

SMALL = {"mix_size": 6, "scan_size": 4, "scan_depth": 1, "arc_size": 5, "label_size": 4}


def treebank(n=60, length=5, seed=0):
    """Words of class D hang on the next word, others on the last."""
    rng = numpy.random.default_rng(seed)
    words, tags, heads, labels = [], [], [], []
    for _ in range(n):
        own = rng.choice(["D", "N", "V"], length).tolist()
        tags += own
        words += [f"{tag.lower()}{rng.integers(4)}" for tag in own]
        heads += [i + 2 if own[i] == "D" else length for i in range(length - 1)] + [0]
        labels += [own[i] for i in range(length - 1)] + ["root"]
    starts = numpy.arange(0, n * length + 1, length, dtype="int32")
    blank = [""] * len(words)
    tokens = Tokens(starts, words, tags, [None] * len(words), blank, blank)
    return Treebank(tokens, numpy.array(heads, dtype="int32"), labels)


class Vectors(WordVectors):
    """Something known of two words."""

    def __init__(self):
        super().__init__(["d0", "n1"], numpy.array([[1, 0, 0], [0, 0.6, 0.8]], dtype="float16"))


def fit(data, *, dev=None, vectors=None, **settings):
    messages = []
    recipe = build_biaffine_v2(**(SMALL | {"epochs": 3, "batch_size": 50, **settings})).attrs[
        "recipe"
    ]
    parser = recipe.fit(data, dev=dev, clusters=None, vectors=vectors, report=messages.append)
    return parser, messages


@pytest.fixture(scope="module")
def parser():
    return fit(treebank(), vectors=Vectors(), mix_size=16, scan_size=16, epochs=30)[0]


def test_gradients_of_every_parameter():
    data = treebank(3)
    lexicon = TokenNumbers.fit(data.tokens, clusters=None, vectors=Vectors())
    inventory = Inventory.from_labels(data.labels)
    with seeded(1):
        network = build_network(NetworkSettings(**SMALL), lexicon, inventory)
        for value in parameters(
            network.layers
        ).values():  # nothing is zero, so that nothing is hidden
            value += numpy.random.normal(0, 0.3, value.shape).astype("float32")
    for layer in (network.encoder, network.arcs, network.labels):
        set_dropout_rate(layer, 0.0)
    inputs, labels = lexicon(data.tokens), inventory.encode(data.labels)
    heads = data.heads.copy()
    heads[2] = MISSING

    def loss():
        return network.step(inputs, data.tokens.starts, heads, labels)

    check_gradients(network.layers, loss, within=0.03)


def test_sentences_count_as_much_as_their_weights():
    """The gradient of a batch is the sum of those of its sentences, each times its weight."""
    data = treebank(2)
    lexicon = TokenNumbers.fit(data.tokens, clusters=None, vectors=None)
    inventory = Inventory.from_labels(data.labels)
    with seeded(1):
        network = build_network(NetworkSettings(**SMALL), lexicon, inventory)
    for layer in network.layers:
        set_dropout_rate(layer, 0.0)

    def gradient(some, weights=None):
        nodes = nodes_of(network.layers)
        clear_gradients(network.layers)
        part = data.select(numpy.isin(numpy.arange(len(data.tokens)), some))
        labels = inventory.encode(part.labels)
        if weights is not None:
            lengths = numpy.diff(part.tokens.starts)
            weights = numpy.repeat(numpy.array(weights, dtype="float32"), lengths)
        network.step(lexicon(part.tokens), part.tokens.starts, part.heads, labels, weights)
        return numpy.concatenate([n.get_grad(k).ravel() for n in nodes for k in n.param_names])

    assert len(data.tokens) >= 2
    first, second = gradient([0]), gradient([1])
    assert numpy.abs(first).max() > 0
    found = gradient([0, 1], [0.25, 2.0])
    assert found == pytest.approx(0.25 * first + 2.0 * second, abs=1e-4)
    assert (gradient([0, 1], [1.0, 1.0]) == gradient([0, 1])).all()


def test_learns(parser):
    test = treebank(30, seed=7)
    judged = judge(parser.parse(test.tokens), test, parser.label_names)
    assert judged.uas > 0.9 and judged.las > 0.9


def test_training_is_repeatable_and_leaves_the_generator_alone():
    data = treebank(20)
    state = numpy.random.get_state()[1].copy()
    one, messages = fit(data, dev=treebank(5, seed=3))
    assert (numpy.random.get_state()[1] == state).all()
    numpy.random.random(10)
    other, _ = fit(data)
    assert one.to_bytes() == other.to_bytes()
    assert fit(data, seed=1)[0].to_bytes() != one.to_bytes()
    assert len(messages) == 3 and "dev UAS" in messages[-1]


def test_bytes(parser):
    parser = parser.with_temperature(Temperature(2.0, 0.5))
    data = parser.to_bytes()
    loaded = BiaffineParser.from_bytes(data)
    assert loaded.to_bytes() == data
    assert loaded.temperature == Temperature(2.0, 0.5)
    tokens = treebank(5, seed=4).tokens
    one, other = parser.parse(tokens), loaded.parse(tokens)
    assert (one.heads == other.heads).all()
    assert (one.head_probs() == other.head_probs()).all()
    for damaged in (data[:-3], b"", data[:60]):
        with pytest.raises(ValueError, match=r"\[S00"):
            BiaffineParser.from_bytes(damaged)


@pytest.mark.parametrize("name", ["mix_size", "scan_size", "scan_depth", "arc_size", "clusters"])
def test_sizes_are_compared_with_the_file_before_anything_is_made(parser, name, monkeypatch):
    """Otherwise a file of some kilobytes could ask for terabytes."""

    def build(*arguments):
        raise MemoryError

    monkeypatch.setattr("spacy_spectral.models.biaffine.parser.build_network", build)
    payload = unpack("biaffine parser", 1, parser.to_bytes())
    if name == "clusters":
        payload["clusters"] = clusters_to_bytes(WordClusters({}, {}, [1 << 30]))
    else:
        payload["settings"][name] = 64 if name == "scan_depth" else 1 << 14
    with pytest.raises(ValueError, match=r"S005.*weights"):
        BiaffineParser.from_bytes(pack("biaffine parser", 1, payload))


def test_temperature(parser):
    tokens = treebank(5, seed=4).tokens
    sure = parser.parse(tokens)
    unsure = parser.with_temperature(Temperature(3.0, 3.0)).parse(tokens)
    assert unsure.head_probs().mean() < sure.head_probs().mean()
    assert unsure.label_probs().mean() < sure.label_probs().mean()
    for s in range(5):
        assert unsure.marginals(s)[:, 1:].sum(axis=0) == pytest.approx(numpy.ones(5))


def test_words_and_tags_that_training_did_not_have(parser):
    words = ["Никогда", "123", "d0", "", "🙂"]
    starts = numpy.array([0, 5], dtype="int32")
    nothing = [None] * 5
    tokens = Tokens(starts, words, ["?"] * 5, nothing, ["X"] * 5, ["A=B"] * 5)
    parses = parser.parse(tokens)
    assert (parses.heads == 0).sum() == 1
    assert numpy.isfinite(parses.head_probs()).all()


def test_vectors_of_words():
    vectors = Vectors()
    found = vectors(["d0", "N1", "n1", "unknown"])
    assert found[0].tolist() == [1, 0, 0]
    assert found[2] == pytest.approx([0, 0.6, 0.8], abs=1e-3)
    assert not found[3].any()
    assert WordVectors.from_bytes(vectors.to_bytes())(["d0"]).tolist() == [[1, 0, 0]]


def test_one_sentence_is_enough_and_none_is_not():
    data = treebank(1)
    assert len(fit(data, epochs=1)[0].parse(data.tokens).heads) == 5
    with pytest.raises(ValueError, match=r"\[S401\]"):
        fit(data.select(numpy.zeros(1, dtype=bool)))


@pytest.mark.parametrize(
    "settings",
    [
        *({"scan_size": 3}, {"epochs": 0}, {"rate": 0}, {"dropout": 1.0}, {"word_dropout": -0.1}),
        *({"seed": -1}, {"seed": 1 << 32}),
    ],
)
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=r"\[S451\]"):
        build_biaffine_v2(**settings)


def test_messages_name_the_architecture():
    with pytest.raises(ValueError, match=r"\[S441\] spacy-spectral\.Biaffine\.v2 needs max_length"):
        build_biaffine_v2(max_length=1)


@pytest.mark.parametrize(("n_in", "n_out"), [(8, 1), (128, 57), (384, 768), (640, 30)])
def test_a_row_of_a_product_does_not_depend_on_the_others(n_in, n_out):
    rng = numpy.random.default_rng(n_out)
    rows, W = rng.normal(size=(700, n_in)), rng.normal(size=(n_out, n_in))
    rows, W = rows.astype("float32"), W.astype("float32")
    expected = product(rows, W)
    assert expected == pytest.approx(rows.astype("float64") @ W.T.astype("float64"), abs=1e-3)
    for n in (1, 2, 3, 5, 8, 17, 33, 64, 101, 256, 699):
        begin = int(rng.integers(0, 701 - n))
        assert (product(rows[begin : begin + n], W) == expected[begin : begin + n]).all()


def named(data, name):
    return replace(data, tokens=replace(data.tokens, sources=[name] * len(data.heads)))


def test_two_treebanks_with_other_labels():
    """The name of the treebank decides whose labels a sentence gets, also after a round trip."""
    one, other = treebank(60), treebank(60, seed=1)
    other.labels = [label.lower() for label in other.labels]
    both = Treebank.joined([named(one, "one"), named(other, "other")])
    parser, _ = fit(both, mix_size=16, scan_size=16, label_size=16, rate=0.01, epochs=30)
    assert parser.sources == ["one", "other"]
    unseen = treebank(30, seed=2)
    for own in (parser, BiaffineParser.from_bytes(parser.to_bytes())):
        for name, wanted in (("one", unseen.labels), ("other", map(str.lower, unseen.labels))):
            parses = own.parse(named(unseen, name).tokens)
            assert [own.label_names[i] for i in parses.labels] == list(wanted)
    with pytest.raises(ValueError, match=r"S644.*'third'.*one, other"):
        parser.parse(named(unseen, "third").tokens)
    with pytest.raises(ValueError, match="S644"):
        parser.scorer(named(unseen, "third").tokens)
    assert len(parser.parse(unseen.tokens).heads) == len(unseen.heads)


@pytest.mark.parametrize("n_tokens", [1, 7, 20])
def test_some_sentences_at_a_time_are_as_all_at_once(parser, monkeypatch, n_tokens):
    data = treebank(9, length=4, seed=3)
    numbers = numpy.arange(5, dtype="int32")
    heads = numpy.concatenate([numbers[numbers != m] for _ in range(9) for m in range(1, 5)])
    arc_starts = numpy.arange(0, len(heads) + 1, 4, dtype="int32")
    asked = AskedArcs(slice(None), data.tokens.starts, arc_starts, heads)
    whole, parses = parser.scorer(data.tokens)(asked), parser.parse(data.tokens)
    monkeypatch.setattr(embed, "_TOKENS_AT_ONCE", n_tokens)
    monkeypatch.setattr(network, "_TOKENS_AT_ONCE", n_tokens)
    for one, other in zip(whole, parser.scorer(data.tokens)(asked), strict=True):
        assert one.tobytes() == other.tobytes()
    assert parses.head_probs().tobytes() == parser.parse(data.tokens).head_probs().tobytes()


def test_layers_predict_what_they_compute_in_training(parser):
    inputs = parser.lexicon(treebank(5).tokens)
    encoder = parser.network.encoder
    set_dropout_rate(encoder, 0.0)
    embeddings = next(node for node in encoder.walk() if node.name == "embeddings")
    embeddings.attrs["rate"] = 0.0
    in_training, _ = encoder.begin_update(inputs)
    predicted = encoder.predict(inputs)
    assert predicted.data.tobytes() == in_training.data.tobytes()
    assert predicted.lengths.tolist() == in_training.lengths.tolist()
