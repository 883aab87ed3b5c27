"""Which arcs the log-linear model looks at."""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ..arcs import Arcs
from ..encode import Sentences
from ..templates import PRUNER, Templates, compile_templates
from ._pruner import prune, train_pruner
from .halves import Weights, mean, prune_halves, train_halves

# Longer arcs are looked at only if they are of one of the likeliest roots.
_REACH = 32
_N_FAR = 16


@dataclass
class ArcModel:
    """A first-order model of arcs.

    templates (Templates): Its templates.
    weights (ndarray): float32, a power of two of them; the first is not used.
    between_bit (ndarray): Bits of separating tags.
    threshold (float): Keep heads with at least this probability relative to the token's best.
    """

    templates: Templates
    weights: NDArray[numpy.float32]
    between_bit: NDArray[numpy.uint8]
    threshold: float


@dataclass
class ArcPruner(ArcModel):
    """One with few features.

    most (int): Keep at most so many heads of a token.
    """

    most: int

    def __call__(self, data: Sentences, keep: NDArray[numpy.int32] | None = None) -> Arcs:
        """Prune.

        data (Sentences): The sentences.
        keep (Optional[ndarray]): int32, a head for each token that must be kept, -1 for none.
        RETURNS (Arcs): The kept arcs, among them those from the token to the left, so that there is
            always a tree.
        """
        if keep is None:
            keep = numpy.full(len(data.tags), -1, dtype=numpy.int32)
        return Arcs(*prune(
            data.columns, data.starts, data.tags, self.templates.composites, self.templates.pairs,
            self.between_bit, self.weights, self.threshold, self.most, _REACH, _N_FAR, keep,
        ))  # fmt: skip


def fit_pruner(
    data: Sentences,
    heads: NDArray[numpy.int32],
    *,
    between_bit: NDArray[numpy.uint8],
    missing: set[str],
    threshold: float,
    most: int,
    epochs: int,
    rate: float,
    seed: int,
) -> tuple[ArcPruner, Arcs]:
    """Train a pruner, and prune its training data as if it had never seen it.

    data (Sentences), heads (ndarray): The annotated sentences.
    missing (Set[str]): Columns the data does not have.
    RETURNS (Tuple[ArcPruner, Arcs]): The pruner, and the arcs of the training sentences.
    """
    templates = compile_templates(missing, pairs=PRUNER, unaries="", siblings="")

    def train(current: Weights, squares: Weights, part: NDArray[numpy.int32]) -> None:
        train_pruner(
            data.columns, data.starts, data.tags, heads, templates.composites, templates.pairs,
            between_bit, current, squares, part, rate, _REACH, _N_FAR,
        )  # fmt: skip

    def pruner(weights: Weights) -> ArcPruner:
        return ArcPruner(templates, weights, between_bit, threshold, most)

    def prune_part(weights: Weights, own: Sentences, tokens: slice) -> Arcs:
        return pruner(weights)(own, heads[tokens])

    weights = train_halves(train, len(data), epochs=epochs, seed=seed)
    return pruner(mean(weights)), prune_halves(prune_part, weights, data)
