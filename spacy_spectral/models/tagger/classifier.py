"""A linear classifier of tokens: what it has learnt, and how it decides."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy

from ...base.fields import Array, Format, Record, Size
from ._features import hash_table
from ._kernels import ENTRY, decode, type_scores
from .features import Templates

_MAX_CACHED_PARTS = 512


class Decisions(NamedTuple):
    """What was decided about each token.

    classes (ndarray): int32, the class, -1 where there was none to choose from.
    labels (ndarray): int32, tokens x top, the most probable labels, best first, -1 for none.
    probs (ndarray): float32, tokens x top, their probabilities.
    """

    classes: numpy.ndarray
    labels: numpy.ndarray
    probs: numpy.ndarray


@dataclass(frozen=True)
class ClassScheme:
    """How classes are made of parts, which are candidates where, and which label each has.

    part_starts, class_parts (ndarray): int32, the parts of the classes as rows.
    group_starts, members (ndarray): int32, the candidate classes of the groups as rows.
    labels (ndarray): int32, the label of each class.
    """

    part_starts: numpy.ndarray
    class_parts: numpy.ndarray
    group_starts: numpy.ndarray
    members: numpy.ndarray
    labels: numpy.ndarray

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
        """Number the parts and labels.

        parts (List[List[Any]]): The parts of each class, anything hashable.
        groups (List[List[int]]): The candidate classes of each group.
        labels (List[Any]): The label of each class, numbered in the order they come in.
        RETURNS (ClassScheme): The scheme.
        """
        part_ids: dict[Any, int] = {}
        label_ids: dict[Any, int] = {}
        numbered = [[part_ids.setdefault(part, len(part_ids)) for part in row] for row in parts]
        part_starts, class_parts = _rows(numbered)
        group_starts, members = _rows(groups)
        label_row = [label_ids.setdefault(label, len(label_ids)) for label in labels]
        return cls(
            part_starts, class_parts, group_starts, members, numpy.array(label_row, dtype="int32")
        )


@dataclass(frozen=True)
class LinearClassifier:
    """Features with their weights. The arrays go to compiled code: see `classifier_fields`.

    templates (Templates): What features are made of.
    scheme (ClassScheme): What classes are made of.
    keys (ndarray): uint64, the keys of the features.
    row_starts, row_parts, weights (ndarray): int32, uint16, float32: rows of (part, weight).
    """

    templates: Templates
    scheme: ClassScheme
    keys: numpy.ndarray
    row_starts: numpy.ndarray
    row_parts: numpy.ndarray
    weights: numpy.ndarray

    @cached_property
    def _table(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Keys to rows, and the rows, each laid out as the kernels read them."""
        entries = numpy.empty(len(self.weights) + 1, dtype=ENTRY)
        entries["part"][:-1], entries["weight"][:-1] = self.row_parts, self.weights
        return hash_table(self.keys, self.row_starts[:-1], self.row_starts[1:]), entries

    @cached_property
    def _by_word(self) -> numpy.ndarray:
        """Which templates are summed once per word: with many parts that would not pay."""
        return self.templates.about_one_word() & (self.scheme.n_parts <= _MAX_CACHED_PARTS)

    @cached_property
    def _word_templates(self) -> tuple[numpy.ndarray, ...]:
        """Templates about one word only, grouped by where that word stands."""
        numbers = numpy.flatnonzero(self._by_word).astype("int32")
        cells = self.templates.cells[numbers]
        offsets, slots = numpy.unique(cells[:, 0], return_inverse=True)
        return cells, numbers, offsets.astype("int32"), slots.astype("int32")

    @cached_property
    def _other_templates(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        numbers = numpy.flatnonzero(~self._by_word).astype("int32")
        return self.templates.cells[numbers], numbers

    def word_scores(self, attributes: numpy.ndarray) -> numpy.ndarray:
        """What words contribute by themselves to decisions about them and around them.

        attributes (ndarray): uint32, attributes of words.
        RETURNS (ndarray): float32, word x offset x part.
        """
        cells, numbers, offsets, slots = self._word_templates
        return type_scores(
            attributes, cells, numbers, slots, len(offsets), *self._table, self.scheme.n_parts,
        )  # fmt: skip

    def decide(
        self,
        attributes: numpy.ndarray,
        starts: numpy.ndarray,
        words: numpy.ndarray,
        word_scores: numpy.ndarray,
        groups: numpy.ndarray,
        *,
        top: int,
        given: numpy.ndarray | None = None,
    ) -> Decisions:
        """Decide on every token, from left to right.

        attributes (ndarray): uint32, one row a token; decisions are written into its out column.
        starts (ndarray): int32, where sentences start, closed by the number of tokens.
        words (ndarray): int32, the row of each token in `word_scores`.
        word_scores (ndarray): float32, from `word_scores`, row 0 for beyond the sentence.
        groups (ndarray): int32, the group of candidates of each token.
        top (int): How many labels to report.
        given (Optional[ndarray]): int32, the label of each token, -1 where it is to be found.
        RETURNS (Decisions): The decisions.
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
        """RETURNS (Dict[str, Any]): Plain arrays for `serialize.pack`."""
        payload = {f.name: getattr(self.scheme, f.name) for f in fields(ClassScheme)}
        for name in ("keys", "row_starts", "row_parts", "weights"):
            payload[name] = getattr(self, name)
        return payload

    @classmethod
    def from_payload(cls, payload: dict[str, Any], templates: Templates) -> "LinearClassifier":
        """Read what `to_payload` gave.

        payload (Dict[str, Any]): The arrays, checked by `classifier_fields`.
        templates (Templates): The templates the keys were made with.
        RETURNS (LinearClassifier): The classifier.
        """
        scheme = ClassScheme(*(payload[f.name] for f in fields(ClassScheme)))
        rows = (payload[name] for name in ("keys", "row_starts", "row_parts", "weights"))
        return cls(templates, scheme, *rows)


def classifier_fields(classes: Size, groups: Size, *, optional: bool = False) -> Record:
    """What the kernels rely on, together with `require_parts`.

    classes, groups (Size): How many classes and groups of candidates there have to be.
    optional (bool): Whether there may be no classifier.
    RETURNS (Record): The fields of `LinearClassifier.to_payload`.
    """
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


def require_parts(of: Format, name: str, payload: dict[str, Any]) -> None:
    """Raise an error if weights are for parts that no class has.

    of (Format), name (str): Where the classifier was read.
    payload (Dict[str, Any]): What was read.
    """
    n_parts = payload["class_parts"].max(initial=0) + 1
    sound = (payload["row_parts"] < n_parts).all()
    of.require(sound, f"{name}.row_parts", "has unknown parts")


def _rows(lists: list[list[int]]) -> tuple[numpy.ndarray, numpy.ndarray]:
    starts = numpy.cumsum([0, *map(len, lists)], dtype="int32")
    return starts, numpy.array([value for row in lists for value in row], dtype="int32")
