"""The layers of the model. Sentences are rows of one matrix (Ragged), each with its root in front.

All products come from `base.linalg.product`: a sentence has the same scores in every batch, and the same data
give the same network on other processors.

The recurrent layer is cheap on a CPU, because gates are computed for all tokens at once:

    c_t = f_t * c_{t-1} + (1 - f_t) * tanh(z_t)        y_t = o_t * c_t

with z, f and o linear in the input (f and o through a sigmoid), half of the units from left to right and
half from right to left. Only the first equation, elementwise, runs token by token (`_scan`, on the CPU). The
output is put beside the input, so that layers on top see both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy
from numpy.typing import NDArray
from thinc.api import Dropout, Model, Ops, glorot_uniform_init, normal_init
from thinc.types import Floats2d, Ints1d, Ragged
from thinc.util import get_width

from ...base.files import Record
from ...base.learnt import layer_weights
from ...base.linalg import product
from ...trees.sentences import DISTANCE_BINS, N_BINS, Batch, Bools, Floats, Ints, Longs
from ._scan import scan, scan_back


def gated_scan(units: int) -> Model[Ragged, Ragged]:
    """Make the layer; units of both directions together are an even number."""
    return Model(
        "gated_scan",
        _scan_forward,
        init=_scan_init,
        dims={"units": units, "nI": None, "nO": None},
        params={"W": None, "b": None},
        layers=[Dropout()],
    )


def _scan_init(model: Model, X: Ragged | None = None, Y: Ragged | None = None) -> None:
    if X is not None:
        model.set_dim("nI", get_width(X.data))
    units, nI = model.get_dim("units"), model.get_dim("nI")
    model.set_dim("nO", nI + units, force=True)
    # each gate is a matrix of its own
    gates = [glorot_uniform_init(model.ops, (units, nI)) for _ in range(3)]
    model.set_param("W", model.ops.xp.concatenate(gates))
    b = model.ops.alloc1f(3 * units)
    b[units : 2 * units] = 1.0  # remember, to begin with
    model.set_param("b", b)


def _scan_forward(model: Model[Ragged, Ragged], X: Ragged, is_train: bool):
    ops, W, n = model.ops, model.get_param("W"), model.get_dim("units")
    lengths = ops.to_numpy(X.lengths).astype("int32")
    gates = _gates(model, X.data)
    nI = X.data.shape[1]
    output = numpy.empty((len(gates), nI + n), dtype="float32")
    output[:, :nI] = ops.to_numpy(X.data)
    c = scan(gates, lengths, output[:, nI:])
    Y = ops.asarray(output)
    y, backprop_dropout = model.layers[0](Y[:, nI:], is_train)
    if is_train:
        Y[:, nI:] = y

    def backprop(dY: Ragged) -> Ragged:
        d_y = numpy.ascontiguousarray(ops.to_numpy(backprop_dropout(dY.data[:, nI:])))
        d_gates = ops.asarray(scan_back(gates, lengths, c, d_y))
        model.inc_grad("b", d_gates.sum(axis=0))
        model.inc_grad("W", product(d_gates.T, X.data.T))
        return Ragged(product(d_gates, W.T) + dY.data[:, :nI], X.lengths)

    return Ragged(Y, X.lengths), backprop


def run_scans(
    scans: Sequence[Model[Ragged, Ragged]], rows: NDArray[numpy.float32], n: int, lengths: Ints
) -> None:
    """Predict with recurrent layers, one on top of the other. The first reads the first n columns of rows;
    each writes its states beside what it has read: nothing is copied."""
    for layer in scans:
        units = layer.get_dim("units")
        scan(_gates(layer, rows[:, :n]), lengths, rows[:, n : n + units])
        n += units


def _gates(model: Model, rows: Any) -> NDArray[numpy.float32]:
    ops, units = model.ops, model.get_dim("units")
    return ops.to_numpy(
        _activated(ops, product(rows, model.get_param("W")), model.get_param("b"), units)
    )


def _activated(ops: Any, gates: Any, b: Any, n: int) -> Any:
    """tanh of the first n columns, the sigmoid of others: 1 / (1 + exp(-x)) is (1 + tanh(x / 2)) / 2. In
    place, for these are the largest arrays that there are."""
    gates += b
    gates[:, n:] *= 0.5
    ops.xp.tanh(gates, out=gates)
    gates[:, n:] += 1.0
    gates[:, n:] *= 0.5
    return gates


# Classes of arcs: the bins of distances to the left and to the right, and the arc from the root.
N_CLASSES = 2 * N_BINS + 1
_ROOT_CLASS = 2 * N_BINS
# Large bilinear scores at the beginning make charts of a few trees, and no gradient.
_BILINEAR_SCALE = 0.05
_ARCS_AT_ONCE = 512


def arc_classes(n: int) -> Ints:
    """[N+1, N+1], the class of every arc (head, modifier) of N tokens."""
    # the classes of a sentence are the upper left corner of those of a longer one
    return (_USUAL_CLASSES if n < len(_USUAL_CLASSES) else _all_classes(n))[: n + 1, : n + 1]


def classes_of(heads: NDArray, modifiers: NDArray) -> Ints:
    """The class of each arc, by the positions of its ends."""
    offset = modifiers - heads
    bins = DISTANCE_BINS[numpy.minimum(numpy.abs(offset), len(DISTANCE_BINS) - 1)]
    classes = numpy.where(offset > 0, bins + N_BINS, bins)
    return numpy.where(heads == 0, _ROOT_CLASS, classes).astype("int32")


def _all_classes(n: int) -> Ints:
    positions = numpy.arange(n + 1, dtype="int32")
    return classes_of(positions[:, None], positions[None])


_USUAL_CLASSES = _all_classes(255)


def sentence_vectors(tok2vec: Model) -> Model[Batch, Ragged]:
    """Vectors of the sentences' tokens, whitespace left out, with a learnt vector for the root."""
    return Model(
        "sentence_vectors",
        _vectors_forward,
        init=_vectors_init,
        dims={"nO": None},
        params={"root": None},
        layers=[tok2vec],
    )


