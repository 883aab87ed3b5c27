"""A recurrent layer that is cheap on a CPU: gates are computed for all tokens at once.

    c_t = f_t * c_{t-1} + (1 - f_t) * tanh(z_t)        y_t = o_t * c_t

with z, f and o linear in the input (f and o through a sigmoid), half of the units from left to right and
half from right to left. Only the first equation, elementwise, runs token by token (`_scan`, on the CPU). The
output is put beside the input, so that layers on top see both.
"""

from typing import Any

import numpy
from thinc.api import Dropout, Model, glorot_uniform_init
from thinc.types import Ragged
from thinc.util import get_width

from ...base.linalg import product
from ._scan import scan, scan_back


def gated_scan(units: int) -> Model[Ragged, Ragged]:
    """Make the layer.

    units (int): Units in both directions together, an even number.
    RETURNS (Model[Ragged, Ragged]): The layer; its output is wider than its input by `units`.
    """
    return Model(
        "gated_scan",
        forward,
        init=init,
        dims={"units": units, "nI": None, "nO": None},
        params={"W": None, "b": None},
        layers=[Dropout()],
    )


def init(model: Model, X: Ragged | None = None, Y: Ragged | None = None) -> None:
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


def forward(model: Model[Ragged, Ragged], X: Ragged, is_train: bool):
    ops, W, n = model.ops, model.get_param("W"), model.get_dim("units")
    lengths = ops.to_numpy(X.lengths).astype("int32")
    gates = ops.to_numpy(_activated(ops, product(X.data, W), model.get_param("b"), n))
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


def _activated(ops: Any, gates: Any, b: Any, n: int) -> Any:
    """RETURNS (ndarray): tanh of the first n columns, the sigmoid of others: 1 / (1 + exp(-x)) is
    (1 + tanh(x / 2)) / 2. In place, for these are the largest arrays that there are."""
    gates += b
    gates[:, n:] *= 0.5
    ops.xp.tanh(gates, out=gates)
    gates[:, n:] += 1.0
    gates[:, n:] *= 0.5
    return gates
