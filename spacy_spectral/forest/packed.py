"""Packed forests: sets of trees that are never unpacked (Geman & Johnson 2002).

A forest R = (F', X, N, alpha) has variables X with small domains. Every assignment x that no no-good of N
forbids is a tree; a feature f of F' is in it where its condition alpha_f(x) holds. With real-valued
properties g_j(f) and weights theta,

    score(x) = sum_{f: alpha_f(x)} sum_j theta_j g_j(f)          p(x) = exp score(x) / Z

so that score is a sum of functions of few variables each: factors. A no-good is one that is -inf where it
forbids. What is asked of a forest (Z, marginals, expected properties, best trees) is found by eliminating
one variable after the other: a product of factors is summed (or maximised) over all assignments by

    M_v(rest) = plus_{x_v} times_{factors and messages with v} table

This is a sum over a hypergraph (see `_hypergraph`): a cell of a message is an item, a value of v an edge
that makes it, whose slot is a cell of v's table and whose parts are the cells of messages with v.

The order is greedy: next is always the variable whose table is smallest, ties go to the first. Tables are
exponential in the width of the order, so that their size is known, and refused, before anything is computed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy
from numpy.typing import ArrayLike, NDArray

from ..base.errors import Errors, SpectralError
from ._hypergraph import Graph
from .conditions import smallest_contradiction

Assignment = NDArray[numpy.int64]

# All tables of an elimination together; each cell is a double.
MAX_CELLS = 1 << 22


class Factor(NamedTuple):
    """A function of the variables of its scope: logarithms of weights by their values."""

    scope: tuple[int, ...]
    table: NDArray[numpy.float64]


class Plan(NamedTuple):
    """An order of elimination: the scope of the message of each variable, the cells of all tables, and
    those of the largest."""

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
        raise SpectralError(Errors.S901.format(cells=f"{cells:.2g}", most=max_cells))
    return Plan(tuple(order), tuple(left), cells, largest)


class _Step(NamedTuple):
    """The elimination of a variable, the last of the axes of its table: the slot of the table's first
    cell, and the numbers of the factors that went into it."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    first: int
    factors: list[int]


