"""What components keep on documents, and how it is read. Nothing else knows its keys and layouts.

Users merge and split tokens, make documents of spans and join documents, and a value must never be
read off another token. So the values of a component are one entry of `doc.user_data`, arrays with a row
for every token, beside what tells the tokens they belong to: where each begins, and its word. A token has
a value as long as it is where its entry says, whatever happened to others; an arc has one as long as both
its tokens are there and the arc is in the tree; a sentence as long as all of it is.

spaCy moves entries whose keys look like ("._.", name, start, end) in `span.as_doc` and `Doc.from_docs`, and
their start tells by how many characters. (`as_doc` keeps rows of tokens that it leaves out. Joined to
other documents, they can only be met where the very same words stand.)

Entries are plain values and arrays: they survive to_bytes, DocBin and n_process.
"""

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import isnan
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, IDX, ORTH
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


def whole_entry(
    doc: Doc, name: str, words: NDArray[numpy.uint32] | None = None
) -> dict[str, Any] | None:
    """The entry of a component whose rows are the tokens of a document;
    None if there is none, or the document has other tokens now.

    words: Of the document, from `words_of`, for those who have them already.
    """
    entry = doc.user_data.get(_key(name))
    if entry is None:
        return None
    words, own = words_of(doc) if words is None else words, entry["orth"]
    return entry if len(own) == len(words) and (own == words).all() else None


def words_of(tokens: Doc | Span) -> NDArray[numpy.uint32]:
    """What entries know of words, uint32."""
    return tokens.to_array([ORTH]).astype("uint32").ravel()


def store_entry(doc: Doc, name: str, values: dict[str, Any]) -> None:
    """Keep the values of a component, in place of those it has kept before."""
    for key, _ in entries(doc, name):
        del doc.user_data[key]
    array = doc.to_array([IDX, ORTH])
    tokens = {"idx": array[:, 0].astype("int32"), "orth": array[:, 1].astype("uint32")}
    doc.user_data[_key(name)] = tokens | values


def entries(doc: Doc, name: str) -> list[tuple[tuple, dict[str, Any]]]:
    """The entries of a component: one, but of spans and joined documents any number."""
    return [
        (key, entry)
        for key, entry in doc.user_data.items()
        if isinstance(key, tuple) and len(key) == 4 and key[1] == name and key[0] == "._."
    ]


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


_STARTS = "spectral_senter"
_TAGS = "spectral_tagger"
_PARSE = "spectral_parser"
_CANDIDATES = "spectral_reranker"
_SUB_TAGS = "spectral_refiner"
_CONSTITUENTS = "spectral_constituency"
_SILVER = "silver"


@dataclass
class SentenceParse:
    """One parse of one sentence that begins with token `start`: by token the head, as an index into the
    document (the root's is itself), and the label; and log P(tree | sentence), of the labelled tree if
    the model is about labelled trees."""

    start: int
    heads: list[int]
    deps: list[str]
    logprob: float


class RankedParse(NamedTuple):
    """One candidate of a sentence: the tree (its `logprob` is the base parser's), the reranker's score,
    relative to that of the base parser's likeliest tree, and the probability of being the best of the
    candidates."""

    tree: SentenceParse
    score: float
    probability: float


class TagGuesses(NamedTuple):
    """The most probable tags of tokens, tokens x k: indices of labels, best first, -1 for none; and
    their probabilities."""

    labels: Sequence[str]
    tags: NDArray[numpy.int32]
    probs: NDArray[numpy.float32]


class Alternative(NamedTuple):
    """The likeliest arc to a token that is not in the tree: its head (the token itself for the root),
    its label, and the probability of the arc with this label."""

    head: Token
    dep: str
    prob: float


class OtherArcs(NamedTuple):
    """The likeliest arcs that are not in the tree, by token: how far away the head is, 0 for the root;
    indices of names, -1 where there is no other arc; the probabilities of arcs with these labels."""

    names: list[str]
    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    probs: NDArray[numpy.float32]


@dataclass
class ParseValues:
    """What a parser knows about the parse of a document, as far as it is to be kept.

    sents: The tokens that sentences begin with, closed by the number of tokens.
    head_prob, dep_prob: By token, NaN where there is none; parse_logprob: by sentence.
    marginals: By sentence, modifiers x heads without white space, roots on the diagonal; None without
    words.
    """

    sents: NDArray[numpy.int32]
    head_prob: NDArray[numpy.float32] | None = None
    dep_prob: NDArray[numpy.float32] | None = None
    parse_logprob: NDArray[numpy.float32] | None = None
    marginals: list[NDArray[numpy.float32] | None] | None = None
    alternative: OtherArcs | None = None


