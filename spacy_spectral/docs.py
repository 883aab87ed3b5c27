"""Between spaCy's documents and the package's sentences.

Whitespace tokens are never part of a sentence here: no treebank annotates them. When a parse is written
back, they hang on their neighbour.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, ORTH, SENT_START, intify_attr
from spacy.tokens import Doc
from spacy.training import Example

from .errors import Errors
from .shag.model import SymbolTable
from .treebank.dependency import MISSING, Tree

WHITESPACE_LABEL = "dep"


@dataclass
class SentenceView:
    """The tokens of one sentence of a Doc.

    doc (Doc): The document.
    tokens (ndarray): Indices of the sentence's tokens in it, whitespace left out.
    words (List[str]): Their texts.
    """

    doc: Doc
    tokens: NDArray[numpy.int64]
    words: list[str]

    def __len__(self) -> int:
        return len(self.tokens)


def sentences(doc: Doc, *, name: str) -> list[SentenceView]:
    """The sentences of a document as its boundaries give them.

    doc (Doc): The document.
    name (str): The component that needs them, for the error message.
    RETURNS (List[SentenceView]): The sentences that have more than whitespace.
    """
    if not len(doc):
        return []
    if not doc.has_annotation("SENT_START"):
        raise ValueError(Errors.S110.format(name=name))
    starts = doc.to_array([SENT_START]).astype("int64") == 1
    starts[0] = True
    return _views(doc, numpy.flatnonzero(starts))


def _views(doc: Doc, starts: NDArray) -> list[SentenceView]:
    words = [token.text for token in doc]
    spaces = [i for i, word in enumerate(words) if word.isspace()]
    if len(starts) == 1 and not spaces:
        return [SentenceView(doc, numpy.arange(len(words)), words)]
    views = []
    for begin, end in pairwise([*starts.tolist(), len(doc)]):
        tokens = numpy.setdiff1d(numpy.arange(begin, end), spaces, assume_unique=True)
        if len(tokens):
            views.append(SentenceView(doc, tokens, [words[i] for i in tokens]))
    return views


class SymbolReader:
    """Reads what the automata see of every token: one attribute, or several joined."""

    def __init__(self, attributes: Sequence[str], *, name: str):
        """attributes (Sequence[str]): Names of token attributes, e.g. ["TAG"] or ["POS", "MORPH"].
        name (str): The component that needs them, for error messages.
        """
        self.attributes = [attribute.upper() for attribute in attributes]
        self.name = name
        self._ids = [intify_attr(attribute) for attribute in self.attributes]
        if not self._ids or None in self._ids:
            raise ValueError(Errors.S111.format(value=list(attributes), name=name))

    def __call__(self, doc: Doc) -> list[str]:
        """The symbol of every token of a document."""
        names: dict = {}
        return [
            names[key] if key in names else self._name(doc, key, names) for key in self.keys(doc)
        ]

    def keys(self, doc: Doc) -> list:
        """One hashable key per token; equal keys mean equal symbols."""
        for attribute in self.attributes:
            if attribute in ("TAG", "POS", "MORPH", "LEMMA") and not doc.has_annotation(attribute):
                raise ValueError(Errors.S112.format(name=self.name, attribute=attribute))
        if len(self._ids) == 1:
            return doc.to_array(self._ids[0]).tolist()
        return list(map(tuple, doc.to_array(self._ids).tolist()))

    def _name(self, doc: Doc, key: int | tuple, names: dict) -> str:
        parts = (key,) if isinstance(key, int) else key
        names[key] = "|".join(doc.vocab.strings[part] for part in parts)
        return names[key]

    def encode(self, doc: Doc, table: SymbolTable, known: dict) -> NDArray[numpy.int32]:
        """Symbol ids of a document.

        doc (Doc): The document.
        table (SymbolTable): The symbols.
        known (dict): Ids by key; filled as new keys are met. Belongs to one table and vocabulary.
        """
        keys = self.keys(doc)
        try:
            ids = [known[key] for key in keys]
        except KeyError:
            known.update(zip(keys, table.encode(self(doc)).tolist(), strict=True))
            ids = [known[key] for key in keys]
        return numpy.array(ids, dtype="int32")


def training_trees(
    examples: Iterable[Example], annotated: Iterable[Doc], symbols: SymbolReader
) -> Iterator[Tree]:
    """The trees of gold documents, on the tokens and with the symbols of other documents.

    Heads that are missing, that leave their sentence or that stand on whitespace count as missing.

    examples (Iterable[Example]): Where heads, labels and sentence boundaries come from.
    annotated (Iterable[Doc]): One document per example with its predicted tokens, for the symbols.
    symbols (SymbolReader): What to read.
    YIELDS (Tree): The sentences.
    """
    for example, doc in zip(examples, annotated, strict=True):
        if not len(doc):
            continue
        heads, labels, starts = _aligned(example)
        names = symbols(doc)
        for view in _views(doc, numpy.flatnonzero(starts)):
            position = {MISSING: MISSING, **{int(i): k for k, i in enumerate(view.tokens, start=1)}}
            own = [
                0 if heads[i] == i else position.get(int(heads[i]), MISSING) for i in view.tokens
            ]
            yield Tree(
                view.words,
                [names[i] for i in view.tokens],
                numpy.array(own, dtype="int32"),
                [
                    labels[i] if head != MISSING else ""
                    for i, head in zip(view.tokens, own, strict=True)
                ],
            )


def _aligned(example: Example) -> tuple[NDArray, list[str], NDArray]:
    """Heads (token indices, MISSING), labels and sentence starts on the predicted tokens."""
    predicted, reference = example.predicted, example.reference
    n = len(predicted)
    if len(reference) == n and (predicted.to_array([ORTH]) == reference.to_array([ORTH])).all():
        array = reference.to_array([HEAD, DEP, SENT_START])
        heads = array[:, 0].astype("int64") + numpy.arange(n)
        heads[array[:, 1] == 0] = MISSING  # a missing head looks like a root but for its label
        labels = [reference.vocab.strings[key] if key else "" for key in array[:, 1].tolist()]
        starts = array[:, 2].astype("int64") == 1
    else:
        aligned_heads, aligned_labels = example.get_aligned_parse(projectivize=False)
        labels = [label or "" for label in aligned_labels]
        heads = numpy.array(
            [
                MISSING if head is None or not label else head
                for head, label in zip(aligned_heads, labels, strict=True)
            ]
        )
        starts = numpy.array([start == 1 for start in example.get_aligned_sent_starts()])
    starts[0] = True
    return heads, labels, starts


def fixed_heads(view: SentenceView) -> NDArray[numpy.int32]:
    """Heads that a sentence's tokens have already (1-based, 0 for the root); MISSING for the others."""
    array = view.doc.to_array([HEAD, DEP])[view.tokens]
    position = {int(i): k for k, i in enumerate(view.tokens, start=1)}
    heads = array[:, 0].astype("int64") + view.tokens
    result = numpy.full(len(view), MISSING, dtype="int32")
    for k, (head, own, label) in enumerate(zip(heads, view.tokens, array[:, 1], strict=True)):
        if label:
            result[k] = 0 if head == own else position.get(int(head), MISSING)
    return result