class _Elimination:
    """All variables eliminated, as a hypergraph with the scores of its slots."""

    def __init__(self, domains: Sequence[int], factors: Sequence[Factor], max_cells: int):
        order, scopes, *_ = plan(domains, [own.scope for own in factors], max_cells=max_cells)
        # a root with a single value comes last: what has no variable left goes there
        order, scopes, domains = (*order, len(domains)), (*scopes, ()), (*domains, 1)
        position = {variable: i for i, variable in enumerate(order)}
        waiting: list[list[int]] = [[] for _ in order]
        arriving: list[list[int]] = [[] for _ in order]

        def target(scope: tuple[int, ...]) -> int:
            """Every factor and message goes into the step of the first of its variables."""
            return min((position[variable] for variable in scope), default=len(order) - 1)

        for number, factor in enumerate(factors):
            waiting[target(factor.scope)].append(number)
        self._factors, self._steps = factors, list[_Step]()
        messages: list[NDArray[numpy.int32]] = []  # items, by the cells of messages
        scores, edges, counts = [], [], [numpy.zeros(1, dtype="int32")]
        n_items = n_slots = 0
        for i, (variable, scope) in enumerate(zip(order, scopes, strict=True)):
            axes = (*scope, variable)
            shape = tuple(domains[v] for v in axes)
            table = numpy.zeros(shape)
            for number in waiting[i]:
                table += _aligned(*factors[number], axes)
            cells = numpy.arange(table.size, dtype="int32")
            nothing = numpy.full(table.size, -1, dtype="int32")
            parts = [
                numpy.broadcast_to(_aligned(scopes[m], messages[m], axes), shape).ravel()
                for m in arriving[i]
            ]
            while len(parts) > 2:  # edges have two parts: pairs become items of their own
                edges.append((*parts[:2], nothing))
                counts.append(numpy.ones_like(cells))
                parts = [*parts[2:], n_items + cells]
                n_items += table.size
            edges.append((*(*parts, nothing, nothing)[:2], n_slots + cells))
            found = numpy.arange(table.size // shape[-1], dtype="int32")
            counts.append(numpy.full(len(found), shape[-1], dtype="int32"))
            messages.append(n_items + found.reshape(shape[:-1]))
            scores.append(table.ravel())
            self._steps.append(_Step(axes, shape, n_slots, waiting[i]))
            n_items += len(found)
            n_slots += table.size
            if i < len(order) - 1:
                arriving[target(scope)].append(i)
        columns = map(numpy.concatenate, zip(*edges, strict=True))
        starts = numpy.cumsum(numpy.concatenate(counts), dtype="int32")
        self.graph, self.scores = Graph(starts, *columns), numpy.concatenate(scores)

    def marginals(self, mu: NDArray) -> tuple[list[NDArray], list[NDArray]]:
        """The probabilities of all cells of factors and of the variables' values, given those of slots."""
        of_factors, of_values = [numpy.ones(())] * len(self._factors), [mu] * len(self._steps)
        for step in self._steps:
            table = mu[step.first :][: numpy.prod(step.shape)].reshape(step.shape)
            of_values[step.axes[-1]] = _onto(step.axes[-1:], step.axes, table)
            for number in step.factors:
                of_factors[number] = _onto(self._factors[number].scope, step.axes, table)
        return of_factors, of_values[:-1]

    def values(self, edges: NDArray[numpy.int32]) -> Assignment:
        """The values of variables in a derivation."""
        slots = self.graph.slots[edges]
        chosen = numpy.zeros(len(self._steps), dtype="int64")
        for step, slot in zip(self._steps, numpy.sort(slots[slots >= 0]).tolist(), strict=True):
            chosen[step.axes[-1]] = (slot - step.first) % step.shape[-1]
        return chosen[:-1]


def _aligned(scope: tuple[int, ...], table: NDArray, axes: tuple[int, ...]) -> NDArray:
    """A table with axes in a given order, those that it lacks of length 1."""
    own = [v for v in axes if v in scope]
    moved = table.transpose([scope.index(v) for v in own])
    return moved.reshape([table.shape[scope.index(v)] if v in scope else 1 for v in axes])


def _onto(scope: tuple[int, ...], axes: tuple[int, ...], table: NDArray) -> NDArray:
    """Sum a table over all axes but those of a scope, in its order."""
    kept = [v for v in axes if v in scope]
    summed = table.sum(axis=tuple(i for i, v in enumerate(axes) if v not in scope))
    return summed.transpose([kept.index(v) for v in scope])


class Feature(NamedTuple):
    """A feature of trees: the variables that its condition looks at (none if it always holds), whether
    it holds by their values, and what it adds to each property of a tree."""

    scope: Sequence[int]
    holds: ArrayLike
    properties: Mapping[int, float]


class Tree(NamedTuple):
    """A tree of a forest: the value of every variable, and the logarithm of its weight; subtract `log_z`
    for that of its probability."""

    values: Assignment
    score: float


class PackedForest:
    """A set of trees with weights. Immutable: `given` and `with_factors` make others. Variables have so
    many values each (`domains`); factors are no-goods, and weights that are not learnt."""

    def __init__(
        self,
        domains: Iterable[int],
        factors: Iterable[tuple[Sequence[int], ArrayLike]] = (),
        features: Iterable[Feature] = (),
        *,
        max_cells: int = MAX_CELLS,
    ):
        """factors: Scopes and tables: logarithms of weights by the values of the variables, -inf where
        they are forbidden; or bools, False for forbidden.
        features: The features, with weights that are given when something is asked."""
        self.domains = tuple(map(int, domains))
        empty = [i for i, size in enumerate(self.domains) if size < 1]
        if empty:
            raise SpectralError(Errors.S902.format(variable=empty[0]))
        self.max_cells = max_cells
        self.factors = tuple(self._factor(*factor) for factor in factors)
        self._features = _grouped(self, features)
        self.n_properties = max((int(own.property.max()) + 1 for own in self._features), default=0)

    def given(self, values: Mapping[int, int | Collection[int]]) -> "PackedForest":
        """The trees that agree with an observation: the value of each variable that is known, or those
        that it may have."""
        seen = []
        for variable, known in values.items():
            chosen = {known} if isinstance(known, int | numpy.integer) else set(known)
            if not 0 <= variable < len(self.domains):
                raise SpectralError(Errors.S903.format(scope=[variable], reason="no such variable"))
            domain = range(self.domains[variable])
            if not chosen or not chosen <= set(domain):
                reason = f"its values are 0 to {len(domain) - 1}, not {sorted(chosen)}"
                raise SpectralError(Errors.S903.format(scope=[variable], reason=reason))
            seen.append(((variable,), numpy.array([i in chosen for i in domain])))
        return self.with_factors(seen)

    def with_factors(self, factors: Iterable[tuple[Sequence[int], ArrayLike]]) -> "PackedForest":
        """The forest with these, too."""
        result = object.__new__(PackedForest)
        result.__dict__.update(self.__dict__)
        result.factors = (*self.factors, *(self._factor(*factor) for factor in factors))
        return result

    def plan(self) -> Plan:
        """The order of elimination and what it costs."""
        scopes = [factor.scope for factor in self.factors]
        scopes += [group.scope for group in self._features]
        return plan(self.domains, scopes, max_cells=None)

    def log_z(self, weights: ArrayLike = ()) -> float:
        """The logarithm of the sum of all trees' weights; -inf without a tree."""
        found = self._eliminated(self._weights(weights))
        return found.graph.expectations(found.scores)[0]

    def count(self) -> float:
        """How many trees there are: a whole number, exact up to about 10**12."""
        return float(numpy.rint(numpy.exp(self._bare(self.factors).log_z())))

    def marginals(self, weights: ArrayLike = ()) -> list[NDArray[numpy.float64]]:
        """The probability of every value, for each variable."""
        return self._marginals(self._weights(weights))[2]

    def factor_marginals(self, weights: ArrayLike = ()) -> list[NDArray[numpy.float64]]:
        """For each of `factors` the probability of every cell of its table."""
        return self._marginals(self._weights(weights))[1][: len(self.factors)]

    def expectations(self, weights: ArrayLike = ()) -> tuple[float, NDArray[numpy.float64]]:
        """weights: The weight of every property; at least `n_properties`.
        RETURNS: log Z, and the expected value of every property."""
        theta = self._weights(weights)
        log_z, found, _ = self._marginals(theta)
        expected = numpy.zeros(len(theta))
        for own, mu in zip(self._features, found[len(self.factors) :], strict=True):
            moved = own.value * mu.ravel()[own.cell]
            expected += numpy.bincount(own.property, weights=moved, minlength=len(theta))
        return log_z, expected

    def best(self, weights: ArrayLike = (), k: int = 1) -> list[Tree]:
        """The k best trees, or all; best first, ties in a fixed order."""
        if k < 1:
            return []
        found = self._eliminated(self._weights(weights), k)
        best = found.graph.k_best(found.scores, k)
        return [Tree(found.values(edges), score) for edges, score in best]

    def sample(
        self, rng: numpy.random.Generator, n: int = 1, weights: ArrayLike = ()
    ) -> list[Assignment]:
        """Trees, each drawn with its probability: the value of every variable."""
        found = self._eliminated(self._weights(weights))
        drawn = found.graph.sample(found.scores, rng, n)
        if not drawn and n:
            raise SpectralError(Errors.S905)
        return [found.values(edges) for edges in drawn]

    def score(self, values: ArrayLike, weights: ArrayLike = ()) -> float:
        """The logarithm of the tree's weight."""
        own = numpy.asarray(values)
        factors = self._tables(self._weights(weights))
        return float(sum(table[tuple(own[list(scope)])] for scope, table in factors))

    def properties(self, values: ArrayLike) -> NDArray[numpy.float64]:
        """The properties of the tree."""
        own, result = numpy.asarray(values), numpy.zeros(self.n_properties)
        for group in self._features:
            shape = tuple(self.domains[i] for i in group.scope)
            cell = numpy.ravel_multi_index(tuple(own[list(group.scope)]), shape) if shape else 0
            chosen = group.cell == cell
            numpy.add.at(result, group.property[chosen], group.value[chosen])
        return result

    def contradiction(self) -> list[int] | None:
        """The numbers of some of `factors` that no assignment satisfies, though it would without any one
        of them; None if there is a tree."""

        def has_tree(chosen: Sequence[int]) -> bool:
            return self._bare(self.factors[i] for i in chosen).log_z() > -numpy.inf

        return smallest_contradiction(range(len(self.factors)), has_tree)

    def _bare(self, factors: Iterable[Factor]) -> "PackedForest":
        """No-goods alone."""
        allowed = [(scope, numpy.isfinite(table)) for scope, table in factors]
        return PackedForest(self.domains, allowed, max_cells=self.max_cells)

    def _factor(self, scope: Sequence[int], table: ArrayLike) -> Factor:
        own, known = tuple(map(int, scope)), len(self.domains)
        if len(set(own)) < len(own) or not all(0 <= i < known for i in own):
            reason = f"variables are 0 to {known - 1}, each at most once"
            raise SpectralError(Errors.S903.format(scope=list(own), reason=reason))
        values = numpy.asarray(table)
        if values.dtype == bool:
            values = numpy.where(values, 0.0, -numpy.inf)
        values = values.astype("float64")
        shape = tuple(self.domains[i] for i in own)
        if values.shape != shape:
            reason = f"its table has the shape {values.shape}, not {shape}"
            raise SpectralError(Errors.S903.format(scope=list(own), reason=reason))
        if numpy.isnan(values).any() or (values == numpy.inf).any():
            reason = "logarithms of weights must be finite, or -inf"
            raise SpectralError(Errors.S903.format(scope=list(own), reason=reason))
        values.flags.writeable = False
        return Factor(own, values)

    def _weights(self, weights: ArrayLike) -> NDArray[numpy.float64]:
        theta = numpy.asarray(weights, dtype="float64")
        if theta.ndim != 1 or len(theta) < self.n_properties:
            raise SpectralError(Errors.S904.format(found=theta.size, expected=self.n_properties))
        return theta

    def _tables(self, theta: NDArray[numpy.float64]) -> list[Factor]:
        return [*self.factors, *(own.factor(self.domains, theta) for own in self._features)]

    def _eliminated(self, theta: NDArray[numpy.float64], k: int = 1) -> _Elimination:
        return _Elimination(self.domains, self._tables(theta), self.max_cells // k)

    def _marginals(self, theta: NDArray) -> tuple[float, list[NDArray], list[NDArray]]:
        """log Z, and the probabilities of all cells of tables and of the variables' values."""
        found = self._eliminated(theta)
        log_z, mu = found.graph.expectations(found.scores)
        if not numpy.isfinite(log_z):
            raise SpectralError(Errors.S905)
        return log_z, *found.marginals(mu)


class _Group(NamedTuple):
    """All features with one scope: `property` has `value` in `cell` of their table."""

    scope: tuple[int, ...]
    cell: NDArray[numpy.int64]
    property: NDArray[numpy.int64]
    value: NDArray[numpy.float64]

    def factor(self, domains: Sequence[int], theta: NDArray[numpy.float64]) -> Factor:
        shape = tuple(domains[i] for i in self.scope)
        size = int(numpy.prod(shape, dtype="int64"))
        added = self.value * theta[self.property]
        table = numpy.bincount(self.cell, weights=added, minlength=size).reshape(shape)
        return Factor(self.scope, table.astype("float64"))


def _grouped(forest: PackedForest, features: Iterable[Feature]) -> tuple[_Group, ...]:
    entries: dict[tuple[int, ...], list[tuple[int, int, float]]] = {}
    for scope, holds, properties in features:
        own = forest._factor(scope, numpy.asarray(holds, dtype=bool))
        if any(j < 0 for j in properties) or not numpy.isfinite([*properties.values()]).all():
            reason = "properties are numbered from 0, with finite values"
            raise SpectralError(Errors.S903.format(scope=list(own.scope), reason=reason))
        listed = entries.setdefault(own.scope, [])
        for cell in numpy.flatnonzero(numpy.isfinite(own.table)).tolist():
            listed += [(cell, j, value) for j, value in properties.items()]
    groups = []
    for own_scope, listed in entries.items():
        if listed:
            cells, numbers, values = zip(*listed, strict=True)
            groups.append(
                _Group(
                    own_scope,
                    numpy.array(cells, dtype="int64"),
                    numpy.array(numbers, dtype="int64"),
                    numpy.array(values, dtype="float64"),
                )
            )
    return tuple(groups)


def from_list(
    log_weights: Sequence[float], properties: Sequence[Mapping[int, float]] | None = None
) -> PackedForest:
    """The trees of an n-best list: one variable, whose value is a tree's place in the list."""
    n = len(log_weights)
    places = numpy.arange(n)
    features = [Feature((0,), places == i, own) for i, own in enumerate(properties or ())]
    return PackedForest([n], [((0,), log_weights)], features)
