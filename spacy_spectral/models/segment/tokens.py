"""Tokens of a text: where chunks are cut and, in some languages, which pieces a space joins to one word.

Both are decided by linear classifiers. A chunk is cut the same way wherever it stands, so the pieces of
chunks are remembered; pieces are joined in the light of those around them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.cache import Memory
from ...base.errors import Errors
from ...base.fields import Format
from ...base.stored import Stored
from ..tagger.classifier import LinearClassifier, classifier_fields, require_parts
from ..tagger.estimate import Progress
from ._characters import COLUMNS as CHARACTER_COLUMNS
from ._characters import character_attributes
from .estimate import FIXED, FREE, Forms, fit_classifier
from .features import cut_templates, join_templates
from .statistics import INNER_WORD, JOINED, PiecedText, cut_chunks, may_join

_CUTOFF = 2
# Chunks remembered, and the longest that is.
_CACHE_SIZE = 50_000
_LONGEST_CACHED = 64
# A longer chunk is looked at through windows of this size, each with so much of what is around it.
_WINDOW, _AROUND = 4096, 32
# Places looked at together.
_BATCH = 1 << 16

_FORMAT = Format(
    "tokenizer",
    1,
    cuts=classifier_fields(3, 2),
    joins=classifier_fields(2, 2, optional=True),
)


class Pieces(NamedTuple):
    """A chunk that was cut.

    words (Tuple[str, ...]): Its pieces.
    spaces (Tuple[bool, ...]): Whether a space follows them if one follows the chunk.
    multiword (Tuple[Tuple[int, int], ...]): Multiword tokens among them, as first piece and the one after
        the last.
    """

    words: tuple[str, ...]
    spaces: tuple[bool, ...]
    multiword: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *words: str, multiword: tuple[tuple[int, int], ...] = ()) -> "Pieces":
        """RETURNS (Pieces): A chunk in these pieces."""
        return cls(words, (False,) * (len(words) - 1) + (True,), multiword)


class Tokens(NamedTuple):
    """The tokens of a text, white space that is not one space after a word included.

    words (List[str]): The tokens.
    spaces (List[bool]): Whether a space follows them.
    multiword (List[Tuple[int, int]]): Multiword tokens, as first word and the one after the last.
    """

    words: list[str]
    spaces: list[bool]
    multiword: list[tuple[int, int]]


class TokenizerModel(Stored):
    """A trained tokenizer."""

    FORMAT = _FORMAT

    def __init__(self, cuts: LinearClassifier, joins: LinearClassifier | None):
        """cuts (LinearClassifier): Tells where chunks are cut.
        joins (Optional[LinearClassifier]): Tells which pieces belong to the word before the space.
        """
        self._cuts = cuts
        self._joins = joins
        # places inside of chunks are all different: nothing is known of them beforehand
        nothing = numpy.zeros((1, CHARACTER_COLUMNS), dtype="uint32")
        self._no_scores = cuts.word_scores(nothing)
        self._memory = Memory(_CACHE_SIZE)

    @classmethod
    def fit(
        cls,
        texts: Sequence[PiecedText],
        *,
        epochs: int = 10,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> "TokenizerModel":
        """Train a tokenizer.

        texts (Sequence[PiecedText]): Texts in pieces.
        epochs (int): Passes over the chunks.
        seed (int): Seed of their order.
        progress (Optional[Callable[[Epoch], None]]): Called after every epoch.
        RETURNS (TokenizerModel): The trained tokenizer.
        """
        options: Any = {"epochs": epochs, "seed": seed, "progress": progress, "cutoff": _CUTOFF}
        chunks, gold = cut_chunks(texts)
        if not chunks:
            raise ValueError(Errors.S602)
        starts, attributes = character_attributes(chunks)
        cuts = fit_classifier(
            attributes, starts, gold, numpy.full(len(gold), FREE, dtype="int32"),
            cut_templates(), n_classes=3, stage="cuts", **options,
        )  # fmt: skip
        if not any(JOINED in text.starts for text in texts):
            return cls(cuts, None)
        pieces = [piece for text in texts for piece in text.pieces]
        joined = [start == JOINED for text in texts for start in text.starts]
        joins = fit_classifier(
            Forms.of(pieces).with_columns(1), _bounds([len(text.pieces) for text in texts]),
            numpy.array(joined, dtype="int32"), _join_groups([text.whites for text in texts]),
            join_templates(), n_classes=2, stage="joins", **options,
        )  # fmt: skip
        return cls(cuts, joins)

    def split(
        self, chunks: list[str], whites: list[str], special: Mapping[int, Pieces] | None = None
    ) -> Tokens:
        """Make tokens of chunks.

        chunks (List[str]): The chunks of a text; the first may be empty.
        whites (List[str]): The white space after each of them, "" for none.
        special (Optional[Mapping[int, Pieces]]): Pieces of some of the chunks that are decided already.
        RETURNS (Tokens): The tokens. Put together they are the text.
        """
        cut = self.cut(chunks)
        found = [cut[chunk] for chunk in chunks]
        for i, pieces in (special or {}).items():
            found[i] = pieces
        if self._joins is not None:
            found, whites = self._join_words(found, whites, special or {})
        words: list[str] = []
        spaces: list[bool] = []
        multiword: list[tuple[int, int]] = []
        for pieces, white in zip(found, whites, strict=True):
            own, own_spaces, own_multiword = pieces
            if own_multiword:
                multiword += [(len(words) + a, len(words) + b) for a, b in own_multiword]
            words += own
            spaces += own_spaces
            if white != " " or not own:
                if own:
                    spaces[-1] = white.startswith(" ")
                    white = white.removeprefix(" ")
                if white:
                    words.append(white)
                    spaces.append(False)
        return Tokens(words, spaces, multiword)

    def cut(self, chunks: Iterable[str]) -> dict[str, Pieces]:
        """Cut chunks to pieces.

        chunks (Iterable[str]): Runs without white space.
        RETURNS (Dict[str, Pieces]): Their pieces, perhaps those of other chunks, too.
        """
        known, chunks = self._memory.known, dict.fromkeys(chunks)
        new = [chunk for chunk in chunks if chunk not in known]
        if not new:
            return known
        found = dict(zip(new, self._cut(new), strict=True))
        self._memory.add({c: found[c] for c in new if len(c) <= _LONGEST_CACHED})
        return {chunk: found[chunk] if chunk in found else known[chunk] for chunk in chunks}

    def join(self, pieces: list[str], whites: Sequence[str]) -> NDArray[numpy.bool_]:
        """Tell which pieces belong to the word before them.

        pieces (List[str]): The pieces of a text.
        whites (Sequence[str]): The white space after each of them.
        RETURNS (ndarray): bool, by piece.
        """
        groups = _join_groups([whites])
        if self._joins is None or not groups.any():
            return numpy.zeros(len(pieces), dtype=bool)
        forms = Forms.of(pieces)
        decided = self._joins.decide(
            forms.with_columns(1), _bounds([len(pieces)]), forms.rows,
            self._joins.word_scores(forms.attributes), groups, top=1,
        )  # fmt: skip
        return decided.classes == 1

    def _join_words(
        self, chunks: list[Pieces], whites: list[str], special: Mapping[int, Pieces]
    ) -> tuple[list[Pieces], list[str]]:
        """Chunks, the white space after them, with words of several chunks as one of their pieces."""
        pieces = [word for chunk in chunks for word in chunk.words]
        after = [
            white
            for chunk, last in zip(chunks, whites, strict=True)
            for white in [*repeat("", len(chunk.words) - 1), last][: len(chunk.words)]
        ]
        joined = iter(self.join(pieces, after).tolist())
        result: list[Pieces] = []
        result_whites: list[str] = []
        for i, (chunk, white) in enumerate(zip(chunks, whites, strict=True)):
            own = [next(joined) for _ in chunk.words]
            if any(own[:1]) and i not in special and i - 1 not in special:
                first, *rest = chunk.words
                before = result[-1]
                glued = before.words[-1] + result_whites[-1] + first
                shift = len(before.words) - 1
                # a multiword token that is part of a longer word is none
                multiword = [span for span in before.multiword if span[1] <= shift]
                multiword += [(a + shift, b + shift) for a, b in chunk.multiword if a > 0]
                words = *before.words[:-1], glued, *rest
                result[-1] = Pieces.of(*words, multiword=tuple(multiword))
                result_whites[-1] = white
            else:
                result.append(chunk)
                result_whites.append(white)
        return result, result_whites

    def _cut(self, chunks: list[str]) -> list[Pieces]:
        """Cut chunks without looking into the cache."""
        result: list[Pieces] = []
        for batch in _batches([window for chunk in chunks for window in _windows(chunk)]):
            starts, attributes = character_attributes([window.text for window in batch])
            groups = numpy.full(len(attributes), FREE, dtype="int32")
            classes = self._cuts.decide(
                attributes, starts, numpy.zeros_like(groups), self._no_scores, groups, top=1
            ).classes
            cut = numpy.flatnonzero(classes).tolist()
            kinds = classes[cut].tolist()
            bounds, at = starts.tolist(), 0
            for i, window in enumerate(batch):
                if window.first == 0:
                    places, inner = [], []
                while at < len(cut) and cut[at] < bounds[i + 1]:
                    # a place is before the character after it
                    place = cut[at] - bounds[i] + 1 + window.begin
                    if window.first < place <= window.last:
                        places.append(place)
                        inner.append(kinds[at] == INNER_WORD)
                    at += 1
                if window.last >= len(window.chunk) - 1:
                    result.append(_pieces(window.chunk, places, inner))
        return result

    def to_payload(self) -> dict[str, Any]:
        joins = self._joins.to_payload() if self._joins is not None else None
        return {"cuts": self._cuts.to_payload(), "joins": joins}

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "TokenizerModel":
        found = []
        for name, templates in (("cuts", cut_templates()), ("joins", join_templates())):
            if read[name] is not None:
                require_parts(_FORMAT, name, read[name])
                found.append(LinearClassifier.from_payload(read[name], templates))
        return cls(found[0], found[1] if len(found) > 1 else None)


class _Window(NamedTuple):
    """A part of a chunk.

    chunk (str): The chunk.
    text (str): The part that is looked at.
    begin (int): Where it begins.
    first, last (int): It decides about places after the first, up to the last.
    """

    chunk: str
    text: str
    begin: int
    first: int
    last: int


def _windows(chunk: str) -> list[_Window]:
    """What is looked at of a chunk: all of it, or parts that overlap."""
    n = len(chunk)
    if n <= _WINDOW:
        return [_Window(chunk, chunk, 0, 0, n)]
    windows = []
    for first in range(0, n - 1, _WINDOW):
        begin, last = max(first - _AROUND, 0), first + _WINDOW
        windows.append(_Window(chunk, chunk[begin : last + _AROUND], begin, first, last))
    return windows


def _batches(windows: list[_Window]) -> Iterable[list[_Window]]:
    batch: list[_Window] = []
    size = 0
    for window in windows:
        batch.append(window)
        size += len(window.text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _pieces(chunk: str, places: list[int], inner: list[bool]) -> Pieces:
    """A chunk that is cut at some places, some of them inside of multiword tokens."""
    if not places:
        return Pieces.of(chunk) if chunk else Pieces((), ())
    words = [chunk[begin:end] for begin, end in pairwise([0, *places, len(chunk)])]
    if not any(inner):
        return Pieces.of(*words)
    firsts = [0, *(i for i, is_inner in enumerate(inner, start=1) if not is_inner), len(words)]
    return Pieces.of(*words, multiword=tuple((a, b) for a, b in pairwise(firsts) if b - a > 1))


def _bounds(lengths: Sequence[int]) -> NDArray[numpy.int32]:
    return numpy.cumsum([0, *lengths], dtype="int32")


def _join_groups(texts: Iterable[Sequence[str]]) -> NDArray[numpy.int32]:
    """Which pieces may belong to the word before them, by the white space after pieces of texts."""
    groups = [
        [FIXED, *(FREE if may_join(white) else FIXED for white in whites[:-1])] if whites else []
        for whites in texts
    ]
    return numpy.array([group for row in groups for group in row], dtype="int32")