def write_parse(doc: Doc, heads: NDArray[numpy.int64], labels: NDArray[numpy.uint64]) -> None:
    """Write heads and labels to a document; sentence boundaries follow from its roots.

    doc (Doc): The document.
    heads (ndarray): Index of every token's head; roots point to themselves. -1 for whitespace tokens,
        which are hung on the token before them in their sentence, or else on the one after.
    labels (ndarray): Hashes of the labels.
    """
    if not len(doc):
        return
    loose = numpy.flatnonzero(heads < 0)
    if len(loose):
        _attach_whitespace(doc, heads, labels, loose)
    relative = (heads - numpy.arange(len(doc))).astype("int64").astype("uint64")
    doc.from_array([HEAD, DEP], numpy.stack([relative, labels], axis=1))


def _attach_whitespace(doc: Doc, heads: NDArray, labels: NDArray, loose: NDArray) -> None:
    starts = doc.to_array([SENT_START]).astype("int64") == 1
    starts[0] = True
    sentence = numpy.cumsum(starts)
    whitespace = doc.vocab.strings.add(WHITESPACE_LABEL)
    for i in loose:
        labels[i] = whitespace
        if i > 0 and sentence[i - 1] == sentence[i]:
            heads[i] = i - 1
            continue
        words = numpy.flatnonzero((sentence == sentence[i]) & (heads >= 0))
        heads[i] = words[0] if len(words) else i
