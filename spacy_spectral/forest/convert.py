"""Packed forests from lists of trees, from labelled arcs and from charts."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors, SpectralError
from .packed import MAX_CELLS, Feature, PackedForest

# Sets of arcs that go round in circles; each is a no-good of its own.
MAX_CYCLES = 2_000


def from_list(
    log_weights: Sequence[float], properties: Sequence[Mapping[int, float]] | None = None
) -> PackedForest:
    """The trees of an n-best list: one variable.

    RETURNS: The value of its variable is a tree's place in the list.
    """
    n = len(log_weights)
    places = numpy.arange(n)
    features = [Feature((0,), places == i, own) for i, own in enumerate(properties or ())]
    return PackedForest([n], [((0,), log_weights)], features)


class ArcForest(NamedTuple):
    """The projective trees, with one root, of some arcs.

    forest: Variable m - 1 tells the arc of token m.
    arcs: For every token the numbers of its arcs, in the order of the variable's values.
    """

    forest: PackedForest
    arcs: list[NDArray[numpy.int64]]

    def tree(self, values: Sequence[int]) -> NDArray[numpy.int64]:
        """The number of every token's arc."""
        return numpy.array(
            [own[v] for own, v in zip(self.arcs, values, strict=True)], dtype="int64"
        )


def from_arcs(
    n: int,
    heads: NDArray[numpy.int32],
    modifiers: NDArray[numpy.int32],
    log_weights: NDArray[numpy.float64],
    *,
    max_cells: int = MAX_CELLS,
) -> ArcForest:
    """The projective trees that some arcs make. Arcs that differ in nothing but a label, which is not
    looked at, are different values of a variable.

    No-goods forbid pairs of arcs that cross (the root is left of all tokens), two roots, and arcs that go
    round in a circle. Where nothing crosses, a circle goes one way over tokens in their order and back by
    one arc, so that all of them can be found.

    heads, modifiers (ndarray): Positions from 1; 0 is the root.
    """
    order = numpy.argsort(modifiers, kind="stable")
    bounds = numpy.searchsorted(modifiers[order], numpy.arange(1, n + 2))
    arcs = [order[a:b] for a, b in pairwise(bounds)]
    factors: list[tuple[Sequence[int], NDArray]] = [
        ((m,), log_weights[own]) for m, own in enumerate(arcs)
    ]
    head, modifier = heads[order], modifiers[order]
    forbidden = _conflicts(head, modifier)
    if n and all(map(len, arcs)):
        rows = numpy.logical_or.reduceat(forbidden, bounds[:-1], axis=0)
        blocks = numpy.logical_or.reduceat(rows, bounds[:-1], axis=1)
    else:  # what has no arc is an error below
        blocks = numpy.zeros((n, n), dtype=bool)
    for i, j in numpy.argwhere(numpy.triu(blocks, 1)).tolist():
        block = forbidden[bounds[i] : bounds[i + 1], bounds[j] : bounds[j + 1]]
        factors.append(((i, j), ~block))
    for cycle in _cycles(head, modifier, n):
        scope = sorted(m - 1 for _, m in cycle)
        governor = {m - 1: h for h, m in cycle}
        size = numpy.prod([float(len(arcs[i])) for i in scope])
        if size > max_cells:
            raise SpectralError(Errors.S901.format(cells=f"{size:.2g}", most=max_cells))
        table = numpy.ones((1,) * len(scope), dtype=bool)
        for axis, i in enumerate(scope):
            shape = [1] * len(scope)
            shape[axis] = -1
            table = table & (heads[arcs[i]] == governor[i]).reshape(shape)
        factors.append((scope, ~table))
    return ArcForest(PackedForest(map(len, arcs), factors, max_cells=max_cells), arcs)


def _conflicts(head: NDArray, modifier: NDArray) -> NDArray[numpy.bool_]:
    """Which pairs of arcs can't be in one tree."""
    low, high = numpy.minimum(head, modifier), numpy.maximum(head, modifier)
    first = (low[:, None] < low) & (low < high[:, None]) & (high[:, None] < high)
    roots = (head[:, None] == 0) & (head == 0)
    circle = (head[:, None] == modifier) & (modifier[:, None] == head)
    return first | first.T | roots | circle


