"""What heads generate: P(child | head, previous sibling, side), smoothed by wider contexts.

States a, b, c refine the tags A, B, C; c may be STOP, b may be FIRST (and is then its own tag). With
counts n and [first] whether there is no sibling before, every distribution is that of its own context
mixed with a wider one, P_k = (n + s_k P_k+1) / (N + s_k):

    (a, b)  ->  (a, B)  ->  half (A, B), half (a, [first])  ->  (A, [first])  ->  ([first])  ->  all

The contexts (a, b) that were never seen are the same as (a, B), so only those that were seen have rows
of their own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...base.linalg import kmeans
from .lexicon import TagStates
from .statistics import NONE, Events, Labelling, Trees, count_rows

# s_k: how many observations a wider context is worth
_PAIR = _HEAD = _TAGS = _HEAD_ALONE = 3.0
_TAG_ALONE = _FIRST = 5.0
# Every outcome this many times before anything was seen
_UNSEEN = 0.5


@dataclass
class Transitions:
    """P(child | head, previous sibling, side) for K states: rows [contexts, K + 1] over children, STOP
    last, and the row of every side, head and previous sibling, FIRST last (`row_of`, [2, K, K + 1])."""

    rows: NDArray[numpy.float32]
    row_of: NDArray[numpy.int32]

    @classmethod
    def fit(
        cls,
        contexts: NDArray[numpy.int32],
        counts: NDArray[numpy.float64],
        tag_states: TagStates,
    ) -> "Transitions":
        """Smooth the counts of what was seen: distinct contexts, side, head, previous sibling (K for
        FIRST) and child (K for STOP)."""
        k, n_tags = tag_states.n_states, tag_states.n_tags
        tags = numpy.append(tag_states.tag_of, n_tags)
        order = numpy.argsort(contexts[:, 1], kind="stable")
        side, a, b, c = contexts[order].astype("int64").T
        counts = counts[order]
        bounds = numpy.searchsorted(a, numpy.arange(k + 1)).tolist()
        flat = ((side * k + a) * 2 + (b == k)) * (k + 1) + c
        head_alone = _counted(flat, counts, (2, k, 2, k + 1))
        row_of = numpy.arange(2 * k).reshape(2, k, 1) * (n_tags + 1) + tags
        keys = numpy.unique((side * k + a) * (k + 1) + b)
        n_by_tag = 2 * k * (n_tags + 1)
        rows = numpy.empty((n_by_tag + len(keys), k + 1), dtype="float32")
        by_tag = rows[:n_by_tag].reshape(2, k, n_tags + 1, k + 1)

        def of_tag(tag: int) -> NDArray[numpy.float64]:
            first, n = int(tag_states.first[tag]), int(tag_states.size[tag])
            own = slice(bounds[first], bounds[first + n])
            flat = ((side[own] * n + a[own] - first) * (n_tags + 1) + tags[b[own]]) * (k + 1)
            return _counted(flat + c[own], counts[own], (2, n, n_tags + 1, k + 1))

        for state, wider in _by_head_and_tag(of_tag, head_alone, tag_states):
            by_tag[:, state] = wider
            own = slice(bounds[state], bounds[state + 1])
            seen, which = numpy.unique(side[own] * (k + 1) + b[own], return_inverse=True)
            pairs = _counted(which * (k + 1) + c[own], counts[own], (len(seen), k + 1))
            own_side, own_b = numpy.divmod(seen, k + 1)
            place = numpy.searchsorted(keys, (own_side * k + state) * (k + 1) + own_b)
            rows[n_by_tag + place] = _mixed(pairs, wider[own_side, tags[own_b]], _PAIR)
        row_of.ravel()[keys] = n_by_tag + numpy.arange(len(keys))
        return cls(rows, row_of.astype("int32"))

    @classmethod
    def from_table(cls, counts: NDArray[numpy.float64], tag_states: TagStates) -> "Transitions":
        """Smooth expected counts [2, K, K + 1, K + 1] of everything, by side, head, previous sibling and
        child; every context has a row of its own."""
        k = tag_states.n_states
        tags = numpy.append(tag_states.tag_of, tag_states.n_tags)
        head_alone = numpy.stack([counts[:, :, :k].sum(axis=2), counts[:, :, k]], axis=2)
        rows = numpy.empty(counts.shape, dtype="float32")

        def of_tag(tag: int) -> NDArray[numpy.float64]:
            own = slice(*tag_states.first[tag : tag + 2])
            return _sum_tags(counts[:, own], tag_states, 2)

        for state, wider in _by_head_and_tag(of_tag, head_alone, tag_states):
            rows[:, state] = _mixed(counts[:, state].copy(), wider[:, tags], _PAIR)
        row_of = numpy.arange(2 * k * (k + 1), dtype="int32").reshape(2, k, k + 1)
        return cls(rows.reshape(-1, k + 1), row_of)


def _counted(cells: NDArray, counts: NDArray, shape: tuple[int, ...]) -> NDArray[numpy.float64]:
    found = numpy.bincount(cells, counts, minlength=int(numpy.prod(shape)))
    # of nothing at all bincount would make whole numbers
    return found.astype("float64", copy=False).reshape(shape)


def _sum_tags(counts: NDArray, tag_states: TagStates, axis: int) -> NDArray:
    """Sums over the states of every tag along an axis; FIRST, if it is there, stays what it is."""
    first = tag_states.first[:-1]
    if counts.shape[axis] > tag_states.n_states:
        first = numpy.append(first, tag_states.n_states)
    return numpy.add.reduceat(counts, first, axis=axis)


def _by_head_and_tag(
    of_tag: Callable[[int], NDArray[numpy.float64]],
    head_alone: NDArray[numpy.float64],
    tag_states: TagStates,
) -> Iterator[tuple[int, NDArray[numpy.float64]]]:
    """Every head with distributions [2, tags + 1, K + 1] given it and the tag of its last child, one
    head after the other: all of them at once are as large as the states squared times the tags.

    of_tag: Makes counts [2, states of the tag, tags + 1, K + 1] by side, head, tag of the previous
    sibling and child, for heads of a tag.
    head_alone: [2, K, first or not, K + 1], counts of children, which are overwritten.
    """
    n_tags = tag_states.n_tags
    tag_alone = _sum_tags(head_alone, tag_states, 1)
    first = tag_alone.sum(axis=1)
    everything = first.sum(axis=(0, 1)) + _UNSEEN
    first = _mixed(first, everything / everything.sum(), _FIRST)
    tag_alone = _mixed(tag_alone, first[:, None], _TAG_ALONE)
    head_alone = _mixed(head_alone, tag_alone[:, tag_states.tag_of], _HEAD_ALONE)
    is_first = numpy.append(numpy.zeros(n_tags, dtype="int64"), 1)
    for tag in range(n_tags):
        counts = of_tag(tag)
        tags = _mixed(counts.sum(axis=1), tag_alone[:, tag, is_first], _TAGS)
        for i in range(counts.shape[1]):
            state = int(tag_states.first[tag]) + i
            wider = 0.5 * (tags + head_alone[:, state, is_first])
            yield state, _mixed(counts[:, i], wider, _HEAD)


def _mixed(counts: NDArray, wider: NDArray, strength: float) -> NDArray:
    """P_k = (n + s_k P_k+1) / (N + s_k); `counts` are overwritten."""
    total = counts.sum(axis=-1, keepdims=True) + strength
    counts += strength * wider
    counts /= total
    return counts


def event_states(
    events: Events, states: NDArray[numpy.int32], n_states: int
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Side and states of the head, the previous sibling and the child of every event; `n_states`
    for FIRST and STOP."""
    return (
        events.side,
        states[events.head].astype("int64"),
        numpy.where(events.previous == NONE, n_states, states[events.previous]),
        numpy.where(events.child == NONE, n_states, states[events.child]),
    )


