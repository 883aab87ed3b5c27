"""The full stop at the end of a chunk: it ends a sentence, or it belongs to an abbreviation.

This alone of how a chunk is cut depends on what is around it: "U.K." before a small letter is one token. What
is looked at is how the text goes on, whether the language has such an abbreviation, whether the word has
other full stops in it, how long it is, and whether it was often seen without a full stop in training:
abbreviations hardly are (Kiss and Strunk, 2006). A small letter says less where a sentence seems to start
with one elsewhere in the text: after a word that is no abbreviation.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

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

# What is looked at beside the columns of characters.
AFTER, WORD, LENGTH = range(3)
COLUMNS = 3
# Values of WORD: one of these, and one more for an abbreviation of the language.
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
    """What can be seen at a full stop: values of AFTER, WORD and LENGTH."""

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
    """What is known about words before full stops.

    listed (FrozenSet[str]): Abbreviations of the language, without their last full stop.
    plain (FrozenSet[str]): Words that were often seen without one.
    fixed (bool): Whether words such as "U.K." are never cut before a small letter.
    """

    listed: frozenset[str]
    plain: frozenset[str]
    fixed: bool = False

    @classmethod
    def counted(cls, abbreviations: Collection[str], words: Iterable[str]) -> "Stops":
        """Count words.

        abbreviations (Collection[str]): Those of the language; what is none is left out.
        words (Iterable[str]): All pieces that have white space after them.
        """
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