def _cycles(head: NDArray, modifier: NDArray, n: int) -> list[list[tuple[int, int]]]:
    """All circles of three arcs or more in which no two cross, as lists of (head, modifier)."""
    arcs = set(zip(head.tolist(), modifier.tolist(), strict=True))
    found: list[list[tuple[int, int]]] = []
    for sign in (1, -1):
        # chains lead from a head to a modifier on the one side, the last arc goes back
        onward: dict[int, list[int]] = {}
        for h, m in sorted(arcs):
            if h and (m - h) * sign > 0:
                onward.setdefault(h, []).append(m)
        for last, first in sorted(arcs):
            if not last or (last - first) * sign < 2:
                continue
            chains = [[first]]
            while chains:
                chain = chains.pop()
                for m in onward.get(chain[-1], ()):
                    if m == last and len(chain) > 1:
                        closed = [*chain, m]
                        found.append([*pairwise(closed), (last, first)])
                    elif (last - m) * sign > 0:
                        chains.append([*chain, m])
                if len(found) + len(chains) > MAX_CYCLES:
                    cells = f"more than {MAX_CYCLES} circles of arcs, and so of too many"
                    raise SpectralError(Errors.S901.format(cells=cells, most=MAX_CELLS))
    return found


class Edge(NamedTuple):
    """One way to make an item of a chart.

    item: What is made.
    parts: Of what; nothing for a leaf.
    log_weight (float): The logarithm of its weight.
    properties: Its properties.
    """

    item: Hashable
    parts: Sequence[Hashable]
    log_weight: float = 0.0
    properties: Mapping[int, float] = {}


class ChartForest(NamedTuple):
    """The derivations of a chart.

    forest: Its first variables are items: value 0 if they are not in a tree, else one of
        their edges. Others help to tell whether an item is needed.
    items: The item of each of these.
    edges: The numbers of its edges, for the values from 1.
    """

    forest: PackedForest
    items: list[Hashable]
    edges: list[list[int]]

    def tree(self, values: Sequence[int]) -> list[int]:
        """The edges of the tree."""
        return [own[v - 1] for own, v in zip(self.edges, values, strict=False) if v]


def from_chart(edges: Iterable[Edge], goal: Hashable, *, max_cells: int = MAX_CELLS) -> ChartForest:
    """The derivations of a chart: of constituents, of dependencies, of a grammar made by hand. In a
    derivation an item can be but once, as items with spans of text are."""
    listed = list(edges)
    made: dict[Hashable, list[int]] = {}
    for number, edge in enumerate(listed):
        made.setdefault(edge.item, []).append(number)
    items = _bottom_up(listed, made, goal)
    index = {item: i for i, item in enumerate(items)}
    # an edge without all its parts makes nothing
    own_edges = [
        [e for e in made.get(item, ()) if all(part in index for part in listed[e].parts)]
        for item in items
    ]
    domains = [len(own) + 1 for own in own_edges]
    factors: list[tuple[Sequence[int], NDArray]] = []
    features = []
    wanted: list[list[tuple[int, NDArray]]] = [[] for _ in items]
    for i, own in enumerate(own_edges):
        factors.append(((i,), numpy.array([0.0, *(listed[e].log_weight for e in own)])))
        for value, e in enumerate(own, start=1):
            features.append(Feature((i,), numpy.arange(domains[i]) == value, listed[e].properties))
        for part in sorted({index[part] for e in own for part in listed[e].parts}):
            uses = [False, *(items[part] in listed[e].parts for e in own)]
            wanted[part].append((i, numpy.array(uses)))
    for i, users in enumerate(wanted):
        present = numpy.arange(domains[i]) > 0
        if items[i] == goal:
            factors.append(((i,), present))
            continue
        # needed so far, one user after the other: tables of three variables are enough
        while len(users) > 2:
            (a, uses_a), (b, uses_b), *rest = users
            either = len(domains)
            domains.append(2)
            same = (uses_a[:, None] | uses_b)[..., None] == numpy.array([False, True])
            factors.append(((a, b, either), same))
            users = [(either, numpy.array([False, True])), *rest]
        if len(users) == 2:
            (a, uses_a), (b, uses_b) = users
            factors.append(((a, b, i), (uses_a[:, None] | uses_b)[..., None] == present))
        elif users:
            ((a, uses_a),) = users
            factors.append(((a, i), uses_a[:, None] == present))
    forest = PackedForest(domains, factors, features, max_cells=max_cells)
    return ChartForest(forest, items, own_edges)


def _bottom_up(
    edges: Sequence[Edge], made: Mapping[Hashable, Sequence[int]], goal: Hashable
) -> list[Hashable]:
    """The items below a goal, parts before wholes."""
    below: dict[Hashable, list[Hashable]] = {}
    waiting = [goal]
    while waiting:
        item = waiting.pop()
        if item in below:
            continue
        parts = [edges[number].parts for number in made.get(item, ())]
        if any(len(set(own)) < len(own) for own in parts):
            raise SpectralError(Errors.S908.format(item=item, reason="has a part twice"))
        below[item] = [part for own in parts for part in own]
        waiting += below[item]
    try:
        return list(TopologicalSorter(below).static_order())
    except CycleError as error:
        raise SpectralError(
            Errors.S908.format(item=error.args[1][0], reason="is a part of itself")
        ) from None
