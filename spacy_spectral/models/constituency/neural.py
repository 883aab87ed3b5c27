"""A network that scores labelled spans by their two boundaries: a conditional random field over all binary
trees, as the model of spans in `_span`, on the encoder of the neural parser (`models.biaffine`).

With h_t the state of word t of n (h_0 that of the root in front), boundary i lies between the words i and
i + 1, and a span from boundary i to boundary j has the scores

    a_i = A h_i + A' h_(i+1)        b_j = B h_j + B' h_(j+1), at the end of the sentence B h_n + e
    s(i, j, symbol) = V relu(a_i + b_j + d) + c

with d for its width. B and B' start from -A and -A': hidden units see differences of boundaries (Stern et
al. 2017), and may learn something else. Symbols of words have a V and c of their own. The loss is the
negative logarithm of P(tree), and its gradient P(span, symbol) - [gold], exactly.

Several networks of different seeds have the mean of their scores.

Arrays of the layer are where Thinc's ops put them, those of scores and of spans on the CPU. The encoder may
also be one over the vectors of another component, a tok2vec or a transformer: then all is trained step by
step, and what the encoder has made of sentences is given to the parser (`States`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from thinc.api import Dropout, Model, glorot_uniform_init, use_ops
from thinc.types import Ragged

from ...base.errors import Errors, require_settings
from ...base.files import Array, Bytes, Float, Int, Record
from ...base.learnt import layer_weights
from ...base.linalg import product
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import Ints, Longs, Tokens
from ..biaffine.embed import TokenNumbers
from ..biaffine.estimate import (
    SEED,
    build_encoder,
    flat_weights,
    n_encoder_weights,
    nothing,
    seeded,
    set_weights,
    train,
)
from ..biaffine.layers import ENCODER_FIELDS, root_rows, rows_of_pieces, scattered
from ._forest import Forest
from ._span import given_gradient, given_items
from .statistics import Corpus, Nodes
from .tokens import SECOND, TAG, Encoder

# the last width of every class but the last
_WIDTHS = numpy.array([1, 2, 3, 4, 5, 7, 10, 15, 20, 30])
N_WIDTHS = len(_WIDTHS) + 1
# spans that are less probable are not learnt from
_LEAST = 1e-5
# so many at a time, that what is between layers stays in the cache
_SPANS_AT_ONCE = 1024
# longer sentences are not learnt from
MAX_LENGTH = 300

Matrix = NDArray[numpy.float32]


@dataclass(frozen=True)
class SpanNetworkSettings:
    """How the network of spans is made and trained.

    mix_size (int): Width of the layer over embeddings.
    scan_size (int): Units of each recurrent layer in both directions together.
    scan_depth (int): How many recurrent layers.
    span_size (int): Width of the hidden layer of spans.
    epochs (int): Passes over the treebank; the rate falls to zero over them.
    rate (float): The highest learning rate.
    batch_size (int): Words of a batch, about.
    dropout (float): Part of the units that are left out in training.
    word_dropout (float): Part of the features of words that are left out in training.
    seed (int): Seed of weights, batches and dropout.
    networks (int): How many networks are trained, with this seed and those after it.
    """

    mix_size: int = 128
    scan_size: int = 128
    scan_depth: int = 4
    span_size: int = 128
    epochs: int = 20
    rate: float = 0.004
    batch_size: int = 1000
    dropout: float = 0.33
    word_dropout: float = 0.15
    seed: int = 0
    networks: int = 1

    def __post_init__(self) -> None:
        names = ("span_size", "mix_size", "epochs", "batch_size", "networks")
        rates = {"rate": "> 0", "dropout": ">= 0, < 1", "word_dropout": ">= 0, < 1"}
        sizes = {"scan_size": "even, >= 2", "scan_depth": ">= 0", **dict.fromkeys(names, ">= 1")}
        require_settings(Errors.S702, self, **sizes, **rates, **SEED)


class Spans(NamedTuple):
    """Spans by their boundaries.

    vectors: States of all words, each sentence with its root in front.
    begin, end: Rows of the states before both boundaries.
    words: How many of the spans, the first, are words.
    """

    vectors: Ragged
    begin: Longs
    end: Longs
    words: int


def all_spans(vectors: Ragged, starts: NDArray) -> Spans:
    """All words of sentences, and then all wider spans, by width and then by where they begin."""
    roots = root_rows(starts.astype("int32")).tolist()
    lengths = numpy.diff(starts).tolist()
    words = [root + numpy.arange(n) for root, n in zip(roots, lengths, strict=True)]
    begins, ends = list(words), [own + 1 for own in words]
    for root, n in zip(roots, lengths, strict=True):
        sizes = numpy.arange(n - 1, 0, -1)
        widths = numpy.repeat(numpy.arange(2, n + 1), sizes)
        first = numpy.arange(len(widths)) - numpy.repeat(numpy.cumsum(sizes) - sizes, sizes)
        begins.append(root + first)
        ends.append(root + first + widths)
    none = numpy.zeros(0, dtype="int64")
    begin, end = (numpy.concatenate([none, *own]) for own in (begins, ends))
    return Spans(vectors, begin, end, int(starts[-1]))


def span_scores(
    size: int, n_words: int | None = None, n_phrases: int | None = None
) -> Model[Spans, tuple[Matrix, Matrix]]:
    """The scores of symbols: of words, and of wider spans. How many symbols there are must be known when the
    layer is initialized."""
    return Model(
        "span_scores",
        _scores_forward,
        init=_scores_init,
        dims={"size": size, "n_words": n_words, "n_phrases": n_phrases, "nI": None},
        # W: A, A', B and B'. E: the end of sentences. D: widths. V, b, T, c: the outputs of words and of
        # wider spans.
        params=dict.fromkeys("WEDVbTc"),
        layers=[Dropout()],
    )


def _scores_init(model: Model, X: Spans | None = None, Y: Any = None) -> None:
    if X is not None:
        model.set_dim("nI", X.vectors.data.shape[1])
    ops, names = model.ops, ("size", "n_words", "n_phrases", "nI")
    size, n_words, n_phrases, nI = (model.get_dim(name) for name in names)
    halves = [glorot_uniform_init(ops, (size, nI)) for _ in range(2)]
    model.set_param("W", ops.xp.concatenate([*halves, *(-half for half in halves)]))
    model.set_param("E", ops.alloc1f(size))
    model.set_param("D", ops.alloc2f(N_WIDTHS, size))
    for weights, biases, n in (("V", "b", n_words), ("T", "c", n_phrases)):
        model.set_param(weights, ops.alloc2f(n, size))
        model.set_param(biases, ops.alloc1f(n))


def _boundaries(model: Model, X: Ragged) -> tuple[Any, Any]:
    """What boundaries add to the spans that begin and that end there, by the rows before them."""
    terms, size = product(X.data, model.get_param("W")), model.get_dim("size")
    begin, end = terms[:, :size], terms[:, 2 * size : 3 * size]
    last = _last_rows(model, X)
    at_ends = end[last] + model.get_param("E")
    begin[:-1] += terms[1:, size : 2 * size]
    end[:-1] += terms[1:, 3 * size :]
    # what was added to these is of the next sentence
    end[last] = at_ends
    return begin, end


def _last_rows(model: Model, X: Ragged) -> Any:
    ops = model.ops
    return ops.asarray(numpy.cumsum(ops.to_numpy(X.lengths), dtype="int64") - 1)


def _widths(spans: Spans) -> Longs:
    return numpy.searchsorted(_WIDTHS, spans.end - spans.begin)


def _scores_forward(model: Model, spans: Spans, is_train: bool):
    ops, (W, D, V, T) = model.ops, (model.get_param(name) for name in "WDVT")
    X, n, size = spans.vectors, spans.words, model.get_dim("size")
    widths = _widths(spans)
    begin, end = _boundaries(model, X)
    hidden = begin[ops.asarray(spans.begin)]
    hidden += end[ops.asarray(spans.end)]
    hidden += D[ops.asarray(widths)]
    ops.xp.maximum(hidden, 0.0, out=hidden)
    rate = model.layers[0].attrs["dropout_rate"] if is_train else 0.0
    kept = None
    if rate > 0:
        kept = ops.get_dropout_mask(hidden.shape, rate)
        hidden *= kept
    words = product(hidden[:n], V) + model.get_param("b")
    phrases = product(hidden[n:], T) + model.get_param("c")

    def backprop(gradient: tuple[Matrix, Matrix, Longs]) -> Ragged:
        """gradient: Of words, of some wider spans, and which these are."""
        d_words, d_phrases = map(ops.asarray, gradient[:2])
        chosen = numpy.concatenate([numpy.arange(n), gradient[2] + n])
        places = ops.asarray(chosen)
        own = hidden[places]
        model.inc_grad("V", product(d_words.T, own[:n].T))
        model.inc_grad("b", d_words.sum(axis=0))
        model.inc_grad("T", product(d_phrases.T, own[n:].T))
        model.inc_grad("c", d_phrases.sum(axis=0))
        parts = [product(d_words, V.T), product(d_phrases, T.T)]
        d_hidden = ops.xp.concatenate(parts)
        d_hidden *= own > 0
        if kept is not None:
            d_hidden *= kept[places]
        d_begin, d_end, d_width = (
            scattered(ops, d_hidden, ops.asarray(rows[chosen].astype("int32")), n_rows)
            for rows, n_rows in (
                (spans.begin, len(X.data)), (spans.end, len(X.data)), (widths, len(D))
            )
        )  # fmt: skip
        model.inc_grad("D", d_width)
        last = _last_rows(model, X)
        model.inc_grad("E", d_end[last].sum(axis=0))
        d_terms = ops.alloc2f(len(X.data), 4 * size)
        d_terms[:, :size], d_terms[1:, size : 2 * size] = d_begin, d_begin[:-1]
        d_terms[:, 2 * size : 3 * size] = d_end
        d_end[last] = 0.0
        d_terms[1:, 3 * size :] = d_end[:-1]
        model.inc_grad("W", product(d_terms.T, X.data.T))
        return Ragged(product(d_terms, W.T), X.lengths)

    return (ops.to_numpy(words), ops.to_numpy(phrases)), backprop


def predicted(model: Model, spans: Spans) -> tuple[Matrix, Matrix]:
    """What `span_scores` says, a part of the spans after the other."""
    ops, (D, V, b, T, c) = model.ops, (model.get_param(name) for name in "DVbTc")
    begin, end = _boundaries(model, spans.vectors)
    widths, found = _widths(spans), []
    edges = spans.words, len(spans.begin)
    for first, last, weights, biases in ((0, edges[0], V, b), (*edges, T, c)):
        scores = numpy.empty((last - first, len(weights)), dtype="float32")
        for start in range(first, last, _SPANS_AT_ONCE):
            own = slice(start, min(start + _SPANS_AT_ONCE, last))
            hidden = begin[ops.asarray(spans.begin[own])]
            hidden += end[ops.asarray(spans.end[own])]
            hidden += D[ops.asarray(widths[own])]
            ops.xp.maximum(hidden, 0.0, out=hidden)
            scores[own.start - first : own.stop - first] = ops.to_numpy(product(hidden, weights))
        scores += ops.to_numpy(biases)
        found.append(scores)
    return found[0], found[1]


class Layers(NamedTuple):
    """One network, in the order in which files have its weights."""

    encoder: Model[Any, Ragged]
    scores: Model[Spans, tuple[Matrix, Matrix]]

    @classmethod
    def make(
        cls, settings: SpanNetworkSettings, lexicon: TokenNumbers, n_words: int, n_phrases: int
    ) -> "Layers":
        """All layers; their weights are random, or to be replaced."""
        with use_ops("numpy"):
            encoder = build_encoder(settings, lexicon)
            scores = span_scores(settings.span_size, n_words, n_phrases)
            inputs = nothing(lexicon)
            scores.initialize(X=all_spans(encoder.predict(inputs), inputs.starts))
        return cls(encoder, scores)

    def step(self, inputs: Any, starts: Ints, nodes: Nodes) -> float:
        """Add the gradients of some sentences to those of the layers. RETURNS: The loss.

        nodes: Of their trees.
        """
        vectors, backprop_vectors = self.encoder.begin_update(inputs)
        scores, backprop = self.scores.begin_update(all_spans(vectors, starts))
        loss, *gradient = given_gradient(*scores, starts.astype("int64"), *nodes, _LEAST)
        backprop_vectors(backprop(tuple(gradient)))
        return loss


@dataclass
class SpanNetwork:
    """A trained network, or several.

    lexicon: The numbers of what they see of words.
    members: The networks.
    """

    lexicon: TokenNumbers
    settings: SpanNetworkSettings
    members: list[Layers]

    def read(self, tokens: Tokens) -> "ReadSpans":
        """What the networks make of sentences."""
        inputs = self.lexicon(tokens)
        vectors = [member.encoder.predict(inputs) for member in self.members]
        return ReadSpans([member.scores for member in self.members], vectors, tokens.starts)

    def to_payload(self) -> dict[str, Any]:
        """The fields of `FIELDS`."""
        return {
            "tagger": b"",
            "settings": asdict(self.settings),
            **self.lexicon.to_payload(),
            "weights": flat_weights(layer for member in self.members for layer in member),
        }

    @classmethod
    def from_payload(
        cls, read: dict[str, Any], n_words: int, n_phrases: int, require: Callable[..., None]
    ) -> "SpanNetwork":
        """require: Raises the error of a field; see `Format.require`."""
        even = read["settings"]["scan_size"] % 2 == 0
        require(even, "neural.settings.scan_size", "is not even")
        # files of older versions have one, and do not say so
        n_members = read["settings"]["networks"] or 1
        settings = SpanNetworkSettings(**read["settings"] | {"networks": n_members})
        lexicon = TokenNumbers.from_payload(read)
        each, width = n_encoder_weights(settings, lexicon)
        size = settings.span_size
        each += 4 * size * width + size * (N_WIDTHS + 1) + (n_words + n_phrases) * (size + 1)
        # before anything is as large as the settings say
        found, total = len(read["weights"]), n_members * each
        require(found == total, "neural.weights", f"has {found}, not {total}")
        members = []
        for weights in numpy.split(read["weights"], n_members):
            members.append(Layers.make(settings, lexicon, n_words, n_phrases))
            set_weights(members[-1], weights)
        return cls(lexicon, settings, members)


# the arrays of a layer that is trained step by step, for `base.learnt.check_layers`
LAYER_FIELDS = ENCODER_FIELDS | {
    "span_scores": Record(
        W=layer_weights("size+size+size+size", "nI"),
        E=layer_weights("size"),
        D=layer_weights(N_WIDTHS, "size"),
        V=layer_weights("n_words", "size"),
        b=layer_weights("n_words"),
        T=layer_weights("n_phrases", "size"),
        c=layer_weights("n_phrases"),
    )
}
_SIZE = Int(low=1, high=1 << 14)
_PART = Float(low=0.0, below=1.0)
FIELDS = Record(
    optional=True,
    # that of a network without models of spans beside it
    tagger=Bytes(),
    settings=Record(
        mix_size=_SIZE,
        scan_size=_SIZE,
        scan_depth=Int(low=0, high=64),
        span_size=_SIZE,
        epochs=Int(low=1),
        rate=Float(above=0.0),
        batch_size=Int(low=1),
        dropout=_PART,
        word_dropout=_PART,
        seed=Int(),
        networks=Int(low=1, high=1 << 10, optional=True),
    ),
    **TokenNumbers.FIELDS,
    weights=Array("float32", "weights", low=-1e6, high=1e6),
)


class ReadSpans(NamedTuple):
    """Sentences as networks see them.

    layers: Those that score spans.
    vectors: By network.
    """

    layers: list[Model]
    vectors: list[Ragged]
    starts: Ints

    def items(self, threshold: float) -> tuple[NDArray, ...]:
        """The items with at least some posterior, as `_span.items` gives them."""
        scores = self._mean(all_spans(self.vectors[0], self.starts))
        return given_items(*scores, self.starts.astype("int64"), threshold)

    def _mean(self, spans: Spans) -> tuple[Matrix, Matrix]:
        """The scores of words and of wider spans."""
        words, phrases = predicted(self.layers[0], spans)
        for layer, vectors in zip(self.layers[1:], self.vectors[1:], strict=True):
            more = predicted(layer, spans._replace(vectors=vectors))
            words += more[0]
            phrases += more[1]
        words /= numpy.float32(len(self.layers))
        phrases /= numpy.float32(len(self.layers))
        return words, phrases

    def scores(self, forest: Forest) -> NDArray[numpy.float64]:
        """The scores of the items of a forest."""
        result = numpy.empty(len(forest.begin))
        roots = root_rows(self.starts).astype("int64")
        shift = numpy.repeat(roots, numpy.diff(forest.starts))
        begin, end, is_word = shift + forest.begin, shift + forest.end, forest.is_word > 0
        places, found = [], []
        for chosen in (is_word, ~is_word):
            # items of the same span are neighbours
            own = begin[chosen], end[chosen]
            new = numpy.ones(len(own[0]), dtype=bool)
            new[1:] = (numpy.diff(own[0]) != 0) | (numpy.diff(own[1]) != 0)
            places.append(numpy.cumsum(new) - 1)
            found.append((own[0][new], own[1][new]))
        begins, ends = (numpy.concatenate(both) for both in zip(*found, strict=True))
        words, phrases = self._mean(Spans(self.vectors[0], begins, ends, len(found[0][0])))
        n_words = self.layers[0].get_dim("n_words")
        result[is_word] = words[places[0], forest.symbol[is_word]]
        result[~is_word] = phrases[places[1], forest.symbol[~is_word] - n_words]
        return result


class States(NamedTuple):
    """What layers that are trained step by step make of sentences.

    layer: Scores spans.
    vectors: Of all words, each sentence with its root in front.
    starts: Where sentences start, closed by the number of words; none is empty.
    """

    layer: Model[Spans, tuple[Matrix, Matrix]]
    vectors: Ragged
    starts: NDArray

    @classmethod
    def joined(cls, parts: Sequence["States"]) -> "States":
        """Sentences one after the other."""
        layer, ops = parts[0].layer, parts[0].layer.ops
        data = ops.xp.concatenate([own.vectors.data for own in parts])
        sizes = numpy.concatenate([numpy.diff(own.starts) for own in parts])
        starts = numpy.append(0, numpy.cumsum(sizes))
        return cls(layer, Ragged(data, ops.asarray1i(sizes + 1)), starts)

    def at(self, words: slice) -> "States":
        """Those of some sentences."""
        first, last = numpy.searchsorted(self.starts, (words.start, words.stop)).tolist()
        own = self.starts[first : last + 1]
        data = self.vectors.data[int(own[0]) + first : int(own[-1]) + last]
        lengths = self.layer.ops.asarray1i(numpy.diff(own) + 1)
        return States(self.layer, Ragged(data, lengths), own - own[0])

    def cut(self, starts: NDArray[numpy.int64], pieces: NDArray[numpy.int64]) -> "States":
        """Pieces in place of sentences, each with the root of its sentence in front.

        starts, pieces: Where both start, closed by the number of words.
        """
        if len(starts) == len(pieces):
            return self
        ops = self.layer.ops
        rows = ops.asarray(rows_of_pieces(starts, numpy.arange(int(starts[-1])), pieces))
        lengths = ops.asarray1i(numpy.diff(pieces) + 1)
        return States(self.layer, Ragged(self.vectors.data[rows], lengths), pieces)

    def read(self) -> ReadSpans:
        """The sentences as a parser asks for them."""
        return ReadSpans([self.layer], [self.vectors], self.starts.astype("int32"))


def tokens_of(encoder: Encoder, words: list[str], starts: NDArray, rows: Ints) -> Tokens:
    """Words as the network takes them: with their tags, and in place of coarse tags the second guesses.

    rows: See `Encoder`.
    """
    names = ["", *encoder.tagger.tags]
    seconds = ["", "", "", "", *(f"{name}?{i}" for name in names[1:] for i in range(4))]
    return Tokens(
        starts.astype("int32"),
        words,
        [names[i] for i in rows[:, TAG].tolist()],
        [None] * len(words),
        [seconds[i] for i in rows[:, SECOND].tolist()],
        [""] * len(words),
    )


def fit(
    settings: SpanNetworkSettings,
    corpus: Corpus,
    tokens: Tokens,
    *,
    clusters: Clusters | None,
    vectors: Vectors | None,
    report: Callable[[str], None],
) -> SpanNetwork:
    """Train a network.

    tokens: The words of the corpus.
    """
    lexicon = TokenNumbers.fit(tokens, clusters=clusters, vectors=vectors)
    grammar = corpus.grammar
    inputs = lexicon(tokens)
    lengths = numpy.diff(corpus.starts)
    short = numpy.flatnonzero(lengths <= MAX_LENGTH)
    # sentences to learn from, one after the other
    starts = numpy.append(0, numpy.cumsum(lengths[short]))
    offset = numpy.repeat(corpus.starts[:-1], 2 * lengths - 1)
    begin, end = (column - offset for column in (corpus.begin, corpus.end))
    nodes = [column.astype("int32") for column in (begin, end, corpus.symbol)]
    bounds = list(pairwise(corpus.node_starts.tolist()))
    members = []
    for number in range(settings.networks):
        with seeded(settings.seed + number), use_ops("numpy"):
            member = Layers.make(settings, lexicon, grammar.n_words, len(grammar) - grammar.n_words)
            first = next(node for node in member.encoder.walk() if node.name == "embeddings")
            first.attrs["rate"] = settings.word_dropout

            def step(places: Longs, own: Ints, member: Layers = member) -> float:
                sentences = short[numpy.searchsorted(starts, places[own[:-1]], side="right") - 1]
                shift = corpus.starts[sentences] - places[own[:-1]]
                chosen = places + numpy.repeat(shift, numpy.diff(own))
                of_trees = numpy.concatenate([numpy.arange(*bounds[i]) for i in sentences.tolist()])
                gold = [column[of_trees] for column in nodes]
                return member.step(inputs.select(chosen, own), own, tuple(gold))

            def progress(epoch: int, loss: float, number: int = number) -> None:
                name = f"network {number + 1}" if settings.networks > 1 else "network"
                mean = loss / max(len(short), 1)
                report(f"{name}, epoch {epoch} of {settings.epochs}: loss {mean:.3f} a sentence")

            train(member, starts, settings, step, progress)
            members.append(member)
    return SpanNetwork(lexicon, settings, members)
