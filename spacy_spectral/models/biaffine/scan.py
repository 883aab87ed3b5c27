"""A recurrent layer that is cheap on a CPU: gates are computed for all tokens at once.

    c_t = f_t * c_{t-1} + (1 - f_t) * tanh(z_t)        y_t = o_t * c_t

with z, f and o linear in the input (f and o through a sigmoid), half of the units from left to right and
half from right to left. Only the first equation, elementwise, runs token by token; it does so for all
sentences at once. The output is put beside the input, so that layers on top see both.
"""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray
from thinc.api import Dropout, Model, glorot_uniform_init
from thinc.types import Ragged
from thinc.util import get_width


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


@dataclass
class _Layout:
    """All sentences' first tokens, longest sentence first, then all second tokens and so on.

    order (ndarray): Where each row comes from.
    begins (List[int]): Where the rows of each step begin, closed by the number of rows.
    """

    order: NDArray[numpy.int64]
    begins: list[int]

    @classmethod
    def of(cls, lengths: NDArray) -> "_Layout":
        rank = numpy.empty(len(lengths), dtype="int64")
        rank[numpy.argsort(-lengths, kind="stable")] = numpy.arange(len(lengths))
        first = numpy.cumsum(lengths) - lengths
        step = numpy.arange(int(lengths.sum())) - numpy.repeat(first, lengths)
        order = numpy.lexsort((numpy.repeat(rank, lengths), step))
        return cls(order, [0, *numpy.cumsum(numpy.bincount(step)).tolist()])

    def steps(self) -> list[tuple[slice, slice]]:
        """RETURNS (List[Tuple[slice, slice]]): The rows of every step but the first, and the rows of the
        same sentences one step before."""
        begins = self.begins
        pairs = []
        for t in range(1, len(begins) - 1):
            size = begins[t + 1] - begins[t]
            pairs.append(
                (slice(begins[t], begins[t + 1]), slice(begins[t - 1], begins[t - 1] + size))
            )
        return pairs


def forward(model: Model[Ragged, Ragged], X: Ragged, is_train: bool):
    ops, W = model.ops, model.get_param("W")
    xp = ops.xp
    n = model.get_dim("units")
    half = n // 2
    layout = _Layout.of(ops.to_numpy(X.lengths).astype("int64"))
    order, steps = ops.asarray(layout.order), layout.steps()
    rows = X.data[order]
    gates = rows @ W.T + model.get_param("b")
    z = xp.tanh(gates[:, :n])
    f = ops.sigmoid(gates[:, n : 2 * n])
    o = ops.sigmoid(gates[:, 2 * n :])
    c = (1 - f) * z
    right, left = c[:, :half], c[:, half:]
    f_right, f_left = f[:, :half], f[:, half:]
    for now, before in steps:
        right[now] += f_right[now] * right[before]
    for after, now in reversed(steps):
        left[now] += f_left[now] * left[after]
    y = xp.empty_like(c)
    y[order] = o * c
    y, backprop_dropout = model.layers[0](y, is_train)

    def backprop(dY: Ragged) -> Ragged:
        dX = dY.data[:, :-n].copy()
        dy = backprop_dropout(dY.data[:, -n:])[order]
        dc = dy * o
        d_right, d_left = dc[:, :half], dc[:, half:]
        for now, before in reversed(steps):
            d_right[before] += f_right[now] * d_right[now]
        for after, now in steps:
            d_left[after] += f_left[now] * d_left[now]
        source = xp.zeros_like(c)
        for now, before in steps:
            source[now, :half] = right[before]
            source[before, half:] = left[now]
        d_gates = xp.empty_like(gates)
        d_gates[:, :n] = dc * (1 - f) * (1 - z * z)
        d_gates[:, n : 2 * n] = dc * (source - z) * f * (1 - f)
        d_gates[:, 2 * n :] = dy * c * o * (1 - o)
        model.inc_grad("b", d_gates.sum(axis=0))
        model.inc_grad("W", d_gates.T @ rows)
        dX[order] += d_gates @ W
        return Ragged(dX, X.lengths)

    return Ragged(xp.concatenate([X.data, y], axis=1), X.lengths), backprop