def _vectors_init(model: Model, X: Any = None, Y: Ragged | None = None) -> None:
    tok2vec = model.layers[0]
    tok2vec.initialize(X=None if X is None else X.docs)
    # listeners of transformers learn their width from what they are given
    width = tok2vec.get_dim("nO") if tok2vec.has_dim("nO") else get_width(tok2vec.predict(X.docs))
    model.set_dim("nO", width)
    model.set_param("root", normal_init(model.ops, (width,), mean=0.0))


def _vectors_forward(model: Model, batch: Batch, is_train: bool):
    ops = model.ops
    by_doc, backprop_tok2vec = model.layers[0](batch.docs, is_train)
    width = model.get_dim("nO")
    everything = ops.xp.concatenate([ops.alloc2f(0, width), *by_doc])
    starts = batch.tokens.starts
    places, tokens = ops.asarray(batch.places), ops.asarray(token_rows(starts))
    roots = ops.asarray(root_rows(starts))
    data = ops.alloc2f(len(places) + len(roots), width)
    data[tokens] = everything[places]
    data[roots] = model.get_param("root")

    def backprop(d_vectors: Ragged):
        model.inc_grad("root", d_vectors.data[roots].sum(axis=0))
        d_everything = ops.xp.zeros_like(everything)
        d_everything[places] = d_vectors.data[tokens]
        edges = batch.offsets.tolist()
        return backprop_tok2vec([d_everything[a:b] for a, b in pairwise(edges)])

    return Ragged(data, ops.asarray1i(numpy.diff(starts) + 1)), backprop


# the arrays of these layers, for `base.learnt.check_layers`
ENCODER_FIELDS = {
    "sentence_vectors": Record(root=layer_weights("nO")),
    "gated_scan": Record(
        W=layer_weights("units+units+units", "nI"),
        b=layer_weights("units+units+units"),
    ),
}


def root_rows(starts: NDArray) -> Ints:
    """The row of every sentence's root, where roots stand before their sentences."""
    return starts[:-1] + numpy.arange(len(starts) - 1, dtype="int32")


