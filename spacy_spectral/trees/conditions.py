"""Distributions over the trees of one sentence that conditions can be put on: `interface.TreeDistribution`.

    ArcTrees      p(tree) ~ prod of the weights of its arcs; labels are chosen given arcs
    FactorTrees   any chart that can leave out arcs, such as those that sum over hidden states

Positions count from 1; 0 is the root.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy

from ._eisner import best_tree
from .interface import ArcMask, ArcTable, BestTree, Labels, Parses, RankedTrees, TreeDistribution
from .posterior import SMALLEST_MARGINAL, Factors, Posterior, arc_posterior, best_of_lists
from .sentences import Floats, Ints

# One head for every token -> P(label | arc): [tokens, labels].
LabelProbs = Callable[[Ints], Floats]
_SMALLEST_SHARE = 1e-6
_SMALLEST = 1e-300


class ArcTrees:
    """Trees that weigh the product of their arcs' weights."""

    def __init__(self, scores: Floats, label_probs: LabelProbs):
        """scores: [N+1, N+1] by head and modifier, logarithms of weights, -inf for arcs that no tree has."""
        self._scores = scores.copy()
        self._scores[:, 0] = -numpy.inf
        numpy.fill_diagonal(self._scores, -numpy.inf)
        self._label_probs = label_probs

    def arcs(self, labels: Labels) -> ArcMask:
        return self._given(labels) > -numpy.inf

    def total(self, allowed: ArcMask, labels: Labels) -> tuple[float, ArcTable]:
        scores = numpy.where(allowed, self._given(labels), -numpy.inf)
        posterior = arc_posterior(scores)
        log_z = posterior.log_partition
        if log_z is None:
            return -numpy.inf, numpy.zeros_like(scores)
        return log_z, posterior.marginals

    def best(self, ways: Sequence[ArcMask], labels: Labels, marginals: ArcTable) -> BestTree:
        scores = self._given(labels)
        found = [best_tree(numpy.where(allowed, scores, -numpy.inf)) for allowed in ways]
        heads, score = max(found, key=lambda tree: tree[1])
        return BestTree(heads, best_labels(self._label_probs(heads), labels), float(score))

    def _given(self, labels: Labels) -> Floats:
        """The scores of arcs whose modifiers have certain labels."""
        if not labels:
            return self._scores
        scores = self._scores.copy()
        n = len(scores) - 1
        for h in range(n + 1):
            probs = self._label_probs(same_head(h, n))
            for token, allowed in labels.items():
                share = probs[token - 1, sorted(allowed)].sum()
                scores[h, token] += numpy.log(share) if share > 0 else -numpy.inf
        return scores


class FactorTrees:
    """Trees by a model's chart. The best tree is that with the best product of arc marginals. Labels are not
    looked at."""

    def __init__(self, factors: Factors, label_probs: LabelProbs):
        self._factors = factors
        self._label_probs = label_probs

    def arcs(self, labels: Labels) -> ArcMask:
        found = numpy.ones((len(self._factors) + 1,) * 2, dtype=bool)
        numpy.fill_diagonal(found, False)
        found[:, 0] = False
        return found

    def total(self, allowed: ArcMask, labels: Labels) -> tuple[float, ArcTable]:
        posterior = Posterior.from_factors([self._factors], allowed)
        log_z = posterior.log_partition
        return (-numpy.inf if log_z is None else log_z), posterior.marginals

    def best(self, ways: Sequence[ArcMask], labels: Labels, marginals: ArcTable) -> BestTree:
        scores = numpy.log(numpy.maximum(marginals, _SMALLEST))
        found = [best_tree(numpy.where(allowed, scores, -numpy.inf)) for allowed in ways]
        heads, _ = max(found, key=lambda tree: tree[1])
        logs, _ = self._factors.tree_scores(heads[None])
        score = float(logs[0]) - self._factors.log_scale
        return BestTree(heads, best_labels(self._label_probs(heads), labels), score)


def marginal_trees(marginals: Floats, label_probs: LabelProbs) -> ArcTrees:
    """Trees that weigh the product of their arcs' marginals; what these rule out is hardly impossible."""
    return ArcTrees(numpy.log(numpy.maximum(marginals, SMALLEST_MARGINAL)), label_probs)


