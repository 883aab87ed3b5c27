"""Elimination of variables over a semiring.

A product of factors is summed (or maximised) over all assignments by taking one variable after the other
(Geman & Johnson 2002; "bucket elimination"):

    M_v(rest) = plus_{x_v} times_{factors and messages with v} table

in logarithms, so that times is + and a forbidden cell is -inf. `plus` is the logarithm of the sum, or the k
best. All steps are recorded: going back through them gives the adjoints of the sum, which are the marginals
of all factors, or the assignments behind the best values.

The order is greedy: next is always the variable whose table is smallest, ties go to the first. Tables are
exponential in the width of the order, so that their size is known, and refused, before anything is computed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors

# All tables of an elimination together; each cell is a double.
MAX_CELLS = 1 << 22


class Factor(NamedTuple):
    """A function of some variables.

    scope (Tuple[int, ...]): The variables.
    table (ndarray): float64, logarithms of weights by the values of these variables.
    """

    scope: tuple[int, ...]
    table: NDArray[numpy.float64]


class Plan(NamedTuple):
    """An order of elimination.

    order (Tuple[int, ...]): The variables.
    scopes (Tuple[Tuple[int, ...], ...]): What is left in the message of each.
    cells (int): The cells of all tables together.
    largest (int): Those of the largest table.
    """

    order: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    cells: int
    largest: int

    @property
    def width(self) -> int:
        """How many variables are at most left in a message: the width of the order, an upper bound of the
        treewidth."""
        return max(map(len, self.scopes), default=0)


def plan(
    domains: Sequence[int], scopes: Iterable[Sequence[int]], *, max_cells: int | None = MAX_CELLS
) -> Plan:
    """Find an order of elimination."""
    neighbours: list[set[int]] = [set() for _ in domains]
    for scope in scopes:
        for variable in scope:
            neighbours[variable].update(scope)
    for variable, own in enumerate(neighbours):
        own.discard(variable)

    def size(variable: int) -> int:
        cells = domains[variable]
        for other in neighbours[variable]:
            cells *= domains[other]
        return cells

    sizes = {variable: size(variable) for variable in range(len(domains))}
    order, left, cells, largest = [], [], 0, 0
    while sizes:
        variable = min(sizes, key=lambda v: (sizes[v], v))
        own = neighbours[variable]
        order.append(variable)
        left.append(tuple(sorted(own)))
        cells += sizes[variable]
        largest = max(largest, sizes.pop(variable))
        for other in own:
            neighbours[other] |= own
            neighbours[other] -= {other, variable}
        for other in own:
            sizes[other] = size(other)
    if max_cells is not None and cells > max_cells:
        raise ValueError(Errors.S901.format(cells=f"{cells:.2g}", most=max_cells))
    return Plan(tuple(order), tuple(left), cells, largest)


class Semiring(Protocol):
    """How tables are combined.

    places (int): How many values a cell of a message has.
    """

    places: int

    def step(
        self, tables: Sequence[NDArray], messages: Sequence[NDArray], shape: tuple[int, ...]
    ) -> tuple[NDArray, Any]:
        """Combine tables and do away with their last axis.

        tables (Sequence[ndarray]): Logarithms of weights, with axes as in `shape` (some of length 1).
        messages (Sequence[ndarray]): Messages of earlier steps likewise, with one more axis, for places.
        RETURNS (Tuple[ndarray, Any]): The message, and what is needed to go back.
        """
        ...


def _sum(tables: Sequence[NDArray], shape: tuple[int, ...]) -> NDArray[numpy.float64]:
    total = numpy.zeros(shape)
    for table in tables:
        total += table
    return total


class LogSum:
    """(log of the sum, +)."""

    places = 1

    def step(
        self, tables: Sequence[NDArray], messages: Sequence[NDArray], shape: tuple[int, ...]
    ) -> tuple[NDArray, Any]:
        total = _sum(tables, shape)
        for message in messages:
            total += message[..., 0]
        top = total.max(axis=-1, keepdims=True)
        top[top == -numpy.inf] = 0.0
        with numpy.errstate(divide="ignore"):
            sums = numpy.log(numpy.exp(total - top).sum(axis=-1)) + top[..., 0]
        # p(x_v | rest); where the rest is forbidden, nothing has a probability
        shifted = total - numpy.where(sums > -numpy.inf, sums, 0.0)[..., None]
        return sums[..., None], numpy.exp(shifted)


@dataclass
class KBest:
    """(the k best, +); with k = 1, (max, +). Values of a cell stand in descending order."""

    places: int

    def step(
        self, tables: Sequence[NDArray], messages: Sequence[NDArray], shape: tuple[int, ...]
    ) -> tuple[NDArray, Any]:
        found, picks = _sum(tables, shape)[..., None], []
        for message in messages:
            pairs = self._pairs(found.shape[-1], message.shape[-1])
            first, second = numpy.array(pairs).T
            found, pick = self._best(found[..., first] + message[..., second])
            picks.append((pick, pairs))
        per_value = found.shape[-1]
        found, chosen = self._best(found.reshape(*shape[:-1], -1))
        return found, (chosen, per_value, picks)

    def _pairs(self, first: int, second: int) -> list[tuple[int, int]]:
        """Places of two lists in descending order whose sum can be one of the k best: there are no k pairs
        with both values at least as good."""
        return [(i, j) for i in range(first) for j in range(min(second, self.places // (i + 1)))]

    def _best(self, values: NDArray) -> tuple[NDArray, NDArray]:
        chosen = numpy.argsort(-values, axis=-1, kind="stable")[..., : self.places]
        return numpy.take_along_axis(values, chosen, axis=-1), chosen


class _Step(NamedTuple):
    """variable and scope (what its message is about), the numbers of the factors and of the messages that
    went into it, and what the semiring recorded."""

    variable: int
    scope: tuple[int, ...]
    factors: list[int]
    messages: list[int]
    record: Any


class Eliminated:
    """All variables gone, with what was recorded on the way.

    value (float): The sum, or the best value; -inf if everything is forbidden.
    """

    def __init__(self, factors: Sequence[Factor], steps: list[_Step], message: NDArray):
        """The step of the root, which all others wait for, is last; `message` came out of it."""
        self.value = float(message[0])
        self._factors = factors
        self._steps = steps
        self._message = message

    def adjoints(self) -> tuple[list[NDArray[numpy.float64]], list[NDArray[numpy.float64]]]:
        """After LogSum, the derivatives of log Z by all cells of factors, which are their probabilities;
        and the probabilities of the variables' values."""
        nothing = numpy.ones(())
        of_factors, of_messages = [nothing] * len(self._factors), [nothing] * len(self._steps)
        of_values = [nothing] * len(self._steps)
        for i, step in reversed([*enumerate(self._steps)]):
            adjoint = of_messages[i][..., None] * step.record
            axes = (*step.scope, step.variable)
            of_values[step.variable] = _onto((step.variable,), axes, adjoint)
            for number in step.factors:
                of_factors[number] = _onto(self._factors[number].scope, axes, adjoint)
            for number in step.messages:
                of_messages[number] = _onto(self._steps[number].scope, axes, adjoint)
        return of_factors, of_values[:-1]

    def assignments(self) -> tuple[list[NDArray[numpy.int64]], list[float]]:
        """After KBest, the assignments and their values."""
        values = self._message[numpy.isfinite(self._message)].tolist()
        return [self._assignment(place) for place in range(len(values))], values

    def _assignment(self, place: int) -> NDArray[numpy.int64]:
        chosen = numpy.zeros(len(self._steps), dtype="int64")
        places = {len(self._steps) - 1: place}
        for i, step in reversed([*enumerate(self._steps)]):
            best, per_value, picks = step.record
            cell = tuple(chosen[list(step.scope)])
            value, rank = divmod(int(best[(*cell, places[i])]), per_value)
            chosen[step.variable] = value
            for (pick, pairs), number in reversed([*zip(picks, step.messages, strict=True)]):
                rank, places[number] = pairs[pick[(*cell, value, rank)]]
        return chosen[:-1]

    def sample(self, rng: numpy.random.Generator) -> NDArray[numpy.int64]:
        """After LogSum, an assignment drawn with its probability."""
        chosen = numpy.zeros(len(self._steps), dtype="int64")
        for step in reversed(self._steps):
            ends = numpy.cumsum(step.record[tuple(chosen[list(step.scope)])])
            chosen[step.variable] = numpy.searchsorted(ends, rng.random() * ends[-1], side="right")
        return chosen[:-1]


