"""The arcs that the model looks at, and those that agree with fixed heads."""

from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...trees._eisner import best_tree
from ...trees.posterior import allowed_arcs

# Longer sentences with fixed heads do not get all arcs: neighbouring modifiers are cubically many.
_MAX_ALL_ARCS = 100


class Arcs(NamedTuple):
    """Kept arcs.

    starts (ndarray): int32, where the heads of each token start, closed by their number.
    heads (ndarray): int32, positions in the sentence, ascending for each token; 0 is the root.
    probs (ndarray): float32, how likely the pruner thinks them.
    """

    starts: NDArray[numpy.int32]
    heads: NDArray[numpy.int32]
    probs: NDArray[numpy.float32]


def check_arcs(arcs: Arcs, starts: NDArray[numpy.int32]) -> None:
    """Raise a ValueError unless every token has heads, ascending, in its sentence, none itself.

    arcs (Arcs): The arcs.
    starts (ndarray): Where sentences start.
    """
    counts = numpy.diff(arcs.starts)
    lengths = numpy.diff(starts)
    sizes = {len(arcs.heads), len(arcs.probs), int(counts.sum())}
    if len(counts) != lengths.sum() or len(sizes) > 1 or (counts < 1).any() or arcs.starts[0]:
        raise ValueError(Errors.S407)
    mods = numpy.repeat(numpy.arange(len(counts)), counts)
    position = numpy.arange(len(counts)) - numpy.repeat(starts[:-1], lengths) + 1
    inside = (arcs.heads >= 0) & (arcs.heads <= numpy.repeat(lengths, lengths)[mods])
    ascending = (numpy.diff(arcs.heads) > 0) | (numpy.diff(mods) > 0)
    if not inside.all() or not ascending.all() or (arcs.heads == position[mods]).any():
        raise ValueError(Errors.S407)


def constrain(arcs: Arcs, starts: NDArray[numpy.int32], constraints: NDArray[numpy.int32]) -> Arcs:
    """Arcs that agree with fixed heads, with a probability of 0.

    A sentence with a fixed head keeps all arcs of its other tokens: given that head, other arcs are
    likely. A long one, for which there is neither time nor memory, keeps the pruner's arcs and those of a
    tree.

    arcs (Arcs): The kept arcs.
    starts (ndarray): Where sentences start.
    constraints (ndarray): int32, the fixed head of each token, -1 where it is free.
    RETURNS (Arcs): The arcs.
    """
    heads, counts = [numpy.zeros(0, dtype="int32")], numpy.diff(arcs.starts)
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        fixed = constraints[first:last]
        own = arcs.heads[arcs.starts[first] : arcs.starts[last]]
        if (fixed >= 0).any():
            keep = _agreeing(own, counts[first:last], fixed)
            own = numpy.nonzero(keep.T[1:])[1].astype("int32")
            counts[first:last] = keep[:, 1:].sum(axis=0)
        heads.append(own)
    ends = numpy.concatenate([[0], numpy.cumsum(counts)]).astype("int32")
    kept = numpy.concatenate(heads)
    return Arcs(ends, kept, numpy.zeros(len(kept), dtype="float32"))


def with_arcs(arcs: Arcs, more: NDArray[numpy.bool_]) -> Arcs:
    """RETURNS (Arcs): The arcs of one sentence and others, [N+1, N+1] by head and modifier, with a
    probability of 0."""
    n = len(arcs.starts) - 1
    keep = more.copy()
    keep[arcs.heads, numpy.repeat(numpy.arange(1, n + 1), numpy.diff(arcs.starts))] = True
    numpy.fill_diagonal(keep, False)
    heads = numpy.nonzero(keep.T[1:])[1].astype("int32")
    starts = numpy.concatenate([[0], numpy.cumsum(keep[:, 1:].sum(axis=0))]).astype("int32")
    return Arcs(starts, heads, numpy.zeros(len(heads), dtype="float32"))


def _agreeing(
    heads: NDArray[numpy.int32], counts: NDArray[numpy.int32], fixed: NDArray[numpy.int32]
) -> NDArray[numpy.bool_]:
    """RETURNS (ndarray): [N+1, N+1], which arcs of a sentence to keep beside its fixed heads."""
    n = len(fixed)
    tokens = numpy.arange(1, n + 1)
    wrong = numpy.flatnonzero((fixed > n) | (fixed == tokens))
    if len(wrong):
        raise ValueError(Errors.S405.format(head=fixed[wrong[0]], token=wrong[0] + 1, n=n))
    allowed = allowed_arcs(fixed)
    keep = numpy.full((n + 1, n + 1), n <= _MAX_ALL_ARCS)
    if n > _MAX_ALL_ARCS:
        keep[heads, numpy.repeat(tokens, counts)] = True
        tree, _ = best_tree(numpy.where(allowed, numpy.where(keep, 0.0, -1.0), -numpy.inf))
        keep[tree, tokens] = True
        keep[fixed[fixed >= 0], tokens[fixed >= 0]] = True
    keep &= allowed
    numpy.fill_diagonal(keep, False)
    return keep
