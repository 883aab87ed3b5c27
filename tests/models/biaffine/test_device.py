"""Arrays stay where Thinc's ops put them: the parser on a pretended device.

Arrays of this device are like those of a GPU: they do not become NumPy arrays unless they are asked to, by
`ops.to_numpy`, and do not mix with them.
"""

import numpy
import pytest
import spacy
from numpy.lib.mixins import NDArrayOperatorsMixin
from thinc.api import Adam, Model, NumpyOps, Ops, set_dropout_rate

from spacy_spectral.models.biaffine.network import Network
from spacy_spectral.pipeline.documents import training_batch
from spacy_spectral.trees.pseudoprojective import projective_trees


class DeviceArray(NDArrayOperatorsMixin):
    """An array that is elsewhere."""

    def __init__(self, host):
        self.host = host

    def __array__(self, dtype=None, copy=None):
        raise TypeError("an array of the device must be asked to become one of NumPy")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        if out is not None:
            options["out"] = tuple(map(to_host, out))
        result = to_device(getattr(ufunc, method)(*map(to_host, inputs), **options))
        return result if out is None else out[0]

    def __array_function__(self, function, types, args, kwargs):
        return to_device(function(*to_host(args), **to_host(kwargs)))

    def __getattr__(self, name):
        if name in ("shape", "dtype", "ndim", "size", "T"):
            return to_device(getattr(self.host, name))
        if name in ("sum", "max", "astype", "ravel", "reshape", "copy"):
            return lambda *args, **kwargs: to_device(getattr(self.host, name)(*args, **kwargs))
        raise AttributeError(name)

    def __len__(self):
        return len(self.host)

    def __float__(self):
        return float(self.host)

    def __getitem__(self, key):
        return to_device(self.host[to_host(key)])

    def __setitem__(self, key, value):
        self.host[to_host(key)] = to_host(value)


def to_device(value):
    return DeviceArray(value) if isinstance(value, numpy.ndarray | numpy.generic) else value


def to_host(value):
    """What stands for a value in computations on the device."""
    if isinstance(value, DeviceArray):
        return value.host
    if isinstance(value, list | tuple):
        return type(value)(map(to_host, value))
    if isinstance(value, dict):
        return {name: to_host(own) for name, own in value.items()}
    if isinstance(value, numpy.ndarray):
        raise TypeError("an array of NumPy among those of the device")
    return value


class DeviceModule:
    """What NumPy's functions are to its own arrays."""

    ndarray = DeviceArray
    add = numpy.add

    def __getattr__(self, name):
        function = getattr(numpy, name)
        if name in ("array", "asarray"):
            return lambda data, **options: to_device(
                function(data.host if isinstance(data, DeviceArray) else data, **options)
            )
        if not callable(function) or isinstance(function, type):
            return function
        return lambda *args, **options: to_device(function(*to_host(args), **to_host(options)))


class DeviceOps(Ops):
    name = "device"
    xp = DeviceModule()

    def to_numpy(self, data, *, byte_order=None):
        return data.host if isinstance(data, DeviceArray) else data

    def scatter_add(self, table, indices, values):
        numpy.add.at(to_host(table), to_host(indices), to_host(values))

    def get_dropout_mask(self, shape, drop):
        return to_device(NumpyOps().get_dropout_mask(shape, drop))


def moved(model):
    """A copy of a parser's model on the device; its tok2vec computes elsewhere."""
    copy, ops = model.copy(), DeviceOps()
    vectors = next(node for node in copy.walk() if node.name == "sentence_vectors")
    tok2vec = vectors.layers[0]

    def forward(layer, docs, is_train):
        found, backprop = tok2vec(docs, is_train)
        return [to_device(own) for own in found], lambda d: backprop([own.host for own in d])

    inside = set(map(id, tok2vec.walk()))
    for node in list(copy.walk()):
        if id(node) not in inside:
            node.ops = ops
            for name in filter(node.has_param, node.param_names):
                node.set_param(name, to_device(node.get_param(name)))
                node.set_grad(name, to_device(node.get_grad(name)))
    vectors.layers[0] = Model("elsewhere", forward)
    return copy


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
