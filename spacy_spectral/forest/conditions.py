"""Conditions on a tree, and the distribution over the trees that meet them.

The distribution is that of arcs: p(tree) ~ prod of the weights of its arcs, over all projective trees with
one root. A condition on one arc is a set of arcs that are allowed. One that binds several tokens (the same
head) is a choice between such sets that exclude each other, one for each way to meet it: sums over trees add
up over ways, and the best tree is the best of all.

    Z(conditions) = sum over ways of Z(arcs that all conditions allow)

Positions count from 1; 0 is the root.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors
from ..trees._eisner import best_tree
from ..trees._first_order import arc_marginals
from .contradiction import smallest_contradiction

MAX_WAYS = 2_000
# What a parser has ruled out is hardly impossible.
SMALLEST_WEIGHT = 1e-9


class Condition:
    """What a tree must meet. `tokens` are the fields that hold positions."""

    tokens: tuple[str, ...] = ()

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        """n (int): How many tokens there are.
        RETURNS (List[ndarray]): [n+1, n+1] by head and modifier, allowed arcs, for each way to meet it."""
        raise NotImplementedError

    def moved(self, position: Callable[[int], int]) -> "Condition":
        """RETURNS (Condition): The same of other positions."""
        fields = {name: position(getattr(self, name)) for name in self.tokens}
        return type(self)(**(vars(self) | fields))


@dataclass(frozen=True)
class HeadIs(Condition):
    """A token has this head."""

    token: int
    head: int
    tokens = ("token", "head")

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        return [_only(n, self.token, self.head)]


@dataclass(frozen=True)
class HeadIsNot(Condition):
    """A token has another head."""

    token: int
    head: int
    tokens = ("token", "head")

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        allowed = numpy.ones((n + 1, n + 1), dtype=bool)
        allowed[self.head, self.token] = False
        return [allowed]


@dataclass(frozen=True)
class RootIs(Condition):
    """A token is the root of its sentence."""

    token: int
    tokens = ("token",)

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        return [_only(n, self.token, 0)]


@dataclass(frozen=True)
class LabelIs(Condition):
    """A token has this label. What it leaves of labels is the business of whoever makes weights of arcs."""

    token: int
    label: str
    tokens = ("token",)

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        return [numpy.ones((n + 1, n + 1), dtype=bool)]


@dataclass(frozen=True)
class SameHead(Condition):
    """Two tokens have the same head."""

    one: int
    other: int
    tokens = ("one", "other")

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        heads = [h for h in range(1, n + 1) if h not in (self.one, self.other)]
        return [_only(n, self.one, h) & _only(n, self.other, h) for h in heads]


@dataclass(frozen=True)
class NoCrossing(Condition):
    """The tokens from `first` to `last` hang together: one of them has its head outside, which alone may have
    modifiers outside."""

    first: int
    last: int
    tokens = ("first", "last")

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        inside = numpy.zeros(n + 1, dtype=bool)
        inside[self.first : self.last + 1] = True
        found = []
        for top in range(self.first, self.last + 1):
            allowed = inside[:, None] == inside
            allowed[:, top] = ~inside
            allowed[top] |= ~inside
            found.append(allowed)
        return found


class Conditioned(NamedTuple):
    """Trees under conditions.

    heads (ndarray): int32, the best tree that meets them.
    log_prob (float): The logarithm of its probability, given the conditions.
    marginals (ndarray): [n+1, n+1], the probability of every arc (head, modifier), given the conditions.
    probability (float): That of the conditions.
    """

    heads: NDArray[numpy.int32]
    log_prob: float
    marginals: NDArray[numpy.float64]
    probability: float


def conditioned(
    weights: NDArray[numpy.float64],
    conditions: Sequence[Condition],
    *,
    given: NDArray[numpy.float64] | None = None,
    told: Sequence[Condition] | None = None,
) -> Conditioned:
    """Find out about the trees that meet conditions. If none does, an error names some that contradict each
    other.

    weights (ndarray): [n+1, n+1] by head and modifier, the weight of every arc.
    conditions (Sequence[Condition]): The conditions.
    given (Optional[ndarray]): The weights that arcs have under conditions, if these are about labels, too;
        `weights` by default.
    told (Optional[Sequence[Condition]]): The conditions as somebody wrote them, for the error.
    RETURNS (Conditioned): The best tree and all probabilities.
    """
    n = len(weights) - 1
    scores = _logs(weights)
    own = scores if given is None else _logs(given)
    ways = _ways(own, conditions, n)
    if not ways:
        found = smallest_contradiction(
            range(len(conditions)), lambda some: bool(_ways(own, [conditions[i] for i in some], n))
        )
        listed = ", ".join(repr((told or conditions)[i]) for i in found or ())
        raise ValueError(Errors.S916.format(conditions=listed))
    trees, logs, parts = [], [], []
    for allowed in ways:
        masked = numpy.where(allowed, own, -numpy.inf)
        trees.append(best_tree(masked))
        log_z, marginals = arc_marginals(numpy.exp(masked))
        logs.append(log_z)
        parts.append(marginals)
    heads, score = max(trees, key=lambda tree: tree[1])
    log_z = float(numpy.logaddexp.reduce(logs))
    shares = numpy.exp(numpy.array(logs) - log_z)
    mean = numpy.tensordot(shares, numpy.array(parts), axes=1)
    everything = arc_marginals(numpy.exp(scores))[0]
    return Conditioned(heads, score - log_z, mean, float(numpy.exp(log_z - everything)))


def _ways(
    scores: NDArray[numpy.float64], conditions: Sequence[Condition], n: int
) -> list[NDArray[numpy.bool_]]:
    """The ways to meet all conditions that leave a tree."""
    found = [numpy.ones((n + 1, n + 1), dtype=bool)]
    if best_tree(scores)[1] == -numpy.inf:
        return []
    for condition in conditions:
        own = condition.ways(n)
        if len(found) * len(own) > MAX_WAYS:
            raise ValueError(Errors.S917.format(ways=len(found) * len(own), most=MAX_WAYS))
        both = [one & other for one in found for other in own]
        found = [
            allowed
            for allowed in both
            if best_tree(numpy.where(allowed, scores, -numpy.inf))[1] > -numpy.inf
        ]
    return found


def _only(n: int, token: int, head: int) -> NDArray[numpy.bool_]:
    allowed = numpy.ones((n + 1, n + 1), dtype=bool)
    allowed[:, token] = False
    allowed[head, token] = True
    return allowed


def _logs(weights: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    scores = numpy.log(numpy.maximum(weights, SMALLEST_WEIGHT))
    scores[:, 0] = -numpy.inf
    numpy.fill_diagonal(scores, -numpy.inf)
    return scores
