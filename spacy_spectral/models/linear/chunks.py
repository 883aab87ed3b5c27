"""What tokens are learnt from: texts in pieces, and the chunks that they are made of.

A chunk is a maximal run without white space, a piece a part of it that is a word, or, where words contain
spaces, a part of one. How a chunk is cut does not depend on what is around it, unless it ends in a full stop
(see `stops`), so that every way of cutting a chunk is counted once and learnt from as often as the logarithm
of its count says: the rest repeats what is known.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from .stops import Stops, out_of_context

_WHITE = re.compile(r"(\s+)")
# White space that ends lines and columns ends words, too.
_BREAKS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")

# Where a chunk is cut, and how the piece starts there.
_Cuts = tuple[tuple[int, int], ...]

# how a piece starts
JOINED, WORD, INNER_WORD = range(3)


class PiecedText(NamedTuple):
    """A text in pieces.

    pieces (Sequence[str]): The pieces.
    whites (Sequence[str]): The white space after each of them.
    starts (Sequence[int]): How each of them starts: WORD, INNER_WORD inside of a multiword token, or JOINED
        to the piece before it by a space.
    """

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
    """Cut words at their spaces.

    whites (Iterable[str]): The white space after each of the words.
    inner (Iterable[bool]): Whether they follow another word of the same multiword token.
    RETURNS (Optional[PiecedText]): The text; None if a word has white space in it that no tokenizer could
        learn to keep.
    """
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
    """Chunks with the places at which they are cut.

    chunks (List[str]): The chunks, in their context if that counts.
    cuts (ndarray): int32, by place, one chunk after the other: 0 for none, else how the piece starts there.
    """

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
