"""Trees of a sentence as a list, and crossing arcs in them, which models have as lifted arcs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from .interface import BestTree, Parse, Parses
from .inventory import Inventory

_SMALLEST = 1e-300


def restored_parses(
    heads: NDArray[numpy.int32],
    labels: NDArray[numpy.int32],
    log_probs: Sequence[float],
    inventory: Inventory,
    fixed: NDArray[numpy.int32] | None,
) -> list[Parse]:
    """Restore the crossing arcs of some trees of a sentence.

    heads, labels (ndarray): [trees, N], projective.
    log_probs (Sequence[float]): Their log-probabilities.
    inventory (Inventory): The labels.
    fixed (Optional[ndarray]): [N], heads that were given, MISSING for others.
    RETURNS (List[Parse]): The parses.
    """
    k, n = heads.shape
    final = inventory.restored(
        numpy.arange(k + 1, dtype="int32") * n,
        heads.ravel(),
        labels.ravel(),
        None if fixed is None else numpy.tile(fixed, k),
    )
    return list(map(Parse, *(column.reshape(k, n) for column in final), log_probs))


def distinct_parses(
    find: Callable[[int], list[BestTree]],
    inventory: Inventory,
    fixed: NDArray[numpy.int32] | None,
    k: int,
) -> list[Parse]:
    """The best labelled trees of a sentence, crossing arcs restored. Where two of them are the same after
    that, as decorations that lead nowhere are no part of a label, only the likelier one stays.

    find (Callable[[int], List[BestTree]]): Gives so many of the best; scores are log-probabilities.
    inventory (Inventory), fixed (Optional[ndarray]): As for `restored_parses`.
    k (int): How many at most.
    RETURNS (List[Parse]): The parses.
    """
    m = k
    while True:
        found = find(m)
        if not found:
            return []
        heads, labels, scores = zip(*found, strict=True)
        parses = restored_parses(
            numpy.array(heads), numpy.array(labels), list(scores), inventory, fixed
        )
        unique: dict[bytes, Parse] = {}
        for parse in parses:
            unique.setdefault(parse.heads.tobytes() + parse.labels.tobytes(), parse)
        if len(unique) >= k or len(found) < m:
            return list(unique.values())[:k]
        m *= 2


def best_sums(
    lists: Sequence[NDArray[numpy.float64]], k: int
) -> tuple[NDArray[numpy.int64], NDArray[numpy.float64]]:
    """The k largest sums of one number from each list.

    RETURNS (Tuple[ndarray, ndarray]): Which of each list [found, lists], and the sums, largest first.
    """
    chosen, totals = numpy.zeros((1, 0), dtype="int64"), numpy.zeros(1)
    for own in lists:
        sums = (totals[:, None] + own).ravel()
        order = numpy.argsort(-sums, kind="stable")[:k]
        chosen = numpy.column_stack([chosen[order // len(own)], order % len(own)])
        totals = sums[order]
    return chosen, totals


class RestoredArcs(NamedTuple):
    """Crossing arcs that were restored in a batch.

    tokens (ndarray): Which tokens they lead to.
    head_probs (ndarray): Their probabilities.
    label_probs (ndarray): The probabilities of their labels, given them.
    """

    tokens: NDArray[numpy.int64]
    head_probs: NDArray[numpy.float64]
    label_probs: NDArray[numpy.float64]


def restored_arcs(
    parses: Parses,
    starts: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    labels: NDArray[numpy.int32],
) -> RestoredArcs:
    """What a model says of crossing arcs, which its projective trees have lifted, with decorated labels:

        P(arc)           = P(the same, not lifted) + P(lifted arc, decorated label)
        P(arc and label) = P(the same, not lifted) + P(lifted arc, decorated label)

    as if the decoration led to the same head in every tree.

    parses (Parses): The parses of a batch.
    starts (ndarray): Where sentences start, closed by the number of tokens.
    heads, labels (ndarray): What tokens had before crossing arcs were restored.
    RETURNS (RestoredArcs): The arcs.
    """
    tokens = numpy.flatnonzero(parses.heads != heads)
    probs = numpy.zeros((2, len(tokens)))
    for i, token in enumerate(tokens.tolist()):
        s = int(numpy.searchsorted(starts, token, side="right")) - 1
        arcs = parses.arcs(s, labelled=True, min_prob=0.0)
        own = arcs.modifiers == token - starts[s] + 1
        lifted = own & (arcs.heads == heads[token]) & (arcs.labels == labels[token])
        same = own & (arcs.heads == parses.heads[token])
        probs[0, i] = arcs.probs[same | lifted].sum()
        same &= arcs.labels == parses.labels[token]
        probs[1, i] = arcs.probs[same | lifted].sum() / max(probs[0, i], _SMALLEST)
    return RestoredArcs(tokens, *probs)
