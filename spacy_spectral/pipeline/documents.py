"""Between spaCy's documents and the package's sentences.

Whitespace tokens are never part of a sentence here: no treebank annotates them. When a parse is written
back, they hang on their neighbour.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, MORPH, ORTH, POS, SENT_START, intify_attr
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from ..base.cache import Repeated, distinct
from ..base.errors import Errors
from ..trees.pseudoprojective import DELIMITER
from ..trees.sentences import MISSING, Batch, Tokens, Treebank

WHITESPACE_LABEL = "dep"
_ANNOTATED = ("TAG", "POS", "MORPH", "LEMMA")


class TokenReader:
    """Reads what parsers see of documents."""

    def __init__(self, symbol: Sequence[str], *, name: str, required: bool = True):
        """symbol (Sequence[str]): The token attributes that make a symbol, e.g. ["TAG"] or
            ["POS", "MORPH"]; several are joined.
        name (str): The component that needs them, for error messages.
        required (bool): Whether documents must have these attributes.
        """
        self.name = name
        self.required = required
        self._attributes = [attribute.upper() for attribute in symbol]
        self._ids = [intify_attr(attribute) for attribute in self._attributes]
        if not self._ids or None in self._ids:
            raise ValueError(Errors.S111.format(value=list(symbol), name=name))

    def can_read(self, doc: Doc) -> bool:
        """RETURNS (bool): Whether a document has what makes a symbol, and sentences."""
        return all(map(doc.has_annotation, [*self._attributes, "SENT_START"]))

    def __call__(
        self, docs: Iterable[Doc], starts: Iterable[NDArray[numpy.bool_]] | None = None
    ) -> Batch:
        """Read documents.

        docs (Iterable[Doc]): The documents.
        starts (Optional[Iterable[ndarray]]): For each document which tokens start sentences. By default
            the documents must know it.
        RETURNS (Batch): Their sentences.
        """
        docs = list(docs)
        offsets = numpy.cumsum([0, *map(len, docs)])
        values = self._values(docs)
        if starts is None:
            self._require_sentences(docs)
        else:
            values[:, 1] = numpy.concatenate([numpy.zeros(0, dtype=bool), *starts])
            values[offsets[:-1][numpy.diff(offsets) > 0], 1] = 1
        find = string_finder(docs)

        words, word_of = _names(values[:, [0]], find)
        is_word = ~numpy.array([word.isspace() for word in words], dtype=bool)[word_of]
        places = numpy.flatnonzero(is_word)
        sentence = numpy.cumsum(values[:, 1] == 1)[places]
        begins = numpy.flatnonzero(numpy.diff(sentence, prepend=0, append=-1))
        if self.required and len(places):
            self._require_symbols(docs, offsets, is_word, values)

        of_words = values if len(places) == len(values) else values[places]

        def column(which: list[int]) -> list[str]:
            return Repeated(*_names(of_words[:, which], find))

        tokens = Tokens(
            starts=begins.astype("int32") if len(places) else numpy.zeros(1, dtype="int32"),
            words=Repeated(words, word_of[places]),
            symbols=column(list(range(4, values.shape[1]))),
            pos=column([2]),
            morphs=column([3]),
        )
        return Batch(docs, offsets, places, tokens, values)

    def is_current(self, batch: Batch) -> bool:
        """batch (Batch): What this reader has read.
        RETURNS (bool): Whether its documents still have the same tokens, sentences and tags."""
        return numpy.array_equal(self._values(batch.docs), batch.values)

    def _values(self, docs: list[Doc]) -> NDArray[numpy.uint64]:
        """What is read of every token; the second column is 1 where sentences start."""
        columns = [ORTH, SENT_START, POS, MORPH, *self._ids]
        arrays = [numpy.zeros((0, len(columns)), dtype="uint64")]
        arrays += [doc.to_array(columns) for doc in docs if len(doc)]
        values = numpy.concatenate(arrays).astype("uint64", copy=False)
        values[:, 1] = values[:, 1] == 1
        lengths = [len(array) for array in arrays[1:]]
        values[numpy.cumsum([0, *lengths[:-1]]) if lengths else [], 1] = 1
        return values

    def _require_sentences(self, docs: list[Doc]) -> None:
        for doc in docs:
            if len(doc) and not doc.has_annotation("SENT_START"):
                raise ValueError(Errors.S110.format(name=self.name))

    def _require_symbols(
        self, docs: list[Doc], offsets: NDArray, is_word: NDArray, values: NDArray
    ) -> None:
        required = [
            (attribute, values[:, 4 + i])
            for i, attribute in enumerate(self._attributes)
            if attribute in _ANNOTATED
        ]
        for attribute, own in required:
            if own.all():
                continue
            for doc, (begin, end) in zip(docs, pairwise(offsets.tolist()), strict=True):
                if is_word[begin:end].any() and not doc.has_annotation(attribute):
                    raise ValueError(Errors.S112.format(name=self.name, attribute=attribute))


def vocabularies(docs: Iterable[Doc]) -> list[Vocab]:
    """RETURNS (List[Vocab]): The vocabularies of documents: those of a pipeline share one, but a component
    that stands in several pipelines meets several, and in none of them need be what its own has."""
    return list({id(doc.vocab): doc.vocab for doc in docs}.values())


def string_finder(docs: Iterable[Doc]) -> Callable[[int], str]:
    """RETURNS (Callable[[int], str]): Gives the string that a value of a token stands for."""
    stores: list[Any] = [vocab.strings for vocab in vocabularies(docs)]
    if len(stores) == 1:
        return stores[0].__getitem__
    return lambda key: next(store[key] for store in stores if key in store)


def string_values(docs: Iterable[Doc], strings: Iterable[str]) -> NDArray[numpy.uint64]:
    """RETURNS (ndarray): What stands for strings in documents, whose vocabularies have them from now on."""
    stores, strings = [vocab.strings for vocab in vocabularies(docs)], list(strings)
    for store in stores:
        keys = [store.add(string) for string in strings]
    return numpy.array(keys if stores else [], dtype="uint64")


def _names(
    keys: NDArray[numpy.uint64], find: Callable[[int], str]
) -> tuple[list[str], NDArray[numpy.int64]]:
    """Distinct strings, and which of them each row has; several columns are joined."""
    if keys.shape[1] == 1:
        found, codes = distinct(keys[:, 0])
        return list(map(find, found)), codes
    rows, inverse = numpy.unique(keys, axis=0, return_inverse=True)
    names = ["|".join(map(find, row)) for row in rows.tolist()]
    return names, inverse.ravel()


def training_batch(
    examples: Sequence[Example], annotated: Iterable[Doc], read: TokenReader
) -> tuple[Batch, Treebank]:
    """The trees of gold documents, on the tokens and with the tags of other documents.

    Heads that are missing, that leave their sentence or that stand on whitespace count as missing. Labels
    that look like decorated ones (see `trees.pseudoprojective`) are an error.

    examples (Sequence[Example]): Where heads, labels and sentence boundaries come from.
    annotated (Iterable[Doc]): One document per example with its predicted tokens, for the tags.
    read (TokenReader): What to read.
    RETURNS (Tuple[Batch, Treebank]): The documents, and their sentences with trees.
    """
    aligned = [_aligned(example) for example in examples]
    batch = read(annotated, [starts for _, _, starts in aligned])
    heads = [numpy.zeros(0, dtype="int64")]
    for (own, _, _), offset in zip(aligned, batch.offsets.tolist(), strict=False):
        heads.append(numpy.where(own == MISSING, MISSING, own + offset))
    labels = [label for _, own, _ in aligned for label in own]
    positions = batch.heads_at(numpy.concatenate(heads)[batch.places])
    treebank = Treebank(
        batch.tokens,
        positions,
        [
            labels[place] if head != MISSING else ""
            for place, head in zip(batch.places.tolist(), positions.tolist(), strict=True)
        ],
    )
    _require_plain_labels(treebank)
    return batch, treebank


def _require_plain_labels(treebank: Treebank) -> None:
    if not any(DELIMITER in label for label in set(treebank.labels)):
        return
    for begin, end in treebank.tokens.bounds():
        words = treebank.tokens.words[begin:end]
        for word, label in zip(words, treebank.labels[begin:end], strict=True):
            if DELIMITER in label:
                text = " ".join(words)[:80]
                raise ValueError(Errors.S123.format(word=word, words=text, label=label))


def training_treebank(
    examples: Sequence[Example], annotated: Iterable[Doc], read: TokenReader
) -> Treebank:
    """RETURNS (Treebank): The sentences and trees of `training_batch`."""
    return training_batch(examples, annotated, read)[1]


def _aligned(example: Example) -> tuple[NDArray, list[str], NDArray]:
    """Heads (token indices, MISSING), labels and sentence starts on the predicted tokens."""
    predicted, reference = example.predicted, example.reference
    n = len(predicted)
    if not n:
        return numpy.zeros(0, dtype="int64"), [], numpy.zeros(0, dtype=bool)
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


def fixed_heads(batch: Batch) -> NDArray[numpy.int32]:
    """Heads that tokens have already (1-based, 0 for the root); MISSING for the others."""
    places = [numpy.zeros(0, dtype="int64")]
    for doc, offset in zip(batch.docs, batch.offsets.tolist(), strict=False):
        if len(doc):
            array = doc.to_array([HEAD, DEP])
            own = array[:, 0].astype("int64") + numpy.arange(len(doc)) + offset
            places.append(numpy.where(array[:, 1] == 0, MISSING, own))
    return batch.heads_at(numpy.concatenate(places)[batch.places])


def write_parse(doc: Doc, heads: NDArray[numpy.int64], labels: NDArray[numpy.uint64]) -> None:
    """Write heads and labels to a document; sentence boundaries follow from its roots.

    doc (Doc): The document.
    heads (ndarray): Index of every token's head; roots point to themselves. -1 for whitespace tokens,
        which are hung on the token before them in their sentence, or else on the one after.
    labels (ndarray): Hashes of the labels.
    """
    if not len(doc):
        return
    if heads.min() < 0:
        _attach_whitespace(doc, heads, labels, numpy.flatnonzero(heads < 0))
    values = numpy.empty((len(doc), 2), dtype="int64")
    values[:, 0] = heads - numpy.arange(len(doc))
    values[:, 1] = labels.view("int64")
    doc.from_array([HEAD, DEP], values.view("uint64"))


def _attach_whitespace(doc: Doc, heads: NDArray, labels: NDArray, loose: NDArray) -> None:
    starts = doc.to_array([SENT_START]).astype("int64") == 1
    starts[0] = True
    labels[loose] = doc.vocab.strings.add(WHITESPACE_LABEL)
    # the first word at or behind every token, and where its sentence ends
    places = numpy.arange(len(doc))
    word = numpy.minimum.accumulate(numpy.where(heads >= 0, places, len(doc))[::-1])[::-1]
    end = numpy.append(numpy.flatnonzero(starts), len(doc))[numpy.cumsum(starts)]
    heads[loose] = loose - 1
    first = loose[starts[loose]]
    heads[first] = numpy.where(word[first] < end[first], word[first], first)
