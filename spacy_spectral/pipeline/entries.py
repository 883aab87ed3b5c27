"""Entries of `doc.user_data`: how values of tokens are kept and found again.

Users merge and split tokens, make documents of spans and join documents, and a value must never be
read off another token. So the values of a component are one entry of `doc.user_data`, arrays with a row
for every token, beside what tells the tokens they belong to: where each begins, and its word. A token has
a value as long as it is where the entry says, whatever happened to others.

spaCy moves entries whose keys look like ("._.", name, start, end) in `span.as_doc` and `Doc.from_docs`, and
their start tells by how many characters. (`as_doc` keeps rows of tokens that it leaves out. Joined to
other documents, they can only be met where the very same words stand.)

Entries are plain values and arrays: they survive to_bytes, DocBin and n_process.
"""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from spacy.attrs import IDX, ORTH
from spacy.tokens import Doc, Span, Token
from spacy.tokens.underscore import get_ext_args

from ..base.errors import Warnings

_WORD = 0xFFFFFFFF  # of hashes of words 32 bits are enough


class Place(NamedTuple):
    """Where a token is in an entry: its row, and the place in the document where the entry begins."""

    entry: dict[str, Any]
    row: int
    begin: int


def _key(name: str) -> tuple[str, str, int, None]:
    return ("._.", name, 0, None)


def whole_entry(doc: Doc, name: str) -> dict[str, Any] | None:
    """The entry of a component whose rows are the tokens of a document;
    None if there is none, or the document has other tokens now."""
    entry = doc.user_data.get(_key(name))
    return entry if entry is not None and numpy.array_equal(entry["orth"], words_of(doc)) else None


def words_of(tokens: Doc | Span) -> NDArray[numpy.uint32]:
    """What entries know of words, uint32."""
    return tokens.to_array([ORTH]).astype("uint32").ravel()


def store_entry(doc: Doc, name: str, values: dict[str, Any]) -> None:
    """Keep the values of a component, in place of those it has kept before."""
    for key in [key for key, _ in entries(doc, name)]:
        del doc.user_data[key]
    array = doc.to_array([IDX, ORTH])
    tokens = {"idx": array[:, 0].astype("int32"), "orth": array[:, 1].astype("uint32")}
    doc.user_data[_key(name)] = tokens | values


def entries(doc: Doc, name: str) -> Iterator[tuple[tuple, dict[str, Any]]]:
    """The entries of a component: one, but of spans and joined documents any number."""
    for key, entry in doc.user_data.items():
        if isinstance(key, tuple) and len(key) == 4 and key[0] == "._." and key[1] == name:
            yield key, entry


def row_of(entry: dict[str, Any], begin: int, token: Token) -> int:
    """The row of a token, -1 if it has none."""
    at, idx = token.idx - begin, entry["idx"]
    row = int(idx.searchsorted(at))
    is_there = row < len(idx) and idx[row] == at and entry["orth"][row] == token.orth & _WORD
    return row if is_there else -1


def find_token(token: Token, name: str) -> Place | None:
    """Where a token is in the entry that has it; None if none has, or it is not clear which."""
    entry = token.doc.user_data.get(_key(name))
    row = -1 if entry is None else row_of(entry, 0, token)
    if row >= 0:
        return Place(entry, row, 0)
    # after `as_doc` and `from_docs`
    places = [
        Place(entry, row, key[2])
        for key, entry in entries(token.doc, name)
        if (row := row_of(entry, key[2], token)) >= 0
    ]
    return places[0] if len(places) == 1 else None


def find_span(span: Span, name: str) -> Place | None:
    """Where the first token of a span is, if the others follow it."""
    place = find_token(span[0], name) if len(span) else None
    if place is None:
        return None
    own = place.entry["orth"][place.row : place.row + len(span)]
    return place if numpy.array_equal(own, words_of(span)) else None


def register_extension(owner: Any, name: str, **definition: Any) -> None:
    """Define an extension attribute, unless somebody else has one of that name: theirs is left alone."""
    if not owner.has_extension(name):
        owner.set_extension(name, **definition)
    elif owner.get_extension(name) != get_ext_args(**definition):
        kind = owner.__name__
        warnings.warn(Warnings.W110.format(kind=kind, lower=kind.lower(), name=name), stacklevel=2)
