"""From annotated tokens to weights: averaged AdaGrad on the conditional likelihood."""

from collections.abc import Callable
from typing import NamedTuple

import numpy

from ._features import feature_keys, hash_table, index_keys, kept_ids, weight_rows
from ._kernels import LEARNER, train_epoch
from .classifier import ClassScheme, LinearClassifier
from .features import Templates

# Averaged weights this small hardly change decisions (0.03 % on EWT) and are half of the model.
_NEGLIGIBLE = 0.05
_IGNORED_GRADIENT = 0.01
_RATE = 0.1


class Epoch(NamedTuple):
    """How an epoch of training went.

    stage (str): What is being trained.
    number, total (int): Which epoch of how many, from 1.
    loss (float): Negative log-likelihood a token.
    accuracy (float): Share of right decisions while training.
    """

    stage: str
    number: int
    total: int
    loss: float
    accuracy: float


Progress = Callable[[Epoch], None]


class FeatureIndex(NamedTuple):
    """The features of all tokens for some templates.

    numbers (ndarray): int32, which templates.
    ids (ndarray): int32, tokens x templates, -1 for no feature.
    keys (ndarray): uint64, the keys of the features.
    """

    numbers: numpy.ndarray
    ids: numpy.ndarray
    keys: numpy.ndarray

    @classmethod
    def make(
        cls,
        attributes: numpy.ndarray,
        starts: numpy.ndarray,
        templates: Templates,
        chosen: numpy.ndarray,
    ) -> "FeatureIndex":
        """Extract features once, for all epochs (and all folds of a jack-knife).

        attributes (ndarray): uint32, one row a token, gold classes in the out column.
        starts (ndarray): int32, where sentences start, closed by the number of tokens.
        templates (Templates): The templates.
        chosen (ndarray): bool, which of them.
        RETURNS (FeatureIndex): The features.
        """
        numbers = numpy.flatnonzero(chosen).astype("int32")
        keys = feature_keys(attributes, starts, templates.cells[numbers], numbers)
        ids, distinct = index_keys(keys.ravel())
        return cls(numbers, ids.reshape(keys.shape), distinct)

    def joined(self, other: "FeatureIndex") -> "FeatureIndex":
        """RETURNS (FeatureIndex): The features of both."""
        shifted = numpy.where(other.ids >= 0, other.ids + numpy.int32(len(self.keys)), -1)
        return FeatureIndex(
            numpy.concatenate([self.numbers, other.numbers]),
            numpy.concatenate([self.ids, shifted.astype("int32")], axis=1),
            numpy.concatenate([self.keys, other.keys]),
        )


def train(
    attributes: numpy.ndarray,
    starts: numpy.ndarray,
    gold: numpy.ndarray,
    groups: numpy.ndarray,
    *,
    index: FeatureIndex,
    templates: Templates,
    scheme: ClassScheme,
    epochs: int,
    cutoff: int,
    seed: int,
    stage: str,
    progress: Progress | None = None,
) -> LinearClassifier:
    """Learn the weights of a classifier.

    attributes (ndarray): uint32, one row a token; the out column is overwritten with decisions.
    starts (ndarray): int32, where sentences start, closed by the number of tokens.
    gold (ndarray): int32, the class of each token, -1 where missing.
    groups (ndarray): int32, the group of candidates of each token.
    index (FeatureIndex): The features of the tokens.
    templates (Templates): What the features are made of.
    scheme (ClassScheme): What the classes are made of.
    epochs (int): Passes over the sentences.
    cutoff (int): Features of fewer annotated tokens are left out.
    seed (int): Seed of the order of sentences.
    stage (str): A name for the reports of progress.
    progress (Optional[Callable[[Epoch], None]]): Called after every epoch.
    RETURNS (LinearClassifier): The classifier with averaged weights.
    """
    row_starts, row_parts = weight_rows(
        index.ids, gold, len(index.keys), cutoff,
        scheme.part_starts, scheme.class_parts, scheme.n_parts,
    )  # fmt: skip
    kept = numpy.diff(row_starts) > 0
    is_dynamic = templates.dynamic()[index.numbers]
    is_dynamic_id = numpy.zeros(len(kept) + 1, dtype=bool)
    is_dynamic_id[index.ids[:, is_dynamic]] = True  # -1, no feature, marks the surplus last entry
    dynamic_ids = numpy.flatnonzero(is_dynamic_id[:-1][kept])
    keys = index.keys[kept]
    row_starts = numpy.append(row_starts[:-1][kept], row_starts[-1]).astype("int32")
    slots = hash_table(keys[dynamic_ids], row_starts[dynamic_ids], row_starts[dynamic_ids + 1])
    new_ids = numpy.where(kept, numpy.cumsum(kept) - 1, -1).astype("int32")
    static_columns = numpy.flatnonzero(~is_dynamic).astype("int32")
    id_starts, static_ids = kept_ids(index.ids, static_columns, new_ids)
    dynamic_numbers = index.numbers[is_dynamic]

    # sentences without any known class teach nothing
    known = numpy.concatenate([[0], numpy.cumsum(gold >= 0)])[starts]
    sentences = numpy.flatnonzero(numpy.diff(known))
    n_steps = int(numpy.diff(starts)[sentences].sum()) * epochs
    entries = numpy.zeros(len(row_parts) + 1, dtype=LEARNER)
    entries["part"][:-1], entries["squares"] = row_parts, 1.0
    sure = numpy.zeros(len(gold), dtype="uint8")
    random = numpy.random.default_rng(seed)
    for epoch in range(epochs if n_steps else 0):
        loss, right, decided = train_epoch(
            attributes, starts, random.permutation(sentences).astype("int32"),
            id_starts, static_ids,
            templates.cells[dynamic_numbers], dynamic_numbers, templates.out_column,
            slots, row_starts, entries,
            scheme.part_starts, scheme.class_parts, scheme.n_parts,
            groups, scheme.group_starts, scheme.members,
            gold, sure, _RATE, _IGNORED_GRADIENT, epoch / epochs, 1 / n_steps,
        )  # fmt: skip
        if progress is not None:
            decided = max(1, decided)
            progress(Epoch(stage, epoch + 1, epochs, loss / decided, right / decided))
    weights = (entries["weight"] - entries["drift"])[:-1]
    return _compact(LinearClassifier(templates, scheme, keys, row_starts, row_parts, weights))


def _compact(classifier: LinearClassifier) -> LinearClassifier:
    """Leave out weights that change nothing and features that have no weights left."""
    matters = numpy.abs(classifier.weights) >= _NEGLIGIBLE
    ends = numpy.concatenate([[0], numpy.cumsum(matters)])[classifier.row_starts]
    kept = numpy.diff(ends) > 0
    return LinearClassifier(
        classifier.templates,
        classifier.scheme,
        classifier.keys[kept],
        numpy.append(ends[:-1][kept], ends[-1]).astype("int32"),
        classifier.row_parts[matters],
        classifier.weights[matters],
    )
