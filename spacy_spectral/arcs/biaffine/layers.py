"""The layers of the model. Sentences are rows of one matrix (Ragged), each with its root in front."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy
from numpy.typing import NDArray
from thinc.api import (
    Dropout,
    Linear,
    Model,
    Relu,
    chain,
    glorot_uniform_init,
    normal_init,
    zero_init,
)
from thinc.types import Floats2d, Ragged
from thinc.util import get_width

from ...docs import Batch
from ..lengths import DISTANCE_BINS, N_BINS

# Classes of arcs: the bins of distances to the left and to the right, and the arc from the root.
N_CLASSES = 2 * N_BINS + 1
_ROOT_CLASS = 2 * N_BINS
# Large bilinear scores at the beginning make charts of a few trees, and no gradient.
_BILINEAR_SCALE = 0.05


@lru_cache(maxsize=512)
def arc_classes(n: int) -> NDArray[numpy.int32]:
    """RETURNS (ndarray): [N+1, N+1], the class of every arc (head, modifier) of N tokens."""
    positions = numpy.arange(n + 1, dtype="int32")
    offset = positions[None] - positions[:, None]
    bins = DISTANCE_BINS[numpy.minimum(numpy.abs(offset), len(DISTANCE_BINS) - 1)]
    classes = numpy.where(offset > 0, bins + N_BINS, bins).astype("int32")
    classes[0] = _ROOT_CLASS
    return classes


def sentence_vectors(tok2vec: Model) -> Model[Batch, Ragged]:
    """Vectors of the sentences' tokens, whitespace left out, with a learnt vector for the root.

    tok2vec (Model[List[Doc], List[Floats2d]]): Gives the vectors of documents.
    RETURNS (Model[Batch, Ragged]): The layer.
    """
    return Model(
        "sentence_vectors",
        _vectors_forward,
        init=_vectors_init,
        dims={"nO": None},
        params={"root": None},
        layers=[tok2vec],
    )


def _vectors_init(model: Model, X: Batch | None = None, Y: Ragged | None = None) -> None:
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


def root_rows(starts: NDArray) -> NDArray[numpy.int32]:
    """RETURNS (ndarray): The row of every sentence's root, where roots stand before their sentences.

    starts (ndarray): Where sentences start among all tokens, closed by their number."""
    return starts[:-1] + numpy.arange(len(starts) - 1, dtype="int32")


def token_rows(starts: NDArray) -> NDArray[numpy.int64]:
    """RETURNS (ndarray): The row of every token; see `root_rows`."""
    return numpy.arange(starts[-1]) + numpy.repeat(numpy.arange(1, len(starts)), numpy.diff(starts))


def arc_scores(size: int) -> Model[Ragged, list[NDArray[numpy.float64]]]:
    """Scores of all arcs: bilinear in both ends, and for each end linear terms by direction and distance.

    size (int): Width of the hidden layers of heads and of modifiers.
    RETURNS (Model[Ragged, List[ndarray]]): The layer; one matrix [N+1, N+1] a sentence, on the CPU.
    """
    return Model(
        "arc_scores",
        _arcs_forward,
        init=_arcs_init,
        dims={"nO": size},
        params={"U": None},
        layers=[
            Relu(nO=size, dropout=0.0),
            Relu(nO=size, dropout=0.0),
            Linear(nO=N_CLASSES, init_W=zero_init),
            Linear(nO=N_CLASSES, init_W=zero_init),
        ],
    )


def _arcs_init(model: Model, X: Ragged | None = None, Y: list | None = None) -> None:
    for layer in model.layers:
        layer.initialize(X=None if X is None else X.data)
    size = model.get_dim("nO")
    model.set_param("U", glorot_uniform_init(model.ops, (size, size)) * _BILINEAR_SCALE)


def _arcs_forward(model: Model, X: Ragged, is_train: bool):
    ops, U = model.ops, model.get_param("U")
    (heads, bp_heads), (modifiers, bp_modifiers), (by_head, bp_by_head), (by_mod, bp_by_mod) = (
        layer(X.data, is_train) for layer in model.layers
    )
    moved = ops.gemm(heads, U)
    ends = numpy.cumsum(ops.to_numpy(X.lengths)).tolist()
    own = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
    head_terms, modifier_terms = ops.to_numpy(by_head), ops.to_numpy(by_mod)
    scores = []
    for rows in own:
        classes = arc_classes(rows.stop - rows.start - 1)
        values = ops.to_numpy(moved[rows] @ modifiers[rows].T).astype("float64")
        values += numpy.take_along_axis(head_terms[rows], classes, axis=1)
        values += numpy.take_along_axis(modifier_terms[rows], classes.T, axis=1).T
        scores.append(values)

    def backprop(d_scores: Sequence[NDArray]) -> Ragged:
        d_moved, d_modifiers = ops.xp.zeros_like(moved), ops.xp.zeros_like(modifiers)
        d_head_terms = numpy.zeros(head_terms.shape, dtype="float32")
        d_modifier_terms = numpy.zeros(modifier_terms.shape, dtype="float32")
        for rows, gradient in zip(own, d_scores, strict=True):
            classes = arc_classes(len(gradient) - 1)
            d_head_terms[rows] = _sum_by_class(gradient, classes)
            d_modifier_terms[rows] = _sum_by_class(gradient.T, classes.T)
            d_own = ops.asarray2f(gradient.astype("float32"))
            d_moved[rows] = d_own @ modifiers[rows]
            d_modifiers[rows] = d_own.T @ moved[rows]
        model.inc_grad("U", ops.gemm(heads, d_moved, trans1=True))
        dX = bp_heads(ops.gemm(d_moved, U, trans2=True))
        dX += bp_modifiers(d_modifiers)
        dX += bp_by_head(ops.asarray2f(d_head_terms))
        dX += bp_by_mod(ops.asarray2f(d_modifier_terms))
        return Ragged(dX, X.lengths)

    return scores, backprop


def _sum_by_class(values: NDArray, classes: NDArray) -> NDArray[numpy.float64]:
    """RETURNS (ndarray): [rows, classes], the sums of each row's values of each class."""
    cells = numpy.arange(len(values))[:, None] * N_CLASSES + classes
    sums = numpy.bincount(cells.ravel(), values.ravel(), minlength=len(values) * N_CLASSES)
    return sums.reshape(len(values), N_CLASSES)


