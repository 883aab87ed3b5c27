"""Packed forests: sets of trees that are never unpacked (Geman & Johnson 2002).

A forest R = (F', X, N, alpha) has variables X with small domains. Every assignment x that no no-good of N
forbids is a tree; a feature f of F' is in it where its condition alpha_f(x) holds. With real-valued
properties g_j(f) and weights theta,

    score(x) = sum_{f: alpha_f(x)} sum_j theta_j g_j(f)          p(x) = exp score(x) / Z

so that score is a sum of functions of few variables each: factors. A no-good is one that is -inf where it
forbids. What is asked of a forest (Z, marginals, expected properties, best trees) is found by eliminating
one variable after the other, see `eliminate`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy
from numpy.typing import ArrayLike, NDArray

from ..base.errors import Errors
from .conditions import smallest_contradiction
from .eliminate import MAX_CELLS, Eliminated, Factor, KBest, LogSum, Plan, Semiring, eliminate, plan

Assignment = NDArray[numpy.int64]


class Feature(NamedTuple):
    """A feature of trees.

    scope (Sequence[int]): The variables that its condition looks at; none if it always holds.
    holds (ArrayLike): Whether the condition holds, by the values of these variables.
    properties (Mapping[int, float]): What the feature adds to each property of a tree.
    """

    scope: Sequence[int]
    holds: ArrayLike
    properties: Mapping[int, float]


class Tree(NamedTuple):
    """A tree of a forest.

    values (ndarray): int64, the value of every variable.
    score (float): The logarithm of its weight; subtract `log_z` for that of its probability.
    """

    values: Assignment
    score: float


class PackedForest:
    """A set of trees with weights. Immutable: `given` and `with_factors` make others.

    domains (Tuple[int, ...]): How many values each variable has.
    factors (Tuple[Factor, ...]): No-goods, and weights that are not learnt.
    n_properties (int): One more than the largest property.
    """

    def __init__(
        self,
        domains: Iterable[int],
        factors: Iterable[tuple[Sequence[int], ArrayLike]] = (),
        features: Iterable[Feature] = (),
        *,
        max_cells: int = MAX_CELLS,
    ):
        """factors (Iterable[Tuple[Sequence[int], ArrayLike]]): Scopes and tables: logarithms of weights, by
            the values of the variables, -inf where they are forbidden; or bools, False for forbidden.
        features (Iterable[Feature]): The features, with weights that are given when something is asked.
        max_cells (int): More cells than this are never computed; see `eliminate.plan`.
        """
        self.domains = tuple(map(int, domains))
        empty = [i for i, size in enumerate(self.domains) if size < 1]
        if empty:
            raise ValueError(Errors.S902.format(variable=empty[0]))
        self.max_cells = max_cells
        self.factors = tuple(self._factor(*factor) for factor in factors)
        self._features = _grouped(self, features)
        self.n_properties = max((int(own.property.max()) + 1 for own in self._features), default=0)

    def given(self, values: Mapping[int, int | Collection[int]]) -> "PackedForest":
        """The trees that agree with an observation, whole or partial.

        values (Mapping[int, Union[int, Collection[int]]]): The value of each variable that is known, or
            those that it may have.
        """
        seen = []
        for variable, known in values.items():
            chosen = {known} if isinstance(known, int | numpy.integer) else set(known)
            if not 0 <= variable < len(self.domains):
                raise ValueError(Errors.S903.format(scope=[variable], reason="no such variable"))
            domain = range(self.domains[variable])
            if not chosen or not chosen <= set(domain):
                reason = f"its values are 0 to {len(domain) - 1}, not {sorted(chosen)}"
                raise ValueError(Errors.S903.format(scope=[variable], reason=reason))
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
        return self._eliminated(LogSum(), weights).value

    def count(self) -> float:
        """How many trees there are: a whole number, exact up to about 10**12."""
        return float(numpy.rint(numpy.exp(self._bare(self.factors).log_z())))

    def marginals(self, weights: ArrayLike = ()) -> list[NDArray[numpy.float64]]:
        """The probability of every value, for each variable."""
        return self._tree_exists(weights).adjoints()[1]

    def factor_marginals(self, weights: ArrayLike = ()) -> list[NDArray[numpy.float64]]:
        """For each of `factors` the probability of every cell of its table."""
        found, _ = self._tree_exists(weights).adjoints()
        return found[: len(self.factors)]

    def expectations(self, weights: ArrayLike = ()) -> tuple[float, NDArray[numpy.float64]]:
        """weights (ArrayLike): The weight of every property; at least `n_properties`.
        RETURNS (Tuple[float, ndarray]): log Z, and the expected value of every property."""
        theta = self._weights(weights)
        eliminated = self._tree_exists(theta)
        found, _ = eliminated.adjoints()
        expected = numpy.zeros(len(theta))
        for own, mu in zip(self._features, found[len(self.factors) :], strict=True):
            moved = own.value * mu.ravel()[own.cell]
            expected += numpy.bincount(own.property, weights=moved, minlength=len(theta))
        return eliminated.value, expected

    def best(self, weights: ArrayLike = (), k: int = 1) -> list[Tree]:
        """The k best trees, or all; best first, ties in a fixed order."""
        if k < 1:
            return []
        found = self._eliminated(KBest(k), weights)
        return list(map(Tree, *found.assignments())) if numpy.isfinite(found.value) else []

    def sample(
        self, rng: numpy.random.Generator, n: int = 1, weights: ArrayLike = ()
    ) -> list[Assignment]:
        """Trees, each drawn with its probability: the value of every variable."""
        eliminated = self._tree_exists(weights)
        return [eliminated.sample(rng) for _ in range(n)]

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

    def features(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], dict[int, float]]]:
        """Variables, values that they have together, and the properties of trees in which they do."""
        for scope, cells, numbers, values in self._features:
            shape = tuple(self.domains[i] for i in scope)
            for cell in numpy.unique(cells).tolist():
                own: dict[int, float] = {}
                for j, value in zip(numbers[cells == cell], values[cells == cell], strict=True):
                    own[int(j)] = own.get(int(j), 0.0) + float(value)
                place = numpy.unravel_index(cell, shape) if shape else ()
                yield scope, tuple(map(int, place)), own

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
            raise ValueError(Errors.S903.format(scope=list(own), reason=reason))
        values = numpy.asarray(table)
        if values.dtype == bool:
            values = numpy.where(values, 0.0, -numpy.inf)
        values = values.astype("float64")
        shape = tuple(self.domains[i] for i in own)
        if values.shape != shape:
            reason = f"its table has the shape {values.shape}, not {shape}"
            raise ValueError(Errors.S903.format(scope=list(own), reason=reason))
        if numpy.isnan(values).any() or (values == numpy.inf).any():
            reason = "logarithms of weights must be finite, or -inf"
            raise ValueError(Errors.S903.format(scope=list(own), reason=reason))
        values.flags.writeable = False
        return Factor(own, values)

    def _weights(self, weights: ArrayLike) -> NDArray[numpy.float64]:
        theta = numpy.asarray(weights, dtype="float64")
        if theta.ndim != 1 or len(theta) < self.n_properties:
            raise ValueError(Errors.S904.format(found=theta.size, expected=self.n_properties))
        return theta

    def _tables(self, theta: NDArray[numpy.float64]) -> list[Factor]:
        return [*self.factors, *(own.factor(self.domains, theta) for own in self._features)]

    def _eliminated(self, semiring: Semiring, weights: ArrayLike) -> Eliminated:
        factors = self._tables(self._weights(weights))
        return eliminate(self.domains, factors, semiring, max_cells=self.max_cells)

    def _tree_exists(self, weights: ArrayLike) -> Eliminated:
        found = self._eliminated(LogSum(), weights)
        if not numpy.isfinite(found.value):
            raise ValueError(Errors.S905)
        return found


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
            raise ValueError(Errors.S903.format(scope=list(own.scope), reason=reason))
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
