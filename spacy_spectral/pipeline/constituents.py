"""Constituents on documents: how they are kept, and how they are read, by the names people know from benepar.

They are one entry of `doc.user_data` (see `annotations`). What a span says is true as long as all its tokens
are where they were; what is said of a sentence, as long as all of the sentence is.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from spacy.tokens import Doc, Span, Token
from spacy.vocab import Vocab

from ..models.constituency.evalb import constituents as tree_constituents
from ..models.constituency.trees import ROOTS, Node, Parsed, clean
from ..treebank.brackets import Tree, bracket_docs, read_trees, spaces, write_tree
from .annotations import Place, entries, find_span, store_entry

NAME = "spectral_constituency"


@dataclass
class SentenceTree:
    """The tree of a sentence, on the tokens of a document, without white space: places of constituents
    are those among these. `nbest` are the most probable trees, if they were asked for."""

    tokens: list[int]
    parsed: Parsed
    nbest: list[Parsed] = field(default_factory=list)


class RankedTree(NamedTuple):
    """One of the most probable trees of a sentence: brackets, and log P(tree | sentence)."""

    parse_string: str
    log_prob: float


def store_trees(doc: Doc, trees: Sequence[SentenceTree]) -> None:
    """Keep trees."""
    labels: dict[str, int] = {}

    def packed(parsed: Parsed) -> dict[str, Any]:
        nodes = [(labels.setdefault(n.label, len(labels)), n.begin, n.end) for n in parsed.nodes]
        return {
            "nodes": numpy.array(nodes, dtype="int32").reshape(-1, 3),
            "probs": numpy.array([node.prob for node in parsed.nodes], dtype="float32"),
            "tags": [labels.setdefault(tag, len(labels)) for tag in parsed.tags],
            "log_prob": float(parsed.log_prob),
        }

    sentences = [
        {
            "tokens": numpy.array(tree.tokens, dtype="int32"),
            "tree": packed(tree.parsed),
            "nbest": [packed(parsed) for parsed in tree.nbest],
        }
        for tree in trees
        if tree.tokens
    ]
    store_entry(doc, NAME, {"labels": list(labels), "sentences": sentences})


def stored_trees(doc: Doc) -> list[SentenceTree]:
    """The trees whose tokens the document still has."""
    result = []
    for (*_, begin, _), entry in entries(doc, NAME):
        for sentence in entry["sentences"]:
            place = _in_document(doc, entry, begin, sentence)
            if place is not None:
                parsed = _unpacked(entry, sentence["tree"])
                nbest = [_unpacked(entry, own) for own in sentence["nbest"]]
                result.append(SentenceTree(place, parsed, nbest))
    return sorted(result, key=lambda tree: tree.tokens)


def _unpacked(entry: dict[str, Any], packed: dict[str, Any]) -> Parsed:
    labels = entry["labels"]
    pairs = zip(packed["nodes"].tolist(), packed["probs"].tolist(), strict=True)
    nodes = [Node(labels[label], begin, end, prob) for (label, begin, end), prob in pairs]
    return Parsed(nodes, [labels[tag] for tag in packed["tags"]], packed["log_prob"])


def _in_document(
    doc: Doc, entry: dict[str, Any], begin: int, sentence: dict[str, Any]
) -> list[int] | None:
    """The tokens of a sentence as they stand now; None if they are not what they were."""
    tokens = sentence["tokens"]
    first, last = int(tokens[0]), int(tokens[-1])
    start = int(entry["idx"][first]) + begin
    end = int(entry["idx"][last]) + begin
    span = doc.char_span(start, end + 1, alignment_mode="expand")
    if span is None or len(span) != last - first + 1:
        return None
    place = find_span(span, NAME)
    if place is None or place.entry is not entry or place.row != first:
        return None
    return (tokens - first + span.start).tolist()


class _View(NamedTuple):
    """The tree around a span: the tokens of the sentence in the document, -1 for those that are not
    there, and where the span is among them."""

    tokens: list[int]
    parsed: Parsed
    begin: int
    end: int


def _touched(span: Span, place: Place) -> Iterator[dict[str, Any]]:
    """The sentences of an entry that have tokens of a span, in their order."""
    sentences = place.entry["sentences"]
    first = bisect_left(sentences, place.row, key=lambda sentence: sentence["tokens"][-1])
    for sentence in islice(sentences, first, None):
        if sentence["tokens"][0] >= place.row + len(span):
            return
        yield sentence


def _view(span: Span | Token) -> _View | None:
    if isinstance(span, Token):
        span = span.doc[span.i : span.i + 1]
    place = find_span(span, NAME)
    if place is None:
        return None
    for sentence in _touched(span, place):
        tokens = sentence["tokens"]
        begin = int(tokens.searchsorted(place.row))
        end = int(tokens.searchsorted(place.row + len(span)))
        # white space around a constituent is no part of it
        if begin < end:
            places = (tokens + span.start - place.row).tolist()
            return _View(places, _unpacked(place.entry, sentence["tree"]), begin, end)
    return None


def _span(doc: Doc, view: _View, begin: int, end: int) -> Span | None:
    """Some words of a sentence as a span; None if tokens of it have changed."""
    start, stop = view.tokens[begin], view.tokens[end - 1] + 1
    if start < 0 or stop > len(doc):
        return None
    span = Span(doc, start, stop)
    return span if find_span(span, NAME) is not None else None


def _places(view: _View) -> list[tuple[int, int]]:
    """The places of all constituents, words included, parents before children and left before right."""
    nodes = {(n.begin, n.end) for n in view.parsed.nodes} | {
        (i, i + 1) for i in range(len(view.tokens))
    }
    return sorted(nodes, key=lambda place: (place[0], -place[1]))


# Getters must be found by name: processes that are spawned get them pickled.
def labels(span: Span | Token) -> tuple[str, ...]:
    """The labels of a constituent, the outermost first: `span._.labels`, `token._.labels`. Several for a
    chain of constituents over the same words; none if the span is no constituent, or a word alone."""
    return tuple(node.label for node in _nodes(span))


def _nodes(span: Span | Token) -> list[Node]:
    view = _view(span)
    if view is None:
        return []
    own = (view.begin, view.end)
    nodes = view.parsed.nodes
    return [node for node in nodes if (node.begin, node.end) == own and node.label not in ROOTS]


def prob(span: Span) -> float | None:
    """The probability that a constituent is there, with its label: `span._.prob`. Of several labels, the
    least probable counts; None if the span has no label."""
    values = [node.prob for node in _nodes(span)]
    return min(values) if values and not any(map(isnan, values)) else None


def constituents(span: Span) -> Iterator[Span]:
    """The constituents inside a span, itself included, and its words, parents before children and left
    before right: `span._.constituents`."""
    view = _view(span)
    if view is not None:
        for begin, end in _places(view):
            if view.begin <= begin and end <= view.end:
                found = _span(span.doc, view, begin, end)
                if found is not None:
                    yield found


def children(span: Span) -> Iterator[Span]:
    """The largest constituents inside a constituent, and its words in none of them: `span._.children`."""
    view = _view(span)
    if view is not None:
        reached = view.begin
        for begin, end in _places(view):
            is_whole = (begin, end) == (view.begin, view.end)
            if reached <= begin and end <= view.end and not is_whole:
                found = _span(span.doc, view, begin, end)
                if found is not None:
                    yield found
                reached = end


def parent(span: Span | Token) -> Span | None:
    """The smallest constituent around a span, None for a sentence: `span._.parent`, `token._.parent`."""
    view = _view(span)
    if view is None:
        return None
    own = (view.begin, view.end)
    around = [p for p in _places(view) if p[0] <= own[0] and own[1] <= p[1] and p != own]
    # constituents that have a word in common are nested: the innermost is the last
    return _span(span.doc, view, *around[-1]) if around else None


def parse_string(span: Span | Token) -> str | None:
    """A sentence, constituent or word in brackets: `span._.parse_string`, `token._.parse_string`, e.g.
    "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))"; None if it is no constituent."""
    view = _view(span)
    if view is None:
        return None
    words = [span.doc[i].text if 0 <= i < len(span.doc) else "" for i in view.tokens]
    tree = to_tree(view.parsed, words, view.begin, view.end)
    return write_tree(tree) if tree is not None else None


def constituency_nbest(span: Span) -> list[RankedTree] | None:
    """The most probable trees of a sentence, best first, if they were asked for:
    `span._.constituency_nbest`. None if the span is no sentence that was parsed."""
    place = find_span(span, NAME)
    if place is None:
        return None
    for sentence in _touched(span, place):
        tokens = sentence["tokens"]
        if place.row <= tokens[0] and tokens[-1] < place.row + len(span):
            words = [span.doc[i].text for i in (tokens + span.start - place.row).tolist()]
            result = []
            for packed in sentence["nbest"]:
                parsed = _unpacked(place.entry, packed)
                tree = to_tree(parsed, words, 0, len(words))
                if tree is not None:
                    result.append(RankedTree(write_tree(tree), parsed.log_prob))
            return result
    return None


def to_tree(
    parsed: Parsed,
    words: Sequence[str],
    begin: int = 0,
    end: int | None = None,
    *,
    root: bool = False,
) -> Tree | None:
    """Constituents as a tree, perhaps with the label around the whole tree (`root`); None if these words
    are no constituent."""
    end = len(words) if end is None else end
    top = Tree("")
    stack: list[tuple[Tree, int]] = [(top, end)]
    done = begin

    def add_words(until: int) -> None:
        nonlocal done
        while done < until:
            while stack[-1][1] <= done:
                stack.pop()
            stack[-1][0].children.append(Tree(parsed.tags[done], word=words[done] or " "))
            done += 1

    for node in parsed.nodes:
        if begin <= node.begin and node.end <= end and (root or node.label not in ROOTS):
            add_words(node.begin)
            while stack[-1][1] <= node.begin:
                stack.pop()
            tree = Tree(node.label)
            stack[-1][0].children.append(tree)
            stack.append((tree, node.end))
    add_words(end)
    return top.children[0] if len(top.children) == 1 else None


def gold_docs(
    path: str | Path, vocab: Vocab, *, n_sents: int = 1, has_text: bool = False
) -> Iterator[Doc]:
    """Read constituency trees as gold documents with words, tags, sentences and trees, without functions
    and empty elements. A TreebankError says what the first problem is.

    has_text: Put the words together to a text, see `with_text`. Otherwise spaces are unknown.
    """
    cleaned = (clean(tree) for tree in read_trees(path))
    kept = (tree for tree in cleaned if tree is not None)
    for doc, trees in bracket_docs(kept, vocab, n_sents=n_sents):
        stored, start = [], 0
        for tree in trees:
            found, tags = tree_constituents(tree)
            nodes = [Node(label, begin, end, nan) for label, begin, end in found]
            tokens = list(range(start, start + len(tags)))
            stored.append(SentenceTree(tokens, Parsed(nodes, tags, nan)))
            start += len(tags)
        store_trees(doc, stored)
        yield with_text(doc) if has_text else doc


def with_text(doc: Doc) -> Doc:
    """A gold document whose words are put together to a text, as `treebank.brackets.spaces` guesses it; the
    document itself if its spaces are known."""
    if not doc.has_unknown_spaces:
        return doc
    guessed = [True] * len(doc)
    trees = stored_trees(doc)
    for tree in trees:
        own = spaces([doc[i].text for i in tree.tokens], tree.parsed.tags)
        for i, is_followed in zip(tree.tokens, own, strict=True):
            guessed[i] = is_followed
    words, tags = [token.text for token in doc], [token.tag_ for token in doc]
    starts = [bool(token.is_sent_start) for token in doc]
    new = Doc(doc.vocab, words=words, tags=tags, spaces=guessed, sent_starts=starts)
    store_trees(new, trees)
    return new


GETTERS = (labels, prob, constituents, children, parent, parse_string, constituency_nbest)
EXTENSIONS: list[tuple[type, Callable]] = [
    *((Span, getter) for getter in GETTERS),
    *((Token, getter) for getter in (labels, parent, parse_string)),
]