class SentenceCandidates(NamedTuple):
    """The ranked trees of one sentence: its tokens, without white space; by tree and token the token
    that is the head (a root's is its own) and the index of the label; by tree log P by the base parser,
    the reranker's score, and the probability of being the best."""

    tokens: NDArray[numpy.int64]
    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    log_probs: NDArray[numpy.float64]
    scores: NDArray[numpy.float64]
    probs: NDArray[numpy.float64]


def store_sent_starts(doc: Doc, probs: NDArray[numpy.float32]) -> None:
    """Keep how likely tokens are to start a sentence, NaN where there is nothing to say."""
    store_entry(doc, _STARTS, {"probs": probs})


def store_tags(doc: Doc, guesses: TagGuesses) -> None:
    """Keep the tags that tokens may have."""
    store_entry(doc, _TAGS, guesses._asdict())


def store_parse(doc: Doc, values: ParseValues) -> None:
    """Keep values of the parse that a document has now."""
    arcs = doc.to_array([HEAD, DEP])
    found = {"head": arcs[:, 0].astype("int32"), "dep": arcs[:, 1]}
    found |= {k: v for k, v in vars(values).items() if v is not None}
    if values.alternative is not None:
        found["alternative"] = values.alternative._asdict()
    store_entry(doc, _PARSE, found)


class Origin(NamedTuple):
    """Of the trees and tags of a document: how much they count in training, and the treebank that they are
    like, None for the gold one."""

    weight: float
    source: str | None


def store_origin(doc: Doc, origin: Origin) -> None:
    """Keep where the annotation of a document is from, if it is not gold."""
    store_entry(doc, _SILVER, origin._asdict())


def origin_of(doc: Doc) -> Origin | None:
    """Where the annotation of a document is from; None for gold annotation."""
    entry = whole_entry(doc, _SILVER)
    return None if entry is None else Origin(entry["weight"], entry["source"])


def treebank_like(doc: Doc, own: str | None) -> str:
    """The treebank that the annotation of a document is like, "" if nothing is said of it: that of the gold
    treebank, `own`, or another one."""
    origin = origin_of(doc)
    return (origin.source if origin else None) or own or ""


def kept_arcs(doc: Doc) -> tuple[NDArray[numpy.float32], OtherArcs] | None:
    """How likely the labelled arcs of a document's tokens are, and the likeliest other ones, as was kept of
    its parse; None without both."""
    entry = whole_entry(doc, _PARSE)
    if entry is None or not {"head_prob", "dep_prob", "alternative"} <= entry.keys():
        return None
    return entry["head_prob"] * entry["dep_prob"], OtherArcs(**entry["alternative"])


def store_candidates(
    doc: Doc, names: Sequence[str], sentences: Sequence[SentenceCandidates]
) -> None:
    """Keep the trees that sentences may have."""
    own = [sentence._asdict() for sentence in sentences]
    store_entry(doc, _CANDIDATES, {"names": list(names), "sentences": own})


def store_sub_tags(
    doc: Doc,
    names: Sequence[str],
    states: NDArray[numpy.int32],
    probs: NDArray[numpy.float32],
) -> None:
    """Keep the sub-tags of tokens: which of them each token has, -1 for none, and with what probability."""
    # of hundreds of names a document has a few
    used, numbers = numpy.unique(states, return_inverse=True)
    own = [names[state] if state >= 0 else "" for state in used.tolist()]
    store_entry(doc, _SUB_TAGS, {"names": own, "subtags": numbers.astype("int32"), "probs": probs})


def tag_guesses(
    doc: Doc, words: NDArray[numpy.uint32] | None = None
) -> Iterator[tuple[list[int] | slice, TagGuesses]]:
    """Some tokens and their tags; all tokens at once if the document is as it was tagged. For words see
    `whole_entry`."""
    entry = whole_entry(doc, _TAGS, words)
    if entry is not None:
        yield slice(None), TagGuesses(entry["labels"], entry["tags"], entry["probs"])
    elif entries(doc, _TAGS):
        for token in doc:
            place = find_token(token, _TAGS)
            if place is not None:
                entry, own = place.entry, slice(place.row, place.row + 1)
                yield (
                    [token.i],
                    TagGuesses(entry["labels"], entry["tags"][own], entry["probs"][own]),
                )


def parse_values(doc: Doc) -> ParseValues | None:
    """A copy of what is kept of a parse, without the values of arcs that
    the document has no longer; None if nothing is kept, or the document has other tokens now."""
    entry = whole_entry(doc, _PARSE)
    if entry is None:
        return None
    kept: dict[str, Any] = {field.name: entry.get(field.name) for field in fields(ParseValues)}
    if kept["alternative"] is not None:
        kept["alternative"] = OtherArcs(**kept["alternative"])
    values = ParseValues(**kept)
    if values.head_prob is not None:
        values.head_prob = numpy.array([head_prob(token) for token in doc], dtype="float32")
    if values.dep_prob is not None:
        values.dep_prob = numpy.array([dep_prob(token) for token in doc], dtype="float32")
    if values.parse_logprob is not None:
        values.parse_logprob = values.parse_logprob.copy()
    return values


