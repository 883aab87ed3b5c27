"""Training of a network that sees tokens: Adam over a fixed number of epochs, its rate falling to zero.

With a rate that falls to zero the last weights are the best ones: nothing is chosen by the development set.
On a part of UD_English-EWT's training data (every fifteenth block of 50 sentences) a network that was trained
on the others had 89.25 UAS and 86.59 LAS after 12 epochs, 89.65 and 87.05 after 20; with scans of 192
units instead of 256, which take less time, 89.64 and 87.24 after 24; in a product with the log-linear parser
90.07 and 87.47, 90.55 and 88.07, 90.56 and 88.09. More and narrower scans are better: on other parts, two of
192 had 88.94 and 86.28 (in a product 89.51 and 87.08), three 89.57 and 86.92 (89.91 and 87.47), four of 128,
which are trained in less time than three, 89.54 and 86.97 (90.03 and 87.64). Averages of weights over steps
gain nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy
from numpy.typing import NDArray
from thinc.api import Adam, Model, chain, set_dropout_rate, use_ops
from thinc.types import Ragged

from ...base.errors import Errors, SpectralError, require_settings
from ...trees.interface import Pretrained
from ...trees.parses import cut_treebank
from ...trees.pseudoprojective import MIN_DECORATED, Inventory, projective_trees
from ...trees.sentences import Ints, Longs, Treebank
from .embed import Inputs, TokenNumbers, embeddings, encoder, mixture
from .layers import N_CLASSES, ArcRows, arc_scores, gated_scan, label_scores
from .network import Network

_WARM_UP = 0.05  # part of the steps in which the rate rises
# Rows are multiplied with these: `base.linalg.product` need not turn them if they lie column by column.
_BY_COLUMN = frozenset("WTV")
# What numpy takes, for `require_settings`.
SEED = {"seed": ">= 0, < 4294967296"}


@dataclass(frozen=True)
class NetworkSettings:
    """How the network is made and trained.

    mix_size (int): Width of the layer over embeddings.
    scan_size (int): Units of each recurrent layer in both directions together.
    scan_depth (int): How many recurrent layers.
    arc_size (int): Width of the hidden layers of heads and of modifiers.
    label_size (int): Width of the hidden layer of labels.
    epochs (int): Passes over the treebank; the rate falls to zero over them.
    rate (float): The highest learning rate.
    batch_size (int): Tokens of a batch, about.
    dropout (float): Part of the units that are left out in training.
    word_dropout (float): Part of the features of tokens that are left out in training.
    seed (int): Seed of weights, batches and dropout.
    max_length (int): Longer sentences are parsed in pieces.
    """

    mix_size: int = 128
    scan_size: int = 128
    scan_depth: int = 4
    arc_size: int = 128
    label_size: int = 128
    epochs: int = 24
    rate: float = 0.004
    batch_size: int = 1000
    dropout: float = 0.33
    word_dropout: float = 0.15
    seed: int = 0
    max_length: int = 250

    def __post_init__(self) -> None:
        names = ("arc_size", "label_size", "mix_size", "epochs", "batch_size")
        rates = {"rate": "> 0", "dropout": ">= 0, < 1", "word_dropout": ">= 0, < 1"}
        sizes = {"scan_size": "even, >= 2", "scan_depth": ">= 0", **dict.fromkeys(names, ">= 1")}
        require_settings(Errors.S451, self, **sizes, **rates, **SEED)
        if self.max_length < 2:
            raise SpectralError(
                Errors.S441.format(architecture="Biaffine.v2", value=self.max_length)
            )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Thinc draws weights and dropout masks from numpy's global generator: it is set, and put back."""
    state = numpy.random.get_state()
    numpy.random.seed(seed)
    try:
        yield
    finally:
        numpy.random.set_state(state)


def build_network(
    settings: NetworkSettings, lexicon: TokenNumbers, inventory: Inventory
) -> Network:
    """RETURNS (Network): A network with all layers made; its weights are random, or to be replaced."""
    with use_ops("numpy"):
        states = build_encoder(settings, lexicon)
        arcs, labels = arc_scores(settings.arc_size), label_scores(settings.label_size)
        inputs = nothing(lexicon)
        vectors = states.predict(inputs)
        arcs.initialize(X=vectors)
        labels.set_dim("nO", len(inventory))
        labels.initialize(X=ArcRows.of_trees(vectors, inputs.starts, [], []))
    return Network(states, arcs, labels, inventory, settings.max_length)


