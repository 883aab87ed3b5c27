"""Models of arcs are trained on either half of the text.

Training sentences are then pruned by the half they do not belong to: a model knows its own training data too
well, and what is trained on such arcs would meet harder ones later (this costs more than a point of UAS).
Everything else is pruned by the mean of the two.
"""

from collections.abc import Callable

import numpy
from numpy.typing import NDArray

from ..arcs import Arcs
from ..encode import Sentences

_SIZE = 1 << 21
_PARTS = 4

Weights = NDArray[numpy.float32]


def train_halves(
    train: Callable[[Weights, Weights, NDArray[numpy.int32]], None],
    n_sentences: int,
    *,
    epochs: int,
    seed: int,
) -> list[Weights]:
    """Train twice, with averaged weights.

    train (Callable[[ndarray, ndarray, ndarray], None]): Changes weights and sums of squares by some of the
        sentences.
    n_sentences (int): How many there are.
    epochs (int): Passes over them; the first does not count for the average, unless it is the only one.
    seed (int): Seed of the order of sentences.
    RETURNS (List[ndarray]): float32, weights of the first and of the second half.
    """
    rng = numpy.random.default_rng(seed)
    middle = n_sentences // 2
    halves = [
        numpy.arange(middle, dtype=numpy.int32),
        numpy.arange(middle, n_sentences, dtype=numpy.int32),
    ]
    if not middle:
        halves = [halves[1], halves[1]]
    result = []
    for half in halves:
        current, squares, total = (numpy.full(_SIZE, x, dtype=numpy.float32) for x in (0, 1, 0))
        for epoch in range(epochs):
            for part in numpy.array_split(rng.permutation(half), _PARTS):
                train(current, squares, part)
                if epoch or epochs == 1:
                    total += current
        result.append((total / (_PARTS * max(epochs - 1, 1))).astype("float32"))
    return result


def prune_halves(
    prune: Callable[[Weights, Sentences, slice], Arcs], weights: list[Weights], data: Sentences
) -> Arcs:
    """Prune training sentences by what has not seen them.

    prune (Callable[[ndarray, Sentences, slice], Arcs]): Prunes by weights some of the sentences, whose tokens
        the slice tells.
    weights (List[ndarray]): From `train_halves`.
    data (Sentences): The sentences.
    RETURNS (Arcs): The arcs of all of them.
    """
    middle = len(data) // 2
    cut = int(data.starts[middle])
    first = prune(weights[1], data.part(0, middle), slice(0, cut))
    second = prune(weights[0], data.part(middle, len(data)), slice(cut, len(data.tags)))
    starts = [first.starts[:-1], first.starts[-1] + second.starts]
    return Arcs(
        numpy.concatenate(starts).astype(numpy.int32),
        numpy.concatenate([first.heads, second.heads]),
        numpy.concatenate([first.probs, second.probs]),
    )


def mean(weights: list[Weights]) -> Weights:
    """RETURNS (ndarray): float32, what sentences that neither half has seen are pruned by."""
    return ((weights[0] + weights[1]) / 2).astype("float32")
