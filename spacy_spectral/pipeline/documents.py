"""Between spaCy's documents and the package's sentences.

Whitespace tokens are never part of a sentence here: no treebank annotates them. When a parse is written
back, they are attached to their neighbour.

Noun chunks of parses by Universal Dependencies, of any language: a chunk is a noun, proper noun or pronoun
with what belongs to it and stands beside it: determiners, numbers, adjectives, other nouns; without
adpositions, clauses and whatever else is attached to it. spaCy's rules for English and some other languages
are made for other labels, and for most languages there is none.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, MORPH, ORTH, POS, SENT_START, intify_attr
from spacy.errors import Errors as SpacyErrors
from spacy.symbols import NOUN, PRON, PROPN, PUNCT
from spacy.tokens import Doc, Span, Token
from spacy.training import Example
from spacy.vocab import Vocab

from ..base.cache import Repeated, distinct
from ..base.errors import Errors, SpectralError
from ..trees.interface import Parses
from ..trees.pseudoprojective import DELIMITER, plain
from ..trees.sentences import MISSING, Batch, SecondTags, Tokens, Treebank, Trust
from .annotations import (
    OtherArcs,
    ParseValues,
    SentenceParse,
    kept_arcs,
    origin_of,
    tag_guesses,
    treebank_like,
)
from .words import with_words, word_example

WHITESPACE_LABEL = "dep"
_ANNOTATED = ("TAG", "POS", "MORPH", "LEMMA")


class TokenReader:
    """Reads what parsers see of documents."""

    def __init__(
        self,
        symbol: Sequence[str],
        *,
        name: str,
        required: bool = True,
        source: str | None = None,
    ):
        """symbol: The token attributes that make a symbol, e.g. ["TAG"] or ["POS", "MORPH"]; several are
        joined. Whether documents must have them is `required`. `source`: The treebank to parse like."""
        self.name = name
        self.required = required
        self.source = source
        self.attributes = [attribute.upper() for attribute in symbol]
        self._ids = [intify_attr(attribute) for attribute in self.attributes]
        if not self._ids or None in self._ids:
            raise SpectralError(Errors.S111.format(value=list(symbol), name=name))

    def without_tags(self) -> "TokenReader":
        """The same for a model that looks at no tags: documents need not have them."""
        return TokenReader(self.attributes, name=self.name, required=False, source=self.source)

    def can_read(self, doc: Doc) -> bool:
        """Whether a document has what makes a symbol, and sentences."""
        return all(map(doc.has_annotation, [*self.attributes, "SENT_START"]))

    def __call__(
        self, docs: Iterable[Doc], starts: Iterable[NDArray[numpy.bool_]] | None = None
    ) -> Batch:
        """Read documents. By default they must know their sentences; else it is told which tokens start
        them."""
        docs = list(map(with_words, docs))
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
            second=_second_tags(docs, values[:, 0].astype("uint32"), offsets, places),
            pos=column([2]),
            morphs=column([3]),
            sources=self._sources(numpy.zeros(len(places), dtype="int64"), []),
        )
        return Batch(docs, offsets, places, tokens, values)

    def _sources(self, which: NDArray[numpy.int64], others: Sequence[str]) -> Sequence[str]:
        """The treebanks of tokens, by which each has: 0 for the reader's own, then others."""
        names = [self.source or "", *others]
        return Repeated(names, which) if any(names) else ()

    def with_origins(self, batch: Batch, references: Sequence[Doc]) -> Batch:
        """A batch whose tokens have the treebanks that gold documents tell of."""
        named = [treebank_like(doc, self.source) for doc in references]
        others = sorted(set(named))
        numbers = numpy.array([others.index(name) + 1 for name in named], dtype="int64")
        which = numpy.searchsorted(batch.offsets, batch.places, side="right") - 1
        tokens = replace(batch.tokens, sources=self._sources(numbers[which], others))
        return replace(batch, tokens=tokens)

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
                raise SpectralError(Errors.S110.format(name=self.name))

    def _require_symbols(
        self, docs: list[Doc], offsets: NDArray, is_word: NDArray, values: NDArray
    ) -> None:
        required = [
            (attribute, values[:, 4 + i])
            for i, attribute in enumerate(self.attributes)
            if attribute in _ANNOTATED
        ]
        for attribute, own in required:
            if own.all():
                continue
            for doc, (begin, end) in zip(docs, pairwise(offsets.tolist()), strict=True):
                if is_word[begin:end].any() and not doc.has_annotation(attribute):
                    raise SpectralError(Errors.S112.format(name=self.name, attribute=attribute))


