"""Which arcs the log-linear model looks at."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ._pruner import prune, train_pruner
from .encode import Sentences
from .templates import PRUNER, Templates, compile_templates

_SIZE = 1 << 21
_PARTS = 4
# Longer arcs are looked at only if they are of one of the likeliest roots.
_REACH = 32
_N_FAR = 16


class Arcs(NamedTuple):
    """Kept arcs.

    starts (ndarray): int32, where the heads of each token start, closed by their number.
    heads (ndarray): int32, positions in the sentence, ascending for each token; 0 is the root.
    probs (ndarray): float32, how likely the pruner thinks them.
    """

    starts: np.ndarray
    heads: np.ndarray
    probs: np.ndarray


# (sentences, heads that must be kept or None) -> arcs
Prune = Callable[[Sentences, np.ndarray | None], Arcs]


@dataclass
class ArcPruner:
    """A first-order model with few features.

    templates (Templates): Its templates.
    weights (ndarray): float32, a power of two of them; the first is not used.
    between_bit (ndarray): Bits of separating tags.
    threshold (float): Keep heads with at least this probability relative to the token's best.
    most (int): Keep at most so many heads of a token.
    """

    templates: Templates
    weights: np.ndarray
    between_bit: np.ndarray
    threshold: float
    most: int

    def __call__(self, data: Sentences, keep: np.ndarray | None = None) -> Arcs:
        """Prune.

        data (Sentences): The sentences.
        keep (Optional[ndarray]): int32, a head for each token that must be kept, -1 for none.
        RETURNS (Arcs): The kept arcs, among them those from the token to the left, so that there is
            always a tree.
        """
        if keep is None:
            keep = np.full(len(data.tags), -1, dtype=np.int32)
        return Arcs(*prune(
            data.columns, data.starts, data.tags, self.templates.composites, self.templates.pairs,
            self.between_bit, self.weights, self.threshold, self.most, _REACH, _N_FAR, keep,
        ))  # fmt: skip


def fit_pruner(
    data: Sentences,
    heads: np.ndarray,
    *,
    between_bit: np.ndarray,
    missing: set[str],
    threshold: float,
    most: int,
    epochs: int,
    rate: float,
    seed: int,
) -> tuple[ArcPruner, Arcs]:
    """Train a pruner, and prune its training data as if it had never seen it.

    It is trained on either half of the text. Training sentences are pruned by the half they do not
    belong to: a pruner knows its own training data too well, and the model trained on such arcs
    would meet harder ones later (this costs more than a point of UAS). Everything else is pruned by
    the mean of the two.

    data (Sentences), heads (ndarray): The annotated sentences.
    missing (Set[str]): Columns the data does not have.
    RETURNS (Tuple[ArcPruner, Arcs]): The pruner, and the arcs of the training sentences.
    """
    templates = compile_templates(missing, pairs=PRUNER, unaries="", siblings="")
    rng = np.random.default_rng(seed)
    middle = len(data) // 2
    halves = [np.arange(middle, dtype=np.int32), np.arange(middle, len(data), dtype=np.int32)]
    if not middle:
        halves = [halves[1], halves[1]]
    weights = []
    for half in halves:
        current, squares, total = (np.full(_SIZE, x, dtype=np.float32) for x in (0, 1, 0))
        for epoch in range(epochs):
            for part in np.array_split(rng.permutation(half), _PARTS):
                train_pruner(
                    data.columns, data.starts, data.tags, heads, templates.composites,
                    templates.pairs, between_bit, current, squares, part, rate, _REACH, _N_FAR,
                )  # fmt: skip
                if epoch or epochs == 1:
                    total += current
        weights.append(total / (_PARTS * max(epochs - 1, 1)))

    def pruner(of: np.ndarray) -> ArcPruner:
        return ArcPruner(templates, of, between_bit, threshold, most)

    cut = int(data.starts[middle])
    first = pruner(weights[1])(data.part(0, middle), heads[:cut])
    second = pruner(weights[0])(data.part(middle, len(data)), heads[cut:])
    arcs = Arcs(
        np.concatenate([first.starts[:-1], first.starts[-1] + second.starts]).astype(np.int32),
        np.concatenate([first.heads, second.heads]),
        np.concatenate([first.probs, second.probs]),
    )
    return pruner((weights[0] + weights[1]) / 2), arcs
