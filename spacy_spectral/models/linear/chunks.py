"""What tokens are learnt from: texts in pieces, and the chunks that they are made of.

A chunk is a maximal run without white space, a piece a part of it that is a word, or, where words contain
spaces, a part of one. How a chunk is cut does not depend on what is around it, unless it ends in a full stop
(see `Stops`), so that every way of cutting a chunk is counted once and learnt from as often as the logarithm
of its count says: the rest repeats what is known.

The full stop at the end of a chunk: it ends a sentence, or it belongs to an abbreviation.

This alone of how a chunk is cut depends on what is around it: "U.K." before a small letter is one token. What
is looked at is how the text goes on, whether the language has such an abbreviation, whether the word has
other full stops in it, how long it is, and whether it was often seen without a full stop in training:
abbreviations hardly are (Kiss and Strunk, 2006). A small letter says less where a sentence seems to start
with one elsewhere in the text: after a word that is no abbreviation.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise, repeat
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

# How a text goes on: a sign and a number; 0 and 1 have other meanings for attributes. Writers who start
# sentences with small letters are careless.
_SIGNS = _END, _SMALL, _CAPITAL, _NUMBER, _OTHER, _CARELESS = "$aA0.i"
_AFTER = {sign: i for i, sign in enumerate(_SIGNS, start=2)}
_STOP = "."
# The word before a full stop: letters, perhaps with full stops among them.
_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
# Longer words are no abbreviations, and need not be remembered.
_LONGEST = 7
# A word that was seen less often without a full stop may be an abbreviation all the same.
_LEAST_PLAIN = 3
# Words such as "U.K" and "Ph.D" have parts of up to so many letters.
_LONGEST_PART = 2
# So many of them have to be seen until they are never cut.
_LEAST_DOTTED = 5
# How often abbreviations of the language count as seen: features that are seen once are left out.
_EXAMPLES = 2

# What a word before a full stop is: one of these, and one more for an abbreviation of the language.
_UNKNOWN, _PLAIN, _DOTTED = range(2, 8, 2)


def out_of_context(key: str) -> tuple[str, str]:
    """A chunk, and the sign that `in_context` gave it, "" for none."""
    chunk, _, sign = key.partition(" ")
    return chunk, sign


def _sign(char: str) -> str:
    if char.isupper():
        return _CAPITAL
    return _NUMBER if char.isnumeric() else _OTHER


class Stop(NamedTuple):
    """What can be seen at a full stop: how the text goes on, what the word is, how long it is."""

    after: int
    word: int
    length: int

    @property
    def may_be_fixed(self) -> bool:
        """Whether it follows a word such as "U.K" and is before a small letter."""
        is_short = self.length - 1 <= _LONGEST_PART
        is_before_small = self.after in (_AFTER[_SMALL], _AFTER[_CARELESS])
        return is_short and self.word >= _DOTTED and is_before_small


class Stops(NamedTuple):
    """What is known about words before full stops: abbreviations of the language, without their last
    full stop, and whether words such as "U.K." are never cut before a small letter (`fixed`)."""

    listed: frozenset[str]
    plain: frozenset[str]
    fixed: bool = False

    @classmethod
    def counted(cls, abbreviations: Collection[str], words: Iterable[str]) -> "Stops":
        """Count words and the abbreviations of the language."""
        stems = (text[:-1] for text in abbreviations if text[-1:] == _STOP)
        counts = Counter(word for word in words if len(word) <= _LONGEST and word.isalpha())
        return cls(
            frozenset(stem for stem in stems if len(stem) > 1 and _WORD.match(stem)),
            frozenset(word for word, n in counts.items() if n >= _LEAST_PLAIN),
        )

    def in_context(self, chunks: Sequence[str], whites: Sequence[str]) -> Sequence[str]:
        """The chunks of a text; to those that end in a full stop a space is added and a sign of what comes
        next."""
        stops = [i for i, chunk in enumerate(chunks) if chunk[-1:] == _STOP]
        if not stops:
            return chunks
        result = list(chunks)
        last = len(chunks) - 1
        small: list[int] = []
        for i in stops:
            if i == last or whites[i].count("\n") > 1:
                result[i] = f"{chunks[i]} {_END}"
            elif after := chunks[i + 1]:
                if after[0].islower():
                    small.append(i)
                else:
                    result[i] = f"{chunks[i]} {_sign(after[0])}"
            # else its tokens are decided already, and are not looked at
        if small:
            is_careless = any(self._is_plain(chunks[i][:-1]) for i in small)
            for i in small:
                result[i] = f"{chunks[i]} {_CARELESS if is_careless else _SMALL}"
        return result

    def _is_plain(self, word: str) -> bool:
        return word in self.plain or word.lower() in self.plain

    def examples(self) -> list[str]:
        """The abbreviations of the language where they are one token, as `in_context`
        has them."""
        return [f"{word}{_STOP} {_SMALL}" for word in sorted(self.listed)] * _EXAMPLES

    def learn(self, stops: Iterable[tuple[Stop, bool]]) -> "Stops":
        """Learn from full stops, and whether they are cut off, if words such as "U.K." ever are before a
        small letter."""
        cuts = [is_cut for stop, is_cut in stops if stop.may_be_fixed]
        return self._replace(fixed=len(cuts) >= _LEAST_DOTTED and not any(cuts))

    def describe(self, chunk: str, sign: str) -> Stop | None:
        """What can be seen at the full stop that a chunk ends in; None for no full stop after a word. The
        sign is how the text goes on, "" if that is not known."""
        found = _WORD.search(chunk[-64:-1]) if chunk[-1:] == _STOP else None
        if found is None:
            return None
        word = found[0]
        lower = word.lower()
        kind = _UNKNOWN
        if _STOP in word:
            kind = _DOTTED
        elif self._is_plain(word):
            kind = _PLAIN
        length = max(map(len, word.split(_STOP)))
        is_listed = word in self.listed or lower in self.listed
        return Stop(_AFTER.get(sign, 0), kind + is_listed, min(length, _LONGEST + 1) + 1)


_WHITE = re.compile(r"(\s+)")
# White space that ends lines and columns ends words, too.
_BREAKS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")

# Where a chunk is cut, and how the piece starts there.
_Cuts = tuple[tuple[int, int], ...]

# how a piece starts
JOINED, WORD, INNER_WORD = range(3)


class PiecedText(NamedTuple):
    """A text in pieces. Each starts as WORD, INNER_WORD inside of a multiword token, or JOINED to the
    piece before it by a space."""

    pieces: Sequence[str]
    whites: Sequence[str]
    starts: Sequence[int]


def split_chunks(text: str) -> tuple[list[str], list[str]]:
    """Split a text at white space, into the chunks and the white space after each. Only the first chunk can
    be empty (the text starts with white space), and only the last one's white space."""
    parts = _WHITE.split(text)
    chunks, whites = parts[::2], parts[1::2]
    if chunks[-1] or len(chunks) == 1:
        whites.append("")
    else:
        chunks.pop()
    return chunks, whites