@dataclass
class Arcs:
    """Arcs whose labels are asked for.

    vectors (Ragged): The vectors of sentences.
    heads, modifiers (ndarray): Rows of both ends of every arc.
    classes (ndarray): The classes of the arcs; see `arc_classes`.
    """

    vectors: Ragged
    heads: NDArray[numpy.int32]
    modifiers: NDArray[numpy.int32]
    classes: NDArray[numpy.int32]

    @classmethod
    def of_trees(
        cls, vectors: Ragged, starts: NDArray, sentences: Sequence[int], trees: Sequence[NDArray]
    ) -> "Arcs":
        """RETURNS (Arcs): The arcs of trees of some sentences, one after the other.

        vectors (Ragged): The vectors of all sentences.
        starts (ndarray): Where sentences start among all tokens.
        sentences (Sequence[int]): The number of each tree's sentence.
        trees (Sequence[ndarray]): Heads, 0 for the root."""
        roots = root_rows(starts)
        none = numpy.zeros(0, dtype="int32")
        heads, modifiers, classes = [none], [none], [none]
        for s, tree in zip(sentences, trees, strict=True):
            own = numpy.arange(1, len(tree) + 1, dtype="int32")
            heads.append(roots[s] + tree)
            modifiers.append(roots[s] + own)
            classes.append(arc_classes(len(tree))[tree, own])
        return cls(vectors, *map(numpy.concatenate, (heads, modifiers, classes)))

    def only(self, chosen: NDArray[numpy.bool_]) -> "Arcs":
        """RETURNS (Arcs): Some of the arcs."""
        kept = (rows[chosen] for rows in (self.heads, self.modifiers, self.classes))
        return Arcs(self.vectors, *kept)


def label_scores(size: int) -> Model[Arcs, Floats2d]:
    """Scores of all labels of given arcs: one hidden layer over both ends, direction and distance.

    size (int): Width of the hidden layer.
    RETURNS (Model[Arcs, Floats2d]): The layer: [arcs, labels].
    """
    return Model(
        "label_scores",
        _labels_forward,
        init=_labels_init,
        dims={"nO": None},
        params={"classes": None},
        layers=[
            Linear(nO=size),
            Linear(nO=size, init_W=glorot_uniform_init),
            chain(Dropout(), Linear(init_W=zero_init)),
        ],
    )


def _labels_init(model: Model, X: Arcs | None = None, Y: Floats2d | None = None) -> None:
    head, modifier, output = model.layers
    for layer in (head, modifier):
        layer.initialize(X=None if X is None else X.vectors.data)
    size = head.get_dim("nO")
    output.layers[1].set_dim("nO", model.get_dim("nO"))
    output.layers[1].set_dim("nI", size)
    output.initialize()
    model.set_param("classes", model.ops.alloc2f(N_CLASSES, size))


def _labels_forward(model: Model, arcs: Arcs, is_train: bool):
    ops = model.ops
    head, modifier, output = model.layers
    vectors = arcs.vectors
    h, m, classes = (ops.asarray(rows) for rows in (arcs.heads, arcs.modifiers, arcs.classes))
    by_head, bp_by_head = head(vectors.data, is_train)
    by_modifier, bp_by_modifier = modifier(vectors.data, is_train)
    hidden = ops.relu(by_head[h] + by_modifier[m] + model.get_param("classes")[classes])
    scores, bp_scores = output(hidden, is_train)

    def backprop(d_scores: Floats2d) -> Ragged:
        d_hidden = ops.backprop_relu(bp_scores(d_scores), hidden)
        d_by_class = ops.alloc2f(*model.get_param("classes").shape)
        d_by_head, d_by_modifier = ops.xp.zeros_like(by_head), ops.xp.zeros_like(by_modifier)
        for table, rows in ((d_by_class, classes), (d_by_head, h), (d_by_modifier, m)):
            ops.scatter_add(table, rows, d_hidden)
        model.inc_grad("classes", d_by_class)
        dX = bp_by_head(d_by_head)
        dX += bp_by_modifier(d_by_modifier)
        return Ragged(dX, vectors.lengths)

    return scores, backprop
