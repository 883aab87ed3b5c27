"""How likely the right arc of a token is not in its forest.

A second stage shares out all probability among the arcs of a forest, though for some tokens the right one is
not there: on UD_English-EWT, at a threshold of 0.01, for one in sixteen. The parser has an idea of that: the
probability `rest` of the arcs that were left out, which is too small as far as the parser is too sure. So

    P(right arc is outside) = a + b rest

with a, b >= 0 that make the forests of jack-knifed parsers likeliest; probabilities of trees and arcs are
multiplied by those that their arcs are inside.
"""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray
from scipy.optimize import minimize

from ...trees.sentences import MISSING
from .forests import Forests

_SMALLEST = 1e-6
_MOST = 0.99


def inside_probs(
    outside: NDArray[numpy.float64], rest: NDArray[numpy.float64]
) -> NDArray[numpy.float64]:
    """outside (ndarray): a and b.
    rest (ndarray): From `Forests.rest`.
    RETURNS (ndarray): For every token, the probability that its right arc is in the forest."""
    return 1.0 - numpy.clip(outside[0] + outside[1] * rest, 0.0, _MOST)


def fit_outside(
    forests: Forests, heads: NDArray[numpy.int32], labels: Sequence[str]
) -> NDArray[numpy.float64]:
    """Learn from forests of sentences that the parser was not trained on.

    forests (Forests): The forests.
    heads (ndarray), labels (Sequence[str]): Gold trees, projective; MISSING where not annotated.
    RETURNS (ndarray): float64, a and b.
    """
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
        chance = numpy.clip(inside_probs(numpy.exp(logs), rest), _SMALLEST, 1 - _SMALLEST)
        return -float(numpy.log(numpy.where(inside, chance, 1.0 - chance)).mean())

    start = numpy.log([max(1.0 - inside.mean(), _SMALLEST) / 2, 0.5])
    found = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 200})
    return numpy.exp(numpy.clip(found.x, -20.0, 3.0))
