"""A second look at the arcs that the pruner left."""

import numpy
from numpy.typing import NDArray

from ..arcs import Arcs
from ..encode import Sentences
from ..templates import FILTER, compile_templates
from ._filter import filter_arcs, train_filter
from .halves import Weights, mean, prune_halves, train_halves
from .model import ArcModel


class ArcFilter(ArcModel):
    """One with many features."""

    def __call__(
        self, data: Sentences, arcs: Arcs, keep: NDArray[numpy.int32] | None = None
    ) -> Arcs:
        """Leave out arcs.

        data (Sentences): The sentences, with the columns that come from the pruner.
        arcs (Arcs): What the pruner left.
        keep (Optional[ndarray]): int32, a head for each token that must be kept, -1 for none.
        RETURNS (Arcs): The arcs that stay, with their probabilities; among them those of a tree.
        """
        if keep is None:
            keep = numpy.full(len(data.tags), -1, dtype=numpy.int32)
        return Arcs(*filter_arcs(
            data.columns, data.starts, data.tags, arcs.starts, arcs.heads,
            self.templates.composites, self.templates.pairs, self.between_bit, self.weights,
            self.threshold, keep,
        ))  # fmt: skip


def fit_filter(
    data: Sentences,
    heads: NDArray[numpy.int32],
    arcs: Arcs,
    *,
    between_bit: NDArray[numpy.uint8],
    missing: set[str],
    threshold: float,
    epochs: int,
    rate: float,
    seed: int,
) -> tuple[ArcFilter, Arcs]:
    """Train a filter, and filter the arcs of its training data as if it had never seen it.

    data (Sentences), heads (ndarray): The annotated sentences.
    arcs (Arcs): What the pruner has left of them.
    missing (Set[str]): Columns the data does not have.
    RETURNS (Tuple[ArcFilter, Arcs]): The filter, and the arcs of the training sentences.
    """
    templates = compile_templates(missing, pairs=FILTER, unaries="", siblings="")

    def train(current: Weights, squares: Weights, part: NDArray[numpy.int32]) -> None:
        train_filter(
            data.columns, data.starts, data.tags, heads, arcs.starts, arcs.heads,
            templates.composites, templates.pairs, between_bit, current, squares, part, rate,
        )  # fmt: skip

    def filter_by(weights: Weights) -> ArcFilter:
        return ArcFilter(templates, weights, between_bit, threshold)

    def filter_part(weights: Weights, own: Sentences, tokens: slice) -> Arcs:
        return filter_by(weights)(own, arcs.part(tokens), heads[tokens])

    weights = train_halves(train, len(data), epochs=epochs, seed=seed)
    return filter_by(mean(weights)), prune_halves(filter_part, weights, data)
