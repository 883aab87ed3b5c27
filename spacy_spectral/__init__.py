"""Spectral learning for spaCy. Everything is found by entry points: importing this is cheap."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.tokens import Doc

# The only place of the version: the build reads it here.
__version__ = "0.1.0"


def to_table(doc: "Doc") -> list[dict[str, Any]]:
    """A document as a table with a row for every word, probabilities included, for `pandas.DataFrame(...)`.

    doc: A parsed document.
    RETURNS: A dict for every word that is not white space. `sent`, `id` and `head` count from 1; a `head`
        of 0 is the root. What a document does not have is None.
    """
    from .pipeline.table import to_table

    return to_table(doc)


def register_extensions() -> None:
    """Make readable what components have kept on documents: `token._.sent_start_prob`, `token._.tag_probs`,
    `token._.head_prob`, `token._.dep_prob`, `token._.alternative`, `doc._.parse_confidence`,
    `span._.parse_confidence`, `span._.parse_logprob`, `span._.marginals`, `span._.parses`, `token._.subtag`,
    `token._.subtag_prob`, `token._.words`, `token._.start_char`, `token._.end_char`, and of constituents
    `span._.parse_string` and others.

    Components do that when they are made. It is needed where there are only documents, e.g. of a DocBin.
    """
    from .pipeline.annotations import register
    from .pipeline.words import register_words

    register()
    register_words()