def vocabularies(docs: Iterable[Doc]) -> list[Vocab]:
    """The vocabularies of documents: those of a pipeline share one, but a component
    that stands in several pipelines meets several, and in none of them need be what its own has."""
    return list({id(doc.vocab): doc.vocab for doc in docs}.values())


def string_finder(docs: Iterable[Doc]) -> Callable[[int], str]:
    """Gives the string that a value of a token stands for."""
    stores: list[Any] = [vocab.strings for vocab in vocabularies(docs)]
    if len(stores) == 1:
        return stores[0].__getitem__
    return lambda key: next(store[key] for store in stores if key in store)


def string_values(docs: Iterable[Doc], strings: Iterable[str]) -> NDArray[numpy.uint64]:
    """What stands for strings in documents, whose vocabularies have them from now on."""
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


def _second_tags(
    docs: list[Doc], words: NDArray[numpy.uint32], offsets: NDArray, places: NDArray
) -> SecondTags:
    """The second guesses of `spectral_tagger` with their probabilities, where it has left some."""
    names: list[str] = []
    first: dict[int, int] = {}  # where the labels of a tagger begin among the names
    tags = numpy.full(int(offsets[-1]), -1, dtype="int64")
    begins = numpy.zeros(len(tags), dtype="int64")
    probs = numpy.zeros(len(tags), dtype="float32")
    for doc, (begin, end) in zip(docs, pairwise(offsets.tolist()), strict=True):
        for where, guesses in tag_guesses(doc, words[begin:end]):
            if guesses.tags.shape[1] < 2:
                continue
            if id(guesses.labels) not in first:
                first[id(guesses.labels)] = len(names)
                names += guesses.labels
            tags[begin:end][where] = guesses.tags[:, 1]
            probs[begin:end][where] = guesses.probs[:, 1]
            if first[id(guesses.labels)]:
                begins[begin:end][where] = first[id(guesses.labels)]
    tags = numpy.where(tags < 0, -1, tags + begins)
    return SecondTags(names, tags[places], probs[places])


def training_batch(
    examples: Sequence[Example], annotated: Iterable[Doc], read: TokenReader
) -> tuple[Batch, Treebank]:
    """The trees of gold documents, on the tokens and with the tags of other documents.

    Heads that are missing, that leave their sentence or that stand on whitespace count as missing.
    Labels that look like decorated ones (see `trees.pseudoprojective`) are an error.
    """
    docs = list(map(with_words, annotated))
    pairs = zip(examples, docs, strict=True)
    aligned = [_aligned(word_example(example, doc)) for example, doc in pairs]
    batch = read(docs, [starts for _, _, starts in aligned])
    batch = read.with_origins(batch, [example.reference for example in examples])
    heads = [numpy.zeros(0, dtype="int64")]
    for (own, _, _), offset in zip(aligned, batch.offsets.tolist(), strict=False):
        heads.append(numpy.where(own == MISSING, MISSING, own + offset))
    labels = [label for _, own, _ in aligned for label in own]
    positions = _heads_at(batch, numpy.concatenate(heads)[batch.places])
    treebank = Treebank(
        batch.tokens,
        positions,
        [
            labels[place] if head != MISSING else ""
            for place, head in zip(batch.places.tolist(), positions.tolist(), strict=True)
        ],
        _trust([example.reference for example in examples], batch),
    )
    _require_plain_labels(treebank)
    return batch, treebank


def _trust(references: Sequence[Doc], batch: Batch) -> Trust | None:
    """How far the trees of documents are to be believed that a parser has made; None if all are gold. The
    predicted documents have the same tokens."""
    weights = [origin.weight if (origin := origin_of(doc)) else None for doc in references]
    if all(weight is None for weight in weights):
        return None
    n = int(batch.offsets[-1])
    own = Trust.whole(0, n)
    places = numpy.full(n, MISSING, dtype="int64")
    for doc, weight, (begin, end) in zip(
        references, weights, pairwise(batch.offsets.tolist()), strict=True
    ):
        kept = None if weight is None or len(doc) != end - begin else kept_arcs(doc)
        if kept is None:
            continue
        prob, other = kept
        known = (other.labels >= 0) & (other.probs > 0) & (prob > 0)
        at = begin + numpy.flatnonzero(known)
        own.shares[at] = (prob / (prob + other.probs))[known]
        places[at] = at + other.heads[known]
        for i, label in zip(at.tolist(), other.labels[known].tolist(), strict=True):
            own.labels[i] = other.names[label]
    heads = _heads_at(batch, places[batch.places])
    document = numpy.searchsorted(batch.offsets, batch.places[batch.tokens.starts[:-1]], "right")
    by_document = numpy.array([1 if w is None else w for w in weights], dtype="float32")
    labels = [
        own.labels[place] if head != MISSING else ""
        for place, head in zip(batch.places.tolist(), heads.tolist(), strict=True)
    ]
    return Trust(by_document[document - 1], own.shares[batch.places], heads, labels)


