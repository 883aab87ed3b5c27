"""What readers take for one character: an emoji with its skin tone, a flag, a letter with its accents.

The rules are those of extended grapheme clusters (Unicode Standard Annex 29), read off `unicodedata`. They
differ in three places. A mark that combines with what is before it never starts a token, even if Unicode
makes an exception for it (Burmese, Tai Tham). A zero-width joiner joins whatever it stands between, except
punctuation. And consonants of Indian scripts may be cut after a virama: a word can end in one.
"""

from unicodedata import category

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


_SYLLABLES = frozenset(
    [(_LEADING, part) for part in (_LEADING, _VOWEL, _OPEN, _CLOSED)]
    + [(part, _VOWEL) for part in (_OPEN, _VOWEL)]
    + [(part, _TRAILING) for part in (_OPEN, _CLOSED, _VOWEL, _TRAILING)]
)