# A grammar over states of one fineness, and coarser ones made of it.

# How many observations the tags of roots are worth
_ROOT_STRENGTH = 3.0


@dataclass
class Layer:
    """A grammar over states, of tags or finer: contexts that were seen (see `Transitions.fit`) and how
    often, and how often states are roots."""

    tag_states: TagStates
    contexts: NDArray[numpy.int32]
    counts: NDArray[numpy.float64]
    roots: NDArray[numpy.float64]

    def __post_init__(self) -> None:
        self.transitions = Transitions.fit(self.contexts, self.counts, self.tag_states)
        self.root = root_distribution(self.roots, self.tag_states)

    @classmethod
    def fit(cls, trees: Trees, labelling: Labelling) -> "Layer":
        """The grammar of a treebank whose tokens have states."""
        k = labelling.n_states
        contexts, counts = count_rows(event_states(trees.events, labelling.states, k))
        roots = numpy.bincount(labelling.states[trees.roots], minlength=k).astype("float64")
        return cls(labelling.tag_states, contexts, counts, roots)

    def grouped(self, groups: NDArray[numpy.int32]) -> "Layer":
        """The grammar of groups of states, given the group of every state."""
        # FIRST and STOP stay what they are
        n_groups = int(groups.max()) + 1
        of = numpy.append(groups, n_groups).astype("int64")
        side, *states = self.contexts.astype("int64").T
        columns = (side, *(of[column] for column in states))
        shape = (2, *[n_groups + 1] * 3)
        cells, which = numpy.unique(numpy.ravel_multi_index(columns, shape), return_inverse=True)
        contexts = numpy.stack(numpy.unravel_index(cells, shape), axis=1).astype("int32")
        counts = numpy.bincount(which.ravel(), self.counts, minlength=len(cells))
        tag_of = numpy.zeros(n_groups, dtype="int32")
        tag_of[groups] = self.tag_states.tag_of
        roots = numpy.bincount(groups, self.roots, minlength=n_groups)
        return Layer(TagStates(tag_of), contexts, counts.astype("float64"), roots.astype("float64"))

    def to_payload(self) -> dict[str, NDArray]:
        return {
            "contexts": self.contexts.astype("uint16"),
            "counts": self.counts.astype("uint32"),
            "roots": self.roots.astype("uint32"),
        }

    @classmethod
    def from_payload(cls, payload: dict[str, NDArray], tag_states: TagStates) -> "Layer":
        """What `to_payload` gave, checked by `model.FORMAT`."""
        return cls(
            tag_states,
            payload["contexts"].astype("int32"),
            payload["counts"].astype("float64"),
            payload["roots"].astype("float64"),
        )