def eliminate(
    domains: Sequence[int],
    factors: Sequence[Factor],
    semiring: Semiring,
    *,
    max_cells: int = MAX_CELLS,
) -> Eliminated:
    """Eliminate all variables."""
    cells = max_cells // semiring.places
    order, scopes, *_ = plan(domains, [factor.scope for factor in factors], max_cells=cells)
    # a root with a single value comes last: what has no variable left goes there
    order, scopes, domains = (*order, len(domains)), (*scopes, ()), (*domains, 1)
    position = {variable: i for i, variable in enumerate(order)}

    def target(scope: tuple[int, ...]) -> int:
        """Every factor and message goes into the step of the first of its variables."""
        return min((position[variable] for variable in scope), default=len(order) - 1)

    waiting: list[list[int]] = [[] for _ in order]
    arriving: list[list[int]] = [[] for _ in order]
    for number, factor in enumerate(factors):
        waiting[target(factor.scope)].append(number)
    steps: list[_Step] = []
    messages: list[NDArray] = []
    for i, (variable, scope) in enumerate(zip(order, scopes, strict=True)):
        axes = (*scope, variable)
        message, record = semiring.step(
            [_aligned(*factors[number], axes) for number in waiting[i]],
            [_aligned(scopes[number], messages[number], axes) for number in arriving[i]],
            tuple(domains[v] for v in axes),
        )
        steps.append(_Step(variable, scope, waiting[i], arriving[i], record))
        messages.append(message)
        if i < len(order) - 1:
            arriving[target(scope)].append(i)
    return Eliminated(factors, steps, messages[-1])


def _aligned(scope: tuple[int, ...], table: NDArray, axes: tuple[int, ...]) -> NDArray:
    """A table with axes in a given order, those that it lacks of length 1; more axes stay at the end."""
    own = [v for v in axes if v in scope]
    extra = range(len(scope), table.ndim)
    moved = table.transpose(*(scope.index(v) for v in own), *extra)
    lengths = iter(moved.shape)
    shape = [next(lengths) if v in scope else 1 for v in axes]
    return moved.reshape(*shape, *lengths)


def _onto(scope: tuple[int, ...], axes: tuple[int, ...], table: NDArray) -> NDArray:
    """Sum a table over all axes but those of a scope, in its order."""
    kept = [v for v in axes if v in scope]
    summed = table.sum(axis=tuple(i for i, v in enumerate(axes) if v not in scope))
    return summed.transpose(*(kept.index(v) for v in scope))
