"""Words that contain spaces: which pieces of a text belong to the word before them.

A linear classifier looks at pieces, at their beginnings and endings, and at what a dictionary says of each
pair of neighbours: whether they were one word in training, and how often. What it says of a training pair is
counted without the block of text that the pair stands in, so that training meets unknown pairs as often as
new text does, and learns how far the dictionary can be trusted. Words of UD_Vietnamese-VTB's training set,
five blocks, each by a model of the others: F1 90.63, without dictionary, beginnings and endings 87.78.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.files import Format
from ._strings import FORM_COLUMNS
from .chunks import JOINED, PiecedText, may_join
from .classifier import (
    FIXED,
    FORM,
    FREE,
    LOWER,
    PREFIX,
    SHAPE,
    SUFFIX,
    Cell,
    Forms,
    LinearClassifier,
    Templates,
    numbered,
    train_free,
)
from .tagger_training import dictionary_attributes, held_out_attributes

# Columns beside those of forms: the decision, and what the dictionary says of a piece and the one before it:
# the more frequent case, with how well that is known.
_DECISION, _PAIR = FORM_COLUMNS, FORM_COLUMNS + 1
_N_BLOCKS = 20


class Joins:
    """A trained model of words that contain spaces."""

    def __init__(
        self, classifier: LinearClassifier, pairs: Sequence[str], entries: NDArray[numpy.uint32]
    ):
        """pairs: Neighbours in small letters with a space between.
        entries: What the dictionary says of them."""
        self._classifier = classifier
        self._pairs = list(pairs)
        self._entries = entries
        self._known = dict(zip(self._pairs, entries.tolist(), strict=True))

    def decide(self, pieces: list[str], whites: Sequence[str]) -> NDArray[numpy.bool_]:
        """Which pieces of a text belong to the word before them, given the white space after each."""
        groups = _groups([whites])
        if not groups.any():
            return numpy.zeros(len(pieces), dtype=bool)
        forms = Forms.of(pieces)
        attributes = forms.with_columns(2)
        attributes[:, _PAIR] = [self._known.get(pair, 0) for pair in _pairs(pieces)]
        decided = self._classifier.decide(
            attributes, numpy.array([0, len(pieces)], dtype="int32"), forms.rows,
            self._classifier.word_scores(forms.attributes), groups, top=1,
        )  # fmt: skip
        return decided.classes == 1

    @classmethod
    def fit(cls, texts: Sequence[PiecedText], **options: Any) -> "Joins | None":
        """Learn from texts in pieces; None if no word contains a space."""
        if not any(JOINED in text.starts for text in texts):
            return None
        pieces = [piece for text in texts for piece in text.pieces]
        joined = [start == JOINED for text in texts for start in text.starts]
        gold = numpy.array(joined, dtype="int32")
        groups = _groups([text.whites for text in texts])
        names, keys = numbered(_pairs(pieces))
        seen = numpy.where(groups == FREE, gold, -1)
        blocks = numpy.arange(len(pieces)) * _N_BLOCKS // max(1, len(pieces))
        attributes = Forms.of(pieces).with_columns(2)
        attributes[:, _PAIR] = held_out_attributes(keys, seen, blocks, 2)[:, 1]
        starts = numpy.cumsum([0, *(len(text.pieces) for text in texts)], dtype="int32")
        classifier = train_free(
            attributes, starts, gold, groups, join_templates(), n_classes=2, stage="joins",
            **options,
        )  # fmt: skip
        entries = dictionary_attributes(keys, seen, len(names), 2)[:, 1]
        known = numpy.flatnonzero(entries)
        return cls(classifier, [names[i] for i in known], entries[known])

    def to_payload(self) -> dict[str, Any]:
        """What files of tokenizers have of it."""
        return {
            "joins": self._classifier.to_payload(),
            "pairs": self._pairs,
            "pair_entries": self._entries,
        }

    @classmethod
    def from_payload(cls, of: Format, read: dict[str, Any]) -> "Joins | None":
        """What `to_payload` wrote; None if a tokenizer joins nothing."""
        if read["joins"] is None:
            return None
        classifier = LinearClassifier.from_payload(of, "joins", read, join_templates())
        pairs, entries = read["pairs"], read["pair_entries"]
        of.require((pairs is None) == (entries is None), "pair_entries", "does not fit the pairs")
        if pairs is None:
            pairs, entries = [], numpy.zeros(0, dtype="uint32")
        return cls(classifier, pairs, entries)


def join_templates() -> Templates:
    """Templates for pieces of words that contain spaces."""
    joined = _DECISION
    cells: list[list[Cell]] = [[(o, LOWER)] for o in range(-3, 3)] + [[(o, SHAPE)] for o in (-1, 0)]
    pairs = ((-1, 0), (-2, -1), (0, 1), (-2, 0), (-1, 1))
    cells += [[(a, LOWER), (b, LOWER)] for a, b in pairs]
    cells += [[(o, c) for o in (-2, -1, 0)] for c in (LOWER, SHAPE)]
    cells += [[(o, c) for o in (-1, 0, 1)] for c in (LOWER, SHAPE)]
    cells += [[(-1, a), (0, b)] for a, b in ((SHAPE, SHAPE), (FORM, SHAPE), (SHAPE, FORM))]
    cells += [[(-1, joined)], [(-1, joined), (-1, LOWER)], [(-1, joined), (0, LOWER)]]
    cells += [[(-1, joined), (-1, c), (0, c)] for c in (LOWER, SHAPE)]
    # new templates come last, so that those of older files keep their numbers
    cells += [[(o, c)] for o in (-1, 0) for c in (*PREFIX[:2], *SUFFIX[:3])]
    parts = (LOWER, PREFIX[0], SUFFIX[1])
    cells += [[(-1, a), (0, b)] for a in parts for b in parts if (a, b) != (LOWER, LOWER)]
    cells += [[(o, _PAIR)] for o in (-1, 0, 1)]
    cells += [[(a, _PAIR), (b, _PAIR)] for a, b in ((-1, 0), (0, 1))]
    cells += [[(o, _PAIR) for o in (-1, 0, 1)], [(-1, joined), (0, _PAIR)]]
    cells += [[(-1, joined), (0, _PAIR), (1, _PAIR)]]
    return Templates.make(cells, out_column=joined, type_columns=FORM_COLUMNS)


def _pairs(pieces: Sequence[str]) -> list[str]:
    """Each piece with the one before it."""
    return [f"{a} {b}" for a, b in pairwise(["", *(piece.lower() for piece in pieces)])]


def _groups(texts: Iterable[Sequence[str]]) -> NDArray[numpy.int32]:
    """Which pieces may belong to the word before them, by the white space after pieces of texts."""
    groups = [
        [FIXED, *(FREE if may_join(white) else FIXED for white in whites[:-1])] if whites else []
        for whites in texts
    ]
    return numpy.array([group for row in groups for group in row], dtype="int32")