def root_distribution(roots: NDArray, tag_states: TagStates) -> NDArray[numpy.float64]:
    """[K], P(state | root), smoothed by the tags of roots."""
    tags = numpy.bincount(tag_states.tag_of, roots) + 0.1
    general = (tags / tags.sum() / tag_states.size)[tag_states.tag_of]
    return (roots + _ROOT_STRENGTH * general) / (roots.sum() + _ROOT_STRENGTH)


def group_states(layer: Layer) -> NDArray[numpy.int32]:
    """The group [K] of every state; those of a tag have numbers in a row. States of a tag that behave
    alike, by the tags among which they are generated and by those of their children, are put together:
    about as many groups as the root of their number."""
    tag_states = layer.tag_states
    k, n_tags = tag_states.n_states, tag_states.n_tags
    side, head, previous, child = layer.contexts.astype("int64").T
    tags = numpy.append(tag_states.tag_of, n_tags)
    shape = (2, 2, n_tags + 1, n_tags + 1)
    size = int(numpy.prod(shape))
    groups = numpy.zeros(k, dtype="int32")
    begin = 0
    # tag by tag: a table of all states is larger than the grammar
    for first, n in zip(tag_states.first[:-1].tolist(), tag_states.size.tolist(), strict=True):
        own = slice(first, first + n)
        if n == 1:
            groups[own] = begin
            begin += 1
            continue
        vectors = numpy.zeros((n, size))
        for which, state, other in ((0, head, child), (1, child, head)):
            rows = numpy.flatnonzero((state >= first) & (state < first + n))
            around = tags[other[rows]], tags[previous[rows]]
            cell = numpy.ravel_multi_index((which, side[rows], *around), shape)
            numpy.add.at(vectors, (state[rows] - first, cell), layer.counts[rows])
        total = vectors.sum(axis=1)
        # roots of shares: their distances are those of distributions (Hellinger)
        vectors /= numpy.maximum(total, 1.0)[:, None]
        numpy.sqrt(vectors, out=vectors)
        found = kmeans(vectors, int(numpy.ceil(numpy.sqrt(n))), weights=total + 1.0)
        numbers = numpy.unique(found, return_inverse=True)[1]
        groups[own] = begin + numbers
        begin += int(numbers.max()) + 1
    return groups
