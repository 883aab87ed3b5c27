"""Strings whose tokens a user has decided."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from .chunks import split_chunks
from .tokenizer import Pieces


class SpecialToken(NamedTuple):
    """A token of a special case, and how it is normalised, if not as others are."""

    orth: str
    norm: str | None = None


class Marked(NamedTuple):
    """A text in chunks, as `TokenizerModel.split` takes it.

    chunks (List[str]): The chunks; empty where a special case stands.
    whites (List[str]): The white space after each of them.
    special (Dict[int, Pieces]): The tokens of the special cases.
    norms (Dict[int, str]): Where tokens that are normalised otherwise begin in the text, and how they are.
    """

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
