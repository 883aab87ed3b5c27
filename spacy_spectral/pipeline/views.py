"""What parses say, in terms of documents and their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy
from numpy.typing import NDArray

from ..trees.interface import Parses
from ..trees.pseudoprojective import plain
from ..trees.sentences import Batch
from .annotations import OtherArcs, ParseValues, SentenceParse

STORABLE = ("head_prob", "dep_prob", "parse_logprob", "marginals", "alternative")
# Less likely arcs are nobody's second choice.
_LEAST = 0.01


@dataclass
class Prediction:
    """What is written to one document.

    heads: Index of every token's head; -1 for whitespace.
    labels: Index of every token's label in the model's labels.
    values: What is kept on the document.
    found: What a reranker behind the parser wants; see `handover`.
    """

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
    heads[batch.places] = batch.head_places(parses.heads)
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
