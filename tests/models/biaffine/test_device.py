"""Arrays stay where Thinc's ops put them: the parser on a pretended device."""

import numpy
import pytest
import spacy
from thinc.api import Adam, set_dropout_rate

from device import DeviceArray, moved, to_device
from spacy_spectral.models.biaffine.network import Network
from spacy_spectral.pipeline.documents import training_batch
from spacy_spectral.trees.pseudoprojective import projective_trees


def layers(model):
    """The layers of a model that are on the device, or would be."""
    names = ("sentence_vectors", "gated_scan", "arc_scores", "label_scores")
    return [node for node in model.walk() if node.name in names]


def network(learner, model):
    encoder, arcs, labels = model.layers
    return Network(encoder, arcs, labels, learner.inventory, 250)


@pytest.fixture(scope="module")
def parser(examples):
    nlp = spacy.blank("en")
    tok2vec = {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "width": 24,
        "depth": 1,
        "embed_size": 300,
    }
    tok2vec |= {"window_size": 1, "maxout_pieces": 2, "subword_features": True}
    sizes = {"scan_size": 16, "scan_depth": 1, "arc_size": 16, "label_size": 16}
    model = {"@architectures": "spacy-spectral.Biaffine.v1", **sizes}
    model["tok2vec"] = tok2vec | {"pretrained_vectors": None}
    nlp.add_pipe("spectral_parser", config={"model": model})
    few = examples(nlp, annotations=["sents"])[:60]
    nlp.initialize(lambda: few)
    for _ in range(5):
        nlp.update(few, sgd=Adam(0.01), losses={})
    return nlp.get_pipe("spectral_parser")


def test_a_device_array_does_not_mix():
    array = to_device(numpy.ones(3))
    for wrong in (
        lambda: array + numpy.ones(3),
        lambda: numpy.array(array),
        lambda: array[numpy.arange(2)],
    ):
        with pytest.raises(TypeError, match="device"):
            wrong()
    assert float((array + 1.0).sum()) == 6.0


def test_learns_and_parses_on_a_device(parser, examples):
    own = examples(spacy.blank("en"), "dev", annotations=["sents"])[:6]
    batch, treebank = training_batch(own, [eg.predicted for eg in own], parser.read)
    starts = batch.tokens.starts
    heads, names = projective_trees(treebank)
    labels = parser.learner.inventory.encode(names)
    set_dropout_rate(parser.model, 0.0)
    here, there = parser.model.copy(), moved(parser.model)
    losses = [network(parser.learner, m).step(batch, starts, heads, labels) for m in (here, there)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for host, device in zip(layers(here), layers(there), strict=True):
        for name in host.param_names:
            gradient = device.get_grad(name)
            assert isinstance(gradient, DeviceArray)
            numpy.testing.assert_allclose(gradient.host, host.get_grad(name), rtol=1e-3, atol=1e-4)
    parses = [network(parser.learner, m).parse(batch, starts) for m in (here, there)]
    numpy.testing.assert_array_equal(parses[0].heads, parses[1].heads)
    numpy.testing.assert_allclose(parses[0].log_probs(), parses[1].log_probs(), rtol=1e-4)
    for s in range(len(starts) - 1):
        both = [own.marginals(s) for own in parses]
        numpy.testing.assert_allclose(*both, atol=1e-5)
        lists = [own.k_best(s, 3) for own in parses]
        assert [len(own) for own in lists] == [3, 3]


def test_long_sentences_on_a_device(parser, examples):
    """Parsed in pieces: rows of vectors are chosen on the device."""
    own = examples(spacy.blank("en"), "dev", annotations=["sents"])[:6]
    batch = parser.read([eg.predicted for eg in own])
    parses = []
    for model in (parser.model.copy(), moved(parser.model)):
        pieces = network(parser.learner, model)
        pieces.max_length = 4
        parses.append(pieces.parse(batch, batch.tokens.starts))
    numpy.testing.assert_array_equal(parses[0].heads, parses[1].heads)
