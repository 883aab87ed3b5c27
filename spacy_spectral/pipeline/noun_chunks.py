"""Noun chunks of parses by Universal Dependencies, of any language.

A chunk is a noun, proper noun or pronoun with what belongs to it and stands beside it: determiners, numbers,
adjectives, other nouns; without adpositions, clauses and what else hangs on it. spaCy's rules for English and
some other languages are made for other labels, and for most languages there is none.
"""

from collections.abc import Callable, Iterator
from typing import Any

from spacy.attrs import DEP
from spacy.errors import Errors as SpacyErrors
from spacy.symbols import NOUN, PRON, PROPN, PUNCT
from spacy.tokens import Doc, Span, Token
from spacy.vocab import Vocab

Rule = Callable[[Doc | Span], Iterator[tuple[int, int, int]]]


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


# https://universaldependencies.org/u/dep/
RELATIONS = _named(
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse "
    "dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis "
    "punct reparandum root vocative xcomp"
)
# Relations to a noun of what is part of its chunk, before it and after it,
_BEFORE = _named("amod clf compound det fixed flat goeswith nmod nummod")
_AFTER = _BEFORE - {"nmod"}
# and of what may stand in between.
_BETWEEN = _named("advmod punct")
# By what is closed: what opens it.
_OPENING = {")": "(", "]": "[", "}": "{", "”": "“", "»": "«"}
_BRACKETS = frozenset("()[]{}")
# What no chunk begins or ends with.
_EDGES = _named("case cc mark punct")
_TAKES_NO_CASE = _named("amod det nmod nummod")
# A noun with one of these is part of another word, or a word of another kind.
_NO_HEAD = _AFTER | _named("advmod aux case cc cop discourse expl mark punct")


class UDNounChunks:
    """A rule for `Vocab.get_noun_chunks`. What has other labels is left to another rule, if there is one."""

    def __init__(self, other: Rule | None):
        self.other = other

    def __call__(self, doclike: Doc | Span) -> Iterator[tuple[int, int, int]]:
        """Find noun chunks.

        YIELDS: First token, the token after the last, label; they do not overlap.
        """
        doc = doclike.doc
        if not doc.has_annotation("DEP"):
            raise ValueError(SpacyErrors.E029)
        if self.other is not None and not has_ud_labels(doclike):
            yield from self.other(doclike)
            return
        label = doc.vocab.strings.add("NP")
        tagged = doc.has_annotation("POS")
        start, end = (0, len(doc)) if isinstance(doclike, Doc) else (doclike.start, doclike.end)
        chunks = [_chunk(token) for token in doclike if _is_head(token, tagged)]
        last = start
        # of two that overlap the longer one counts
        for first, beyond in sorted(chunks, key=lambda chunk: (chunk[0], -chunk[1])):
            if first >= last and beyond <= end:
                yield first, beyond, label
                last = beyond


def use_ud_noun_chunks(vocab: Vocab) -> None:
    """Let the documents of a vocabulary find noun chunks of parses by Universal Dependencies."""
    rule: Any = vocab.get_noun_chunks
    if not isinstance(rule, UDNounChunks):
        vocab.get_noun_chunks = UDNounChunks(rule)


def has_ud_labels(doclike: Doc | Span) -> bool:
    """Whether all labels are those of Universal Dependencies, or more special ones."""
    labels = {
        doclike.doc.vocab.strings[key] for key in set(doclike.to_array([DEP]).ravel().tolist())
    }
    return all(_relation(label) in RELATIONS for label in labels if label)


def _relation(label: str) -> str:
    return label.partition(":")[0].lower()


def _is_head(token: Token, tagged: bool) -> bool:
    if tagged and token.pos not in (NOUN, PROPN, PRON):
        return False
    relation = _relation(token.dep_)
    return bool(relation) and relation not in _NO_HEAD and not token.is_space


def _chunk(head: Token) -> tuple[int, int]:
    """First token and the one after the last."""
    first = at = head.i
    for child in reversed(list(head.lefts)):
        relation = _relation(child.dep_)
        # what stands between is not part of the subtree: crossing arcs
        if child.right_edge.i != at - 1 or relation not in _BEFORE | _BETWEEN:
            break
        at = child.left_edge.i
        if relation in _BEFORE:
            first = at
    end = head.i + 1
    for child in head.rights:
        if child.left_edge.i != end or _relation(child.dep_) not in _AFTER or not _is_light(child):
            break
        end = child.right_edge.i + 1
    return _without_edges(head, first, end)


def _without_edges(head: Token, first: int, end: int) -> tuple[int, int]:
    """A chunk without what parts of it bring along at its ends: white space, brackets, adpositions."""
    doc = head.doc
    words = [token.text for token in doc[first : head.i]]
    for i, word in reversed(list(enumerate(words))):
        # what is closed here was opened before the chunk; after an empty line something else begins
        if (word in _OPENING and _OPENING[word] not in words[:i]) or word.count("\n") > 1:
            first, words = first + i + 1, words[i + 1 :]
            break
    closed = {_OPENING[word] for word in words if word in _OPENING}
    closed |= {word for word in words if words.count(word) > 1}
    while first < head.i and _is_edge(doc[first], head) and doc[first].text not in closed:
        first += 1
    while end - 1 > head.i and _is_edge(doc[end - 1], head):
        end -= 1
    return first, end


def _is_edge(token: Token, head: Token) -> bool:
    if token.is_space or token.is_quote or token.pos == PUNCT or token.text in _BRACKETS:
        return True
    relation = _relation(token.dep_)
    # "before 5 p.m.", but "at least 5 dogs", "in line skating"
    above = token.head
    is_case = above.head == head and _relation(above.dep_) in _TAKES_NO_CASE
    return relation in _EDGES and (relation != "case" or is_case)


def _is_light(token: Token) -> bool:
    """Whether nothing but parts of words and degrees depend on a token."""
    others = (t for t in token.subtree if t != token and not t.is_space)
    return all(_relation(t.dep_) in _AFTER | {"advmod"} for t in others)