def trees_of(parses: Parses, sentence: int) -> ArcTrees:
    """Trees that weigh the product of their arcs' marginals, by any parser."""
    arcs = parses.arcs(sentence, labelled=True)
    shape = parses.label_distributions(sentence).shape
    joint: dict[tuple[int, int], Floats] = {}
    # an arc that was ruled out has the labels of others to its modifier
    others = numpy.full(shape, _SMALLEST_SHARE / shape[1])
    for head, modifier, label, prob in arcs.rows():
        joint.setdefault((head, modifier), numpy.zeros(shape[1]))[label] += prob
        others[modifier - 1, label] += prob
    others /= others.sum(axis=1, keepdims=True)

    def label_probs(heads: Ints) -> Floats:
        result = others.copy()
        for m, head in enumerate(heads.tolist(), start=1):
            own = joint.get((head, m))
            if own is not None:
                share = _SMALLEST_SHARE * others[m - 1]
                result[m - 1] = (1 - _SMALLEST_SHARE) * own / own.sum() + share
        return result

    return marginal_trees(parses.marginals(sentence), label_probs)


def same_head(head: int, n: int) -> Ints:
    """One head for all tokens of a sentence, and another for itself, which is never looked at."""
    tokens = numpy.arange(1, n + 1)
    return numpy.where(tokens == head, (head + 1) % (n + 1), head).astype("int32")


def best_labels(probs: Floats, labels: Labels) -> Ints:
    """The likeliest label of every token that it may have."""
    kept = probs.copy()
    for token, allowed in labels.items():
        forbidden = numpy.ones(probs.shape[1], dtype=bool)
        forbidden[sorted(allowed)] = False
        kept[token - 1, forbidden] = -1.0
    return kept.argmax(axis=1).astype("int32")


class MixedTrees:
    """Two distributions that conditions can be put on, mixed; see `interface.TreeDistribution`. The best tree
    is the better of the best trees of both."""

    def __init__(self, parts: Sequence[tuple[float, TreeDistribution]], n: int, *, labelled: bool):
        """parts: The shares and the distributions, over labelled trees or not."""
        everything = numpy.ones((n + 1, n + 1), dtype=bool)
        self._parts = [
            (float(numpy.log(share)) - part.total(everything, {})[0], part)
            for share, part in parts
            if share > 0
        ]
        self._labelled = labelled

    def arcs(self, labels: Labels) -> ArcMask:
        return numpy.logical_or.reduce([part.arcs(labels) for _, part in self._parts])

    def total(self, allowed: ArcMask, labels: Labels) -> tuple[float, ArcTable]:
        found = [part.total(allowed, labels) for _, part in self._parts]
        logs = [shift + log for (shift, _), (log, _) in zip(self._parts, found, strict=True)]
        total = float(numpy.logaddexp.reduce(logs))
        if total == -numpy.inf:
            return total, numpy.zeros(allowed.shape)
        return total, sum(
            numpy.exp(log - total) * table
            for log, (_, table) in zip(logs, found, strict=True)
            if log > -numpy.inf
        )

    def best(self, ways: Sequence[ArcMask], labels: Labels, marginals: ArcTable) -> BestTree:
        found = []
        for _, part in self._parts:
            own = [way for way in ways if part.total(way, labels)[0] > -numpy.inf]
            if own:
                tree = part.best(own, labels, marginals)
                found.append(tree._replace(score=self._log_weight(tree, labels)))
        return max(found, key=lambda tree: tree.score)

    def k_best(self, k: int) -> list[BestTree]:
        parts: list[tuple[float, RankedTrees]] = self._parts  # type: ignore[assignment]
        best = best_of_lists(
            [(shift, partial(_ranked, part)) for shift, part in parts],
            lambda tree: self._log_weight(tree, {}),
            lambda tree: (tree.heads.tobytes(), tree.labels.tobytes()),
            k,
        )
        return [tree._replace(score=score) for tree, score in best]

    def _log_weight(self, tree: BestTree, labels: Labels) -> float:
        """Of a single tree, with its labels if that is what the distributions are about."""
        n = len(tree.heads)
        arcs = numpy.zeros((n + 1, n + 1), dtype=bool)
        arcs[tree.heads, numpy.arange(1, n + 1)] = True
        if self._labelled:
            labels = {m: frozenset([label]) for m, label in enumerate(tree.labels.tolist(), 1)}
        return self.total(arcs, labels)[0]


def _ranked(trees: RankedTrees, m: int) -> list[tuple[BestTree, float]]:
    return [(tree, tree.score) for tree in trees.k_best(m)]
