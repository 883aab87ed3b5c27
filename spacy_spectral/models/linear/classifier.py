"""A linear classifier of tokens: what it looks at, what it has learnt, how it decides, how it is trained."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base._linear import build_slots, cut_rows, lay_out, number_keys
from ...base.errors import Errors, require_settings
from ...base.files import Array, Format, Record, Size
from ._classifier import (
    LEARNER,
    decode,
    feature_keys,
    train_epoch,
    type_scores,
    weight_rows,
)
from ._strings import form_attributes

# Columns of what `form_attributes` gives.
FORM, LOWER, SHAPE, FULL_SHAPE = range(4)
PREFIX = range(4, 9)
SUFFIX = range(9, 14)
# Groups of candidates where there is a yes or no: nothing to decide, or any class.
FIXED, FREE = range(2)
# Features of fewer annotated tokens are left out.
_CUTOFF = 2
_MAX_CACHED_PARTS = 512
# Averaged weights this small hardly change decisions (0.03 % on EWT) and are half of the model.
_NEGLIGIBLE = 0.05
_IGNORED_GRADIENT = 0.01
_RATE = 0.1

Cell = tuple[int, int]
Int32s = NDArray[numpy.int32]
Bools = NDArray[numpy.bool_]
Attributes = NDArray[numpy.uint32]


@dataclass(frozen=True)
class Templates:
    """Feature templates as arrays for the kernels: rows of three (offset, column) cells, column -1 where
    unused."""

    cells: Int32s
    out_column: int
    type_columns: int

    @classmethod
    def make(
        cls, templates: list[list[Cell]], *, out_column: int, type_columns: int
    ) -> "Templates":
        cells = numpy.full((len(templates), 6), -1, dtype="int32")
        for row, template in zip(cells, templates, strict=True):
            row[: 2 * len(template)] = numpy.ravel(template)
        return cls(cells, out_column, type_columns)

    @property
    def columns(self) -> Int32s:
        """The columns of each template, -1 where unused."""
        return self.cells[:, 1::2]

    def dynamic(self) -> Bools:
        """Which templates look at decisions that are being made."""
        return (self.columns == self.out_column).any(axis=1)

    def about_one_word(self) -> Bools:
        """Which templates look at one word only, and at nothing decided."""
        offsets = numpy.where(self.columns >= 0, self.cells[:, ::2], self.cells[:, :1])
        same = (offsets == self.cells[:, :1]).all(axis=1)
        return same & (self.columns < self.type_columns).all(axis=1)


class Decisions(NamedTuple):
    """What was decided about each token: the class, -1 where there was none to choose from; the most
    probable labels [tokens, top], best first, -1 for none, and their probabilities."""

    classes: Int32s
    labels: Int32s
    probs: NDArray[numpy.float32]


@dataclass(frozen=True)
class ClassScheme:
    """How classes are made of parts (`part_starts`, `class_parts`), which are candidates where
    (`group_starts`, `members`), and which label each has."""

    part_starts: Int32s
    class_parts: Int32s
    group_starts: Int32s
    members: Int32s
    labels: Int32s

    @property
    def n_parts(self) -> int:
        return int(self.class_parts.max(initial=0)) + 1

    @property
    def n_labels(self) -> int:
        return int(self.labels.max(initial=0)) + 1

    @classmethod
    def make(
        cls, parts: list[list[Any]], groups: list[list[int]], labels: list[Any]
    ) -> "ClassScheme":
        """Number the parts and labels of classes, anything hashable, in the order they come in."""
        part_ids: dict[Any, int] = {}
        label_ids: dict[Any, int] = {}
        numbered = [[part_ids.setdefault(part, len(part_ids)) for part in row] for row in parts]
        label_row = [label_ids.setdefault(label, len(label_ids)) for label in labels]
        return cls(*_rows(numbered), *_rows(groups), numpy.array(label_row, dtype="int32"))


@dataclass(frozen=True)
class LinearClassifier:
    """Features by their keys, with rows of (part, weight). The arrays go to compiled code: see
    `classifier_fields`."""

    templates: Templates
    scheme: ClassScheme
    keys: NDArray[numpy.uint64]
    row_starts: Int32s
    row_parts: NDArray[numpy.uint16]
    weights: NDArray[numpy.float32]

    @cached_property
    def _table(self) -> tuple[NDArray, NDArray]:
        """Keys to rows, and the rows, each laid out as the kernels read them."""
        rows, entries, holds_weight = lay_out(numpy.diff(self.row_starts), self.row_parts)
        entries["weight"][holds_weight] = self.weights
        return build_slots(self.keys, rows), entries

    @cached_property
    def _by_word(self) -> Bools:
        """Which templates are summed once per word: with many parts that would not pay."""
        return self.templates.about_one_word() & (self.scheme.n_parts <= _MAX_CACHED_PARTS)

    @cached_property
    def _word_templates(self) -> tuple[Int32s, ...]:
        """Templates about one word only, grouped by where that word stands."""
        numbers = numpy.flatnonzero(self._by_word).astype("int32")
        cells = self.templates.cells[numbers]
        offsets, slots = numpy.unique(cells[:, 0], return_inverse=True)
        return cells, numbers, offsets.astype("int32"), slots.astype("int32")

    @cached_property
    def _other_templates(self) -> tuple[Int32s, Int32s]:
        numbers = numpy.flatnonzero(~self._by_word).astype("int32")
        return self.templates.cells[numbers], numbers

    def word_scores(self, attributes: Attributes) -> NDArray[numpy.float32]:
        """What words contribute by themselves to decisions about them and around them, [word, offset,
        part]."""
        cells, numbers, offsets, slots = self._word_templates
        return type_scores(
            attributes, cells, numbers, slots, len(offsets), *self._table, self.scheme.n_parts
        )

    def decide(
        self,
        attributes: Attributes,
        starts: Int32s,
        words: Int32s,
        word_scores: NDArray[numpy.float32],
        groups: Int32s,
        *,
        top: int,
        given: Int32s | None = None,
    ) -> Decisions:
        """Decide on every token, from left to right.

        attributes: One row a token; decisions are written into its out column.
        words: The row of each token in `word_scores`, row 0 for beyond the sentence.
        groups: The group of candidates of each token; given: its label, -1 where it is to be found.
        """
        scheme = self.scheme
        if given is None:
            given = numpy.full(len(words), -1, dtype="int32")
        decided = decode(
            attributes, starts, words, word_scores, self._word_templates[2],
            *self._other_templates, self.templates.out_column, *self._table,
            scheme.part_starts, scheme.class_parts, scheme.n_parts,
            groups, scheme.group_starts, scheme.members,
            scheme.labels, scheme.n_labels, given, top,
        )  # fmt: skip
        return Decisions(*decided)

    def to_payload(self) -> dict[str, Any]:
        payload = {f.name: getattr(self.scheme, f.name) for f in fields(ClassScheme)}
        return payload | {name: getattr(self, name) for name in _WEIGHTS}

    @classmethod
    def from_payload(
        cls, of: Format, name: str, read: dict[str, Any], templates: Templates
    ) -> "LinearClassifier":
        """Make a classifier of the field `name` of a file, which is as `classifier_fields` has it."""
        own = read[name]
        # weights for parts that no class has would be summed beyond the end of an array
        sound = (own["row_parts"] < own["class_parts"].max(initial=0) + 1).all()
        of.require(sound, f"{name}.row_parts", "has unknown parts")
        scheme = ClassScheme(*(own[f.name] for f in fields(ClassScheme)))
        return cls(templates, scheme, *(own[weights] for weights in _WEIGHTS))


_WEIGHTS = ("keys", "row_starts", "row_parts", "weights")


def classifier_fields(classes: Size, groups: Size, *, optional: bool = False) -> Record:
    """The fields of `LinearClassifier.to_payload`, for so many classes and groups of candidates: what
    the kernels rely on, with `from_payload`."""
    return Record(
        optional=optional,
        part_starts=Array("int32", f"{classes}+1", starts="parts"),
        class_parts=Array("int32", "parts", low=0, below=1 << 16),
        group_starts=Array("int32", f"{groups}+1", starts="members"),
        members=Array("int32", "members", low=0, below=classes),
        labels=Array("int32", classes, low=0, below=classes),
        keys=Array("uint64", "keys", above=0, unique=True),
        row_starts=Array("int32", "keys+1", starts="entries"),
        row_parts=Array("uint16", "entries"),
        # finite sums of finite scores: no NaN can come out of the softmax
        weights=Array("float32", "entries", low=-1e6, high=1e6),
    )


def _rows(lists: list[list[int]]) -> tuple[Int32s, Int32s]:
    starts = numpy.cumsum([0, *map(len, lists)], dtype="int32")
    return starts, numpy.array([value for row in lists for value in row], dtype="int32")


# ---------------------------------------------------------------- training


class Epoch(NamedTuple):
    """How an epoch of training went."""

    stage: str
    number: int
    total: int
    loss: float
    accuracy: float


Progress = Callable[[Epoch], None]


class FeatureIndex(NamedTuple):
    """The features of all tokens for some templates (`numbers`), -1 for none, and their keys: extracted
    once, for all epochs and folds."""

    numbers: Int32s
    ids: Int32s
    keys: NDArray[numpy.uint64]

    @classmethod
    def make(
        cls,
        attributes: Attributes,
        starts: Int32s,
        templates: Templates,
        chosen: Bools | None = None,
    ) -> "FeatureIndex":
        """Extract features of all templates, or of some; gold classes are in the out column."""
        if chosen is None:
            chosen = numpy.ones(len(templates.cells), dtype=bool)
        numbers = numpy.flatnonzero(chosen).astype("int32")
        keys = feature_keys(attributes, starts, templates.cells[numbers], numbers)
        ids, distinct = number_keys(keys.ravel())
        return cls(numbers, ids.reshape(keys.shape), distinct)

    def joined(self, other: "FeatureIndex") -> "FeatureIndex":
        """The features of both."""
        shifted = numpy.where(other.ids >= 0, other.ids + numpy.int32(len(self.keys)), -1)
        return FeatureIndex(
            numpy.concatenate([self.numbers, other.numbers]),
            numpy.concatenate([self.ids, shifted.astype("int32")], axis=1),
            numpy.concatenate([self.keys, other.keys]),
        )


def train(
    attributes: Attributes,
    starts: Int32s,
    gold: Int32s,
    groups: Int32s,
    templates: Templates,
    scheme: ClassScheme,
    *,
    epochs: int,
    seed: int,
    stage: str,
    progress: Progress | None = None,
    index: FeatureIndex | None = None,
    weights: NDArray[numpy.float32] | None = None,
) -> LinearClassifier:
    """Learn weights by averaged AdaGrad on the conditional likelihood. The out column of attributes is
    overwritten with decisions; gold classes are -1 where missing. Sentences count as their weights say."""
    given = {"epochs": epochs, "seed": seed}
    require_settings(Errors.S312, given, epochs=">= 1", seed=">= 0")
    if weights is None:
        weights = numpy.ones(len(starts) - 1, dtype="float32")
    if index is None:
        index = FeatureIndex.make(attributes, starts, templates)
    row_starts, row_parts = weight_rows(
        index.ids, gold, len(index.keys), _CUTOFF,
        scheme.part_starts, scheme.class_parts, scheme.n_parts,
    )  # fmt: skip
    has_row, row_starts = cut_rows(row_starts, numpy.ones(len(row_parts), dtype=bool))
    keys = index.keys[has_row]
    own_rows, entries, holds_weight = lay_out(numpy.diff(row_starts), row_parts, LEARNER)
    entries["slope"]["squares"] = 1.0
    # -1, no feature, is the surplus last one
    rows = numpy.zeros(len(has_row) + 1, dtype="uint32")
    rows[:-1][has_row] = own_rows
    is_dynamic = templates.dynamic()[index.numbers]
    looks_at_decisions = numpy.zeros(len(rows), dtype=bool)
    looks_at_decisions[index.ids[:, is_dynamic]] = True
    found = looks_at_decisions[:-1][has_row]
    slots = build_slots(keys[found], own_rows[found])
    of_tokens = rows[index.ids[:, ~is_dynamic]]
    token_starts = numpy.append(0, (of_tokens > 0).sum(axis=1)).cumsum(dtype="int32")
    token_rows = of_tokens[of_tokens > 0]
    dynamic_numbers = index.numbers[is_dynamic]

    # sentences without any known class teach nothing
    known = numpy.concatenate([[0], numpy.cumsum(gold >= 0)])[starts]
    sentences = numpy.flatnonzero(numpy.diff(known))
    n_steps = int(numpy.diff(starts)[sentences].sum()) * epochs
    sure = numpy.zeros(len(gold), dtype="uint8")
    random = numpy.random.default_rng(seed)
    for epoch in range(epochs if n_steps else 0):
        loss, right, decided = train_epoch(
            attributes, starts, random.permutation(sentences).astype("int32"),
            token_starts, token_rows,
            templates.cells[dynamic_numbers], dynamic_numbers, templates.out_column,
            slots, entries, scheme.part_starts, scheme.class_parts, scheme.n_parts,
            groups, scheme.group_starts, scheme.members,
            gold, sure, weights, _RATE, _IGNORED_GRADIENT, epoch / epochs, 1 / n_steps,
        )  # fmt: skip
        if progress is not None:
            decided = max(1, decided)
            progress(Epoch(stage, epoch + 1, epochs, loss / decided, right / decided))
    learnt = (entries["weight"] - entries["slope"]["drift"])[holds_weight]
    matters = numpy.abs(learnt) >= _NEGLIGIBLE
    stays, row_starts = cut_rows(row_starts, matters)
    return LinearClassifier(
        templates, scheme, keys[stays], row_starts, row_parts[matters], learnt[matters]
    )


def train_free(
    attributes: Attributes,
    starts: Int32s,
    gold: Int32s,
    groups: Int32s,
    templates: Templates,
    *,
    n_classes: int,
    **options: Any,
) -> LinearClassifier:
    """Learn to tell classes at places that are all alike: FIXED, with nothing to decide (class 0), or
    FREE."""
    classes = list(range(n_classes))
    # a class that was never seen has no weights: it would win wherever all others have bad ones
    seen = sorted({0, *numpy.unique(gold).tolist()})
    scheme = ClassScheme.make([[c] for c in classes], [[0], seen], classes)
    attributes[:, templates.out_column] = gold + 2
    return train(attributes, starts, gold, groups, templates, scheme, **options)


def with_boundary(attributes: Attributes) -> Attributes:
    """Attributes with a row in front, for what stands beyond the ends of a text."""
    return numpy.concatenate([numpy.ones((1, attributes.shape[1]), dtype="uint32"), attributes])


class Forms(NamedTuple):
    """Distinct word forms with their attributes, row 0 for what stands beyond the ends of a text, and
    the row of each token."""

    attributes: Attributes
    rows: Int32s

    @classmethod
    def of(cls, words: list[str]) -> "Forms":
        types, rows = numbered(words)
        return cls(with_boundary(form_attributes(types)), rows + numpy.int32(1))

    def with_columns(self, n: int) -> Attributes:
        """uint32, one row a token, with so many columns more."""
        return numpy.pad(self.attributes[self.rows], ((0, 0), (0, n)))


def numbered(values: list[str]) -> tuple[list[str], Int32s]:
    """The distinct strings in order of first occurrence, and which of them stands at each place."""
    numbers: dict[str, int] = {}
    rows = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), numpy.array(rows, dtype="int32")