# Getters must be found by name: processes that are spawned get them pickled.
def sent_start_prob(token: Token) -> float | None:
    """The probability that a token starts a sentence: `token._.sent_start_prob`. None for white space,
    and if the senter did not see the token."""
    place = find_token(token, _STARTS)
    value = float("nan") if place is None else float(place.entry["probs"][place.row])
    return None if isnan(value) else value


def tag_probs(token: Token) -> dict[str, float]:
    """The most probable tags of a token, best first: `token._.tag_probs`. Empty if the tagger did not
    see it."""
    place = find_token(token, _TAGS)
    if place is None:
        return {}
    labels, row = place.entry["labels"], place.row
    found = zip(place.entry["tags"][row].tolist(), place.entry["probs"][row].tolist(), strict=True)
    return {labels[tag]: prob for tag, prob in found if tag >= 0}


def head_prob(token: Token) -> float | None:
    """The probability of a token's head: `token._.head_prob`. None if the parser did not choose this
    head."""
    return _arc_value(token, "head_prob", labelled=False)


def dep_prob(token: Token) -> float | None:
    """The probability of a token's label, given its head: `token._.dep_prob`. None if the parser did not
    choose this head and label."""
    return _arc_value(token, "dep_prob", labelled=True)


def alternative(token: Token) -> Alternative | None:
    """The likeliest arc to a token that is not in the tree: `token._.alternative`. None if the parser
    did not choose this head, or found no other arc with a probability above 0.01."""
    place = find_token(token, _PARSE)
    if place is None or "alternative" not in place.entry:
        return None
    entry, row, begin = place
    others = OtherArcs(**entry["alternative"])
    if others.labels[row] < 0 or not _has_arc(entry, begin, token, labelled=False):
        return None
    at = row + int(others.heads[row])
    if "token" in entry:  # a token of several words is where its head word is
        words = entry["token"] == entry["token"][at]
        at = int(numpy.flatnonzero(words & (entry["orth"] != 0))[0])
    char = begin + int(entry["idx"][at])
    head = token.doc.char_span(char, char + 1, alignment_mode="expand")[0]
    if row_of(entry, begin, head) != at:
        return None
    return Alternative(head, others.names[others.labels[row]], float(others.probs[row]))


def parse_confidence(tokens: Doc | Span) -> float | None:
    """Which part of the labelled arcs of a document or span is right, as far as the parser can tell: the
    mean of `token._.head_prob * token._.dep_prob`, without white space: `doc._.parse_confidence`. None
    if there are no such probabilities."""
    pairs = [(head_prob(token), dep_prob(token)) for token in tokens if not token.is_space]
    known = [head * dep for head, dep in pairs if head is not None and dep is not None]
    return sum(known) / len(known) if known else None


def parse_logprob(span: Span) -> float | None:
    """The log-probability of the tree of a sentence, or of the trees of several: `span._.parse_logprob`.
    None if the span is not made of whole sentences with the parser's trees."""
    found = _sentences(span)
    if found is None or "parse_logprob" not in found[0].entry:
        return None
    (entry, row, begin), sentences = found
    if "token" in entry:
        same = all(_has_arc(entry, begin, token, labelled=True) for token in span)
    else:
        arcs, own = span.to_array([HEAD, DEP]), slice(row, row + len(span))
        is_same = entry["head"][own] == arcs[:, 0].astype("int32")
        same = bool((is_same & (entry["dep"][own] == arcs[:, 1])).all())
    value = float(entry["parse_logprob"][sentences].sum())
    return value if same and not isnan(value) else None


def marginals(span: Span) -> NDArray[numpy.float32] | None:
    """The probabilities of all arcs of a sentence, [n, n]: `span._.marginals`. Row m holds the
    probability of every word of the sentence as head of its word m, the diagonal that of being the root;
    white space is left out. None if the span is not one sentence that the parser saw."""
    found = _sentences(span)
    if found is None or "marginals" not in found[0].entry:
        return None
    own = found[0].entry["marginals"][found[1]]
    return own[0] if len(own) == 1 else None


