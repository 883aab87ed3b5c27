"""Learning to choose from a list: averaged perceptron and conditional log-linear model.

Both give weights of the same features and, with them, a probability for every tree of a list:
p(i) = exp(s_i) / sum_j exp(s_j). Knows nothing of spaCy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import ArrayLike, NDArray

from ._features import add_transposed, times
from .features import BITS, Described

Report = Callable[[str], None]
LEARNERS = ("loglinear", "perceptron")


@dataclass
class Lists:
    """Candidates of many sentences as a learner sees them: `Described`, with starts closed by the number
    of rows in place of sizes and lengths, and how many labelled arcs of each tree are right (`gains`).
    """

    starts: NDArray[numpy.int64]
    dense: NDArray[numpy.float64]
    sparse_starts: NDArray[numpy.int64]
    indices: NDArray[numpy.int32]
    values: NDArray[numpy.int8]
    gains: NDArray[numpy.float64]

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass
class Weights:
    """A weight for each number, and for each of 2 ** BITS hashes."""

    dense: NDArray[numpy.float64]
    sparse: NDArray[numpy.float32]


def make_lists(described: Sequence[Described], gains: Sequence[ArrayLike]) -> Lists:
    """Put sentences together, with the gains of each."""

    def column(name: str) -> NDArray:
        return numpy.concatenate([getattr(own, name) for own in described])

    return Lists(
        numpy.cumsum([0, *column("sizes")]),
        column("dense"),
        numpy.cumsum([0, *column("lengths")]),
        column("indices"),
        column("values"),
        numpy.concatenate(gains).astype("float64"),
    )


def fit_loglinear(
    lists: Lists,
    *,
    l2: float = 1.0,
    sharpness: float = 1.0,
    max_iterations: int = 100,
    report: Report = lambda message: None,
) -> Weights:
    """Minimise cross entropy to a soft target by L-BFGS.

    A tree's share of the target is proportional to exp(sharpness * right arcs): nearly as good trees are
    nearly as good answers. The objective is convex. The penalty is l2 / 2 times the squared weights of
    hashed features; that of numbers is a hundredth of it.
    """
    from scipy.optimize import minimize

    objective = Objective(lists, l2=l2, sharpness=sharpness)
    found = minimize(
        objective,
        numpy.zeros(objective.size),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations, "maxcor": 10},
    )
    report(f"log-linear model after {found.nit} iterations: loss {found.fun / len(lists):.4f}")
    return objective.weights(found.x)


class Objective:
    """Value and gradient of the log-linear model's objective, of scaled numbers and the hashes that occur."""

    def __init__(self, lists: Lists, *, l2: float, sharpness: float):
        self.lists = lists
        self.scale = spread(lists.dense)
        self.dense = lists.dense / self.scale
        # hashes that do not occur would keep a weight of zero
        occurs = numpy.zeros(2**BITS, dtype=bool)
        occurs[lists.indices] = True
        self.used = numpy.flatnonzero(occurs)
        place = (numpy.cumsum(occurs) - 1).astype("int32")
        self.sparse = lists.sparse_starts, place[lists.indices], lists.values
        self.size = self.dense.shape[1] + len(self.used)
        self.penalty = numpy.full(self.size, float(l2))
        self.penalty[: self.dense.shape[1]] /= 100
        self.target = softmax(sharpness * lists.gains, lists.starts)[0]

    def __call__(self, x: NDArray[numpy.float64]) -> tuple[float, NDArray[numpy.float64]]:
        n = self.dense.shape[1]
        scores = self.dense @ x[:n] + times(*self.sparse, x[n:])
        probs, logs = softmax(scores, self.lists.starts)
        loss = float(logs.sum() - self.target @ scores + 0.5 * (self.penalty * x) @ x)
        slope = probs - self.target
        gradient = self.penalty * x
        gradient[:n] += self.dense.T @ slope
        add_transposed(*self.sparse, slope, gradient[n:])
        return loss, gradient

    def weights(self, x: NDArray[numpy.float64]) -> Weights:
        """A solution as weights of all features."""
        n = self.dense.shape[1]
        sparse = numpy.zeros(2**BITS, dtype="float32")
        sparse[self.used] = x[n:]
        return Weights(x[:n] / self.scale, sparse)


def fit_perceptron(
    lists: Lists, *, epochs: int = 10, seed: int = 0, report: Report = lambda message: None
) -> Weights:
    """Averaged perceptron: wherever another tree than the best scores highest, move towards the best.

    Its scores have no natural scale; the one that makes the best trees likeliest is found afterwards, so
    that there are probabilities here, too.
    """
    scale = spread(lists.dense)
    dense, starts = lists.dense / scale, lists.starts.tolist()
    columns = lists.indices, lists.values
    n = dense.shape[1]
    now, total = numpy.zeros(n + 2**BITS), numpy.zeros(n + 2**BITS)
    step = 0
    order = numpy.random.default_rng(seed)
    for epoch in range(1, epochs + 1):
        right = 0
        for s in order.permutation(len(lists)).tolist():
            own = slice(starts[s], starts[s + 1])
            rows = (lists.sparse_starts[own.start : own.stop + 1], *columns)
            step += 1
            scores = dense[own] @ now[:n] + times(*rows, now[n:])
            gains = lists.gains[own]
            guess, best = int(scores.argmax()), int(gains.argmax())
            if gains[guess] == gains[best]:
                right += 1
                continue
            move = numpy.zeros(len(gains))
            move[best], move[guess] = 1.0, -1.0
            # the average is what there is at the end less what each change was not yet in force
            for weights, factor in ((now, 1.0), (total, float(step))):
                weights[:n] += factor * (move @ dense[own])
                add_transposed(*rows, factor * move, weights[n:])
        report(f"perceptron, pass {epoch} of {epochs}: best tree in {right / len(lists):.2%}")
    average = now - total / (step + 1)
    scores = dense @ average[:n] + times(lists.sparse_starts, *columns, average[n:])
    average *= _temperature(scores, lists)
    return Weights(average[:n] / scale, average[n:].astype("float32"))


def _temperature(scores: NDArray[numpy.float64], lists: Lists) -> float:
    """The factor of scores that makes the best trees likeliest."""
    from scipy.optimize import minimize_scalar

    target = softmax(1e3 * lists.gains, lists.starts)[0]
    spread_of = max(float(scores.std()), 1e-9)

    def loss(log_factor: float) -> float:
        scaled = scores * (numpy.exp(log_factor) / spread_of)
        return float(softmax(scaled, lists.starts)[1].sum() - target @ scaled)

    return float(numpy.exp(minimize_scalar(loss, bounds=(-10, 10), method="bounded").x) / spread_of)


def spread(dense: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """The root mean square of every column, 1 for columns of zeros."""
    size = numpy.sqrt((dense**2).mean(axis=0)) if len(dense) else numpy.ones(dense.shape[1])
    return numpy.where(size > 0, size, 1.0)


def softmax(
    scores: NDArray[numpy.float64], starts: NDArray[numpy.int64]
) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
    """The probabilities[rows] of lists of scores, of which none is empty, and the logarithm of the sum of
    each list."""
    lengths = numpy.diff(starts)
    if not len(lengths):
        return numpy.zeros(0), numpy.zeros(0)
    top = numpy.maximum.reduceat(scores, starts[:-1])
    powers = numpy.exp(scores - numpy.repeat(top, lengths))
    sums = numpy.add.reduceat(powers, starts[:-1])
    return powers / numpy.repeat(sums, lengths), top + numpy.log(sums)
