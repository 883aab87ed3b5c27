"""What sources of candidates and the reranker agree on. Knows nothing of spaCy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...trees.sentences import Treebank


@dataclass
class Candidates:
    """The trees of one sentence that there are to choose from, the base parser's likeliest first.

    heads (ndarray): int32[k, n], heads of the k trees, 0 for the root. Complete trees, all different.
    labels (ndarray): int32[k, n], indices into `names`.
    names (Sequence[str]): The labels; many sentences share them.
    log_probs (ndarray): float64[k], log P(tree | sentence) by the base parser.
    arc_probs (ndarray): float64[k, n], the probability of every arc by the base parser.
    """

    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    names: Sequence[str]
    log_probs: NDArray[numpy.float64]
    arc_probs: NDArray[numpy.float64]

    def __len__(self) -> int:
        return len(self.heads)

    def within(self, margin: float) -> "Candidates":
        """margin (float): A difference of log-probabilities.
        RETURNS (Candidates): Those at most so much less likely than the first."""
        k = int((self.log_probs >= self.log_probs[:1] - margin).sum())
        return Candidates(
            self.heads[:k], self.labels[:k], self.names, self.log_probs[:k], self.arc_probs[:k]
        )

    def correct(
        self, heads: NDArray[numpy.int32], labels: Sequence[str]
    ) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """Compare the trees with the gold tree.

        heads (ndarray), labels (Sequence[str]): The gold tree, MISSING and "" where it is not known.
            Labels are compared in lower case, as the scorers do.
        RETURNS (Tuple[ndarray, ndarray]): How many heads are right, and heads with their labels.
        """
        ids = {name.lower(): i for i, name in enumerate(self.names)}
        lower = numpy.array([ids[name.lower()] for name in self.names])
        gold = numpy.array([ids.get(label.lower(), -1) for label in labels])
        right = self.heads == heads
        return right.sum(axis=1), (right & (lower[self.labels] == gold)).sum(axis=1)


class ByNames:
    """Numbers for labels, computed once for names that sentences share."""

    def __init__(self, number: Callable[[Sequence[str]], NDArray]) -> None:
        self._number = number
        self._names: Sequence[str] | None = None
        self._numbers = numpy.zeros(0)

    def __call__(self, candidates: Candidates) -> NDArray:
        if candidates.names is not self._names:
            self._names = candidates.names
            self._numbers = self._number(self._names)
        return self._numbers


@dataclass
class Fold:
    """Candidates of sentences that the parser who made them was not trained on.

    train (Treebank): What that parser was trained on.
    held_out (Treebank): The sentences.
    candidates (List[Candidates]): The candidates of each.
    """

    train: Treebank
    held_out: Treebank
    candidates: list[Candidates]


def blocks(lengths: NDArray[numpy.int64], n: int) -> NDArray[numpy.int64]:
    """Part texts into contiguous blocks with about as many tokens each: neighbours resemble each other.

    lengths (ndarray): The lengths of the texts.
    n (int): How many blocks.
    RETURNS (ndarray): The block of each.
    """
    ends = numpy.cumsum(lengths)
    middles = ends - lengths / 2
    return numpy.minimum(middles * n // max(ends[-1:].sum(), 1), n - 1).astype("int64")
