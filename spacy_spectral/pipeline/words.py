"""Tokens of a text and the words that they are made of: of the French token "du" they are "de" and "le".

Tags, lemmas and trees are about words, but a Doc cannot hold words that are not in its text. So there are two
forms of a document:

    merged      Tokens are those of the text: `doc.text` is the text. What their words are is kept beside, in
                an entry of `doc.user_data` (see `annotations`). A token has the analysis of its head word,
                the one that is highest in the tree, and the first of several.
    expanded    Tokens are words. A span of `doc.spans["multiword_tokens"]` has the form in the text as its
                label, so that the text, and where words stand in it, is known.

A tokenizer with `multiword = "merge"` makes merged documents, and they stay merged: each component of the
package makes the expanded form of a document, works on that, and writes what it found back (see
`component.SpectralPipe`). Two other ways were weighed. Documents that are expanded until a last component
merges them need that component to give back another Doc than it was given: `nlp(doc)` would no longer
annotate `doc`, other components would see a text that nobody wrote, a parsed document could not be parsed
again, and gold documents could not be aligned with it. Components that look at words by themselves would each
have to know of both forms. As it is, only this module does. A document without multiword tokens is itself its
expanded form, and costs nothing.

Entries of components (probabilities and the like) have a row for each word. On a merged document the row of a
head word is where its token is, the others are nowhere, and "token" tells which token each row belongs to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, IDX, LEMMA, MORPH, ORTH, POS, SENT_START, SPACY, TAG
from spacy.parts_of_speech import IDS as POS_IDS
from spacy.parts_of_speech import NAMES as POS_NAMES
from spacy.tokens import Doc, Span, Token
from spacy.training import Example
from spacy.vocab import Vocab

from ..treebank.documents import MULTIWORD, multiword_tokens, set_sentence_starts, units
from .annotations import (
    Place,
    entries,
    find_token,
    register_extension,
    row_of,
    store_entry,
    whole_entry,
    words_of,
)

_NAME = "spectral_words"
_OFFSETS = "spectral_offsets"
_ATTRIBUTES = [TAG, POS, MORPH, LEMMA, DEP]
_TAGGED = slice(4)  # all but DEP
_COLUMNS = ("tags", "pos", "morphs", "lemmas", "deps")


class Word(NamedTuple):
    """A word of a token.

    head: The token of its head, and which of that token's words it is; None if there is no tree. The head of
        a root is itself.
    """

    text: str
    lemma: str
    pos: str
    tag: str
    morph: str
    dep: str
    head: tuple[int, int] | None


@dataclass(frozen=True)
class _Layout:
    """The words of a merged document.

    counts: int32, how many words each token has.
    tops: int32, which of them is its head word.
    heads: int64, how far the head of each word is, in words.
    columns: Forms and annotation of the words of multiword tokens, one after the other.
    """

    counts: NDArray[numpy.int32]
    tops: NDArray[numpy.int32]
    heads: NDArray[numpy.int64]
    columns: dict[str, list[str]]

    @cached_property
    def token_of(self) -> NDArray[numpy.int64]:
        """The token of each word."""
        return numpy.repeat(numpy.arange(len(self.counts)), self.counts)

    @cached_property
    def firsts(self) -> NDArray[numpy.int64]:
        """The first word of each token."""
        firsts = numpy.zeros(len(self.counts), dtype="int64")
        numpy.cumsum(self.counts[:-1], out=firsts[1:])
        return firsts

    def rows(self, tokens: NDArray[numpy.uint64]) -> tuple[NDArray, NDArray]:
        """Where the words of a merged document are, and what stands there, by IDX and ORTH of its tokens:
        those of head words are where their tokens are, others where no token begins."""
        token_of, firsts = self.token_of, self.firsts
        top_rows = firsts + self.tops
        idx = tokens[token_of, 0].astype("int32")
        # in order, so that the head word is found first
        idx[numpy.arange(len(idx)) < top_rows[token_of]] -= 1
        orth = numpy.zeros(len(idx), dtype="uint32")
        orth[top_rows] = tokens[:, 1].astype("uint32")
        return idx, orth


def set_words(doc: Doc, found: Mapping[int, Sequence[str]]) -> None:
    """Keep the words of some tokens of a document that has no annotation yet."""
    if not found:
        return
    counts = numpy.ones(len(doc), dtype="int32")
    for place, words in found.items():
        counts[place] = len(words)
    forms = [word for place in sorted(found) for word in found[place]]
    empty = [""] * len(forms)
    columns = {"forms": forms} | {name: list(empty) for name in _COLUMNS}
    heads = numpy.zeros(int(counts.sum()), dtype="int64")
    _store(doc, _Layout(counts, numpy.zeros_like(counts), heads, columns))


def _store(doc: Doc, layout: _Layout) -> None:
    store_entry(
        doc,
        _NAME,
        {"counts": layout.counts, "tops": layout.tops, "heads": layout.heads.astype("int32")}
        | layout.columns,
    )


def _layout(doc: Doc) -> _Layout | None:
    """The words of a merged document; None if its tokens are words."""
    entry = whole_entry(doc, _NAME)
    if entry is None:
        return _gathered(doc) if entries(doc, _NAME) else None
    columns = {name: entry[name] for name in ("forms", *_COLUMNS)}
    return _Layout(entry["counts"], entry["tops"], entry["heads"].astype("int64"), columns)


def _gathered(doc: Doc) -> _Layout | None:
    """The words of a document whose tokens were merged or split, or which is made of others."""
    places = [find_token(token, _NAME) for token in doc]
    known = [place is not None and place.entry["counts"][place.row] > 1 for place in places]
    if not any(known):
        return None
    counts = numpy.ones(len(doc), dtype="int32")
    tops = numpy.zeros(len(doc), dtype="int32")
    columns: dict[str, list[str]] = {name: [] for name in ("forms", *_COLUMNS)}
    row_of = {(id(p.entry), p.begin, p.row): i for i, p in enumerate(places) if p is not None}
    targets: list[tuple[int, int] | None] = []  # token and word of heads
    for i, place in enumerate(places):
        if place is None:
            targets.append(None)
            continue
        entry, row = place.entry, place.row
        counts[i], tops[i] = entry["counts"][row], entry["tops"][row]
        ends = numpy.cumsum(entry["counts"])
        first = int(ends[row] - entry["counts"][row])
        for word in range(first, int(ends[row])):
            head = word + int(entry["heads"][word])
            token = int(numpy.searchsorted(ends, head, side="right"))
            at = row_of.get((id(entry), place.begin, token))
            within = head - int(ends[token] - entry["counts"][token])
            targets.append(None if at is None else (at, within))
        if counts[i] > 1:
            several = entry["counts"] > 1
            begin = int(entry["counts"][:row][several[:row]].sum())
            for name, column in columns.items():
                column += entry[name][begin : begin + int(counts[i])]
    layout = _Layout(counts, tops, numpy.zeros(len(targets), dtype="int64"), columns)
    firsts = layout.firsts
    for word, target in enumerate(targets):
        if target is not None:
            layout.heads[word] = firsts[target[0]] + target[1] - word
    return layout


def with_words(doc: Doc, *, mark: bool = True) -> Doc:
    """The expanded form of a document: a new one with what the tokens and their words have; the document
    itself if its tokens are words.

    mark: Whether multiword tokens are marked by spans. Not needed where only words are looked at.
    """
    layout = _layout(doc)
    if layout is None:
        return doc
    token_of, firsts = layout.token_of, layout.firsts
    of_tokens = doc.to_array([*_ATTRIBUTES, HEAD, SENT_START, IDX, ORTH, SPACY])
    words, spaces = _forms(doc, layout, of_tokens)
    new = Doc(doc.vocab, words=words, spaces=spaces)
    values = of_tokens[token_of]
    n = len(values)
    is_other = numpy.ones(n, dtype=bool)
    is_other[firsts + layout.tops] = False
    columns = _hashed(doc.vocab, layout.columns)
    several = layout.counts[token_of] > 1
    # what a token has is what its head word has
    values[is_other, : len(_ATTRIBUTES)] = columns[is_other[several]]
    if values[:, _TAGGED].any():
        new.from_array(_ATTRIBUTES[_TAGGED], values[:, _TAGGED])
    if values[:, 4].any():
        rows = numpy.arange(n)
        tokens = token_of + values[:, 5].astype("int64")
        known = rows + layout.heads
        heads = numpy.where(tokens == token_of, rows, firsts[tokens] + layout.tops[tokens])
        is_known = is_other | ((token_of[known] == tokens) & (tokens != token_of))
        heads = numpy.where(is_known, known, heads)
        tree = numpy.stack([(heads - rows).astype("uint64"), values[:, 4]], axis=1)
        new.from_array([HEAD, DEP], tree)
    starts = values[:, 6].astype("int64")
    # no sentence begins inside of a token
    is_inside = numpy.ones(n, dtype=bool)
    is_inside[firsts] = False
    starts[is_inside] = -1
    set_sentence_starts(new, starts)
    if doc.tensor.size:
        new.tensor = doc.tensor[token_of]
    if mark:
        _mark(doc, new, layout)
    found = [(key, entry) for key, entry in _own_entries(doc) if "token" in entry]
    if found:
        _, orth = layout.rows(of_tokens[:, 7:9])
        array = new.to_array([IDX, ORTH])
        own = {"idx": array[:, 0].astype("int32"), "orth": array[:, 1].astype("uint32")}
        for key, entry in found:
            if numpy.array_equal(entry["orth"], orth):
                new.user_data[key] = {k: v for k, v in entry.items() if k != "token"} | own
    return new


def _forms(
    doc: Doc, layout: _Layout, of_tokens: NDArray[numpy.uint64]
) -> tuple[list[str], NDArray[numpy.bool_]]:
    """The words of a document, and whether spaces follow them."""
    strings = doc.vocab.strings
    words: list[str] = []
    forms = iter(layout.columns["forms"])
    for orth, count in zip(of_tokens[:, 8].tolist(), layout.counts.tolist(), strict=True):
        if count == 1:
            words.append(strings[orth])
        else:
            words += islice(forms, count)
    spaces = numpy.zeros(len(words), dtype=bool)
    spaces[layout.firsts + layout.counts - 1] = of_tokens[:, 9]
    return words, spaces


def _hashed(vocab: Vocab, columns: dict[str, list[str]]) -> NDArray[numpy.uint64]:
    """Annotation as documents have it."""
    add, morphology = vocab.strings.add, vocab.morphology.add
    found = zip(*(columns[name] for name in _COLUMNS), strict=True)
    rows = [
        (
            add(tag) if tag else 0,
            POS_IDS.get(pos, 0),
            morphology(morph) if morph else 0,
            add(lemma) if lemma else 0,
            add(dep) if dep else 0,
        )
        for tag, pos, morph, lemma, dep in found
    ]
    return numpy.array(rows, dtype="uint64").reshape(-1, len(_COLUMNS))


def _mark(doc: Doc, new: Doc, layout: _Layout) -> None:
    """Mark the multiword tokens of an expanded document."""
    firsts = layout.firsts.tolist()
    ends = [first + count for first, count in zip(firsts, layout.counts.tolist(), strict=True)]
    marked = [
        Span(new, firsts[i], ends[i], label=doc[i].text)
        for i in numpy.flatnonzero(layout.counts > 1).tolist()
    ]
    marked += [
        Span(new, firsts[first], ends[last])
        for first, (last, _) in multiword_tokens(doc).items()
        if ends[last] - firsts[first] == last - first + 1
    ]
    new.spans[MULTIWORD] = sorted(marked, key=lambda span: span.start)


def _own_entries(doc: Doc) -> Iterator[tuple[tuple, dict[str, Any]]]:
    """The entries of components that are about the whole document."""
    for key, entry in doc.user_data.items():
        is_key = isinstance(key, tuple) and len(key) == 4 and key[0] == "._." and key[2] == 0
        if is_key and key[1] not in (_NAME, _OFFSETS) and "orth" in entry:
            yield key, entry


def write_back(doc: Doc, words: Doc) -> None:
    """Give a merged document what its expanded form has."""
    layout = _layout(doc)
    if layout is None or not len(doc):
        return
    token_of, firsts = layout.token_of, layout.firsts
    values = words.to_array([*_ATTRIBUTES, HEAD, SENT_START])
    heads = values[:, 5].astype("int64")
    has_tree = bool(values[:, 4].any())
    layout = replace(
        layout,
        tops=_tops(layout, heads) if has_tree else layout.tops,
        heads=heads,
        columns={"forms": layout.columns["forms"]}
        | _columns(doc.vocab, values[layout.counts[token_of] > 1]),
    )
    top_rows = firsts + layout.tops
    own = values[top_rows]
    doc.from_array(_ATTRIBUTES[_TAGGED], own[:, _TAGGED])
    if has_tree:
        tokens = token_of[top_rows + heads[top_rows]]
        shifts = (tokens - numpy.arange(len(doc))).astype("uint64")
        doc.from_array([HEAD, DEP], numpy.stack([shifts, own[:, 4]], axis=1))
    starts = values[firsts, 6].astype("int64")
    if starts.any():
        set_sentence_starts(doc, starts)
    _store(doc, layout)
    _write_entries(doc, words, layout)
    doc.noun_chunks_iterator = words.noun_chunks_iterator


def _tops(layout: _Layout, heads: NDArray[numpy.int64]) -> NDArray[numpy.int32]:
    """Which word of each token is highest in the tree, the first of several."""
    tops = numpy.zeros(len(layout.counts), dtype="int32")
    firsts = layout.firsts
    for token in numpy.flatnonzero(layout.counts > 1).tolist():
        first, count = int(firsts[token]), int(layout.counts[token])
        depths = [_depth(heads, first + i) for i in range(count)]
        tops[token] = depths.index(min(depths))
    return tops


def _depth(heads: NDArray[numpy.int64], word: int) -> int:
    depth = 0
    while heads[word] and depth < len(heads):
        word += int(heads[word])
        depth += 1
    return depth


def _columns(vocab: Vocab, values: NDArray[numpy.uint64]) -> dict[str, list[str]]:
    """Annotation as strings."""
    strings = vocab.strings
    rows = values[:, : len(_ATTRIBUTES)].tolist()
    return {
        name: [
            (POS_NAMES.get(row[i], "") if name == "pos" else strings[row[i]]) if row[i] else ""
            for row in rows
        ]
        for i, name in enumerate(_COLUMNS)
    }


def _write_entries(doc: Doc, words: Doc, layout: _Layout) -> None:
    """Keep on a merged document what components keep on its expanded form."""
    idx, orth = layout.rows(doc.to_array([IDX, ORTH]))
    place = {"idx": idx, "orth": orth, "token": layout.token_of.astype("int32")}
    found = {key: entry | place for key, entry in _own_entries(words)}
    taken = {key for key, entry in _own_entries(doc) if "token" in entry and key not in found}
    replaced = {key[1] for key in found}
    for key in list(doc.user_data):
        is_entry = isinstance(key, tuple) and len(key) == 4 and key[0] == "._."
        if key in taken or (is_entry and key[1] in replaced):
            del doc.user_data[key]
    doc.user_data.update(found)


# ---------------------------------------------------------------- gold documents


def merged(words: Doc) -> Doc:
    """The merged form of an expanded document, with its annotation; the document itself if all its words
    stand in its text."""
    marked = multiword_tokens(words)
    if not any(_differs(words, first, *own) for first, own in marked.items()):
        return words
    texts: list[str] = []
    spaces: list[bool] = []
    found: dict[int, list[str]] = {}
    cut: list[tuple[int, int]] = []
    for unit in units(words):
        pieces = unit.pieces or [unit.form]
        if unit.pieces is None:
            found[len(texts)] = unit.words
        elif unit.last > unit.first:
            cut.append((len(texts), len(texts) + len(pieces)))
        texts += pieces
        spaces += [*[False] * (len(pieces) - 1), bool(words[unit.last].whitespace_)]
    doc = Doc(words.vocab, words=texts, spaces=spaces)
    if cut:
        doc.spans[MULTIWORD] = [doc[a:b] for a, b in cut]
    if not found:
        _copy_annotation(words, doc)
        return doc
    set_words(doc, found)
    write_back(doc, words)
    return doc


def _differs(words: Doc, first: int, last: int, form: str) -> bool:
    return form != "".join(token.text for token in words[first : last + 1])


def _copy_annotation(words: Doc, doc: Doc) -> None:
    """Give a document all that another with as many tokens has."""
    values = words.to_array([*_ATTRIBUTES, HEAD, SENT_START])
    doc.from_array(_ATTRIBUTES[_TAGGED], values[:, _TAGGED])
    if values[:, 4].any():
        doc.from_array([HEAD, DEP], values[:, [5, 4]])
    if values[:, 6].any():
        set_sentence_starts(doc, values[:, 6].astype("int64"))


class Surface(NamedTuple):
    """The text of an expanded document.

    starts, ends: Where each word is in it; words of multiword tokens that do not stand in it are where the
        token is.
    inside: Which words are of such tokens.
    """

    text: str
    starts: NDArray[numpy.int32]
    ends: NDArray[numpy.int32]
    inside: NDArray[numpy.bool_]


def surface(words: Doc) -> Surface:
    """The text that an expanded document was made of."""
    n = len(words)
    starts, ends = numpy.zeros(n, dtype="int32"), numpy.zeros(n, dtype="int32")
    inside = numpy.zeros(n, dtype=bool)
    pieces: list[str] = []
    size = 0
    for unit in units(words):
        begin = size
        for i, piece in enumerate(unit.pieces or (), unit.first):
            starts[i], ends[i] = begin, begin + len(piece)
            begin += len(piece)
        if unit.pieces is None:
            own = slice(unit.first, unit.last + 1)
            starts[own], ends[own], inside[own] = size, size + len(unit.form), True
        pieces.append(unit.form + words[unit.last].whitespace_)
        size += len(pieces[-1])
    return Surface("".join(pieces), starts, ends, inside)


def keep_offsets(words: Doc) -> None:
    """Keep where the words of an expanded document are in the text."""
    own = surface(words)
    store_entry(words, _OFFSETS, {"start": own.starts, "end": own.ends})


def fitted(gold: Doc, predicted: Doc) -> Doc:
    """A gold document of words on the words of a predicted one of the same text, so that spaCy can align the
    two: words that were found for a token and are not the right ones have no annotation.

    gold, predicted: Expanded documents.
    """
    ours, theirs = surface(gold), surface(predicted)
    if not (ours.inside.any() or theirs.inside.any()):
        return gold
    rows: list[int] = []  # of gold words, -1 for those of the predicted document
    words: list[str] = []
    spaces: list[bool] = []
    begins: list[int] = []  # gold words whose sentence starts are those of other words
    for own, other in _segments(ours, theirs):
        mine = [token.text for token in gold[own.start : own.stop]]
        found = [token.text for token in predicted[other.start : other.stop]]
        is_other = ours.inside[own].any() or theirs.inside[other].any()
        if is_other and [word.lower() for word in mine] != [word.lower() for word in found]:
            rows += [-1] * len(found)
            begins += [own.start, *[-1] * (len(found) - 1)]
            words += found
            spaces += [bool(token.whitespace_) for token in predicted[other.start : other.stop]]
        else:
            rows += range(own.start, own.stop)
            begins += range(own.start, own.stop)
            words += mine
            spaces += [bool(token.whitespace_) for token in gold[own.start : own.stop]]
    doc = Doc(gold.vocab, words=words, spaces=spaces)
    _copy_rows(gold, doc, numpy.array(rows, dtype="int64"), numpy.array(begins, dtype="int64"))
    return doc


def _copy_rows(
    gold: Doc, doc: Doc, rows: NDArray[numpy.int64], begins: NDArray[numpy.int64]
) -> None:
    """Give the words of a document the annotation of words of another, none for -1."""
    values = gold.to_array([*_ATTRIBUTES, HEAD, SENT_START])
    is_known = rows >= 0
    own = values[rows]
    own[~is_known] = 0
    new_rows = numpy.full(len(gold), -1, dtype="int64")
    new_rows[rows[is_known]] = numpy.flatnonzero(is_known)
    heads = new_rows[numpy.where(is_known, rows + own[:, 5].astype("int64"), 0)]
    own[heads < 0, 4] = 0
    doc.from_array(_ATTRIBUTES[_TAGGED], own[:, _TAGGED])
    places = numpy.arange(len(rows))
    if own[:, 4].any():
        shifts = numpy.where(own[:, 4] == 0, 0, heads - places).astype("uint64")
        doc.from_array([HEAD, DEP], numpy.stack([shifts, own[:, 4]], axis=1))
    starts = numpy.where(begins >= 0, values[begins, 6].astype("int64"), -1)
    if values[:, 6].any():
        set_sentence_starts(doc, starts)


def _segments(one: Surface, two: Surface) -> Iterator[tuple[slice, slice]]:
    """The words of two documents, as far as they end in the same place."""
    i = j = 0
    ends, others = one.ends.tolist(), two.ends.tolist()
    while i < len(ends) and j < len(others):
        a, b = i, j
        i, j = _beyond(ends, i), _beyond(others, j)
        while ends[i - 1] != others[j - 1] and (i < len(ends) or j < len(others)):
            if ends[i - 1] < others[j - 1] and i < len(ends):
                i = _beyond(ends, i)
            elif j < len(others):
                j = _beyond(others, j)
            else:
                i = _beyond(ends, i)
        yield slice(a, i), slice(b, j)


def _beyond(ends: list[int], at: int) -> int:
    """The first word that does not end where a word does."""
    end = ends[at]
    while at < len(ends) and ends[at] == end:
        at += 1
    return at


def word_example(example: Example, annotated: Doc | None = None) -> Example:
    """An example on words.

    annotated: A document to use in place of the predicted one.
    """
    given = example.predicted if annotated is None else annotated
    predicted, reference = with_words(given), with_words(example.reference)
    differ = not numpy.array_equal(words_of(predicted), words_of(reference))
    if differ and (_has_labels(predicted) or _has_labels(reference)):
        reference = fitted(reference, predicted)
    is_same = reference is example.reference and (
        predicted is example.predicted
        or numpy.array_equal(words_of(predicted), words_of(example.predicted))
    )
    return example if is_same else Example(predicted, reference)


def _has_labels(doc: Doc) -> bool:
    """Whether a document has words that do not stand in its text."""
    return any(span.label for span in doc.spans.get(MULTIWORD, ()))


def word_examples(examples: Iterable[Example]) -> list[Example]:
    """Examples on words."""
    return list(map(word_example, examples))


# ---------------------------------------------------------------- what is read by token._


def words(token: Token) -> list[Word]:
    """The words of a token, one for most: `token._.words`."""
    place = find_token(token, _NAME)
    if place is None:
        return [_own_word(token)]
    entry, row, _ = place
    ends = numpy.cumsum(entry["counts"])
    count, top = int(entry["counts"][row]), int(entry["tops"][row])
    first = int(ends[row]) - count
    several = entry["counts"][:row]
    at = int(several[several > 1].sum())  # where its words are among those of multiword tokens
    found = []
    for i in range(count):
        own = _own_word(token)
        if i != top:
            lemma, pos, tag, morph, dep = (
                entry[name][at + i] for name in ("lemmas", "pos", "tags", "morphs", "deps")
            )
            own = Word("", lemma, pos, tag, "" if morph == "_" else morph, dep, None)
        if count > 1:
            own = own._replace(text=entry["forms"][at + i])
        head = _head(token, place, ends, first + i) if own.dep else None
        found.append(own if head is None and i == top else own._replace(head=head))
    return found


def _head(
    token: Token, place: Place, ends: NDArray[numpy.int64], word: int
) -> tuple[int, int] | None:
    """The token of a word's head, and which of its words it is; None if the token is there no longer, or is
    not that which the word's token depends on now."""
    entry, row, begin = place
    head = word + int(entry["heads"][word])
    other = int(numpy.searchsorted(ends, head, side="right"))
    at = token.i + other - row
    if not 0 <= at < len(token.doc) or row_of(entry, begin, token.doc[at]) != other:
        return None
    is_top = word == int(ends[row] - entry["counts"][row] + entry["tops"][row])
    if is_top and token.head.i != at:
        return None
    return at, head - int(ends[other] - entry["counts"][other])


def _own_word(token: Token) -> Word:
    head = (token.head.i, 0) if token.dep else None
    morph = str(token.morph)
    return Word(token.text, token.lemma_, token.pos_, token.tag_, morph, token.dep_, head)


def start_char(token: Token) -> int | None:
    """Where a token, or the token that a word is of, begins in the text: `token._.start_char`.

    RETURNS: None for a token of words that was made of others.
    """
    return _offset(token, "start", token.idx)


def end_char(token: Token) -> int | None:
    """Where a token, or the token that a word is of, ends in the text: `token._.end_char`.

    RETURNS: None for a token of words that was made of others.
    """
    return _offset(token, "end", token.idx + len(token))


def _offset(token: Token, name: str, own: int) -> int | None:
    place = find_token(token, _OFFSETS)
    if place is not None:
        return int(place.entry[name][place.row])
    return None if entries(token.doc, _OFFSETS) else own


def register_words() -> None:
    """Make words, and where they are in the text, readable by `token._`."""
    for getter in (words, start_char, end_char):
        register_extension(Token, getter.__name__, getter=getter)
