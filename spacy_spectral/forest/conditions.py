"""Conditions on a tree, and the distribution over the trees that meet them.

Trees are projective, with one root, and have the weights of a `TreeDistribution`, whatever is in them. A
condition on one arc is a set of arcs that are allowed, one on a label a set of labels. One that binds several
tokens (the same head) is a choice between sets of arcs that exclude each other, one for each way to meet it:
sums over trees add up over ways, and the best tree is the best of all.

    Z(conditions) = sum over ways of Z(arcs and labels that all conditions allow)

Positions count from 1; 0 is the root.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple, TypeVar

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors, SpectralError
from ..trees._eisner import best_tree
from ..trees.interface import ArcMask, ArcTable, BestTree, Labels, Parses, TreeDistribution
from ._hypergraph import Graph

T = TypeVar("T")

MAX_WAYS = 2_000
# Where a parser has ruled out all trees that meet conditions, sentences of so many tokens may have any arc;
# longer ones get those of one such tree.
MAX_ALL_ARCS = 100


@dataclass(frozen=True)
class Condition:
    """What a tree must meet. Its fields that are numbers are positions of tokens."""

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that it is about, by the names of the fields."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.type is int}

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        """[n+1, n+1] by head and modifier, allowed arcs, for each way to meet it."""
        raise NotImplementedError

    def moved(self, position: Callable[[int], int]) -> "Condition":
        """The same of other positions."""
        moved = {name: position(token) for name, token in self.tokens.items()}
        return type(self)(**(vars(self) | moved))


@dataclass(frozen=True)
class HeadIs(Condition):
    """A token has this head."""

    token: int
    head: int

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        return [_only(n, self.token, self.head)]


@dataclass(frozen=True)
class HeadIsNot(Condition):
    """A token has another head."""

    token: int
    head: int

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        allowed = numpy.ones((n + 1, n + 1), dtype=bool)
        allowed[self.head, self.token] = False
        return [allowed]


@dataclass(frozen=True)
class RootIs(Condition):
    """A token is the root of its sentence."""

    token: int

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        return [_only(n, self.token, 0)]


@dataclass(frozen=True)
class LabelIs(Condition):
    """A token has this label; upper and lower case are the same."""

    token: int
    label: str

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        return [numpy.ones((n + 1, n + 1), dtype=bool)]


@dataclass(frozen=True)
class SameHead(Condition):
    """Two tokens have the same head."""

    one: int
    other: int

    def ways(self, n: int) -> list[NDArray[numpy.bool_]]:
        heads = [h for h in range(1, n + 1) if h not in (self.one, self.other)]
        return [_only(n, self.one, h) & _only(n, self.other, h) for h in heads]


@dataclass(frozen=True)
class NoCrossing(Condition):
    """The tokens from `first` to `last` belong together: one of them has its head outside, and only that one
    may have modifiers outside."""

    first: int
    last: int

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
    """Trees under conditions: the best tree that meets them (see `TreeDistribution.best`), the logarithm
    of its probability and the probability of every arc [n+1, n+1] given them, and the probability of the
    conditions."""

    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    log_prob: float
    marginals: NDArray[numpy.float64]
    probability: float


@dataclass
class SentenceTrees:
    """The distributions over the trees of a sentence that its parse can give; each is asked for once.
    `labelled`: Labels will be left out, not only arcs."""

    parses: Parses
    sentence: int = 0
    labelled: bool = False
    _known: dict[bytes | None, TreeDistribution] = field(default_factory=dict)

    def distribution(self, more: ArcMask | None = None) -> TreeDistribution:
        """more: Arcs that trees may have, too, if the model left them out."""
        key = None if more is None else more.tobytes()
        if key not in self._known:
            self._known[key] = self.parses.distribution(
                self.sentence, more=more, labelled=self.labelled
            )
        return self._known[key]


def conditioned(
    n: int,
    trees: SentenceTrees,
    conditions: Sequence[Condition],
    *,
    names: Sequence[str] = (),
    told: Sequence[Condition] | None = None,
) -> Conditioned:
    """Find out about the trees that meet conditions. If none of the model's trees does, all that there are
    count as its trees, with the weights that it gives them; if none of these does, an error names some
    conditions that contradict each other.

    told: The conditions as somebody wrote them, for the error.
    """
    found = _found(n, trees, conditions, names)
    if found is None:
        some = smallest_contradiction(
            range(len(conditions)),
            lambda some: bool(_found(n, trees, [conditions[i] for i in some], names)),
        )
        listed = ", ".join(repr((told or conditions)[i]) for i in some or ())
        raise SpectralError(Errors.S916.format(conditions=listed))
    best = found.trees.best(found.ways, found.labels, found.marginals)
    everything, _ = found.trees.total(numpy.ones((n + 1, n + 1), dtype=bool), {})
    probability = float(numpy.exp(min(found.log_z - everything, 0.0)))
    log_prob = min(best.score - found.log_z, 0.0)
    return Conditioned(best.heads, best.labels, log_prob, found.marginals, probability)


class _Found(NamedTuple):
    """Trees that meet conditions: of which distribution, with which labels, by which sets of arcs; the
    logarithm of their weight and the marginals of arcs among them."""

    trees: TreeDistribution
    labels: Labels
    ways: list[NDArray[numpy.bool_]]
    log_z: float
    marginals: NDArray[numpy.float64]


def _found(
    n: int, sentence: SentenceTrees, conditions: Sequence[Condition], names: Sequence[str]
) -> _Found | None:
    labels = _labels(conditions, names)
    if not all(labels.values()):
        return None
    trees = sentence.distribution()
    found = _summed(trees, labels, conditions)
    if found is not None:
        return found
    everything = ~numpy.eye(n + 1, dtype=bool)
    everything[:, 0] = False
    ways = _ways(everything, conditions)
    if not ways:
        return None
    if n > MAX_ALL_ARCS:
        scores = numpy.where(ways[0], numpy.where(trees.arcs(labels), 0.0, -1.0), -numpy.inf)
        everything[:] = False
        everything[best_tree(scores)[0], numpy.arange(1, n + 1)] = True
    return _summed(sentence.distribution(everything), labels, conditions)


def _summed(
    trees: TreeDistribution, labels: Labels, conditions: Sequence[Condition]
) -> _Found | None:
    """Sum over all ways to meet conditions."""
    ways, log_z, marginals = [], -numpy.inf, numpy.zeros(())
    for allowed in _ways(trees.arcs(labels), conditions):
        own, mu = trees.total(allowed, labels)
        if own > -numpy.inf:
            ways.append(allowed)
            before, log_z = log_z, float(numpy.logaddexp(log_z, own))
            marginals = numpy.exp(before - log_z) * marginals + numpy.exp(own - log_z) * mu
    return _Found(trees, labels, ways, log_z, marginals) if ways else None


def _labels(conditions: Iterable[Condition], names: Sequence[str]) -> Labels:
    """The labels that tokens may have; of pairs that contradict each other none."""
    found: dict[int, frozenset[int]] = {}
    for own in conditions:
        if isinstance(own, LabelIs):
            wanted = own.label.lower()
            allowed = frozenset(i for i, name in enumerate(names) if name.lower() == wanted)
            found[own.token] = allowed & found.get(own.token, allowed)
    return found


def _ways(
    arcs: NDArray[numpy.bool_], conditions: Sequence[Condition]
) -> list[NDArray[numpy.bool_]]:
    """The ways to meet all conditions that leave a tree of some arcs."""
    found = [arcs] if _has_tree(arcs) else []
    for condition in conditions:
        own = condition.ways(len(arcs) - 1)
        if len(found) * len(own) > MAX_WAYS:
            raise SpectralError(Errors.S917.format(ways=len(found) * len(own), most=MAX_WAYS))
        found = [one & other for one in found for other in own if _has_tree(one & other)]
    return found


def _has_tree(arcs: NDArray[numpy.bool_]) -> bool:
    return bool(best_tree(numpy.where(arcs, 0.0, -numpy.inf))[1] > -numpy.inf)


def _only(n: int, token: int, head: int) -> NDArray[numpy.bool_]:
    allowed = numpy.ones((n + 1, n + 1), dtype=bool)
    allowed[:, token] = False
    allowed[head, token] = True
    return allowed


def smallest_contradiction(
    conditions: Iterable[T], possible: Callable[[Sequence[T]], bool]
) -> list[T] | None:
    """Leave out one condition after the other, as long as the rest still contradicts itself: what is
    left can't be met, though it could without any one of them. None if all can."""
    kept = list(conditions)
    if possible(kept):
        return None
    for one in list(kept):
        rest = [other for other in kept if other is not one]
        if not possible(rest):
            kept = rest
    return kept


