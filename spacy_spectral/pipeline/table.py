"""Documents as plain values: tables and JSON, with probabilities. Arcs that are not likely enough can be left
out."""

from typing import Any, NamedTuple

import numpy
from spacy.attrs import DEP, HEAD
from spacy.tokens import Doc, Token

from ..base.errors import Errors, SpectralError
from ..treebank.documents import set_sentence_starts
from .annotations import (
    alternative,
    dep_prob,
    head_prob,
    parse_confidence,
    sent_start_prob,
    tag_probs,
)

COLUMNS = (
    *("sent", "id", "text", "start", "end", "lemma", "pos", "tag", "morph", "head", "dep"),
    *("sent_start_prob", "tag_prob", "head_prob", "dep_prob", "alt_head", "alt_dep", "alt_prob"),
)


def to_table(doc: Doc) -> list[dict[str, Any]]:
    """A document as a table with a row for every word, which `pandas.DataFrame` takes as it is.

    doc: The document; white space is left out.
    RETURNS: Rows by the names of `COLUMNS`. `sent` and `id` count sentences, and words in a sentence, from 1;
        `start` and `end` are characters of the text; `head` and `alt_head` are the `id` of a word, 0 for the
        root. What a document does not have is None.
    """
    rows = []
    has_sentences, has_trees = (doc.has_annotation(name) for name in ("SENT_START", "DEP"))
    for number, sent in enumerate(doc.sents if has_sentences else [doc[:]], start=1):
        words = [token for token in sent if not token.is_space]
        ids = {token.i: i for i, token in enumerate(words, start=1)}
        for token in words:
            found, tags = alternative(token), tag_probs(token)
            row = {
                "sent": number,
                "id": ids[token.i],
                "text": token.text,
                "start": token.idx,
                "end": token.idx + len(token),
                "lemma": token.lemma_ or None,
                "pos": token.pos_ or None,
                "tag": token.tag_ or None,
                "morph": str(token.morph) or None,
                "head": _head_id(token, token.head, ids) if has_trees and token.dep else None,
                "dep": token.dep_ or None,
                "sent_start_prob": sent_start_prob(token),
                "tag_prob": tags.get(token.tag_),
                "head_prob": head_prob(token),
                "dep_prob": dep_prob(token),
                "alt_head": _head_id(token, found.head, ids) if found else None,
                "alt_dep": found.dep if found else None,
                "alt_prob": found.prob if found else None,
            }
            rows.append(row)
    return rows


def _head_id(token: Token, head: Token, ids: dict[int, int]) -> int | None:
    return 0 if head.i == token.i else ids.get(head.i)


def to_json(doc: Doc, *, name: str = "") -> dict[str, Any]:
    """A document as plain values: its text, how confident the parser is of it, and the rows of its table."""
    known = {"id": name} if name else {}
    return known | {
        "text": doc.text,
        "parse_confidence": parse_confidence(doc),
        "tokens": to_table(doc),
    }


def write_rows(doc: Doc | None, *, name: str = "") -> str:
    """The table of a document, its name in front, as lines of values between tabs; of None the header."""
    if doc is None:
        return "\t".join(["doc", *COLUMNS]) + "\n"
    rows = [[name, *(_cell(row[column]) for column in COLUMNS)] for row in to_table(doc)]
    return "".join("\t".join(row) + "\n" for row in rows)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else " ".join(str(value).split())


def arc_probs(doc: Doc) -> dict[int, list[str]]:
    """What is written of the probabilities of arcs into the column MISC of CoNLL-U, by token."""
    words: dict[int, list[str]] = {}
    rows = iter(to_table(doc))
    for token in doc:
        if token.is_space:
            continue
        row, found = next(rows), []
        for key, name in (("HeadProb", "head_prob"), ("DepProb", "dep_prob")):
            if row[name] is not None:
                found.append(f"{key}={row[name]:.3f}")
        if row["alt_head"] is not None:
            # spaCy writes the label of a root in capitals
            dep = row["alt_dep"] if row["alt_head"] else "root"
            found.append(f"Alt={row['alt_head']}:{dep}:{row['alt_prob']:.3f}")
        words[token.i] = found
    return words


class ReadArcs(NamedTuple):
    """What `arc_probs` writes of a word: the probabilities of its head and of its label given the head; and
    head, label and probability of the likeliest other arc, or None."""

    head_prob: float
    dep_prob: float
    other: tuple[int, str, float] | None


def read_arc_probs(misc: str) -> ReadArcs | None:
    """What `arc_probs` has written into the column MISC; None if there is nothing of it. A ValueError if it
    can't be read."""
    found = dict(item.split("=", 1) for item in misc.split("|") if "=" in item)
    if "HeadProb" not in found or "DepProb" not in found:
        return None
    other = None
    if "Alt" in found:
        head, _, rest = found["Alt"].partition(":")
        dep, _, prob = rest.rpartition(":")
        # spaCy writes the label of a root in capitals
        other = int(head), dep if int(head) else "ROOT", float(prob)
    read = ReadArcs(float(found["HeadProb"]), float(found["DepProb"]), other)
    probs = [read.head_prob, read.dep_prob, other[2] if other else 0.0]
    if not all(0 <= prob <= 1 for prob in probs) or (other and (other[0] < 0 or not other[1])):
        raise ValueError(misc)
    return read


def leave_out_unlikely(doc: Doc, min_prob: float) -> None:
    """Remove arcs that are less likely than that, labels included; sentences stay as they are."""
    arcs = doc.to_array([HEAD, DEP])
    starts = [1 if token.is_sent_start else -1 for token in doc]
    words = [token for token in doc if not token.is_space]
    probs = [(head_prob(token), dep_prob(token)) for token in words]
    if words and all(head is None or dep is None for head, dep in probs):
        raise SpectralError(Errors.S624)
    for token, (head, dep) in zip(words, probs, strict=True):
        if head is None or dep is None or head * dep < min_prob:
            arcs[token.i] = 0
    doc.from_array([HEAD, DEP], arcs)
    set_sentence_starts(doc, numpy.array(starts))
