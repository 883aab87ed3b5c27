"""Conditional distributions with interpolated back-off (Collins 1999, as in Luque et al. 2012, 5.2).

For contexts c_1 (most specific) .. c_L (most general)

    P(o | c_1..c_L) = t_1 f(o | c_1) + (1 - t_1) (t_2 f(o | c_2) + (1 - t_2) (... 1 / #outcomes))

with relative frequencies f and trust t = n / (n + 5 u) for a context seen n times with u outcomes.
"""

from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.fields import Array, Int, Record
from ._backoff import Contexts

_DIVERSITY_WEIGHT = 5.0
# `to_payload`; counts so large that nothing is left for rarer events would make probabilities 0
FIELDS = Record(
    n_outcomes=Int(low=1, high=1 << 30),
    keys=Array("uint64", "keys", above=0, order="strict"),
    offsets=Array("int64", "keys+1", starts="events", order="strict"),
    outcomes=Array("int32", "events", low=0, below="n_outcomes", order="strict", rows="offsets"),
    counts=Array("float64", "events", above=0, high=1e12),
)


def context_keys(levels: list[tuple[NDArray, ...]]) -> NDArray[numpy.uint64]:
    """Hash the columns of every level to one 64-bit key per query and level.

    levels (List[Tuple[ndarray, ...]]): Per level the columns that make the context, broadcastable.
    RETURNS (ndarray): [queries, levels]
    """
    keys = []
    for level, columns in enumerate(levels):
        key: Any = numpy.uint64(0x9E3779B97F4A7C15 * (level + 1) & 0xFFFFFFFFFFFFFFFF)
        for column in columns:
            key = _mix(key ^ numpy.asarray(column).astype("uint64"))
        keys.append(key)
    with_shape = numpy.broadcast_arrays(*keys)
    stacked = numpy.stack([key.ravel() for key in with_shape], axis=1)
    return numpy.ascontiguousarray(numpy.where(stacked == 0, numpy.uint64(1), stacked))


def _mix(key: NDArray[numpy.uint64]) -> NDArray[numpy.uint64]:
    """The finaliser of SplitMix64: every input bit reaches every output bit."""
    with numpy.errstate(over="ignore"):
        key = (key + numpy.uint64(0x9E3779B97F4A7C15)).astype("uint64")
        key = (key ^ (key >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return key ^ (key >> numpy.uint64(31))


class BackoffModel:
    """One conditional distribution, learnt by counting."""

    def __init__(
        self,
        keys: NDArray[numpy.uint64],
        offsets: NDArray[numpy.int64],
        outcomes: NDArray[numpy.int32],
        counts: NDArray[numpy.float64],
        n_outcomes: int,
    ):
        """Take the learnt arrays as they are stored.

        keys (ndarray): All contexts of all levels, ascending.
        offsets (ndarray): Context k owns `outcomes[offsets[k]:offsets[k + 1]]`.
        outcomes (ndarray): Outcomes seen in each context, ascending.
        counts (ndarray): And how often.
        n_outcomes (int): How many outcomes there can be.
        """
        self.keys, self.offsets, self.outcomes, self.counts = keys, offsets, outcomes, counts
        self.n_outcomes = n_outcomes
        diversity = numpy.diff(offsets)
        totals = numpy.add.reduceat(counts, offsets[:-1]) if len(keys) else numpy.zeros(0)
        shares = counts / numpy.repeat(totals, diversity)
        trust = totals / (totals + _DIVERSITY_WEIGHT * diversity)
        self._contexts = Contexts(keys, offsets, outcomes, shares, trust, n_outcomes)

    @classmethod
    def fit(
        cls, contexts: NDArray[numpy.uint64], outcomes: NDArray, n_outcomes: int
    ) -> "BackoffModel":
        """Count events.

        contexts (ndarray): [events, levels], from `context_keys`.
        outcomes (ndarray): [events]
        n_outcomes (int): How many outcomes there can be.
        RETURNS (BackoffModel): The model.
        """
        keys = contexts.ravel()
        values = numpy.repeat(numpy.asarray(outcomes, dtype="int32"), contexts.shape[1])
        order = numpy.lexsort((values, keys))
        keys, values = keys[order], values[order]
        new_pair = numpy.ones(len(keys), dtype=bool)
        new_pair[1:] = (keys[1:] != keys[:-1]) | (values[1:] != values[:-1])
        pairs = numpy.flatnonzero(new_pair)
        counts = numpy.diff(numpy.append(pairs, len(keys))).astype("float64")
        keys, values = keys[pairs], values[pairs]
        unique, starts = numpy.unique(keys, return_index=True)
        offsets = numpy.append(starts, len(keys)).astype("int64")
        return cls(unique, offsets, values, counts, n_outcomes)

    def probabilities(self, contexts: NDArray[numpy.uint64], outcomes: NDArray) -> NDArray:
        """P(outcome | contexts) for every query."""
        wanted = numpy.ascontiguousarray(outcomes, "int32")
        return self._contexts.probabilities(contexts, wanted)

    def distributions(self, contexts: NDArray[numpy.uint64]) -> NDArray:
        """P(. | contexts) for every query: [queries, n_outcomes]."""
        return self._contexts.distributions(contexts)

    def to_payload(self) -> dict:
        return {
            "keys": self.keys,
            "offsets": self.offsets,
            "outcomes": self.outcomes,
            "counts": self.counts,
            "n_outcomes": self.n_outcomes,
        }