def token_rows(starts: NDArray) -> Longs:
    """The row of every token; see `root_rows`."""
    return numpy.arange(starts[-1]) + numpy.repeat(numpy.arange(1, len(starts)), numpy.diff(starts))


def rows_of_pieces(starts: NDArray, tokens: Longs, piece_starts: NDArray) -> Longs:
    """The rows of some tokens as sentences of their own, one after the other, none of them empty, each
    with a root in front: that of the sentence that the first token is from."""
    sentence = numpy.searchsorted(starts, tokens[piece_starts[:-1]], side="right") - 1
    rows = numpy.empty(len(tokens) + len(sentence), dtype="int64")
    rows[root_rows(piece_starts)] = root_rows(starts)[sentence]
    rows[token_rows(piece_starts)] = token_rows(starts)[tokens]
    return rows


def arc_scores(size: int) -> Model[Ragged, list[Floats]]:
    """Scores of all arcs, one matrix [N+1, N+1] a sentence, on the CPU: bilinear in both ends, and for
    each end linear terms by direction and distance."""
    return Model(
        "arc_scores",
        _arcs_forward,
        init=_arcs_init,
        dims={"size": size, "nI": None},
        # W, b: hidden layers of heads and of modifiers. U: the bilinear term. T: terms of both ends.
        params={"W": None, "b": None, "U": None, "T": None},
        layers=[Dropout()],
    )


def _arcs_init(model: Model, X: Ragged | None = None, Y: list | None = None) -> None:
    if X is not None:
        model.set_dim("nI", get_width(X.data))
    ops, size, nI = model.ops, model.get_dim("size"), model.get_dim("nI")
    halves = [glorot_uniform_init(ops, (size, nI)) for _ in range(2)]
    model.set_param("W", ops.xp.concatenate(halves))
    model.set_param("b", ops.alloc1f(2 * size))
    model.set_param("U", glorot_uniform_init(ops, (size, size)) * _BILINEAR_SCALE)
    model.set_param("T", ops.alloc2f(2 * N_CLASSES, nI))


def scores_of(model: Model, arcs: "ArcRows") -> NDArray[numpy.float32]:
    """What `arc_scores` says of given arcs, where a chart of all arcs would be too much."""
    ops, size, X = model.ops, model.get_dim("size"), arcs.vectors
    W, U, T = (model.get_param(name) for name in "WUT")
    hidden = product(X.data, W)
    hidden += model.get_param("b")
    ops.xp.maximum(hidden, 0.0, out=hidden)
    moved = ops.to_numpy(product(hidden[:, :size], U.T))
    modifiers = ops.to_numpy(hidden[:, size:])
    terms = ops.to_numpy(product(X.data, T))
    scores = numpy.empty(len(arcs.heads), dtype="float32")
    for start in range(0, len(scores), _ARCS_AT_ONCE):
        own = slice(start, start + _ARCS_AT_ONCE)
        ends = moved[arcs.heads[own]], modifiers[arcs.modifiers[own]]
        numpy.einsum("ij,ij->i", *ends, out=scores[own])
    scores += terms[arcs.heads, arcs.classes]
    scores += terms[arcs.modifiers, N_CLASSES + arcs.classes]
    return scores


