"""Linear classifiers of places in a text: one group of candidates, or none to choose from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ..tagger._features import form_attributes
from ..tagger.classifier import ClassScheme, LinearClassifier
from ..tagger.estimate import FeatureIndex, train
from ..tagger.features import Templates

# Groups of candidates: nothing to decide, or any class.
FIXED, FREE = range(2)


class Forms(NamedTuple):
    """Word forms with their attributes.

    attributes (ndarray): uint32, one row a distinct form; row 0 is what stands beyond the ends of a text.
    rows (ndarray): int32, the row of each token.
    """

    attributes: NDArray[numpy.uint32]
    rows: NDArray[numpy.int32]

    @classmethod
    def of(cls, words: Sequence[str]) -> "Forms":
        """RETURNS (Forms): The forms of tokens."""
        types: dict[str, int] = {}
        rows = [types.setdefault(word, len(types) + 1) for word in words]
        attributes = boundary_and(form_attributes(list(types)))
        return cls(attributes, numpy.array(rows, dtype="int32"))

    def with_columns(self, n: int) -> NDArray[numpy.uint32]:
        """RETURNS (ndarray): uint32, one row a token, with so many columns more."""
        width = self.attributes.shape[1]
        result = numpy.zeros((len(self.rows), width + n), dtype="uint32")
        result[:, :width] = self.attributes[self.rows]
        return result


def boundary_and(attributes: NDArray[numpy.uint32]) -> NDArray[numpy.uint32]:
    """RETURNS (ndarray): Attributes with a row in front, for what stands beyond the ends of a text."""
    result = numpy.ones((len(attributes) + 1, attributes.shape[1]), dtype="uint32")
    result[1:] = attributes
    return result


def fit_classifier(
    attributes: NDArray[numpy.uint32],
    starts: NDArray[numpy.int32],
    gold: NDArray[numpy.int32],
    groups: NDArray[numpy.int32],
    templates: Templates,
    *,
    n_classes: int,
    **options: Any,
) -> LinearClassifier:
    """Learn to tell classes.

    attributes (ndarray): uint32, one row a place; the last column is for decisions.
    starts (ndarray): int32, where sequences of places start, closed by the number of places.
    gold (ndarray): int32, the class of each place, 0 where there is nothing to decide.
    groups (ndarray): int32, FIXED where there is nothing to decide, else FREE.
    templates (Templates): What is looked at.
    n_classes (int): The number of classes.
    options: What `tagger.estimate.train` takes.
    RETURNS (LinearClassifier): The classifier.
    """
    classes = list(range(n_classes))
    # a class that was never seen has no weights: it would win wherever all others have bad ones
    seen = sorted({0, *numpy.unique(gold).tolist()})
    scheme = ClassScheme.make([[c] for c in classes], [[0], seen], classes)
    attributes[:, templates.out_column] = gold + 2
    everything = numpy.ones(len(templates.cells), dtype=bool)
    index = FeatureIndex.make(attributes, starts, templates, everything)
    return train(
        attributes, starts, gold, groups, index=index, templates=templates, scheme=scheme, **options
    )