def _require_plain_labels(treebank: Treebank) -> None:
    if not any(DELIMITER in label for label in set(treebank.labels)):
        return
    for begin, end in treebank.tokens.bounds():
        words = treebank.tokens.words[begin:end]
        for word, label in zip(words, treebank.labels[begin:end], strict=True):
            if DELIMITER in label:
                text = " ".join(words)[:80]
                raise SpectralError(Errors.S123.format(word=word, words=text, label=label))


def training_treebank(
    examples: Sequence[Example], annotated: Iterable[Doc], read: TokenReader
) -> Treebank:
    """The sentences and trees of `training_batch`."""
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
    return _heads_at(batch, numpy.concatenate(places)[batch.places])


def write_parse(doc: Doc, heads: NDArray[numpy.int64], labels: NDArray[numpy.uint64]) -> None:
    """Write heads and labels (hashes) to a document; sentence boundaries follow from its roots, whose
    heads are their own index. Whitespace tokens (-1) are attached to the token before them in their
    sentence, or else on the one after."""
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


def _head_places(batch: Batch, heads: NDArray[numpy.int32]) -> NDArray[numpy.int64]:
    """Heads in sentences as places among all tokens; the root's is its own."""
    places, starts = batch.places, batch.tokens.starts
    first = numpy.repeat(starts[:-1], numpy.diff(starts))
    return numpy.where(heads > 0, places[first + numpy.maximum(heads, 1) - 1], places)


def _heads_at(batch: Batch, places: NDArray[numpy.int64]) -> NDArray[numpy.int32]:
    """Places of heads as heads in sentences: 0 where a place is the token's own, MISSING where it is
    negative, whitespace or in another sentence."""
    starts, n = batch.tokens.starts, int(batch.offsets[-1])
    sentence = numpy.full(n + 1, -1)
    position = numpy.zeros(n + 1, dtype="int32")
    sentence[batch.places] = numpy.repeat(numpy.arange(len(starts) - 1), numpy.diff(starts))
    position[batch.places] = numpy.arange(len(batch.places)) + 1
    position[batch.places] -= numpy.repeat(starts[:-1], numpy.diff(starts))
    places = numpy.where(places < 0, n, places)
    inside = sentence[places] == sentence[batch.places]
    heads = numpy.where(inside, position[places], MISSING)
    return numpy.where(places == batch.places, 0, heads).astype("int32")


STORABLE = ("head_prob", "dep_prob", "parse_logprob", "marginals", "alternative")
# Less likely arcs are nobody's second choice.
_LEAST = 0.01


@dataclass
class Prediction:
    """What is written to one document: by token the index of the head, -1 for whitespace, and that of
    the label among the model's; values that are kept on it; and what a reranker behind the parser wants,
    see `FirstStage`."""

    heads: NDArray[numpy.int64]
    labels: NDArray[numpy.int64]
    values: ParseValues
    found: dict[str, Any] | None = None


def predictions(
    batch: Batch, parses: Parses, store: Sequence[str], label_names: Sequence[str]
) -> list[Prediction]:
    """The parse of every document, and what is kept beside it."""
    n = int(batch.offsets[-1])
    heads, labels = numpy.full(n, -1, dtype="int64"), numpy.zeros(n, dtype="int64")
    heads[batch.places] = _head_places(batch, parses.heads)
    labels[batch.places] = parses.labels
    # by token and by sentence of all documents, those without words included
    by_token: dict[str, NDArray] = {}
    for name, ask in (("head_prob", parses.head_probs), ("dep_prob", parses.label_probs)):
        if name in store:
            by_token[name] = numpy.full(n, numpy.nan, dtype="float32")
            by_token[name][batch.places] = ask()
    sents = numpy.append(numpy.flatnonzero(batch.values[:, 1] == 1), n)
    sentences = numpy.searchsorted(sents, batch.places[batch.tokens.starts[:-1]], side="right") - 1
    log_probs = numpy.zeros(len(sents), dtype="float32")
    if "parse_logprob" in store:
        log_probs[sentences] = parses.log_probs()
    tables: list[NDArray | None] = [None] * len(sents)
    if "marginals" in store:
        for s, sentence in enumerate(sentences.tolist()):
            tables[sentence] = by_modifier(parses.marginals(s)).astype("float32")
    others = _other_arcs(batch, parses, label_names) if "alternative" in store else None
    bounds = numpy.searchsorted(sents, batch.offsets).tolist()
    shift = numpy.repeat(batch.offsets[:-1], numpy.diff(batch.offsets))
    heads = numpy.where(heads < 0, -1, heads - shift)
    sents = sents.astype("int32")
    result = []
    for (begin, end), (a, b) in zip(
        pairwise(batch.offsets.tolist()), pairwise(bounds), strict=True
    ):
        # copies, so that a document does not keep the arrays of its whole batch
        values = ParseValues(
            sents=sents[a : b + 1] - numpy.int32(begin),
            parse_logprob=log_probs[a:b].copy() if "parse_logprob" in store else None,
            marginals=tables[a:b] if "marginals" in store else None,
            alternative=None if others is None else _own_arcs(others, begin, end),
            **{name: own[begin:end].copy() for name, own in by_token.items()},
        )
        result.append(Prediction(heads[begin:end], labels[begin:end], values))
    return result