def _arcs_forward(model: Model, X: Ragged, is_train: bool):
    ops, size = model.ops, model.get_dim("size")
    W, U, T = (model.get_param(name) for name in "WUT")
    activated = ops.relu(product(X.data, W) + model.get_param("b"))
    hidden, backprop_dropout = model.layers[0](activated, is_train)
    moved = product(hidden[:, :size], U.T)
    modifiers = hidden[:, size:]
    terms = ops.to_numpy(product(X.data, T))
    by_head, by_modifier = terms[:, :N_CLASSES], terms[:, N_CLASSES:]
    ends = numpy.cumsum(ops.to_numpy(X.lengths)).tolist()
    sentences = [slice(a, b) for a, b in pairwise([0, *ends])]
    scores = []
    for rows in sentences:
        classes = arc_classes(rows.stop - rows.start - 1)
        own = ops.to_numpy(product(moved[rows], modifiers[rows])).astype("float64")
        own += numpy.take_along_axis(by_head[rows], classes, axis=1)
        own += numpy.take_along_axis(by_modifier[rows], classes.T, axis=1).T
        scores.append(own)

    def backprop(d_scores: Sequence[NDArray]) -> Ragged:
        d_moved, d_modifiers = ops.xp.empty_like(moved), ops.xp.empty_like(modifiers)
        d_terms = numpy.empty(terms.shape, dtype="float32")
        for rows, gradient in zip(sentences, d_scores, strict=True):
            classes = arc_classes(len(gradient) - 1)
            d_terms[rows, :N_CLASSES] = _sum_by_class(gradient, classes)
            d_terms[rows, N_CLASSES:] = _sum_by_class(gradient.T, classes.T)
            d_own = ops.asarray2f(gradient.astype("float32"))
            d_moved[rows] = product(d_own, modifiers[rows].T)
            d_modifiers[rows] = product(d_own.T, moved[rows].T)
        d_hidden = ops.xp.concatenate([product(d_moved, U), d_modifiers], axis=1)
        d_hidden = ops.backprop_relu(backprop_dropout(d_hidden), activated)
        d_terms = ops.asarray2f(d_terms)
        model.inc_grad("U", product(hidden[:, :size].T, d_moved.T))
        model.inc_grad("T", product(d_terms.T, X.data.T))
        model.inc_grad("W", product(d_hidden.T, X.data.T))
        model.inc_grad("b", d_hidden.sum(axis=0))
        return Ragged(product(d_hidden, W.T) + product(d_terms, T.T), X.lengths)

    return scores, backprop


def _sum_by_class(values: NDArray, classes: NDArray) -> NDArray:
    """[rows, classes], the sums of each row's values of each class."""
    cells = numpy.arange(len(values))[:, None] * N_CLASSES + classes
    sums = numpy.bincount(cells.ravel(), values.ravel(), minlength=len(values) * N_CLASSES)
    return sums.reshape(len(values), N_CLASSES)


@dataclass
class ArcRows:
    """Arcs whose labels are asked for, with their classes; see `arc_classes`."""

    vectors: Ragged
    heads: Ints
    modifiers: Ints
    classes: Ints

    @classmethod
    def of_trees(
        cls, vectors: Ragged, starts: NDArray, sentences: Sequence[int], trees: Sequence[NDArray]
    ) -> "ArcRows":
        roots = root_rows(starts)
        none = numpy.zeros(0, dtype="int32")
        heads, modifiers, classes = [none], [none], [none]
        for s, tree in zip(sentences, trees, strict=True):
            own = numpy.arange(1, len(tree) + 1, dtype="int32")
            heads.append(roots[s] + tree)
            modifiers.append(roots[s] + own)
            classes.append(classes_of(tree, own))
        return cls(vectors, *map(numpy.concatenate, (heads, modifiers, classes)))

    def only(self, chosen: Bools) -> "ArcRows":
        """Some of the arcs."""
        columns = (self.heads, self.modifiers, self.classes)
        return ArcRows(self.vectors, *(rows[chosen] for rows in columns))


def label_scores(size: int) -> Model[ArcRows, Floats2d]:
    """Scores of all labels of given arcs, [arcs, labels]: one hidden layer over both ends, direction and
    distance."""
    return Model(
        "label_scores",
        _labels_forward,
        init=_labels_init,
        dims={"size": size, "nI": None, "nO": None},
        # W, C: what heads, modifiers and classes of arcs add to the hidden layer. V, b: the output.
        params={"W": None, "C": None, "V": None, "b": None},
        layers=[Dropout()],
    )


def _labels_init(model: Model, X: ArcRows | None = None, Y: Floats2d | None = None) -> None:
    if X is not None:
        model.set_dim("nI", get_width(X.vectors.data))
    ops, size, nI, nO = model.ops, *(model.get_dim(name) for name in ("size", "nI", "nO"))
    halves = [glorot_uniform_init(ops, (size, nI)) for _ in range(2)]
    model.set_param("W", ops.xp.concatenate(halves))
    model.set_param("C", ops.alloc2f(N_CLASSES, size))
    model.set_param("V", ops.alloc2f(nO, size))
    model.set_param("b", ops.alloc1f(nO))


