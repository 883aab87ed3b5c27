"""Projections of the inside and outside of nodes to a few dimensions (Cohen et al. 2012, figure 4).

For each symbol with M nodes, features X of insides and Y of outsides, the singular vectors of

    X'Y / M  ~  U diag(S) V'

give every node its inside y = U'x and outside z = diag(1/S) V'y', so that E[y z'] is the identity: the
two are coordinates of the hidden state, in bases that fit. Any invertible change of the one is undone by
a change of the other; here every y_i has mean square 1 and a mean that is not negative.
"""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...base.linalg import svd
from .features import NodeFeatures, scaled_matrix
from .statistics import Corpus

_MIN_COUNT = 2
_ADD = 5.0
_ROUNDS = 3
_EXTRA = 8


@dataclass
class Projections:
    """n_states (ndarray): int32, by symbol.
    inside, outside (ndarray): float32, [nodes, states], 0 beyond the states of the node's symbol.
    """

    n_states: NDArray[numpy.int32]
    inside: NDArray[numpy.float32]
    outside: NDArray[numpy.float32]


def project(
    corpus: Corpus,
    *,
    states: int,
    per_state: int = 20,
    seed: int = 0,
    features: NodeFeatures | None = None,
) -> Projections:
    """Project all nodes of a corpus.

    corpus (Corpus): The treebank.
    states (int): The most states of a symbol.
    per_state (int): How many nodes a symbol must have for each of its states.
    seed (int): Of the start of the singular value decomposition.
    features (Optional[NodeFeatures]): The features of its nodes, if they are known.
    RETURNS (Projections): What is known of all nodes.
    """
    features = NodeFeatures(corpus) if features is None else features
    n_symbols = len(corpus.grammar)
    n_states = numpy.ones(n_symbols, dtype="int32")
    inside = numpy.zeros((len(corpus.symbol), states), dtype="float32")
    outside = numpy.zeros((len(corpus.symbol), states), dtype="float32")
    inside[:, 0] = outside[:, 0] = 1.0
    order = numpy.argsort(corpus.symbol, kind="stable")
    bounds = numpy.searchsorted(corpus.symbol[order], numpy.arange(n_symbols + 1))
    for symbol in range(n_symbols):
        nodes = order[bounds[symbol] : bounds[symbol + 1]]
        wanted = min(states, len(nodes) // per_state)
        if wanted < 2:
            continue
        x, n_x = scaled_matrix(features.inside, nodes, _MIN_COUNT, _ADD)
        y, n_y = scaled_matrix(features.outside, nodes, _MIN_COUNT, _ADD)
        if min(n_x, n_y) < wanted + _EXTRA:
            continue
        y_own, z_own = _project(x, y, wanted, seed)
        m = y_own.shape[1]
        n_states[symbol] = m
        inside[nodes, :m], outside[nodes, :m] = y_own, z_own
    return Projections(n_states, inside, outside)


def _project(x, y, k: int, seed: int) -> tuple[NDArray, NDArray]:
    """Inside and outside of some nodes in k dimensions, fewer if the rank is less."""
    m = x.shape[0]
    random = numpy.random.default_rng(seed)
    basis = random.standard_normal((y.shape[1], k + _EXTRA)).astype(x.dtype)
    x_t, y_t = x.T.tocsr(), y.T.tocsr()
    for _ in range(_ROUNDS):
        basis, _r = numpy.linalg.qr(x_t @ (y @ basis) / m)
        basis, _r = numpy.linalg.qr(y_t @ (x @ basis) / m)
    left, values, right = svd((x_t @ (y @ basis) / m).astype("float64"), k)
    rank = max(1, int((values > 1e-4 * values[0]).sum()))
    inside = x @ left[:, :rank].astype(x.dtype)
    outside = (y @ (basis @ right[:, :rank])) / values[:rank]
    size = numpy.sqrt((inside.astype("float64") ** 2).mean(axis=0))
    size *= numpy.where(inside.mean(axis=0) < 0, -1.0, 1.0)
    return inside / size, outside * size
