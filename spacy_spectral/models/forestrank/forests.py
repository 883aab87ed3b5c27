"""Packed forests of many sentences as flat arrays: labelled arcs and what models say of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray
from scipy.optimize import minimize

from ...trees._eisner import best_tree, is_projective_tree
from ...trees.interface import ArcProbs, Parses
from ...trees.pseudoprojective import plain
from ...trees.sentences import MISSING
from ._chart import MAX_LENGTH

_NOTHING = numpy.zeros(0, dtype="int32")
_NO_ARCS = ArcProbs(_NOTHING, _NOTHING, _NOTHING, numpy.zeros(0))
_SMALLEST_PROB = 1e-6


@dataclass
class Forests:
    """Labelled arcs of some sentences, by modifier, then head; the trees of a sentence are all
    projective ones of its arcs. `dense` has the logarithms of the arcs' marginals [arcs, 1].
    """

    starts: NDArray[numpy.int32]
    arc_starts: NDArray[numpy.int32]
    heads: NDArray[numpy.int32]
    modifiers: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    names: list[str]
    dense: NDArray[numpy.float64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def arcs(self, sentence: int) -> slice:
        """The arcs of a sentence."""
        return slice(int(self.arc_starts[sentence]), int(self.arc_starts[sentence + 1]))

    def select(self, arcs: NDArray[numpy.int64]) -> "Forests":
        """The sentences with some arcs alone, given by their numbers, ascending."""
        return Forests(
            self.starts,
            numpy.searchsorted(arcs, self.arc_starts).astype("int32"),
            self.heads[arcs],
            self.modifiers[arcs],
            self.labels[arcs],
            self.names,
            self.dense[arcs],
        )

    def rest(self) -> NDArray[numpy.float64]:
        """For every token, how likely the parser thinks other arcs than those that are here; 0 in
        sentences without arcs."""
        result = numpy.zeros(int(self.starts[-1]))
        there = numpy.repeat(numpy.diff(self.arc_starts) > 0, numpy.diff(self.starts))
        found = numpy.bincount(self.token_of(), numpy.exp(self.dense[:, 0]), minlength=len(result))
        result[there] = numpy.clip(1.0 - found[there], 0.0, 1.0)
        return result

    def token_of(self) -> NDArray[numpy.int32]:
        """The modifier of every arc, counted over all sentences."""
        first = numpy.repeat(self.starts[:-1], numpy.diff(self.arc_starts))
        return self.modifiers + first - 1

    def tokens(self, sentence: int) -> slice:
        """The tokens of a sentence."""
        return slice(int(self.starts[sentence]), int(self.starts[sentence + 1]))


def forests_of(
    parses: Parses,
    starts: NDArray[numpy.int32],
    names: Sequence[str],
    thresholds: NDArray[numpy.float64],
) -> Forests:
    """The arcs that a parser finds likely, by the threshold of each sentence; see `likely_arcs`."""
    sizes = zip(numpy.diff(starts).tolist(), thresholds.tolist(), strict=True)
    found = [likely_arcs(parses, s, n, threshold) for s, (n, threshold) in enumerate(sizes)]
    return of_arcs(found, starts, names)


def likely_arcs(parses: Parses, sentence: int, n: int, threshold: float) -> ArcProbs:
    """The labelled arcs of a sentence of n tokens that are likely enough for its forest; tokens without
    such an arc have their likeliest. None of sentences of more than MAX_LENGTH tokens, nor with a
    threshold of inf."""
    if n > MAX_LENGTH or threshold == numpy.inf:
        return _NO_ARCS
    arcs = parses.arcs(sentence, labelled=True, min_prob=threshold)
    if len(numpy.unique(arcs.modifiers)) < n:
        arcs = parses.arcs(sentence, labelled=True, min_prob=_SMALLEST_PROB)
        arcs = _with_best(arcs, threshold)
    return arcs if len(numpy.unique(arcs.modifiers)) == n else _NO_ARCS


def of_arcs(
    found: Sequence[ArcProbs], starts: NDArray[numpy.int32], names: Sequence[str]
) -> Forests:
    """The forests of sentences with these labelled arcs."""
    heads, modifiers, labels, probs = (
        numpy.concatenate(column) for column in zip(_NO_ARCS, *found, strict=True)
    )
    counts = [len(arcs.heads) for arcs in found]
    arc_starts = numpy.concatenate([[0], numpy.cumsum(counts, dtype="int64")]).astype("int32")
    dense = numpy.log(numpy.maximum(probs, _SMALLEST_PROB))[:, None]
    return Forests(starts, arc_starts, heads, modifiers, labels, list(names), dense)


def _with_best(arcs: ArcProbs, threshold: float) -> ArcProbs:
    """Arcs that are likely enough, and the likeliest of every token."""
    start = numpy.flatnonzero(numpy.diff(arcs.modifiers, prepend=-1))
    lengths = numpy.diff(start, append=len(arcs.probs))
    top = numpy.repeat(numpy.maximum.reduceat(arcs.probs, start), lengths) if len(start) else 0.0
    kept = (arcs.probs >= threshold) | (arcs.probs == top)
    return ArcProbs(arcs.heads[kept], arcs.modifiers[kept], arcs.labels[kept], arcs.probs[kept])


def joined(parts: Sequence[Forests]) -> Forests:
    """Several one after the other, with the labels of all."""
    names = sorted({name for part in parts for name in part.names})
    number = {name: i for i, name in enumerate(names)}
    labels = [
        numpy.array([number[name] for name in part.names], dtype="int32")[part.labels]
        for part in parts
    ]
    starts = _closed([numpy.diff(part.starts) for part in parts])
    arc_starts = _closed([numpy.diff(part.arc_starts) for part in parts])
    return Forests(
        starts,
        arc_starts,
        numpy.concatenate([part.heads for part in parts]),
        numpy.concatenate([part.modifiers for part in parts]),
        numpy.concatenate(labels),
        names,
        numpy.concatenate([part.dense for part in parts]),
    )


def _closed(lengths: Sequence[NDArray]) -> NDArray[numpy.int32]:
    return numpy.concatenate([[0], numpy.cumsum(numpy.concatenate(lengths))]).astype("int32")


def nearest_trees(
    forests: Forests, heads: NDArray[numpy.int32], labels: Sequence[str]
) -> NDArray[numpy.int32]:
    """The tree of every forest with most of the gold tree's arcs, first with their labels; where there
    are several, the likeliest. Gold arcs that a forest lacks are not put into it: the forests of new
    sentences lack such arcs, too.

    RETURNS: The arc of every token, counted in its sentence; -1 without annotation, or without a tree.
    """
    number = {name: i for i, name in enumerate(forests.names)}
    gold = numpy.array(
        [number.get(label, number.get(plain(label), MISSING)) for label in labels], dtype="int32"
    )
    target = numpy.full(len(heads), -1, dtype="int32")
    for s in range(len(forests)):
        own, arcs = forests.tokens(s), forests.arcs(s)
        if arcs.start == arcs.stop or (heads[own] == MISSING).any():
            continue
        place = forests.modifiers[arcs] - 1
        right = forests.heads[arcs] == heads[own][place]
        value = right * (1.0 + (forests.labels[arcs] == gold[own][place]))
        value += 1e-3 * numpy.exp(forests.dense[arcs, 0])
        chosen = best_arcs(own.stop - own.start, forests.heads[arcs], place + 1, value)
        if chosen is not None:
            target[own] = chosen
    return target


def best_arcs(
    n: int,
    heads: NDArray[numpy.int32],
    modifiers: NDArray[numpy.int32],
    values: NDArray[numpy.float64],
) -> NDArray[numpy.int64] | None:
    """The arcs of the projective tree with the largest sum of values; None without a tree."""
    scores = numpy.full((n + 1, n + 1), -numpy.inf)
    numpy.maximum.at(scores, (heads, modifiers), values)
    tree, score = best_tree(scores)
    if score == -numpy.inf:
        return None
    inside = numpy.flatnonzero(tree[modifiers - 1] == heads)
    # the best label of each: a stable sort by modifier and falling value
    order = inside[numpy.lexsort((-values[inside], modifiers[inside]))]
    first = numpy.unique(modifiers[order], return_index=True)[1]
    return order[first]


def decoded(
    forests: Forests, mu: NDArray[numpy.float64], weight: float = 0.5
) -> NDArray[numpy.int64]:
    """The trees with most expected right arcs: the arc of every token, -1 where there is none."""
    result = numpy.full(int(forests.starts[-1]), -1, dtype="int64")
    if not len(mu):
        return result
    lengths = numpy.diff(forests.arc_starts)
    token = forests.token_of()
    start = numpy.flatnonzero(numpy.diff(token, prepend=-1))
    # the best arc of every token; the first of equals
    top = numpy.repeat(numpy.maximum.reduceat(mu, start), numpy.diff(start, append=len(mu)))
    best = numpy.flatnonzero(mu == top)
    result[token[start]] = best[numpy.searchsorted(token[best], token[start])]
    heads = forests.heads[result]
    for s in numpy.flatnonzero(lengths).tolist():
        own = forests.tokens(s)
        if not is_projective_tree(heads[own]):
            arcs = forests.arcs(s)
            found = best_arcs(
                own.stop - own.start, forests.heads[arcs], forests.modifiers[arcs], mu[arcs]
            )
            result[own] = -1 if found is None else arcs.start + found
    return result


# How likely the right arc of a token is not in its forest.
#
# A second stage shares out all probability among the arcs of a forest, though for some tokens the right
# one is not there: on UD_English-EWT, at a threshold of 0.01, for one in sixteen. The parser has an idea
# of that: the probability `rest` of the arcs that were left out, which is too small as far as the parser
# is overconfident. So
#
#     P(right arc is outside) = a + b rest
#
# with a, b >= 0 that make the forests of jack-knifed parsers likeliest; probabilities of trees and arcs are
# multiplied by those that their arcs are inside.

_MOST = 0.99


def inside_probs(
    outside: NDArray[numpy.float64], rest: NDArray[numpy.float64]
) -> NDArray[numpy.float64]:
    """For every token, the probability that its right arc is in the forest. `outside` is a and b."""
    return 1.0 - numpy.clip(outside[0] + outside[1] * rest, 0.0, _MOST)


def fit_outside(
    forests: Forests, heads: NDArray[numpy.int32], labels: Sequence[str]
) -> NDArray[numpy.float64]:
    """a and b, from forests of sentences that the parser was not trained on."""
    token = forests.token_of()
    names = numpy.array(forests.names, dtype=object)
    gold = numpy.array(labels, dtype=object)
    right = (forests.heads == heads[token]) & (names[forests.labels] == gold[token])
    inside = numpy.bincount(token[right], minlength=len(heads)) > 0
    there = numpy.bincount(token, minlength=len(heads)) > 0
    known = there & (heads != MISSING)
    rest, inside = forests.rest()[known], inside[known]
    if not len(rest) or inside.all():
        return numpy.zeros(2)

    def loss(logs: NDArray[numpy.float64]) -> float:
        chance = numpy.clip(inside_probs(numpy.exp(logs), rest), _SMALLEST_PROB, 1 - _SMALLEST_PROB)
        return -float(numpy.log(numpy.where(inside, chance, 1.0 - chance)).mean())

    start = numpy.log([max(1.0 - inside.mean(), _SMALLEST_PROB) / 2, 0.5])
    found = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 200})
    return numpy.exp(numpy.clip(found.x, -20.0, 3.0))