def _other_arcs(batch: Batch, parses: Parses, label_names: Sequence[str]) -> OtherArcs:
    """The likeliest arcs that are not in the trees, by token of all documents."""
    n = int(batch.offsets[-1])
    # a decorated label is that of a lifted arc, whose head is another
    is_plain = numpy.array([plain(name) == name for name in label_names], dtype=bool)
    result = OtherArcs(
        list(label_names),
        numpy.zeros(n, dtype="int32"),
        numpy.full(n, -1, dtype="int32"),
        numpy.zeros(n, dtype="float32"),
    )
    for s, begin in enumerate(batch.tokens.starts[:-1].tolist()):
        arcs = parses.arcs(s, labelled=True, min_prob=_LEAST)
        words = arcs.modifiers - 1
        in_tree = arcs.heads == parses.heads[begin + words]
        in_tree &= arcs.labels == parses.labels[begin + words]
        order = numpy.lexsort((-arcs.probs, words))
        order = order[(is_plain[arcs.labels] & ~in_tree)[order]]
        word, first = numpy.unique(words[order], return_index=True)
        best = order[first]
        own, heads = batch.places[begin + word], arcs.heads[best]
        at = numpy.where(heads > 0, batch.places[begin + heads - 1], own)
        result.heads[own], result.labels[own] = at - own, arcs.labels[best]
        result.probs[own] = arcs.probs[best]
    return result


def _own_arcs(others: OtherArcs, begin: int, end: int) -> OtherArcs:
    """Those of one document, with the labels that it has."""
    used, numbers = numpy.unique(others.labels[begin:end], return_inverse=True)
    missing = int(numpy.searchsorted(used, 0))  # 1 if there is a -1
    return OtherArcs(
        [others.names[label] for label in used[missing:].tolist()],
        others.heads[begin:end].copy(),
        (numbers - missing).astype("int32"),
        others.probs[begin:end].copy(),
    )


def sentence_parses(
    batch: Batch, parses: Parses, k: int, label_names: Sequence[str], *, labelled: bool = False
) -> list[list[SentenceParse]]:
    """The k best parses of every sentence of one document."""
    names = list(map(plain, label_names))
    result = []
    for s, (begin, end) in enumerate(batch.tokens.bounds()):
        tokens = batch.places[begin:end]
        heads, labels, log_probs = zip(*parses.k_best(s, k, labelled=labelled), strict=True)
        trees = numpy.stack(heads)
        places = numpy.where(trees > 0, tokens[trees - 1], tokens).tolist()
        deps = [[names[label] for label in own] for own in numpy.stack(labels).tolist()]
        starts = [int(tokens[0])] * len(trees)
        result.append(list(map(SentenceParse, starts, places, deps, log_probs)))
    return result


def head_and_label_probs(
    batch: Batch, parses: Parses, label_names: Sequence[str]
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, str], float]]:
    """The probabilities of every (token, head) of one document, and of every
    (token, label) for the chosen head."""
    names = list(map(plain, label_names))
    by_head: dict[tuple[int, int], float] = {}
    by_label: dict[tuple[int, str], float] = {}
    for s, (begin, end) in enumerate(batch.tokens.bounds()):
        tokens = batch.places[begin:end].tolist()
        for h, m, _, prob in parses.arcs(s).rows():
            by_head[tokens[m - 1], tokens[(h or m) - 1]] = prob
        distributions = parses.label_distributions(s)
        for m, label in numpy.argwhere(distributions > 0).tolist():
            key = (tokens[m], names[label])
            by_label[key] = by_label.get(key, 0.0) + float(distributions[m, label])
    return by_head, by_label


def by_modifier(marginals: NDArray) -> NDArray[numpy.float64]:
    """[N+1, N+1] by head and modifier with a root -> [N, N] by modifier and head, roots on the diagonal."""
    rows = marginals[1:, 1:].T.copy()
    numpy.fill_diagonal(rows, marginals[0, 1:])
    return rows


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
