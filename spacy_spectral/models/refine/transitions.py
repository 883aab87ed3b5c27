"""What heads generate: P(child | head, previous sibling, side), smoothed by wider contexts.

States a, b, c refine the tags A, B, C; c may be STOP, b may be FIRST (and is then its own tag). With
counts n and [first] whether there is no sibling before, every distribution is that of its own context
mixed with a wider one, P_k = (n + s_k P_k+1) / (N + s_k):

    (a, b)  ->  (a, B)  ->  half (A, B), half (a, [first])  ->  (A, [first])  ->  ([first])  ->  all

The contexts (a, b) that were never seen are the same as (a, B), so only those that were seen have rows
of their own.
"""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from .lexicon import TagStates
from .statistics import NONE, Events

# s_k: how many observations a wider context is worth
_PAIR = _HEAD = _TAGS = _HEAD_ALONE = 3.0
_TAG_ALONE = _FIRST = 5.0
# Every outcome this many times before anything was seen
_UNSEEN = 0.5


@dataclass
class Transitions:
    """P(child | head, previous sibling, side) for K states.

    rows (ndarray): float32, [contexts, K + 1], distributions over children, the last entry is STOP.
    row_of (ndarray): int32, [2, K, K + 1], the row of every side, head and previous sibling; the last
        sibling is FIRST.
    """

    rows: NDArray[numpy.float32]
    row_of: NDArray[numpy.int32]

    @classmethod
    def fit(
        cls,
        contexts: NDArray[numpy.int32],
        counts: NDArray[numpy.float64],
        tag_states: TagStates,
    ) -> "Transitions":
        """Smooth the counts of what was seen.

        contexts (ndarray): int32, [n, 4], distinct: side, head, previous sibling (K for FIRST) and child (K
            for STOP).
        counts (ndarray): [n], how often each was seen.
        tag_states (TagStates): Which states refine which tag.
        RETURNS (Transitions): The distributions.
        """
        k, n_tags = tag_states.n_states, tag_states.n_tags
        tags = numpy.append(tag_states.tag_of, n_tags)
        side, a, b, c = contexts.astype("int64").T
        shape = 2, k, n_tags + 1, k + 1
        flat = numpy.ravel_multi_index((side, a, tags[b], c), shape)
        seen = _counted(flat, counts, int(numpy.prod(shape))).reshape(shape)
        by_tag = _by_head_and_tag(seen, tag_states).reshape(-1, k + 1)
        row_of = numpy.arange(2 * k).reshape(2, k, 1) * (n_tags + 1) + tags
        keys, which = numpy.unique((side * k + a) * (k + 1) + b, return_inverse=True)
        flat = which.ravel() * (k + 1) + c
        pairs = _counted(flat, counts, len(keys) * (k + 1)).reshape(-1, k + 1)
        pairs = _mixed(pairs, by_tag[row_of.ravel()[keys]], _PAIR)
        row_of.ravel()[keys] = len(by_tag) + numpy.arange(len(keys))
        rows = numpy.concatenate([by_tag.astype("float32"), pairs.astype("float32")])
        return cls(rows, row_of.astype("int32"))

    @classmethod
    def from_table(cls, counts: NDArray[numpy.float64], tag_states: TagStates) -> "Transitions":
        """Smooth expected counts of everything; every context has a row of its own.

        counts (ndarray): [2, K, K + 1, K + 1] by side, head, previous sibling and child.
        tag_states (TagStates): Which states refine which tag.
        RETURNS (Transitions): The distributions.
        """
        k = tag_states.n_states
        by_tag = _by_head_and_tag(_sum_tags(counts, tag_states, 2), tag_states)
        tags = numpy.append(tag_states.tag_of, tag_states.n_tags)
        rows = _mixed(counts.copy(), by_tag[:, :, tags], _PAIR)
        row_of = numpy.arange(2 * k * (k + 1), dtype="int32").reshape(2, k, k + 1)
        return cls(rows.reshape(-1, k + 1).astype("float32"), row_of)

    def probability(self, side: int, head: int, previous: int, child: int) -> float:
        """RETURNS (float): P(child | head, previous sibling, side); K for FIRST and STOP."""
        return float(self.rows[self.row_of[side, head, previous], child])


def _counted(cells: NDArray, counts: NDArray, size: int) -> NDArray[numpy.float64]:
    # of nothing at all bincount would make whole numbers
    return numpy.bincount(cells, counts, minlength=size).astype("float64", copy=False)


def _sum_tags(counts: NDArray, tag_states: TagStates, axis: int) -> NDArray:
    """Sums over the states of every tag along an axis; FIRST, if it is there, stays what it is."""
    first = tag_states.first[:-1]
    if counts.shape[axis] > tag_states.n_states:
        first = numpy.append(first, tag_states.n_states)
    return numpy.add.reduceat(counts, first, axis=axis)


def _by_head_and_tag(counts: NDArray, tag_states: TagStates) -> NDArray[numpy.float64]:
    """Distributions given a head and the tag of its last child.

    counts (ndarray): [2, K, tags + 1, K + 1] by side, head, tag of the previous sibling and child.
    RETURNS (ndarray): As `counts`, which are overwritten.
    """
    n_tags = tag_states.n_tags
    # [2, K, first or not, K + 1]
    head_alone = numpy.stack([counts[:, :, :n_tags].sum(axis=2), counts[:, :, n_tags]], axis=2)
    tag_alone = _sum_tags(head_alone, tag_states, 1)
    first = tag_alone.sum(axis=1)
    everything = first.sum(axis=(0, 1)) + _UNSEEN
    first = _mixed(first, everything / everything.sum(), _FIRST)
    tag_alone = _mixed(tag_alone, first[:, None], _TAG_ALONE)
    head_alone = _mixed(head_alone, tag_alone[:, tag_states.tag_of], _HEAD_ALONE)
    is_first = numpy.append(numpy.zeros(n_tags, dtype="int64"), 1)
    tags = _mixed(_sum_tags(counts, tag_states, 1), tag_alone[:, :, is_first], _TAGS)
    wider = tags[:, tag_states.tag_of]
    wider += head_alone[:, :, is_first]
    wider *= 0.5
    return _mixed(counts, wider, _HEAD)


def _mixed(counts: NDArray, wider: NDArray, strength: float) -> NDArray:
    """P_k = (n + s_k P_k+1) / (N + s_k); `counts` are overwritten."""
    total = counts.sum(axis=-1, keepdims=True) + strength
    counts += strength * wider
    counts /= total
    return counts


def event_states(
    events: Events, states: NDArray[numpy.int32], n_states: int
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """RETURNS (Tuple[ndarray, ndarray, ndarray, ndarray]): Side and states of the head, the previous sibling
    and the child of every event; `n_states` for FIRST and STOP."""
    return (
        events.side,
        states[events.head].astype("int64"),
        numpy.where(events.previous == NONE, n_states, states[events.previous]),
        numpy.where(events.child == NONE, n_states, states[events.child]),
    )