def may_join(white: str) -> bool:
    """Whether white space can be inside of a word: one space of some kind."""
    return len(white) == 1 and white not in _BREAKS


def piece_words(
    words: Iterable[str], whites: Iterable[str], inner: Iterable[bool]
) -> PiecedText | None:
    """Cut words at their spaces; None if a word has white space in it that no tokenizer could learn to
    keep. `inner` tells whether they follow another word of the same multiword token."""
    all_pieces: list[str] = []
    all_whites: list[str] = []
    starts: list[int] = []
    for word, white, is_inner in zip(words, whites, inner, strict=True):
        pieces, spaces = split_chunks(word)
        if not all(pieces) or spaces[-1] or not all(map(may_join, spaces[:-1])):
            return None
        all_pieces += pieces
        all_whites += [*spaces[:-1], white]
        starts += [INNER_WORD if is_inner else WORD, *repeat(JOINED, len(pieces) - 1)]
    return PiecedText(all_pieces, all_whites, starts)


# Other ways to write words.
_APOSTROPHES = str.maketrans("'\u2019", "\u2019'")
_VARIANTS: tuple[dict[str, str], ...] = (
    {'"': "\u201c", "'": "\u2018", "-": "\u2013", "$": "\u20ac", "\u2013": "-", "\u2014": "-"},
    {'"': "\u201d", "'": "\u2019", "-": "\u2014", "$": "\xa3", "\u201c": '"', "\u201d": '"'},
)
_VARIED = frozenset("'\u2019").union(*_VARIANTS)


class CutChunks(NamedTuple):
    """Chunks with the places at which they are cut, one chunk after the other: 0 for none, else how the
    piece starts there."""

    chunks: list[str]
    cuts: NDArray[numpy.int32]


def cut_chunks(texts: Iterable[PiecedText], stops: Stops | None = None) -> CutChunks:
    """Count chunks of two characters or more, in order of first occurrence, and repeat each way of cutting
    one 1 + log2(count) times. `stops` tells chunks with a full stop apart by their context."""
    counts: Counter[tuple[str, _Cuts]] = Counter()
    for text in texts:
        own_chunks: list[str] = []
        whites: list[str] = []
        all_cuts: list[tuple[tuple[int, int], ...]] = []
        chunk, cuts, n_pieces = "", [], len(text.pieces)
        for i, (piece, white, start) in enumerate(zip(*text, strict=True), start=1):
            if chunk:
                cuts.append((len(chunk), start))
            chunk += piece
            if white or i == n_pieces:
                own_chunks.append(chunk)
                whites.append(white)
                all_cuts.append(tuple(cuts))
                chunk, cuts = "", []
        keys = own_chunks if stops is None else stops.in_context(own_chunks, whites)
        counts.update(zip(keys, all_cuts, strict=True))
    counts.update(_varied(counts))
    chunks: list[str] = []
    gold: list[int] = []
    for (chunk, places), count in counts.items():
        own = [0] * (len(out_of_context(chunk)[0]) - 1)
        for place, start in places:
            own[place - 1] = start
        repeated = count.bit_length() if own else 0
        chunks += repeat(chunk, repeated)
        gold += own * repeated
    return CutChunks(chunks, numpy.array(gold, dtype="int32"))


def _varied(counts: Iterable[tuple[str, _Cuts]]) -> dict[tuple[str, _Cuts], int]:
    """Chunks with quotes, dashes and signs of currencies that others would have written, once each, cut in
    the same way. Dashes and currencies vary only where they are words of their own: hyphens do not."""
    written = {chunk for chunk, _ in counts}
    result: dict[tuple[str, _Cuts], int] = {}
    for chunk, cuts in counts:
        if _VARIED.isdisjoint(chunk):
            continue
        text, _ = out_of_context(chunk)
        rest = chunk[len(text) :]
        bounds = [0, *(place for place, _ in cuts), len(text)]
        for table in _VARIANTS:
            pieces = [
                table.get(piece, piece.translate(_APOSTROPHES))
                for piece in (text[a:b] for a, b in pairwise(bounds))
            ]
            varied = "".join(pieces) + rest
            if varied not in written:
                result[varied, cuts] = 1
    return result
