"""Parses of a batch of sentences by models that are distributions over unlabelled trees."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from .conditions import ArcTrees, FactorTrees, MixedTrees, marginal_trees, same_head
from .interface import ArcMask, ArcProbs, BestTree, Parse, Parses, TreeDistribution
from .posterior import MixedPosterior, Posterior
from .pseudoprojective import Inventory
from .sentences import MISSING

# (sentences, a head for each of their tokens, trees these arcs are to be seen in) -> P(label | arc) for each
LabelDistributions = Callable[
    [Sequence[int], Sequence[NDArray], Sequence[NDArray]], NDArray[numpy.float64]
]
_SMALLEST = 1e-300


def restored_parses(
    heads: NDArray[numpy.int32],
    labels: NDArray[numpy.int32],
    log_probs: Sequence[float],
    inventory: Inventory,
    fixed: NDArray[numpy.int32] | None,
) -> list[Parse]:
    """Restore the crossing arcs of some trees of a sentence.

    heads, labels (ndarray): [trees, N], projective.
    log_probs (Sequence[float]): Their log-probabilities.
    inventory (Inventory): The labels.
    fixed (Optional[ndarray]): [N], heads that were given, MISSING for others.
    RETURNS (List[Parse]): The parses.
    """
    k, n = heads.shape
    final = inventory.restored(
        numpy.arange(k + 1, dtype="int32") * n,
        heads.ravel(),
        labels.ravel(),
        None if fixed is None else numpy.tile(fixed, k),
    )
    return list(map(Parse, *(column.reshape(k, n) for column in final), log_probs))


def distinct_parses(
    find: Callable[[int], list[BestTree]],
    inventory: Inventory,
    fixed: NDArray[numpy.int32] | None,
    k: int,
) -> list[Parse]:
    """The best labelled trees of a sentence, crossing arcs restored. Where two of them are the same after
    that, as decorations that lead nowhere are no part of a label, only the likelier one stays.

    find (Callable[[int], List[BestTree]]): Gives so many of the best; scores are log-probabilities.
    inventory (Inventory), fixed (Optional[ndarray]): As for `restored_parses`.
    k (int): How many at most.
    RETURNS (List[Parse]): The parses.
    """
    m = k
    while True:
        found = find(m)
        if not found:
            return []
        heads, labels, scores = zip(*found, strict=True)
        parses = restored_parses(
            numpy.array(heads), numpy.array(labels), list(scores), inventory, fixed
        )
        unique: dict[bytes, Parse] = {}
        for parse in parses:
            unique.setdefault(parse.heads.tobytes() + parse.labels.tobytes(), parse)
        if len(unique) >= k or len(found) < m:
            return list(unique.values())[:k]
        m *= 2


def best_sums(
    lists: Sequence[NDArray[numpy.float64]], k: int
) -> tuple[NDArray[numpy.int64], NDArray[numpy.float64]]:
    """The k largest sums of one number from each list.

    RETURNS (Tuple[ndarray, ndarray]): Which of each list [found, lists], and the sums, largest first.
    """
    chosen, totals = numpy.zeros((1, 0), dtype="int64"), numpy.zeros(1)
    for own in lists:
        sums = (totals[:, None] + own).ravel()
        order = numpy.argsort(-sums, kind="stable")[:k]
        chosen = numpy.column_stack([chosen[order // len(own)], order % len(own)])
        totals = sums[order]
    return chosen, totals


class RestoredArcs(NamedTuple):
    """Crossing arcs that were restored in a batch.

    tokens (ndarray): Which tokens they lead to.
    head_probs (ndarray): Their probabilities.
    label_probs (ndarray): The probabilities of their labels, given them.
    """

    tokens: NDArray[numpy.int64]
    head_probs: NDArray[numpy.float64]
    label_probs: NDArray[numpy.float64]


def restored_arcs(
    parses: Parses,
    starts: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    labels: NDArray[numpy.int32],
) -> RestoredArcs:
    """What a model says of crossing arcs, which its projective trees have lifted, with decorated labels:

        P(arc)           = P(the same, not lifted) + P(lifted arc, decorated label)
        P(arc and label) = P(the same, not lifted) + P(lifted arc, decorated label)

    as if the decoration led to the same head in every tree.

    parses (Parses): The parses of a batch.
    starts (ndarray): Where sentences start, closed by the number of tokens.
    heads, labels (ndarray): What tokens had before crossing arcs were restored.
    RETURNS (RestoredArcs): The arcs.
    """
    tokens = numpy.flatnonzero(parses.heads != heads)
    probs = numpy.zeros((2, len(tokens)))
    for i, token in enumerate(tokens.tolist()):
        s = int(numpy.searchsorted(starts, token, side="right")) - 1
        arcs = parses.arcs(s, labelled=True, min_prob=0.0)
        own = arcs.modifiers == token - starts[s] + 1
        lifted = own & (arcs.heads == heads[token]) & (arcs.labels == labels[token])
        same = own & (arcs.heads == parses.heads[token])
        probs[0, i] = arcs.probs[same | lifted].sum()
        same &= arcs.labels == parses.labels[token]
        probs[1, i] = arcs.probs[same | lifted].sum() / max(probs[0, i], _SMALLEST)
    return RestoredArcs(tokens, *probs)


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
            scores = None if posterior.factors is None else posterior.factors.arc_scores()
            if scores is not None and (more is None or (scores[more] > -numpy.inf).all()):
                return ArcTrees(scores, label_probs)
            if posterior.factors is None or more is not None or labelled:
                return marginal_trees(posterior.marginals, label_probs)
            return FactorTrees(posterior.factors, label_probs)

        return trees(self._posteriors[sentence])

    def _own(self, sentence: int) -> slice:
        return slice(int(self._starts[sentence]), int(self._starts[sentence + 1]))