def _labels_forward(model: Model, arcs: ArcRows, is_train: bool):
    ops, size, X = model.ops, model.get_dim("size"), arcs.vectors
    W, C, V = (model.get_param(name) for name in "WCV")
    heads, modifiers, classes = map(ops.asarray, (arcs.heads, arcs.modifiers, arcs.classes))
    terms = product(X.data, W)
    activated = ops.relu(terms[heads, :size] + terms[modifiers, size:] + C[classes])
    hidden, backprop_dropout = model.layers[0](activated, is_train)

    def backprop(d_scores: Floats2d) -> Ragged:
        d_hidden = ops.backprop_relu(backprop_dropout(product(d_scores, V.T)), activated)
        d_classes, d_heads, d_modifiers = (
            scattered(ops, d_hidden, rows, n)
            for rows, n in ((classes, len(C)), (heads, len(terms)), (modifiers, len(terms)))
        )
        d_terms = ops.xp.concatenate([d_heads, d_modifiers], axis=1)
        model.inc_grad("V", product(d_scores.T, hidden.T))
        model.inc_grad("b", d_scores.sum(axis=0))
        model.inc_grad("C", d_classes)
        model.inc_grad("W", product(d_terms.T, X.data.T))
        return Ragged(product(d_terms, W.T), X.lengths)

    scores = product(hidden, V)
    return scores + model.get_param("b"), backprop


def log_labels(
    model: Model, arcs: ArcRows, temperature: float, *, out: NDArray[numpy.float32] | None = None
) -> NDArray[numpy.float32]:
    """log P(label | arc), [arcs, labels], on the CPU: what `label_scores` says of given arcs, some of
    them at a time, so that all stays in the cache."""
    ops, size = model.ops, model.get_dim("size")
    xp, (W, C, V, b) = ops.xp, (model.get_param(name) for name in "WCVb")
    terms = product(arcs.vectors.data, W)
    heads, modifiers, classes = map(ops.asarray, (arcs.heads, arcs.modifiers, arcs.classes))
    result = numpy.empty((len(arcs.heads), len(V)), dtype="float32") if out is None else out
    for start in range(0, len(result), _ARCS_AT_ONCE):
        own = slice(start, start + _ARCS_AT_ONCE)
        hidden = terms[heads[own], :size]
        hidden += terms[modifiers[own], size:]
        hidden += C[classes[own]]
        xp.maximum(hidden, 0.0, out=hidden)
        scores = product(hidden, V)
        scores += b
        scores /= numpy.float32(temperature)
        scores -= scores.max(axis=1, keepdims=True)
        scores -= xp.log(xp.exp(scores).sum(axis=1, keepdims=True))
        result[own] = ops.to_numpy(scores)
    return result


def scattered(ops: Ops, values: Floats2d, rows: Ints1d, n: int) -> Floats2d:
    """A table of n rows to which values are added."""
    table = ops.alloc2f(n, values.shape[1])
    ops.scatter_add(table, rows, values)
    return table


def output_scores(n: int) -> Model[Ragged, NDArray]:
    """Scores of n classes by the states of words: W h + b."""
    return Model(
        "output_scores",
        _output_forward,
        init=_output_init,
        dims={"nO": n, "nI": None},
        params={"W": None, "b": None},
    )


def _output_init(model: Model, X: Ragged | None = None, Y: Floats2d | None = None) -> None:
    if X is not None:
        model.set_dim("nI", X.data.shape[1])
    shape = model.get_dim("nO"), model.get_dim("nI")
    model.set_param("W", glorot_uniform_init(model.ops, shape))
    model.set_param("b", model.ops.alloc1f(shape[0]))


def _output_forward(model: Model, X: Ragged, is_train: bool):
    W = model.get_param("W")

    def backprop(dY: NDArray) -> Ragged:
        model.inc_grad("W", product(dY.T, X.data.T))
        model.inc_grad("b", dY.sum(axis=0))
        return Ragged(product(dY, W.T), X.lengths)

    return product(X.data, W) + model.get_param("b"), backprop