def parses(span: Span) -> list[RankedParse] | None:
    """The candidates of a sentence, best first: `span._.parses`. None if the reranker saw no such
    sentence."""
    place = find_span(span, _CANDIDATES)
    if place is None:
        return None
    begin, end, sentences = place.row, place.row + len(span), place.entry["sentences"]
    first = bisect_left(sentences, begin, key=lambda sentence: sentence["tokens"][0])
    stop = bisect_left(sentences, end, key=lambda sentence: sentence["tokens"][0])
    if stop - first != 1 or sentences[first]["tokens"][-1] >= end:
        return None
    if first > 0 and sentences[first - 1]["tokens"][-1] >= begin:
        return None
    own, names, shift = sentences[first], place.entry["names"], span.start - begin
    result = []
    for i in numpy.argsort(-own["probs"], kind="stable").tolist():
        tree = SentenceParse(
            start=int(own["tokens"][0]) + shift,
            heads=(own["heads"][i] + shift).tolist(),
            deps=[names[label] for label in own["labels"][i].tolist()],
            logprob=float(own["log_probs"][i]),
        )
        result.append(RankedParse(tree, float(own["scores"][i]), float(own["probs"][i])))
    return result


def subtag(token: Token) -> str | None:
    """The sub-tag of a token, e.g. "NN.3": `token._.subtag`. None if the refiner did not see the token."""
    place = find_token(token, _SUB_TAGS)
    return place.entry["names"][int(place.entry["subtags"][place.row])] or None if place else None


def subtag_prob(token: Token) -> float | None:
    """The probability of a token's sub-tag: `token._.subtag_prob`. None if the refiner did not see the
    token."""
    place = find_token(token, _SUB_TAGS)
    value = float(place.entry["probs"][place.row]) if place else numpy.nan
    return None if isnan(value) else value


# What is read by `token._` and `span._`, by the component that keeps it.
_EXTENSIONS: dict[str, list[tuple[type, Callable]]] = {
    _STARTS: [(Token, sent_start_prob)],
    _TAGS: [(Token, tag_probs)],
    _PARSE: [
        *((Token, head_prob), (Token, dep_prob), (Token, alternative)),
        *((Span, parse_logprob), (Span, marginals), (Span, parse_confidence)),
        (Doc, parse_confidence),
    ],
    _CANDIDATES: [(Span, parses)],
    _SUB_TAGS: [(Token, subtag), (Token, subtag_prob)],
}
_TOGETHER = frozenset((_STARTS, _TAGS, _PARSE))


def register(*factories: str) -> None:
    """Make what components keep readable by `token._` and `span._`, by the names of their factories; of
    all by default. Probabilities of sentences, tags and trees can be asked for as soon as one of their
    components is there: they are None without the others."""
    if not _TOGETHER.isdisjoint(factories):
        factories = tuple(sorted({*factories, *_TOGETHER}))
    for factory in factories or (*_EXTENSIONS, _CONSTITUENTS):
        if factory == _CONSTITUENTS:
            from .constituents import EXTENSIONS as found
        else:
            found = _EXTENSIONS[factory]
        for owner, getter in found:
            register_extension(owner, getter.__name__, getter=getter)


def _sentences(span: Span) -> tuple[Place, slice] | None:
    """The sentences of a parse that make a span; None if there are no such."""
    place = _find_words(span, _PARSE) if len(span) else None
    if place is None:
        return None
    begin, bounds = place.row, place.entry["sents"]
    end = begin + len(span)
    if "token" in place.entry:
        end = begin + _n_words(place, len(span))
    own = slice(*bounds.searchsorted([begin, end]).tolist())
    return (place, own) if bounds[own.start] == begin and bounds[own.stop] == end else None


def _find_words(span: Span, name: str) -> Place | None:
    """Where the first word of a span is, if the others follow it. A token of several words has a row for
    each; only its head word is where the token is, see `words`."""
    place = find_token(span[0], name)
    if place is None or "token" not in place.entry:
        return find_span(span, name)
    tokens, orth = place.entry["token"], place.entry["orth"]
    first = int(tokens.searchsorted(tokens[place.row]))
    place = place._replace(row=first)
    own = orth[first : first + _n_words(place, len(span))]
    return place if numpy.array_equal(own[own != 0], words_of(span)) else None


def _n_words(place: Place, n_tokens: int) -> int:
    tokens = place.entry["token"]
    return int(tokens.searchsorted(tokens[place.row] + n_tokens)) - place.row


def _has_arc(entry: dict[str, Any], begin: int, token: Token, *, labelled: bool) -> bool:
    """Whether a token has the head, and perhaps the label, that an entry is about."""
    row, other = row_of(entry, begin, token), row_of(entry, begin, token.head)
    if row < 0 or other < 0:
        return False
    head = row + int(entry["head"][row])
    if head != other and ("token" not in entry or entry["token"][head] != entry["token"][other]):
        return False
    return not labelled or entry["dep"][row] == token.dep


def _arc_value(token: Token, name: str, *, labelled: bool) -> float | None:
    place = find_token(token, _PARSE)
    if place is None or name not in place.entry:
        return None
    if not _has_arc(place.entry, place.begin, token, labelled=labelled):
        return None
    value = float(place.entry[name][place.row])
    return None if isnan(value) else value