# Dependency trees packed in a hypergraph: every derivation is a tree with labels.

# The first and the second part of an edge, -1 for none, and the slot of its score, -1 for 0.
Edge = tuple[int, int, int]


class GraphBuilder:
    """Makes a hypergraph, item by item, parts before wholes."""

    def __init__(self, scores: Sequence[float]):
        self.scores = list(scores)
        self._starts = [0]
        self._edges: list[Edge] = []

    def slot(self, score: float) -> int:
        """A new slot with this score."""
        self.scores.append(score)
        return len(self.scores) - 1

    def item(self, edges: Iterable[Edge]) -> int:
        """A new item that these edges make; -1 if there are none."""
        self._edges.extend(edges)
        if len(self._edges) == self._starts[-1]:
            return -1
        self._starts.append(len(self._edges))
        return len(self._starts) - 2

    def graph(self) -> Graph:
        """All items; the last is the goal."""
        columns = numpy.array(self._edges, dtype="int32").reshape(-1, 3).T
        return Graph(
            numpy.array(self._starts, dtype="int32"), *map(numpy.ascontiguousarray, columns)
        )


class GraphTrees:
    """Implements `trees.interface.RankedTrees`: what is left out has a score of -inf. `has_tree`: There
    is one at all."""

    def __init__(
        self,
        n: int,
        graph: Graph | None,
        scores: NDArray[numpy.float64],
        heads: NDArray[numpy.int32],
        modifiers: NDArray[numpy.int32],
        labels: NDArray[numpy.int32],
        arc_of: NDArray[numpy.int32] | None = None,
    ):
        """scores: By slot.
        arc_of: int32[slots], the labelled arc that each slot adds to a tree, -1 for none. By default
        these are the first slots, in the order of the arcs."""
        self._n, self._graph, self._scores = n, graph, scores
        if arc_of is None:
            arc_of = numpy.full(len(scores), -1, dtype="int32")
            arc_of[: len(heads)] = numpy.arange(len(heads))
        self._arc_of, self._heads, self._labels = arc_of, heads, labels
        self._slots = numpy.flatnonzero(arc_of >= 0)
        arcs = arc_of[self._slots]
        self._places, self._slot_labels = (heads[arcs], modifiers[arcs]), labels[arcs]
        self._modifiers = modifiers
        self.has_tree = graph is not None

    def arcs(self, labels: Labels) -> ArcMask:
        found = numpy.zeros((self._n + 1, self._n + 1), dtype=bool)
        kept = self._given(~found, labels)[self._slots] > -numpy.inf
        found[tuple(column[kept] for column in self._places)] = True
        return found

    def total(self, allowed: ArcMask, labels: Labels) -> tuple[float, ArcTable]:
        marginals = numpy.zeros(allowed.shape)
        if self._graph is None:
            return -numpy.inf, marginals
        log_z, mu = self._graph.expectations(self._given(allowed, labels))
        numpy.add.at(marginals, self._places, mu[self._slots])
        return log_z, marginals

    def best(self, ways: Sequence[ArcMask], labels: Labels, marginals: ArcTable) -> BestTree:
        assert self._graph is not None  # some way has a tree
        found = []
        for allowed in ways:
            found += self._graph.k_best(self._given(allowed, labels), 1)
        return self._tree(*max(found, key=lambda tree: tree[1]))

    def k_best(self, k: int) -> list[BestTree]:
        if self._graph is None:
            return []
        return [self._tree(*found) for found in self._graph.k_best(self._scores, k)]

    def _tree(self, edges: NDArray[numpy.int32], score: float) -> BestTree:
        assert self._graph is not None
        slots = self._graph.slots[edges]
        arcs = self._arc_of[slots[slots >= 0]]
        arcs = arcs[arcs >= 0]
        arcs = arcs[numpy.argsort(self._modifiers[arcs])]
        return BestTree(self._heads[arcs], self._labels[arcs], score)

    def _given(self, allowed: NDArray[numpy.bool_], labels: Labels) -> NDArray[numpy.float64]:
        """Scores without the arcs that are not allowed, or not with their labels."""
        kept = allowed[self._places]
        for token, own in labels.items():
            kept &= (self._places[1] != token) | numpy.isin(self._slot_labels, sorted(own))
        scores = self._scores.copy()
        scores[self._slots[~kept]] = -numpy.inf
        return scores
