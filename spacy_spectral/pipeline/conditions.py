"""Parses of documents under conditions: `spectral_parser.parse_with`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors
from ..forest.conditions import Condition, LabelIs, NoCrossing, conditioned
from ..trees.interface import ArcProbs, Parses
from ..trees.inventory import plain
from ..trees.sentences import Batch
from .annotations import SentenceParse

# What the parser has ruled out for an arc is hardly impossible.
_SMALLEST_SHARE = 1e-6


class ConditionedParse(NamedTuple):
    """The parse of one sentence under conditions.

    tree (SentenceParse): The best tree that meets them; its `logprob` is given them, of heads alone.
    head_probs (List[float]): The probability of every head, given them.
    probability (float): The probability of the conditions.
    """

    tree: SentenceParse
    head_probs: list[float]
    probability: float


def parse_under(
    batch: Batch, parses: Parses, names: Sequence[str], conditions: Sequence[Condition]
) -> list[ConditionedParse]:
    """Parse the sentences of one document under conditions.

    batch (Batch): The sentences.
    parses (Parses): The parser's parses.
    names (Sequence[str]): Its labels.
    conditions (Sequence[Condition]): Conditions on tokens of the document.
    RETURNS (List[ConditionedParse]): One for each sentence with words.
    """
    labels = list(map(plain, names))
    bounds = batch.tokens.bounds()
    own = _by_sentence(batch, conditions, labels)
    return [
        _sentence(parses, s, batch.places[begin:end], labels, *own[s])
        for s, (begin, end) in enumerate(bounds)
    ]


def _by_sentence(
    batch: Batch, conditions: Sequence[Condition], labels: Sequence[str]
) -> list[tuple[list[Condition], list[Condition]]]:
    """The conditions of every sentence, on positions in it and as they were given."""
    place_of = {
        int(place): (s, i)
        for s, (begin, end) in enumerate(batch.tokens.bounds())
        for i, place in enumerate(batch.places[begin:end].tolist(), start=1)
    }
    result: list[tuple[list[Condition], list[Condition]]] = [
        ([], []) for _ in range(len(batch.tokens))
    ]
    for condition in conditions:
        tokens = [getattr(condition, name) for name in condition.tokens]
        known = [place_of.get(token) for token in tokens]
        sentences = {place[0] for place in known if place is not None}
        alone = isinstance(condition, NoCrossing) or len(set(tokens)) == len(tokens)
        sound = None not in known and len(sentences) == 1 and alone
        if isinstance(condition, LabelIs):
            sound = sound and condition.label in labels
        if isinstance(condition, NoCrossing):
            sound = sound and condition.first <= condition.last
        if not sound:
            listed = ", ".join(sorted(set(labels)))
            raise ValueError(Errors.S915.format(condition=condition, labels=listed))
        moved, told = result[sentences.pop()]
        moved.append(condition.moved(lambda token: place_of[token][1]))
        told.append(condition)
    return result


def _sentence(
    parses: Parses,
    sentence: int,
    places: NDArray[numpy.int64],
    labels: Sequence[str],
    conditions: Sequence[Condition],
    told: Sequence[Condition],
) -> ConditionedParse:
    weights = parses.marginals(sentence)
    arcs = parses.arcs(sentence, labelled=True)
    wanted = {own.token: own.label for own in conditions if isinstance(own, LabelIs)}
    given = weights.copy()
    for token, label in wanted.items():
        given[:, token] *= _SMALLEST_SHARE
        for head, modifier, number, prob in _rows(arcs):
            if modifier == token and labels[number] == label:
                given[head, token] += prob
    found = conditioned(weights, conditions, given=given, told=told)
    deps = _labels(arcs, found.heads, labels)
    for token, label in wanted.items():
        deps[token - 1] = label
    heads = numpy.where(found.heads > 0, places[found.heads - 1], places)
    probs = found.marginals[found.heads, numpy.arange(1, len(places) + 1)]
    tree = SentenceParse(int(places[0]), heads.tolist(), deps, found.log_prob)
    return ConditionedParse(tree, probs.tolist(), found.probability)


def _rows(arcs: ArcProbs) -> list[tuple[int, int, int, float]]:
    columns = (arcs.heads, arcs.modifiers, arcs.labels, arcs.probs)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _labels(arcs: ArcProbs, heads: NDArray[numpy.int32], labels: Sequence[str]) -> list[str]:
    """The likeliest label of every arc of a tree; of any arc to a token where the parser ruled out that."""
    best: list[tuple[bool, float, str]] = [(False, 0.0, labels[0])] * len(heads)
    for head, modifier, number, prob in _rows(arcs):
        own = (bool(heads[modifier - 1] == head), prob, labels[number])
        best[modifier - 1] = max(best[modifier - 1], own, key=lambda value: value[:2])
    return [label for _, _, label in best]