class EncoderSizes(Protocol):
    """Settings of the encoder, which several models have; see `NetworkSettings`."""

    @property
    def mix_size(self) -> int: ...
    @property
    def scan_size(self) -> int: ...
    @property
    def scan_depth(self) -> int: ...


def build_encoder(settings: EncoderSizes, lexicon: TokenNumbers) -> Model[Inputs, Ragged]:
    """The layers that make states of the words of sentences, each with its root in front."""
    embedded = chain(embeddings(lexicon.tables(), lexicon.n_vector), mixture(settings.mix_size))
    layers = encoder(embedded, [gated_scan(settings.scan_size) for _ in range(settings.scan_depth)])
    layers.initialize(X=nothing(lexicon))
    return layers


def nothing(lexicon: TokenNumbers) -> Inputs:
    """A sentence of one unknown word."""
    return Inputs(
        numpy.zeros((1, len(lexicon.names)), dtype="int32"),
        numpy.zeros((1, lexicon.n_vector), dtype="float32"),
        numpy.array([0, 1], dtype="int32"),
    )


def n_weights(settings: NetworkSettings, lexicon: TokenNumbers, inventory: Inventory) -> int:
    """How many weights `build_network` makes: to be compared with a file before it does."""
    arc, label = settings.arc_size, settings.label_size
    total, width = n_encoder_weights(settings, lexicon)
    total += 2 * arc * (width + 1) + arc * arc + 2 * N_CLASSES * width
    return total + 2 * label * width + label * N_CLASSES + len(inventory) * (label + 1)


def n_encoder_weights(settings: EncoderSizes, lexicon: TokenNumbers) -> tuple[int, int]:
    """How many weights `build_encoder` makes, and how wide the states are."""
    tables, mix, units = lexicon.tables(), settings.mix_size, settings.scan_size
    n_inputs = sum(size for _, size in tables) + lexicon.n_vector
    total = sum(n * size for n, size in tables) + n_inputs  # embeddings, and the root's
    total += 2 * mix * (n_inputs + 1) + 2 * mix
    width = mix
    for _ in range(settings.scan_depth):
        total += 3 * units * (width + 1)
        width += units
    return total, width


def parameters(layers: Iterable[Model]) -> dict[str, NDArray[numpy.float32]]:
    """All weights, by layer and name."""
    return {
        f"{i}.{node.name}.{name}": node.get_param(name)
        for i, node in enumerate(layers_with_weights(layers))
        for name in sorted(node.param_names)
    }


def flat_weights(layers: Iterable[Model]) -> NDArray[numpy.float32]:
    """All weights in one row, as files have them."""
    return numpy.concatenate([value.ravel() for value in parameters(layers).values()])


def set_weights(layers: Sequence[Model], flat: NDArray[numpy.float32]) -> None:
    """Replace all weights by those of a row; see `flat_weights`."""
    shapes = {name: value.shape for name, value in parameters(layers).items()}
    parts = numpy.split(flat, numpy.cumsum([prod(shape) for shape in shapes.values()])[:-1])
    values = {
        name: part.reshape(shape).copy()
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }
    for i, node in enumerate(layers_with_weights(layers)):
        for name in node.param_names:
            value = values[f"{i}.{node.name}.{name}"]
            node.set_param(name, numpy.asfortranarray(value) if name in _BY_COLUMN else value)


def layers_with_weights(layers: Iterable[Model]) -> list[Model]:
    """All layers inside of layers that have weights, in the order in which files have them."""
    return [node for layer in layers for node in layer.walk() if node.param_names]


