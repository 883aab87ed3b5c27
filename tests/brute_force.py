"""Oracles: definitions written out over every tree, sharing nothing with the code under test."""

from functools import cache
from itertools import product

import numpy

LEFT, RIGHT = 0, 1  # directions


def is_single_root_projective(heads):
    """By definition: one root, everyone reaches it, and every subtree covers a gapless span.

    heads: 1-based, 0 is the root.
    """
    n = len(heads)
    if sum(head == 0 for head in heads) != 1:
        return False
    below = {m: {m} for m in range(1, n + 1)}
    for m in range(1, n + 1):
        ancestor, steps = heads[m - 1], 0
        while ancestor != 0:
            below[ancestor].add(m)
            ancestor, steps = heads[ancestor - 1], steps + 1
            if steps > n:
                return False
    return all(max(span) - min(span) + 1 == len(span) for span in below.values())


@cache
def projective_trees(n):
    """All projective trees of n tokens with one root, as tuples of heads."""
    choices = [[h for h in range(n + 1) if h != m] for m in range(1, n + 1)]
    return [heads for heads in product(*choices) if is_single_root_projective(heads)]


def meets(condition, heads, labels=None):
    """Whether a tree meets a condition of `spacy_spectral.forest.conditions`, by definition."""
    kind, own = type(condition).__name__, vars(condition)
    if kind == "LabelIs":
        return labels[own["token"] - 1] == own["label"]
    if kind in ("HeadIs", "HeadIsNot"):
        return (heads[own["token"] - 1] == own["head"]) == (kind == "HeadIs")
    if kind == "RootIs":
        return heads[own["token"] - 1] == 0
    if kind == "SameHead":
        return heads[own["one"] - 1] == heads[own["other"] - 1]
    inside = range(own["first"], own["last"] + 1)
    tops = {m for m in inside if heads[m - 1] not in inside}
    outside = {h for m, h in enumerate(heads, 1) if m not in inside and h in inside}
    return len(tops) == 1 and outside <= tops


class Always:
    """Parses whose trees have one distribution, whatever arcs may be added."""

    def __init__(self, trees):
        self.trees = trees

    def distribution(self, sentence, *, more=None, labelled=False):
        return self.trees


def compare_conditioned(found, trees, conditions, *, rel, labelled=True):
    """Trees under conditions against the probabilities of all trees: {(heads, labels): P}, names for labels.

    labelled: Whether the best tree is that of heads and labels, or of heads alone; None not to look at it.
    """
    kept = {tree: p for tree, p in trees.items() if all(meets(c, *tree) for c in conditions)}
    total = sum(kept.values())
    assert abs(found.probability - total / sum(trees.values())) <= rel * total
    n = len(found.heads)
    expected, by_heads = numpy.zeros((n + 1, n + 1)), {}
    for (heads, _), p in kept.items():
        expected[list(heads), range(1, n + 1)] += p / total
        by_heads[heads] = by_heads.get(heads, 0.0) + p / total
    numpy.testing.assert_allclose(found.marginals, expected, atol=rel)
    if labelled is None:
        return
    best = max(kept.values()) / total if labelled else max(by_heads.values())
    assert abs(numpy.exp(found.log_prob) - best) <= rel
    if not labelled:
        assert abs(by_heads[tuple(found.heads.tolist())] - best) <= rel


def modifiers(heads, h):
    """The modifiers of token h (1-based), nearest first: those on the left, those on the right."""
    own = [m for m in range(1, len(heads) + 1) if heads[m - 1] == h]
    return tuple(m for m in reversed(own) if m < h), tuple(m for m in own if m > h)


class Automata:
    """A weighted sentence as explicit arrays; the arguments of the chart, by name."""

    def __init__(self, symbols, word_class, start, operators, weights, stop, root, states):
        self.symbols, self.word_class = symbols, word_class
        self.start, self.operators = start, operators
        self.weights, self.stop, self.root = weights, stop, root
        self.states = states

    def arguments(self):
        arrays = (self.start, self.operators, self.weights, self.stop, self.root)
        return (
            numpy.array(self.symbols, dtype="int32"),
            numpy.array(self.word_class, dtype="int32"),
            *(numpy.ascontiguousarray(array, dtype="float64") for array in arrays),
        )

    def _half(self, h, side, sequence, step):
        """Run head h's automaton over its modifiers; `step` multiplies a matrix with a vector."""
        n = self.states
        state, previous = self.start[self.symbols[h - 1], side, :n], 0
        for m in sequence:
            matrix = self.operators[self.symbols[h - 1], side, self.symbols[m - 1], :n, :n]
            state = self.weights[h - 1, m - 1, previous] * step(matrix, state)
            previous = self.word_class[m - 1]
        return step(self.stop[h - 1, side, previous * n : (previous + 1) * n][None], state)[0]

    def _scores(self, trees, step):
        half = cache(lambda h, side, sequence: self._half(h, side, sequence, step))
        scores = []
        for heads in trees:
            value = self.root[heads.index(0)]
            for h in range(1, len(heads) + 1):
                for side, sequence in enumerate(modifiers(heads, h)):
                    value = value * half(h, side, sequence)
            scores.append(value)
        return numpy.array(scores)

    def scores(self, trees):
        """Sum over hidden states."""
        return self._scores(trees, lambda matrix, state: matrix @ state)


def marginals(scores, trees):
    """Sum of the scores of the trees that have an arc, for every arc (head, modifier)."""
    n = len(trees[0])
    result = numpy.zeros((n + 1, n + 1))
    for score, heads in zip(scores, trees, strict=True):
        for m, h in enumerate(heads, start=1):
            result[h, m] += score
    return result


def automata_probability(automata, symbols, heads):
    """Of a tree by head automata: the product over all halves (Luque et al. 2012, eq. 2).

    symbols: of every token. heads: 1-based, 0 is the root.
    """
    value = 1.0
    for h in range(len(symbols) + 1):
        head = automata.root if h == 0 else symbols[h - 1]
        right = [symbols[m - 1] for m in range(h + 1, len(heads) + 1) if heads[m - 1] == h]
        value *= automata.probability(head, RIGHT, right)
        if h > 0:
            left = [symbols[m - 1] for m in range(h - 1, 0, -1) if heads[m - 1] == h]
            value *= automata.probability(head, LEFT, left)
    return value
