"""The encoder of a network that has learnt from raw text: gradients, what it learns, files, and how networks
begin with it."""

import re
from dataclasses import replace

import numpy
import pytest
from thinc.api import set_dropout_rate, use_ops

from damages import closed, opened, places
from gradients import check_gradients
from spacy_spectral.base.cache import Repeated
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.biaffine import pretrain as module
from spacy_spectral.models.biaffine.architecture import build_biaffine_v2
from spacy_spectral.models.biaffine.embed import TokenNumbers
from spacy_spectral.models.biaffine.estimate import build_encoder, seeded
from spacy_spectral.models.biaffine.layers import output_scores
from spacy_spectral.models.biaffine.parser import BiaffineParser
from spacy_spectral.models.biaffine.pretrain import (
    PretrainedEncoder,
    PretrainingSettings,
    TaggedText,
    pretrain,
)
from spacy_spectral.models.eigenwords.clusters import WordClusters
from spacy_spectral.models.eigenwords.vectors import WordVectors
from spacy_spectral.models.loglinear.architecture import LogLinearRecipe
from spacy_spectral.models.product.architecture import ProductRecipe
from spacy_spectral.models.shag.architecture import ShagRecipe
from spacy_spectral.trees.sentences import Tokens, Treebank

SIZES = {"mix_size": 12, "scan_size": 12, "scan_depth": 1}
WORDS = [f"{letter}{i}" for letter in "abcd" for i in range(5)]
CLUSTERS = WordClusters(
    {w: ("abcd".index(w[0]) // 2, "abcd".index(w[0])) for w in WORDS}, {}, (2, 4)
)
VECTORS = WordVectors(["a0", "b1"], numpy.array([[1, 0], [0.6, 0.8]], dtype="float16"))


def sentences(n, seed=0):
    """Words whose letters go round: a, b, c, d, a, ... from any of them on. The tag is the letter."""
    rng = numpy.random.default_rng(seed)
    words = []
    for _ in range(n):
        first = rng.integers(4)
        words += [f"{'abcd'[(first + i) % 4]}{rng.integers(5)}" for i in range(6)]
    starts = numpy.arange(0, 6 * n + 1, 6, dtype="int32")
    blank = [""] * len(words)
    return Tokens(starts, words, [word[0] for word in words], [None] * len(words), blank, blank)


def text_of(*parts):
    text = TaggedText()
    for part in parts:
        text.add(part)
    return text


def learn(text, *, vectors=VECTORS, report=lambda n, loss: None, **settings):
    given = PretrainingSettings(**(SIZES | {"batch_size": 60} | settings))
    return pretrain(text, given, clusters=CLUSTERS, vectors=vectors, report=report)


@pytest.fixture(scope="module")
def encoder():
    return learn(text_of(sentences(400)), epochs=3, rate=0.02)


def test_gradients_of_every_parameter():
    text = text_of(sentences(4))
    lexicon = TokenNumbers.of_counts(
        text.counts("words"),
        {name: text.counts(name) for name in ("symbols", "pos", "morphs")},
        clusters=CLUSTERS,
        vectors=VECTORS,
    )
    seen = module._Seen.of(text, lexicon)
    tokens = numpy.arange(text.n_words)
    inputs, wanted = seen.inputs(tokens, text.starts())
    with seeded(1), use_ops("numpy"):
        layers = [build_encoder(PretrainingSettings(**SIZES), lexicon), output_scores(4)]
        layers[1].initialize(X=layers[0].predict(inputs))
    for layer in layers:
        set_dropout_rate(layer, 0.0)
        for node in layer.walk():
            for name in node.param_names:
                value = node.get_param(name)
                value += numpy.random.normal(0, 0.3, value.shape).astype("float32")
    hidden = numpy.array([1, 5, 6, 20])
    check_gradients(layers, lambda: module._step(*layers, inputs, hidden, wanted[hidden]))


def test_hidden_words_are_guessed_from_their_neighbours(encoder):
    """Whatever words are hidden, the letter is known from the others: the best loss is 0. Without them it is
    that of four equal clusters."""
    assert encoder.loss < 0.7
    assert encoder.n_words == 2400
    shuffled = sentences(400)
    order = numpy.random.default_rng(0).permutation(len(shuffled.words))
    shuffled.words = [shuffled.words[i] for i in order]
    shuffled.symbols = [shuffled.symbols[i] for i in order]
    blind = learn(text_of(shuffled), epochs=3, rate=0.02)
    assert blind.loss == pytest.approx(numpy.log(4), abs=0.15)


def test_same_bytes_for_the_same_text_however_it_comes():
    whole = sentences(40)
    one = learn(text_of(whole))
    chosen = numpy.arange(40) < 13
    two = learn(text_of(whole.select(chosen), whole.select(~chosen)))
    names = sorted(set(whole.words))
    codes = numpy.array([names.index(word) for word in whole.words])
    three = learn(text_of(replace(whole, words=Repeated(names, codes))))
    assert one.to_bytes() == two.to_bytes()
    assert set(one.lexicon.strings["lower"]) == set(three.lexicon.strings["lower"])
    assert learn(text_of(whole), seed=1).to_bytes() != one.to_bytes()


def test_no_more_words_than_asked_for():
    text = TaggedText()
    assert text.add(sentences(5), most=47)
    assert not text.add(sentences(5), most=47)
    assert text.n_words == 42
    assert text.starts().tolist() == list(range(0, 43, 6))
    assert sum(text.counts("words").values()) == 42


def test_progress_is_told():
    told = []
    learn(text_of(sentences(40)), epochs=2, report=lambda n, loss: told.append((n, loss)))
    assert sum(n for n, _ in told) == 480
    assert all(loss > 0 for _, loss in told)


def test_without_words_or_vectors():
    with pytest.raises(ValueError, match=r"\[S205\]"):
        learn(text_of(sentences(0)))
    assert learn(text_of(sentences(3)), vectors=None).lexicon.n_vector == 0


def test_words_without_a_cluster_are_not_guessed():
    """In most batches there is nothing to be guessed here."""
    tokens = sentences(40)
    tokens.words[1:] = ["?" * (i % 3 + 1) for i in range(len(tokens.words) - 1)]
    assert numpy.isfinite(learn(text_of(tokens)).loss)
    tokens.words[0] = "?"
    with pytest.raises(ValueError, match=r"\[S464\]"):
        learn(text_of(tokens))


@pytest.mark.parametrize("rate", [1e6, 1e30, float("inf")])
def test_a_training_that_goes_astray(rate):
    """Nothing is given that could not be read again."""
    with pytest.raises(ValueError, match=rf"\[S466\].*{re.escape(str(rate))}"):
        learn(text_of(sentences(200)), rate=rate)


@pytest.mark.parametrize(
    "settings",
    [
        *({"scan_size": 3}, {"scan_depth": 0}, {"epochs": 0}, {"rate": 0}, {"masked": 0}),
        *({"masked": 1}, {"seed": -1}, {"seed": 1 << 32}),
    ],
)
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=r"\[S460\]"):
        PretrainingSettings(**settings)


def test_bytes(encoder):
    data = encoder.to_bytes()
    loaded = PretrainedEncoder.from_bytes(data)
    assert loaded.to_bytes() == data
    tokens = sentences(3, seed=5)
    states = [e.encoder.predict(e.lexicon(tokens)).data for e in (encoder, loaded)]
    assert (states[0] == states[1]).all()


def test_damaged_files(encoder):
    data = encoder.to_bytes()
    for damaged in (data[:-3], b"", data[:60], b"nothing"):
        with pytest.raises(ValueError, match=r"\[S00"):
            PretrainedEncoder.from_bytes(damaged)
    payload = opened(data)
    for place in [place for place in places(payload) if place]:
        for bad in (None, -1, "x", [], {}, float("nan")):
            try:
                broken = closed(changed(payload, place, bad))
                PretrainedEncoder.from_bytes(broken)
            except ValueError as error:
                assert "[S00" in str(error), (place, bad, error)


def changed(value, place, new):
    """A copy of what `opened` gave, with another value at a place."""
    if not place:
        return new
    if isinstance(value, dict):
        return value | {place[0]: changed(value[place[0]], place[1:], new)}
    if isinstance(value, list):
        i = place[0]
        return [*value[:i], changed(value[i], place[1:], new), *value[i + 1 :]]
    if hasattr(value, "payload"):
        return value._replace(payload=changed(value.payload, place, new))
    return value


@pytest.mark.parametrize("name", ["mix_size", "scan_size", "scan_depth"])
def test_sizes_are_compared_with_the_file_before_anything_is_made(encoder, name, monkeypatch):
    def build(*arguments):
        raise MemoryError

    monkeypatch.setattr(module, "build_encoder", build)
    payload = unpack("pretrained encoder", 1, encoder.to_bytes())
    payload["settings"][name] = 64 if name == "scan_depth" else 1 << 14
    with pytest.raises(ValueError, match=r"S005.*weights"):
        PretrainedEncoder.from_bytes(pack("pretrained encoder", 1, payload))


# ---------------------------------------------------------------- networks that begin with it


def treebank(n=30, seed=3):
    """Every word depends on the next one, the last on the root."""
    tokens = sentences(n, seed)
    heads = numpy.tile([2, 3, 4, 5, 6, 0], n).astype("int32")
    return Treebank(tokens, heads, ["dep", "dep", "dep", "dep", "dep", "root"] * n)


def recipe(**settings):
    sizes = SIZES | {"arc_size": 8, "label_size": 8, "epochs": 1, "batch_size": 60}
    return build_biaffine_v2(**(sizes | settings)).attrs["recipe"]


def test_a_network_begins_with_the_states_of_the_encoder(encoder):
    """Before it learns it has the same states of known words, bit by bit, though it knows other words and
    several treebanks beside them."""
    data = treebank()
    data.tokens.words[:2] = ["new", "new"]
    lexicon = TokenNumbers.fit(data.tokens, clusters=None, vectors=None)
    extended = encoder.lexicon.with_strings_of(lexicon)
    assert extended.strings["lower"][-1] == "new"
    assert extended.clusters is CLUSTERS
    with seeded(0), use_ops("numpy"):
        own = build_encoder(PretrainingSettings(**SIZES), extended)
    tokens = sentences(5, seed=9)
    expected = encoder.encoder.predict(encoder.lexicon(tokens)).data
    assert (own.predict(extended(tokens)).data != expected).any()
    encoder.start(own, PretrainingSettings(**SIZES), extended)
    assert (own.predict(extended(tokens)).data == expected).all()

    # the name of a treebank adds to the first layer, and takes nothing away
    data.tokens.sources = ["one", "two"] * (len(data.tokens.words) // 2)
    named = encoder.lexicon.with_strings_of(
        TokenNumbers.fit(data.tokens, clusters=None, vectors=None)
    )
    assert named.sources == ["one", "two"]
    with seeded(0), use_ops("numpy"):
        own = build_encoder(PretrainingSettings(**SIZES), named)
    encoder.start(own, PretrainingSettings(**SIZES), named)
    # tokens without a name have zeros for it
    assert own.predict(named(tokens)).data == pytest.approx(expected, abs=1e-5)


def test_a_parser_learns_faster(encoder):
    data, messages = treebank(), [[], []]
    with_it = recipe().fit(data, pretrained=encoder, report=messages[0].append)
    recipe().fit(data, clusters=CLUSTERS, vectors=VECTORS, report=messages[1].append)
    losses = [float(own[-1].rpartition(" ")[2]) for own in messages]
    assert losses[0] < losses[1]
    assert with_it.vectors is VECTORS
    again = BiaffineParser.from_bytes(with_it.to_bytes())
    assert again.to_bytes() == with_it.to_bytes()
    assert recipe().fit(data, pretrained=encoder, report=print).to_bytes() == with_it.to_bytes()


def test_sizes_must_fit(encoder):
    with pytest.raises(ValueError, match=r"S461.*scan_size = 12, the network has scan_size = 8"):
        recipe(scan_size=8).fit(treebank(), pretrained=encoder, report=print)


def test_which_models_can_begin_with_it():
    network, linear = recipe(), LogLinearRecipe()
    assert network.can_be_pretrained
    assert not linear.can_be_pretrained and not ShagRecipe().can_be_pretrained
    assert ProductRecipe({"a": linear, "b": network}, None).can_be_pretrained
    assert not ProductRecipe({"a": linear}, None).can_be_pretrained