def fit(
    treebank: Treebank,
    lexicon: TokenNumbers,
    settings: NetworkSettings,
    *,
    progress: Callable[[int, float, Network], None],
    pretrained: Pretrained | None = None,
) -> Network:
    """Train a network, perhaps from an encoder that knows raw text.

    treebank: The training data. Crossing arcs are lifted, with decorated labels where there are enough of
        them; missing heads are summed out. Silver trees count by their weights; the arcs that they could
        have instead are not looked at.
    """
    treebank = cut_treebank(treebank, settings.max_length)
    heads, names = projective_trees(treebank)
    if not any(names):
        raise SpectralError(Errors.S401)
    inventory = Inventory.from_labels(names, min_decorated=MIN_DECORATED)
    labels, inputs = inventory.encode(names), lexicon(treebank.tokens)
    starts, trust = treebank.tokens.starts, treebank.trust
    weights = None if trust is None else numpy.repeat(trust.weights, numpy.diff(starts))
    with seeded(settings.seed), use_ops("numpy"):
        network = build_network(settings, lexicon, inventory)
        if pretrained is not None:
            pretrained.start(network.encoder, settings, lexicon)
        first = next(node for node in network.encoder.walk() if node.name == "embeddings")
        first.attrs["rate"] = settings.word_dropout

        def step(tokens: Longs, own: Ints) -> float:
            weight = None if weights is None else weights[tokens]
            batch = inputs.select(tokens, own)
            return network.step(batch, own, heads[tokens], labels[tokens], weight)

        train(
            network.layers,
            starts,
            settings,
            step,
            lambda epoch, loss: progress(epoch, loss / int(starts[-1]), network),
        )
    return network


class Schedule(Protocol):
    """Settings of training that all networks have; see `NetworkSettings`."""

    @property
    def epochs(self) -> int: ...
    @property
    def rate(self) -> float: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def dropout(self) -> float: ...


def train(
    layers: Sequence[Model],
    starts: NDArray,
    settings: Schedule,
    step: Callable[[Longs, Ints], float],
    progress: Callable[[int, float], None],
) -> None:
    """Learn weights by Adam, from sentences in random order.

    starts: Where sentences start, closed by the number of tokens.
    step: Adds the gradients of a batch, given its tokens and where its sentences start among them; returns
        the loss.
    progress: Told the number of each epoch, and its loss.
    """
    for layer in layers:
        set_dropout_rate(layer, settings.dropout)
    optimizer = Adam(L2=0.01, use_averages=False, grad_clip=0.0)
    n_steps = settings.epochs * -(-int(starts[-1]) // settings.batch_size)
    done = 0
    for epoch in range(1, settings.epochs + 1):
        loss = 0.0
        for batch in _batches(starts, settings.batch_size):
            loss += step(*_rows(starts, batch))
            _clip_gradients(layers)
            optimizer.learn_rate = settings.rate * _schedule(done / n_steps)
            for layer in layers:
                layer.finish_update(optimizer)
            done += 1
        progress(epoch, loss)


def _clip_gradients(layers: Iterable[Model]) -> None:
    """Shorten gradients that are longer than 1. Thinc's optimizers do it by a norm from BLAS, whose last bits
    depend on the processor."""
    for node in layers_with_weights(layers):
        for name in node.param_names:
            if not node.has_grad(name):  # there was nothing to learn from
                continue
            gradient = node.get_grad(name)
            length = numpy.sqrt((gradient * gradient).sum())
            if length >= 1.0:
                gradient /= length


def _schedule(done: float) -> float:
    """The rate rises from zero, then falls to zero."""
    return min(done / _WARM_UP, max(1.0 - done, 0.0) / (1.0 - _WARM_UP), 1.0)


def _batches(starts: NDArray, size: int) -> Iterator[Longs]:
    """Sentences in random order, about `size` tokens at a time."""
    order = numpy.random.permutation(len(starts) - 1)
    edges = numpy.cumsum(numpy.diff(starts)[order]) // size
    yield from numpy.split(order, numpy.flatnonzero(numpy.diff(edges)) + 1)


def _rows(starts: NDArray, sentences: NDArray) -> tuple[Longs, Ints]:
    """The tokens of some sentences, and where these start among them."""
    lengths = numpy.diff(starts)[sentences]
    own = numpy.append(0, numpy.cumsum(lengths)).astype("int32")
    tokens = numpy.arange(int(own[-1])) + numpy.repeat(starts[sentences] - own[:-1], lengths)
    return tokens, own
