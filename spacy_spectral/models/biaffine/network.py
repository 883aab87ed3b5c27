"""Arc and label scores from vectors of tokens: how they are learnt from, and what they say of sentences.

P(tree) comes from the chart over arc scores, P(label | arc) from label scores; the loss is the negative
logarithm of both. Two numbers make probabilities as confident as they should be
(`trees.interface.Temperature`):

    P(tree) ~ exp(sum of arc scores / heads)        P(label | arc) ~ exp(score of the label / labels)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any

import numpy
from numpy.typing import NDArray
from thinc.api import Model
from thinc.types import Ragged

from ...base.files import Int, Record, Scope
from ...base.learnt import check_layers, layer_weights
from ...trees.interface import NEUTRAL, TEMPERATURE, ArcScorer, AskedArcs, Parses, Temperature
from ...trees.parses import PosteriorParses, parse_in_pieces
from ...trees.posterior import Posterior, arc_posterior, sentence_constraints, tree_loss
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import MISSING, Bools, Floats, Ints, Longs, sentence_blocks
from .layers import (
    ENCODER_FIELDS,
    N_CLASSES,
    ArcRows,
    classes_of,
    log_labels,
    root_rows,
    rows_of_pieces,
    scores_of,
)

# Arcs of so many tokens are scored at a time: what is computed of all would be new memory for every batch.
_TOKENS_AT_ONCE = 1024


@dataclass
class Network:
    """The layers of a parser, and what its numbers stand for. Sentences longer than `max_length` are
    parsed in pieces, and their arcs are not learnt from."""

    encoder: Model
    arcs: Model
    labels: Model
    inventory: Inventory
    max_length: int
    temperature: Temperature = NEUTRAL

    @property
    def layers(self) -> tuple[Model, ...]:
        """All layers, in the order in which files have their weights."""
        return self.encoder, self.arcs, self.labels

    def step(
        self,
        X: Any,
        starts: NDArray,
        heads: Ints,
        labels: Ints,
        weights: NDArray[numpy.float32] | None = None,
    ) -> float:
        """Add the gradients of a batch, with projective trees, MISSING where there is no annotation, to
        those of the layers. Gives the loss, summed over all tokens.

        weights: By token how much its sentence counts."""
        vectors, backprop_vectors = self.encoder.begin_update(X)
        loss, d_vectors = self._arc_loss(vectors, starts, heads, weights)
        known = (heads != MISSING) & (labels != MISSING)
        trees = numpy.split(numpy.maximum(heads, 0), starts[1:-1])
        wanted = ArcRows.of_trees(vectors, starts, range(len(trees)), trees).only(known)
        scores, backprop_labels = self.labels.begin_update(wanted)
        loss_of_labels, d_scores = label_loss(self.labels, scores, labels[known])
        if weights is not None:
            d_scores *= self.labels.ops.asarray(weights[known])[:, None]
        d_vectors.data += backprop_labels(d_scores).data
        backprop_vectors(d_vectors)
        return loss + loss_of_labels

    def _arc_loss(
        self,
        vectors: Ragged,
        starts: NDArray,
        heads: Ints,
        weights: NDArray[numpy.float32] | None,
    ) -> tuple[float, Ragged]:
        """The loss of the arcs of short sentences, and the gradient of all vectors."""
        ops, lengths = self.arcs.ops, numpy.diff(starts)
        short = lengths <= self.max_length
        rows = ops.asarray(numpy.flatnonzero(numpy.repeat(short, lengths + 1)))
        chosen = Ragged(vectors.data[rows], ops.asarray1i(lengths[short] + 1))
        scores, backprop = self.arcs.begin_update(chosen)
        total, gradients = 0.0, []
        trees = numpy.split(heads, starts[1:-1])
        firsts = starts[:-1][short].tolist()
        for own, tree, first in zip(scores, compress(trees, short.tolist()), firsts, strict=True):
            loss, gradient = tree_loss(own, tree) or (0.0, numpy.zeros_like(own))
            total += loss
            gradients.append(gradient if weights is None else gradient * weights[first])
        data = ops.xp.zeros_like(vectors.data)
        data[rows] = backprop(gradients).data
        return total, Ragged(data, vectors.lengths)

    def parse(self, X: Any, starts: Ints, *, fixed: Ints | None = None) -> Parses:
        """Parse sentences; see `trees.interface.ParserModel`."""
        vectors = None if len(starts) < 2 else self.encoder.predict(X)
        pieces = _VectorPieces(self, vectors, starts)
        return parse_in_pieces(pieces, starts, max_length=self.max_length, fixed=fixed)

    def scorer(self, X: Any, starts: Ints) -> "NetworkScores":
        """Scores single arcs of sentences; see `trees.interface.ArcScorer`."""
        return NetworkScores(self, self.encoder.predict(X), starts)

    def pieces_of(
        self, vectors: Ragged, starts: NDArray, tokens: Longs | slice, own_starts: NDArray
    ) -> Ragged:
        """The vectors of some tokens (slice(None) for all) as sentences of their own."""
        if isinstance(tokens, slice) and numpy.array_equal(starts, own_starts):
            return vectors
        ops = self.arcs.ops
        chosen = numpy.arange(int(starts[-1]))[tokens]
        rows = ops.asarray(rows_of_pieces(starts, chosen, own_starts))
        return Ragged(vectors.data[rows], ops.asarray1i(numpy.diff(own_starts) + 1))

    def arc_scores(
        self, vectors: Ragged, asked: AskedArcs
    ) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
        """The scores of given arcs, whatever the temperature, and log P(label | arc): [arcs, labels]; of some
        sentences at a time, so that all that is computed of them stays in the cache."""
        n_arcs, first = len(asked.heads), 0
        scores = numpy.empty(n_arcs, dtype="float32")
        logs = numpy.empty((n_arcs, len(self.inventory)), dtype="float32")
        for tokens, starts in sentence_blocks(asked.starts, _TOKENS_AT_ONCE):
            edges = asked.arc_starts[tokens.start : tokens.stop + 1]
            own = slice(int(edges[0]), int(edges[-1]))
            rows = slice(first, first + tokens.stop - tokens.start + len(starts) - 1)
            lengths = vectors.lengths[first - tokens.start :][: len(starts) - 1]
            part = Ragged(vectors.data[rows], lengths)
            first = rows.stop
            arcs = self._rows_of(
                part, AskedArcs(tokens, starts, edges - edges[0], asked.heads[own])
            )
            scores[own] = scores_of(self.arcs, arcs)
            log_labels(self.labels, arcs, 1.0, out=logs[own])
        return scores, logs

    def _rows_of(self, vectors: Ragged, asked: AskedArcs) -> ArcRows:
        modifiers, starts = asked.modifiers(), asked.starts
        sentence = numpy.searchsorted(starts, modifiers, side="right") - 1
        positions = (modifiers - starts[sentence] + 1).astype("int32")
        roots = root_rows(starts)[sentence]
        classes = classes_of(asked.heads, positions)
        return ArcRows(vectors, roots + asked.heads, roots + positions, classes)


@dataclass
class NetworkScores(ArcScorer):
    """Scores of single arcs of a batch, given the vectors of its tokens; see `trees.interface.ArcScorer`."""

    network: Network
    vectors: Ragged
    starts: Ints

    def __call__(self, asked: AskedArcs) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
        own = self.network.pieces_of(self.vectors, self.starts, asked.tokens, asked.starts)
        return self.network.arc_scores(own, asked)


@dataclass
class _VectorPieces:
    """Parses some tokens of a batch, given the vectors of all; see `trees.parses.ParseTokens`."""

    network: Network
    vectors: Ragged | None
    starts: Ints

    def __call__(self, tokens: Longs | slice, starts: Ints, fixed: Ints | None) -> PosteriorParses:
        network, t, scores = self.network, self.network.temperature, []
        own = None
        if self.vectors is not None:
            own = network.pieces_of(self.vectors, self.starts, tokens, starts)
            scores = network.arcs.predict(own)
        constraints = sentence_constraints(list(pairwise(starts.tolist())), fixed)
        pairs = list(zip(scores, constraints, strict=True))
        return PosteriorParses(
            starts,
            _posteriors(pairs, 1 / t.heads),
            inventory=network.inventory,
            label_distributions=_ArcLabels(network, own, starts),
            fixed=fixed,
            choosers=None if t.choice == 1 else _posteriors(pairs, t.choice / t.heads),
            share=t.share,
        )


def _posteriors(pairs: list[tuple[NDArray, Bools | None]], sharpness: float) -> list[Posterior]:
    return [arc_posterior(sharpness * own, allowed=allowed) for own, allowed in pairs]


@dataclass
class _ArcLabels:
    """P(label | arc); see `trees.parses.LabelDistributions`."""

    network: Network
    vectors: Ragged | None
    starts: Ints

    def __call__(
        self, sentences: Sequence[int], heads: Sequence[NDArray], trees: Sequence[NDArray]
    ) -> Floats:
        if self.vectors is None or not heads:
            return numpy.zeros((0, len(self.network.inventory)))
        if len(set(sentences)) > 1:
            arcs = ArcRows.of_trees(self.vectors, self.starts, sentences, heads)
        else:  # of one sentence, as those of an n-best list: no others are looked at
            tokens = numpy.arange(self.starts[sentences[0]], self.starts[sentences[0] + 1])
            own_starts = numpy.array([0, len(tokens)], dtype="int32")
            own = self.network.pieces_of(self.vectors, self.starts, tokens, own_starts)
            arcs = ArcRows.of_trees(own, own_starts, [0] * len(heads), heads)
        logs = log_labels(self.network.labels, arcs, self.network.temperature.labels)
        return numpy.exp(logs.astype("float64"))


def label_loss(layer: Model, scores: Any, labels: Ints) -> tuple[float, Any]:
    """Negative log-likelihood of labels, and the gradient of scores."""
    gradient = layer.ops.softmax(scores)
    chosen = layer.ops.xp.arange(len(labels)), layer.ops.asarray(labels)
    loss = -float(layer.ops.xp.log(gradient[chosen] + 1e-20).sum())
    gradient[chosen] -= 1.0
    return loss, gradient


_WHAT = "biaffine parser"
_LAYERS = ENCODER_FIELDS | {
    "arc_scores": Record(
        W=layer_weights("size+size", "nI"),
        b=layer_weights("size+size"),
        U=layer_weights("size", "size"),
        T=layer_weights(2 * N_CLASSES, "nI"),
    ),
    "label_scores": Record(
        W=layer_weights("size+size", "nI"),
        C=layer_weights(N_CLASSES, "size"),
        V=layer_weights("nO", "size"),
        b=layer_weights("nO"),
    ),
}


def check_model(model: Model, inventory: Inventory) -> None:
    """Raise a ValueError if the parts of a model do not fit together."""
    scope = Scope(_WHAT)
    Int(low=2).read(model.attrs.get("max_length"), scope.inside("max_length"))
    numbers, own = model.attrs.get("temperature"), scope.inside("temperature")
    # older versions did not know the last of them
    if not isinstance(numbers, list | tuple) or len(numbers) not in (3, len(NEUTRAL)):
        own.fail(f"is not {len(NEUTRAL)} numbers")
    TEMPERATURE.read(dict(zip(Temperature._fields, numbers, strict=False)), own)
    check_layers(model, _WHAT, _LAYERS)
    labels = model.get_ref("labels").get_dim("nO")
    if labels != len(inventory):
        scope.inside("label_scores").fail(f"has {labels} labels, not {len(inventory)}")
