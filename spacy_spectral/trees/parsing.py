"""Parses of a batch of sentences by models that are distributions over unlabelled trees."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy
from numpy.typing import NDArray

from .constraints import allowed_arcs
from .distribution import ArcTrees, FactorTrees, marginal_trees, same_head
from .interface import ArcMask, ArcProbs, BestTree, Parse, TreeDistribution
from .inventory import Inventory
from .lists import (
    RestoredArcs,
    best_sums,
    distinct_parses,
    restored_arcs,
    restored_parses,
)
from .mixture import MixedPosterior, MixedTrees
from .posterior import ArcFactored, Posterior
from .sentences import MISSING

# (sentences, a head for each of their tokens, trees these arcs are to be seen in) -> P(label | arc) for each
LabelDistributions = Callable[
    [Sequence[int], Sequence[NDArray], Sequence[NDArray]], NDArray[numpy.float64]
]
_SMALLEST = 1e-300


class PosteriorParses:
    """Implements `trees.interface.Parses`: one posterior a sentence, and labels given the trees."""

    labelled = False

    def __init__(
        self,
        starts: NDArray[numpy.int32],
        posteriors: Sequence[Posterior],
        *,
        inventory: Inventory,
        label_distributions: LabelDistributions,
        fixed: NDArray[numpy.int32] | None,
        decode: str,
        choosers: Sequence[Posterior] | None = None,
        share: float = 0.0,
    ):
        """starts (ndarray): Where sentences start, closed by the number of tokens.
        posteriors (Sequence[Posterior]): The distribution over each sentence's trees.
        inventory (Inventory): The labels.
        label_distributions (LabelDistributions): Gives [tokens of all sentences asked for, labels].
        fixed (Optional[ndarray]): The heads that were given, MISSING for others.
        decode (str): "mbr" or "viterbi".
        choosers (Optional[Sequence[Posterior]]): The distributions that trees are chosen by, if these are
            others.
        share (float): How much these count in probabilities; see `trees.interface.Temperature`.
        """
        self._starts = starts
        self._posteriors = posteriors
        if choosers is not None and share > 0:
            pairs = zip(choosers, posteriors, strict=True)
            self._posteriors = [MixedPosterior(*pair, share) for pair in pairs]
        self._inventory = inventory
        self._label_distributions = label_distributions
        self._fixed = fixed
        self._trees = [
            posterior.heads if decode == "mbr" else posterior.viterbi()
            for posterior in choosers or posteriors
        ]
        everything = range(len(posteriors))
        self._distributions = label_distributions(everything, self._trees, self._trees)
        self._best = self._distributions.argmax(axis=1).astype("int32")
        heads = numpy.concatenate([numpy.zeros(0, dtype="int32"), *self._trees])
        self.heads, self.labels = inventory.restored(starts, heads, self._best, fixed)

    def head_probs(self) -> NDArray[numpy.float32]:
        values = [
            posterior.marginals[tree, numpy.arange(1, len(tree) + 1)]
            for posterior, tree in zip(self._posteriors, self._trees, strict=True)
        ]
        probs = numpy.concatenate([numpy.zeros(0), *values]).astype("float32")
        probs[self._restored.tokens] = self._restored.head_probs
        return probs

    def label_probs(self) -> NDArray[numpy.float32]:
        chosen = numpy.arange(len(self._best)), self._best
        probs = self._distributions[chosen].astype("float32")
        probs[self._restored.tokens] = self._restored.label_probs
        return probs

    @cached_property
    def _restored(self) -> RestoredArcs:
        heads = numpy.concatenate([numpy.zeros(0, dtype="int32"), *self._trees])
        return restored_arcs(self, self._starts, heads, self._best)

    def log_probs(self) -> NDArray[numpy.float64]:
        pairs = zip(self._posteriors, self._trees, strict=True)
        return numpy.array([posterior.log_probability(tree) for posterior, tree in pairs])

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        return self._posteriors[sentence].marginals

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        by_modifier = self._posteriors[sentence].marginals[:, 1:].T
        modifiers, heads = numpy.nonzero((by_modifier >= min_prob) & (by_modifier > 0))
        probs = by_modifier[modifiers, heads]
        if not labelled:
            nothing = numpy.full(len(heads), MISSING, dtype="int32")
            return ArcProbs(heads.astype("int32"), (modifiers + 1).astype("int32"), nothing, probs)
        # the labels of one arc to every token at a time
        tree, n = self._trees[sentence], len(by_modifier)
        rank = numpy.arange(len(heads)) - numpy.searchsorted(modifiers, modifiers)
        n_ranks = int(rank.max(initial=-1)) + 1
        table = numpy.tile(tree, (n_ranks, 1))
        table[rank, modifiers] = heads
        given = self._label_distributions([sentence] * n_ranks, list(table), [tree] * n_ranks)
        both = given[rank * n + modifiers] * probs[:, None]
        arc, label = numpy.nonzero((both >= min_prob) & (both > 0))
        return ArcProbs(
            heads[arc].astype("int32"),
            (modifiers[arc] + 1).astype("int32"),
            label.astype("int32"),
            both[arc, label],
        )

    def label_distributions(self, sentence: int) -> NDArray[numpy.float64]:
        return self._distributions[self._own(sentence)]

    def k_best(self, sentence: int, k: int, *, labelled: bool = False) -> list[Parse]:
        fixed = None if self._fixed is None else self._fixed[self._own(sentence)]
        if labelled:
            return distinct_parses(
                lambda m: self._labelled_trees(sentence, m), self._inventory, fixed, k
            )
        found = self._posteriors[sentence].k_best(k)
        trees = numpy.array([heads for heads, _ in found])
        distributions = self._label_distributions([sentence] * len(trees), list(trees), list(trees))
        labels = distributions.argmax(axis=1).astype("int32").reshape(trees.shape)
        return restored_parses(trees, labels, [log for _, log in found], self._inventory, fixed)

    def _labelled_trees(self, sentence: int, k: int) -> list[BestTree]:
        """The k likeliest labelled trees: those that are best with their likeliest labels, with the k best
        labels of each. Any other tree has k labelled ones above it."""
        posterior, tree = self._posteriors[sentence], self._trees[sentence]
        n = len(tree)
        labels = numpy.zeros((n + 1, n + 1))
        every = [same_head(h, n) for h in range(n + 1)]
        given = self._label_distributions([sentence] * (n + 1), every, [tree] * (n + 1))
        largest = given.max(axis=1).reshape(n + 1, n)
        labels[:, 1:] = numpy.log(numpy.maximum(largest, _SMALLEST))
        trees = posterior.best_with(labels, k)
        logs = posterior.log_probabilities(trees)
        given = self._label_distributions([sentence] * len(trees), list(trees), list(trees))
        with numpy.errstate(divide="ignore"):
            given = numpy.log(given).reshape(len(trees), n, -1)
        found = []
        for heads, log_prob, own in zip(trees, logs.tolist(), given, strict=True):
            order = numpy.argsort(-own, axis=1, kind="stable")[:, :k]
            chosen, totals = best_sums([row[best] for row, best in zip(own, order, strict=True)], k)
            for numbers, total in zip(chosen, totals.tolist(), strict=True):
                if total > -numpy.inf:
                    names = order[numpy.arange(n), numbers].astype("int32")
                    found.append(BestTree(heads, names, log_prob + total))
        return sorted(found, key=lambda one: -one.score)[:k]

    def distribution(
        self, sentence: int, *, more: ArcMask | None = None, labelled: bool = False
    ) -> TreeDistribution:
        tree = self._trees[sentence]

        def label_probs(heads: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
            return self._label_distributions([sentence], [heads], [tree])

        def trees(posterior: Posterior) -> TreeDistribution:
            if isinstance(posterior, MixedPosterior) and more is None:
                parts = [(share, trees(part)) for share, part in posterior.parts]
                return MixedTrees(parts, len(tree), labelled=False)
            if isinstance(posterior.factors, ArcFactored):
                scores = posterior.factors.arc_scores()
                if more is None or (scores[more] > -numpy.inf).all():
                    return ArcTrees(scores, label_probs)
            if posterior.factors is None or more is not None or labelled:
                return marginal_trees(posterior.marginals, label_probs)
            return FactorTrees(posterior.factors, label_probs)

        return trees(self._posteriors[sentence])

    def _own(self, sentence: int) -> slice:
        return slice(int(self._starts[sentence]), int(self._starts[sentence + 1]))


def sentence_constraints(
    bounds: Sequence[tuple[int, int]], fixed: NDArray[numpy.int32] | None
) -> list[NDArray[numpy.bool_] | None]:
    """RETURNS (List[Optional[ndarray]]): For each sentence the arcs that agree with its fixed heads, None
    if it has none; see `trees.constraints.allowed_arcs`."""
    if fixed is None:
        return [None] * len(bounds)
    return [None if (fixed[a:b] == MISSING).all() else allowed_arcs(fixed[a:b]) for a, b in bounds]
