"""Parses under conditions: by `parse_with` of parsers and rerankers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors, SpectralError
from ..forest.conditions import Condition, LabelIs, NoCrossing, SentenceTrees, conditioned
from ..trees.interface import Parses
from ..trees.pseudoprojective import plain
from ..trees.sentences import Batch
from .annotations import SentenceParse

# Longer sentences are not for conditions: all pairs of tokens are looked at.
MAX_LENGTH = 1_000


class ConditionedParse(NamedTuple):
    """The parse of one sentence under conditions: the best tree that meets them, and the probability of
    every head, both given them (`logprob` is of the labelled tree if the model is about labelled trees);
    and the probability of the conditions."""

    tree: SentenceParse
    head_probs: list[float]
    probability: float


def parse_under(
    batch: Batch, parses: Parses, names: Sequence[str], conditions: Sequence[Condition]
) -> list[ConditionedParse]:
    """Parse the sentences with words of one document under conditions."""
    labels = list(map(plain, names))
    own = _by_sentence(batch, conditions, labels)
    result = []
    for s, (begin, end) in enumerate(batch.tokens.bounds()):
        places = batch.places[begin:end]
        moved, told = own[s]
        if end - begin <= MAX_LENGTH:
            result.append(_sentence(parses, s, places, labels, moved, told))
        elif moved:
            raise SpectralError(
                Errors.S918.format(condition=told[0], n=end - begin, most=MAX_LENGTH)
            )
        else:
            result.append(_as_it_is(parses, s, slice(begin, end), places, labels))
    return result


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
    known_labels = {label.lower() for label in labels}
    for condition in conditions:
        if not isinstance(condition, Condition):
            raise SpectralError(Errors.S919.format(value=repr(condition)))
        tokens = list(condition.tokens.values())
        known = [place_of.get(token) for token in tokens]
        sentences = {place[0] for place in known if place is not None}
        alone = isinstance(condition, NoCrossing) or len(set(tokens)) == len(tokens)
        sound = None not in known and len(sentences) == 1 and alone
        if isinstance(condition, LabelIs):
            sound = sound and condition.label.lower() in known_labels
        if isinstance(condition, NoCrossing):
            sound = sound and condition.first <= condition.last
        if not sound:
            listed = ", ".join(sorted(set(labels)))
            raise SpectralError(Errors.S915.format(condition=condition, labels=listed))
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
    n = len(places)
    labelled = any(isinstance(own, LabelIs) for own in conditions)
    trees = SentenceTrees(parses, sentence, labelled)
    found = conditioned(n, trees, conditions, names=labels, told=told)
    heads = numpy.where(found.heads > 0, places[found.heads - 1], places)
    probs = found.marginals[found.heads, numpy.arange(1, n + 1)]
    deps = [labels[i] for i in found.labels.tolist()]
    tree = SentenceParse(int(places[0]), heads.tolist(), deps, found.log_prob)
    return ConditionedParse(tree, probs.tolist(), found.probability)


def _as_it_is(
    parses: Parses,
    sentence: int,
    own: slice,
    places: NDArray[numpy.int64],
    labels: Sequence[str],
) -> ConditionedParse:
    """A sentence of any length without conditions."""
    heads = numpy.where(parses.heads[own] > 0, places[parses.heads[own] - 1], places)
    deps = [labels[i] for i in parses.labels[own].tolist()]
    log_prob = float(parses.log_probs()[sentence])
    tree = SentenceParse(int(places[0]), heads.tolist(), deps, log_prob)
    return ConditionedParse(tree, parses.head_probs()[own].tolist(), 1.0)
