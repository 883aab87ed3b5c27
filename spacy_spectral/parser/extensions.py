"""What `spectral_parser` stores on documents, and how it is read."""

from typing import Any

import numpy
from spacy.tokens import Doc, Span, Token

# One entry of doc.user_data holds everything stored, as plain arrays: they survive to_bytes, DocBin and
# n_process without further ado.
USER_DATA = "spectral_parser"


def _stored(doc: Doc, name: str) -> Any:
    return doc.user_data.get(USER_DATA, {}).get(name)


def _token_value(token: Token, name: str) -> float | None:
    values = _stored(token.doc, name)
    if values is None or numpy.isnan(values[token.i]):
        return None
    return float(values[token.i])


# Getters must be found by name: processes that are spawned get them pickled.
def _head_prob(token: Token) -> float | None:
    return _token_value(token, "head_prob")


def _dep_prob(token: Token) -> float | None:
    return _token_value(token, "dep_prob")


def _parse_logprob(span: Span) -> float | None:
    """Sum over the sentences that a span is made of; None if it is not made of whole sentences."""
    values = _stored(span.doc, "parse_logprob")
    whole = (
        span.start < span.end and span.start == span[0].sent.start and span.end == span[-1].sent.end
    )
    if values is None or not whole:
        return None
    return float(numpy.nansum(values[span.start : span.end]))


# on import, so that stored probabilities can be read where no parser is in the pipeline
Token.set_extension("head_prob", getter=_head_prob, force=True)
Token.set_extension("dep_prob", getter=_dep_prob, force=True)
Span.set_extension("parse_logprob", getter=_parse_logprob, force=True)
