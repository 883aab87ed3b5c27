"""Tokens of a text: where chunks are cut and, in some languages, which pieces a space joins to one word.

Both are decided by linear classifiers. A chunk is cut the same way wherever it stands (if it ends in a full
stop, wherever the text goes on in the same way), so the pieces of chunks are remembered; pieces are joined in
the light of those around them. Whatever was learnt, no chunk is cut inside of a grapheme cluster.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, NamedTuple
from unicodedata import category

import numpy
from numpy.typing import NDArray

from ...base.cache import Memory
from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bool, Format, Stored, Strings
from ._strings import CHARACTER_COLUMNS, GRAM_COLUMNS, character_attributes
from .chunks import (
    INNER_WORD,
    PiecedText,
    Stop,
    Stops,
    cut_chunks,
    out_of_context,
    split_chunks,
)
from .classifier import (
    FIXED,
    FREE,
    Cell,
    LinearClassifier,
    Progress,
    Templates,
    classifier_fields,
    train_free,
)
from .joins import Joins

# Columns of places beside those of characters.
_STOPS = CHARACTER_COLUMNS + 1
_N_STOPS = len(Stop._fields)
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
    # files of older versions have none of these: pairs of pieces, and whether they are one word
    pairs=Strings("pairs", unique=True, optional=True),
    pair_entries=Array("uint32", "pairs", optional=True),
    # ... and what is known about full stops
    listed=Strings(unique=True, optional=True),
    plain=Strings(unique=True, optional=True),
    fixed=Bool(optional=True),
)


class Pieces(NamedTuple):
    """A chunk that was cut, with the multiword tokens among its pieces, as first and the one after the
    last."""

    words: tuple[str, ...]
    spaces: tuple[bool, ...]
    multiword: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *words: str, multiword: tuple[tuple[int, int], ...] = ()) -> "Pieces":
        """A chunk in these pieces."""
        return cls(words, (False,) * (len(words) - 1) + (True,), multiword)


class Tokens(NamedTuple):
    """The tokens of a text, white space that is not one space after a word included, and its multiword
    tokens, as first word and the one after the last."""

    words: list[str]
    spaces: list[bool]
    multiword: list[tuple[int, int]]


class TokenizerModel(Stored):
    """A trained tokenizer."""

    FORMAT = _FORMAT

    def __init__(self, cuts: LinearClassifier, joins: Joins | None, stops: Stops | None = None):
        """joins: None if no word contains a space.
        stops: What is known of words before full stops; None if that was not learnt."""
        self._cuts = cuts
        self._joins = joins
        self._stops = stops
        # places inside of chunks are all different: nothing is known of them beforehand
        nothing = numpy.zeros((1, _STOPS + _N_STOPS), dtype="uint32")
        self._no_scores = cuts.word_scores(nothing)
        self._memory = Memory(_CACHE_SIZE)

    def split(
        self, chunks: list[str], whites: list[str], special: Mapping[int, Pieces] | None = None
    ) -> Tokens:
        """Make tokens of the chunks of a text, of which the first may be empty, and the white space
        after each."""
        keys = chunks if self._stops is None else self._stops.in_context(chunks, whites)
        cut = self.cut(keys)
        found = [cut[key] for key in keys]
        for i, pieces in (special or {}).items():
            found[i] = pieces
        if self._joins is not None:
            found, whites = self._join_words(self._joins, found, whites, special or {})
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
        """The pieces of chunks, perhaps those of other chunks, too. Chunks are given as they are or as
        `Stops.in_context` has them."""
        known, chunks = self._memory.known, dict.fromkeys(chunks)
        new = [chunk for chunk in chunks if chunk not in known]
        if not new:
            return known
        found = dict(zip(new, self._cut(new), strict=True))
        self._memory.add({c: found[c] for c in new if len(c) <= _LONGEST_CACHED})
        return {chunk: found[chunk] if chunk in found else known[chunk] for chunk in chunks}

    def _join_words(
        self,
        joins: Joins,
        chunks: list[Pieces],
        whites: list[str],
        special: Mapping[int, Pieces],
    ) -> tuple[list[Pieces], list[str]]:
        """Chunks, the white space after them, with words of several chunks as one of their pieces."""
        pieces = [word for chunk in chunks for word in chunk.words]
        after = [
            white
            for chunk, last in zip(chunks, whites, strict=True)
            for white in [*repeat("", len(chunk.words) - 1), last][: len(chunk.words)]
        ]
        joined = iter(joins.decide(pieces, after).tolist())
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
            starts, attributes, groups = _describe(batch, self._stops)
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
        joins = dict.fromkeys(("joins", "pairs", "pair_entries"))
        if self._joins is not None:
            joins = self._joins.to_payload()
        payload: dict[str, Any] = {"cuts": self._cuts.to_payload(), **joins}
        listed, plain, fixed = self._stops if self._stops is not None else (None, None, None)
        payload["listed"] = sorted(listed) if listed is not None else None
        payload["plain"] = sorted(plain) if plain is not None else None
        return payload | {"fixed": fixed}

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "TokenizerModel":
        cuts = LinearClassifier.from_payload(_FORMAT, "cuts", read, cut_templates())
        stops = None
        if read["listed"] is not None and read["plain"] is not None:
            listed, plain = frozenset(read["listed"]), frozenset(read["plain"])
            stops = Stops(listed, plain, bool(read["fixed"]))
        return cls(cuts, Joins.from_payload(_FORMAT, read), stops)


@dataclass(frozen=True)
class TokenizerRecipe:
    """The settings of a tokenizer."""

    epochs: int = 10
    seed: int = 0

    def fit(
        self,
        texts: Sequence[PiecedText],
        *,
        abbreviations: Collection[str] = (),
        progress: Progress | None = None,
    ) -> TokenizerModel:
        """Train a tokenizer; `progress` is called after every epoch. Abbreviations of the language, with
        their full stops, are hints, not law."""
        options: Any = {"epochs": self.epochs, "seed": self.seed, "progress": progress}
        stops = Stops.counted(
            abbreviations,
            (p for text in texts for p, white in zip(*text[:2], strict=True) if white),
        )
        chunks, gold = cut_chunks(texts, stops)
        if not chunks:
            raise SpectralError(Errors.S602)
        chunks += stops.examples()
        starts, attributes, groups = _describe([_whole(chunk) for chunk in chunks], stops)
        # examples come last, and are not cut
        gold = numpy.append(gold, numpy.zeros(starts[-1] - len(gold), dtype="int32"))
        last = starts[1:] - 1
        seen = [Stop(*row) for row in attributes[last, _STOPS:].tolist()]
        # every way of cutting a chunk once
        different = set(zip(chunks, seen, (gold[last] > 0).tolist(), strict=True))
        stops = stops.learn((stop, is_cut) for _, stop, is_cut in different)
        gold[groups == FIXED] = 0
        cuts = train_free(
            attributes, starts, gold, groups, cut_templates(), n_classes=3, stage="cuts", **options
        )
        return TokenizerModel(cuts, Joins.fit(texts, **options), stops)


def cut_templates() -> Templates:
    """Templates for places inside of chunks; the decision stands after the columns of characters."""

    def grams(group: int) -> list[Cell]:
        return [(0, group * GRAM_COLUMNS + i) for i in range(GRAM_COLUMNS)]

    # n-grams of characters and of their classes, on the left and on the right
    left, right, left_kinds, right_kinds = map(grams, range(4))
    rest = range(4 * GRAM_COLUMNS, CHARACTER_COLUMNS)
    before, after, run_before, run_after, chunk, shape, start, end = ((0, c) for c in rest)
    last = (-1, CHARACTER_COLUMNS)
    cells: list[list[Cell]] = [[c] for c in (*left, *right, *left_kinds[2:], *right_kinds[2:])]
    cells += [[c] for c in (before, after, run_before, run_after, chunk, shape, start, end)]
    cells += [
        [left[i], right[j]] for i, j in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 2), (2, 0), (0, 2))
    ]
    cells += [[left_kinds[i], right_kinds[i]] for i in range(GRAM_COLUMNS)]
    cells += [[left_kinds[0], right_kinds[1]], [left_kinds[1], right_kinds[0]]]
    cells += [[left_kinds[i], right[0]] for i in (2, 3)] + [
        [left[0], right_kinds[i]] for i in (2, 3)
    ]
    cells += [[run_before, c] for c in (run_after, after, right[0], right[1], right_kinds[1])]
    cells += [[run_after, c] for c in (before, left[0], left[1], left_kinds[1])]
    cells += [[before, c] for c in (right[0], right_kinds[1], right_kinds[3])]
    cells += [[after, c] for c in (left[0], left_kinds[1], left_kinds[3])]
    cells += [[start, c] for c in (right[0], left_kinds[1])]
    cells += [[end, c] for c in (left[0], right[0], right_kinds[1])] + [[shape, right[0]]]
    cells += [[last, right[0]], [last, left[0]], [last, left[0], right[0]]]
    # new templates come last, so that those of older files keep their numbers:
    # words beside the next and the last character, then full stops at the end
    next_run, last_run = (1, run_after[1]), (-1, run_before[1])
    cells += [[right[0], next_run], [left[0], last_run], [right[0], run_before, next_run]]
    goes_on, word, length = ((0, _STOPS + i) for i in range(_N_STOPS))
    cells += [[goes_on], [word], [goes_on, word], [goes_on, run_before], [word, length]]
    cells += [[goes_on, word, length], [goes_on, word, left_kinds[1]]]
    return Templates.make(cells, out_column=CHARACTER_COLUMNS, type_columns=0)


class _Window(NamedTuple):
    """A part of a chunk."""

    chunk: str
    sign: str
    text: str
    begin: int
    first: int
    last: int
    fixed: list[int]


def _whole(key: str) -> _Window:
    """All of a chunk, in context or not."""
    chunk, sign = out_of_context(key)
    return _Window(chunk, sign, chunk, 0, 0, len(chunk), inside_clusters(chunk))


def _windows(key: str) -> list[_Window]:
    """What is looked at of a chunk: all of it, or parts that overlap."""
    whole = _whole(key)
    chunk, n = whole.chunk, whole.last
    if n <= _WINDOW:
        return [whole]
    windows = []
    for first in range(0, n - 1, _WINDOW):
        begin, last = max(first - _AROUND, 0), first + _WINDOW
        text = chunk[begin : last + _AROUND]
        own = slice(*(bisect_right(whole.fixed, end) for end in (begin, begin + len(text) - 1)))
        fixed = [place - begin for place in whole.fixed[own]]
        windows.append(_Window(chunk, whole.sign, text, begin, first, last, fixed))
    return windows


def _describe(
    windows: list[_Window], stops: Stops | None
) -> tuple[NDArray[numpy.int32], NDArray[numpy.uint32], NDArray[numpy.int32]]:
    """Where the places of windows start, what `cut_templates` look at there, and where nothing may be cut."""
    starts, characters = character_attributes([window.text for window in windows])
    attributes = numpy.zeros((len(characters), _STOPS + _N_STOPS), dtype="uint32")
    attributes[:, :_STOPS] = characters
    groups = numpy.full(len(characters), FREE, dtype="int32")
    for i, window in enumerate(windows):
        if stops is not None and window.text[-1:] == ".":
            seen = stops.describe(window.text, window.sign)
            if seen is not None:
                attributes[starts[i + 1] - 1, _STOPS:] = seen
                if stops.fixed and seen.may_be_fixed:
                    groups[starts[i + 1] - 1] = FIXED
        if window.fixed:
            groups[[starts[i] + place - 1 for place in window.fixed]] = FIXED
    return starts, attributes, groups


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


# ---------------------------------------------------------------- special cases


class SpecialToken(NamedTuple):
    """A token of a special case, and how it is normalised, if not as others are."""

    orth: str
    norm: str | None = None


class Marked(NamedTuple):
    """A text in chunks, as `TokenizerModel.split` takes it: empty ones where a special case stands, and
    where tokens that are normalised otherwise begin in the text, and how they are."""

    chunks: list[str]
    whites: list[str]
    special: dict[int, Pieces]
    norms: dict[int, str]


class SpecialCases:
    """Immutable. A special case is found where it stands alone: not inside of a run of letters and digits."""

    def __init__(self, cases: Mapping[str, tuple[SpecialToken, ...]]):
        self.cases = dict(cases)
        # the longest first: the first alternative that is found counts
        texts = sorted(cases, key=lambda text: (-len(text), text))
        self._search = re.compile(f"({'|'.join(map(_alone, texts))})") if cases else None

    def __bool__(self) -> bool:
        return bool(self.cases)

    def mark(self, text: str) -> Marked:
        """The chunks of a text, with its special cases."""
        marked = Marked([], [], {}, {})
        at = 0
        for i, part in enumerate(self._search.split(text) if self._search is not None else [text]):
            if i % 2:
                tokens = self.cases[part]
                marked.special[len(marked.chunks)] = Pieces.of(*(token.orth for token in tokens))
                marked.chunks.append("")
                marked.whites.append("")
                for token in tokens:
                    if token.norm is not None:
                        marked.norms[at] = token.norm
                    at += len(token.orth)
            elif part:
                chunks, whites = split_chunks(part)
                if marked.chunks and not chunks[0]:
                    marked.whites[-1] = whites.pop(0)
                    chunks.pop(0)
                marked.chunks.extend(chunks)
                marked.whites.extend(whites)
                at += len(part)
        return marked


def is_special(text: str, tokens: tuple[SpecialToken, ...]) -> bool:
    """Whether tokens can be those of a special case."""
    orths = [token.orth for token in tokens]
    return "".join(orths) == text and all(orth.strip() for orth in orths) and bool(orths)


def _alone(text: str) -> str:
    """A pattern for a string beside which the word does not go on."""
    before = r"(?<!\w)" if re.match(r"\w", text[0]) else ""
    after = r"(?!\w)" if re.match(r"\w", text[-1]) else ""
    return f"{before}{re.escape(text)}{after}"


# Grapheme clusters, which readers take for one character: an emoji with its skin tone, a flag, a letter with
# its accents. The rules are those of extended clusters (Unicode Standard Annex 29), read off `unicodedata`.
# They differ in three places. A mark that combines with what is before it never starts a token, even where
# Unicode makes an exception for it (Burmese, Tai Tham). A zero-width joiner joins whatever it stands between,
# except punctuation. And consonants of Indian scripts may be cut after a virama: a word can end in one.
_JOINER = "\u200d"
# Below this there is nothing that belongs to the character before it.
_FIRST = "\u0300"
# They extend what is before them, and are no marks: the zero-width non-joiner and half-width voice marks.
_EXTENDING = frozenset("\u200c\u200d\uff9e\uff9f")
# Signs that go with what is after them.
_PREPENDED = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2"
    "\U000111c3\U0001193f\U00011941\U00011a3a\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89"
    "\U00011d46\U00011f02"
)
# Punctuation that is drawn as an emoji.
_PICTURES = frozenset("\u203c\u2049\u3030\u303d")
# Parts of Korean syllables: leading consonants, vowels, trailing consonants, syllables.
_LEADING, _VOWEL, _TRAILING, _OPEN, _CLOSED = range(1, 6)
_SYLLABLES = frozenset(
    [(_LEADING, part) for part in (_LEADING, _VOWEL, _OPEN, _CLOSED)]
    + [(part, _VOWEL) for part in (_OPEN, _VOWEL)]
    + [(part, _TRAILING) for part in (_OPEN, _CLOSED, _VOWEL, _TRAILING)]
)


def inside_clusters(text: str) -> list[int]:
    """The places at which a text without white space may not be cut, as the number of characters before them,
    ascending."""
    if text.isascii() or max(text) < _FIRST:
        return []
    places = []
    flags = 0  # regional indicators right before a place
    before = text[0]
    for place, char in enumerate(text[1:], start=1):
        flags = flags + 1 if _is_flag(before) else 0
        if _belong_together(before, char) or (_is_flag(char) and flags % 2):
            places.append(place)
        before = char
    return places


def _belong_together(before: str, char: str) -> bool:
    """Whether nobody cuts between two characters; pairs of regional indicators are not looked at."""
    if char < _FIRST:
        return before in _PREPENDED and not _is_control(char)
    if _extends(char):
        return not _is_control(before)
    if before == _JOINER:
        return char in _PICTURES or category(char)[0] not in "PC"
    if before in _PREPENDED:
        return not _is_control(char)
    return (_korean(before), _korean(char)) in _SYLLABLES


def _extends(char: str) -> bool:
    return (
        char in _EXTENDING
        or category(char)[0] == "M"
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags, as in the flag of Scotland
        or char in "\u0e33\u0eb3"  # Thai and Lao vowels
    )


def _is_control(char: str) -> bool:
    # format characters are, except those that extend or are prepended
    return (
        category(char) in ("Cc", "Cf", "Zl", "Zp") and not _extends(char) and char not in _PREPENDED
    )


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _korean(char: str) -> int:
    """The part of a Korean syllable that a character is, 0 for none."""
    if "\u1100" <= char <= "\u11ff":
        return _LEADING if char < "\u1160" else _VOWEL if char < "\u11a8" else _TRAILING
    if "\uac00" <= char <= "\ud7a3":
        return _CLOSED if (ord(char) - 0xAC00) % 28 else _OPEN
    if "\ua960" <= char <= "\ua97c":
        return _LEADING
    if "\ud7b0" <= char <= "\ud7fb":
        return _VOWEL if char < "\ud7cb" else _TRAILING
    return 0
