"""Parses of a batch of sentences by models that are distributions over unlabelled trees, and of sentences
that are too long for one chart, in pieces.

A long sentence is cut into pieces of about equal size, each parsed as a sentence of its own; then the
sequence of their roots is parsed like a sentence, in pieces again if it is too long. A tree of the sentence
is a tree of every piece and a tree over the pieces: where that one has an arc from piece i to piece j, the
root of j is attached to the root of i. So

    P(tree) = P(tree over the pieces) prod_i P(tree of piece i)

is a distribution over projective trees with one root, and everything else follows from it exactly:

    P(a -> b) = P_i(a -> b)                                       inside piece i
    P(a -> b) = P_i(root is a) P(i -> j) P_j(root is b)           from piece i to piece j

Time and memory grow with the length of the sentence, not with a power of it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, Protocol

import numpy
from numpy.typing import NDArray

from .conditions import (
    ArcTrees,
    FactorTrees,
    LabelProbs,
    MixedTrees,
    marginal_trees,
    same_head,
    trees_of,
)
from .interface import ArcMask, ArcProbs, BestTree, Parse, Parses, TreeDistribution
from .posterior import MixedPosterior, Posterior
from .pseudoprojective import Inventory
from .sentences import MISSING, Bools, Floats, Ints, Longs, Treebank, Trust

# (sentences, a head for each of their tokens, trees these arcs are to be seen in) -> P(label | arc) for each
LabelDistributions = Callable[[Sequence[int], Sequence[NDArray], Sequence[NDArray]], Floats]
_SMALLEST = 1e-300


def restored_parses(
    heads: Ints, labels: Ints, log_probs: Sequence[float], inventory: Inventory, fixed: Ints | None
) -> list[Parse]:
    """Restore the crossing arcs of some projective trees [trees, N] of a sentence."""
    k, n = heads.shape
    final = inventory.restored(
        numpy.arange(k + 1, dtype="int32") * n,
        heads.ravel(),
        labels.ravel(),
        None if fixed is None else numpy.tile(fixed, k),
    )
    return list(map(Parse, *(column.reshape(k, n) for column in final), log_probs))


def distinct_parses(
    find: Callable[[int], list[BestTree]], inventory: Inventory, fixed: Ints | None, k: int
) -> list[Parse]:
    """The best labelled trees of a sentence, crossing arcs restored. Where two of them are the same after
    that, as decorations that lead nowhere are no part of a label, only the likelier one stays.
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


def best_sums(lists: Sequence[Floats], k: int) -> tuple[Longs, Floats]:
    """Which of each list [found, lists] make the k largest sums of one number from each, and the sums,
    largest first."""
    chosen, totals = numpy.zeros((1, 0), dtype="int64"), numpy.zeros(1)
    for own in lists:
        sums = (totals[:, None] + own).ravel()
        order = numpy.argsort(-sums, kind="stable")[:k]
        chosen = numpy.column_stack([chosen[order // len(own)], order % len(own)])
        totals = sums[order]
    return chosen, totals


class RestoredArcs(NamedTuple):
    """Crossing arcs that were restored in a batch."""

    tokens: Longs
    head_probs: Floats
    label_probs: Floats


def restored_arcs(parses: Parses, starts: Ints, heads: Ints, labels: Ints) -> RestoredArcs:
    """What a model says of crossing arcs, which its projective trees have lifted, with decorated labels:

        P(arc)           = P(the same, not lifted) + P(lifted arc, decorated label)
        P(arc and label) = P(the same, not lifted) + P(lifted arc, decorated label)

    as if the decoration led to the same head in every tree.

    starts: Where sentences start, closed by the number of tokens.
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
        starts: Ints,
        posteriors: Sequence[Posterior],
        *,
        inventory: Inventory,
        label_distributions: LabelDistributions,
        fixed: Ints | None,
        choosers: Sequence[Posterior] | None = None,
        share: float = 0.0,
    ):
        """label_distributions: Gives [tokens of all sentences asked for, labels].
        choosers: The distributions that trees are chosen by, if these are others.
        share: How much these count in probabilities; see `trees.interface.Temperature`."""
        self._starts = starts
        self._posteriors = posteriors
        if choosers is not None and share > 0:
            pairs = zip(choosers, posteriors, strict=True)
            self._posteriors = [MixedPosterior(*pair, share) for pair in pairs]
        self._inventory = inventory
        self._label_distributions = label_distributions
        self._fixed = fixed
        self._trees = [posterior.heads for posterior in choosers or posteriors]
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

    def log_probs(self) -> Floats:
        pairs = zip(self._posteriors, self._trees, strict=True)
        return numpy.array([posterior.log_probability(tree) for posterior, tree in pairs])

    def marginals(self, sentence: int) -> Floats:
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

    def label_distributions(self, sentence: int) -> Floats:
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
        label_probs = partial(self._labels_in_tree, sentence)
        return _trees_of_posterior(self._posteriors[sentence], label_probs, more, labelled)

    def _labels_in_tree(self, sentence: int, heads: Ints) -> Floats:
        return self._label_distributions([sentence], [heads], [self._trees[sentence]])

    def _own(self, sentence: int) -> slice:
        return slice(int(self._starts[sentence]), int(self._starts[sentence + 1]))


def _trees_of_posterior(
    posterior: Posterior, label_probs: LabelProbs, more: ArcMask | None, labelled: bool
) -> TreeDistribution:
    if isinstance(posterior, MixedPosterior) and more is None:
        parts = [
            (share, _trees_of_posterior(part, label_probs, more, labelled))
            for share, part in posterior.parts
        ]
        return MixedTrees(parts, len(posterior.marginals) - 1, labelled=False)
    scores = None if posterior.factors is None else posterior.factors.arc_scores()
    if scores is not None and (more is None or (scores[more] > -numpy.inf).all()):
        return ArcTrees(scores, label_probs)
    if posterior.factors is None or more is not None or labelled:
        return marginal_trees(posterior.marginals, label_probs)
    return FactorTrees(posterior.factors, label_probs)


_TINY = 1e-300
Places = Longs | slice


class ParseTokens(Protocol):
    """Parses some tokens of a batch."""

    def __call__(self, tokens: Places, starts: Ints, fixed: Ints | None, /) -> Parses:
        """tokens: Which, slice(None) for all."""
        ...


@dataclass
class _ParseRoots:
    """Parses some of the roots of pieces; see `ParseTokens`."""

    parse: ParseTokens
    roots: Longs

    def __call__(self, tokens: Places, starts: Ints, fixed: Ints | None, /) -> Parses:
        return self.parse(self.roots[tokens], starts, fixed)


def parse_in_pieces(
    parse: ParseTokens, starts: Ints, *, max_length: int, fixed: Ints | None = None
) -> Parses:
    """Parse a batch, sentences of more than some tokens in pieces. A piece is longer where a head that
    is fixed is farther away.

    parse: Parses some tokens of the batch, one after the other, as sentences.
    """
    max_length = max(max_length, 2)
    if numpy.diff(starts).max(initial=0) <= max_length:
        return parse(slice(None), starts, fixed)
    layout = _cut(starts, max_length, fixed)
    if len(layout.starts) == len(starts):
        return parse(slice(None), starts, fixed)
    pieces = parse(slice(None), layout.starts, layout.inside(fixed))
    roots = numpy.flatnonzero(pieces.heads == 0)[layout.long_pieces()]
    n_pieces = numpy.diff(layout.first)
    top_starts = numpy.append(0, numpy.cumsum(n_pieces[n_pieces > 1])).astype("int32")
    top_fixed = None
    if fixed is not None:
        top_fixed = numpy.where(fixed[roots] == 0, 0, MISSING).astype("int32")
    top = parse_in_pieces(
        _ParseRoots(parse, roots), top_starts, max_length=max_length, fixed=top_fixed
    )
    return PiecewiseParses(starts, layout, pieces, top, roots)


def cut_treebank(treebank: Treebank, max_length: int) -> Treebank:
    """Cut sentences that are parsed in pieces into pieces to learn from. A token whose head is in
    another piece is the root if it is the only one, otherwise its head is missing."""
    tokens, heads, labels = treebank.tokens, treebank.heads, list(treebank.labels)
    layout = _cut(tokens.starts, max(max_length, 2), None)
    if len(layout.starts) == len(tokens.starts):
        return treebank
    sizes = numpy.diff(layout.starts)
    piece = numpy.repeat(numpy.arange(len(sizes)), sizes)
    local = layout.local(heads)
    outside = (heads != MISSING) & ((local < 1) | (local > sizes[piece]))
    n_roots = numpy.bincount(piece[outside], minlength=len(sizes))
    several = outside & (n_roots[piece] > 1)
    whole = (numpy.diff(layout.first) == 1)[layout.sentence][piece]
    local = numpy.where(outside, numpy.where(several, MISSING, 0), local)
    result = numpy.where(whole, heads, local).astype("int32")
    # what a token is to a head in another piece says nothing of roots
    for i in numpy.flatnonzero(outside & ~whole & (heads != 0)):
        labels[i] = ""
    trust = treebank.trust
    if trust is not None:
        others = layout.local(trust.heads)
        lost = (others < 0) | (others > sizes[piece]) | ((trust.heads > 0) & (others < 1))
        lost |= ~whole & (trust.heads == 0)
        trust = Trust(
            trust.weights[layout.sentence],
            numpy.where(lost, 1, trust.shares).astype("float32"),
            numpy.where(lost, MISSING, others).astype("int32"),
            ["" if gone else label for gone, label in zip(lost, trust.labels, strict=True)],
        )
    return Treebank(replace(tokens, starts=layout.starts), result, labels, trust)


class _Layout(NamedTuple):
    """How sentences are cut: where pieces start, the first piece of every sentence (both closed by their
    number), the sentence of every piece, and by how much positions in a piece lag behind those in the
    sentence."""

    starts: Ints
    first: Longs
    sentence: Longs
    shift: Ints

    def local(self, heads: Ints) -> Ints:
        """Heads in sentences as positions in pieces, MISSING ones as they were."""
        shift = numpy.repeat(self.shift, numpy.diff(self.starts))
        return numpy.where(heads > 0, heads - shift, heads).astype("int32")

    def inside(self, fixed: Ints | None) -> Ints | None:
        return None if fixed is None else self.local(fixed)

    def long_pieces(self) -> Bools:
        """For every piece with tokens, whether its sentence has several pieces."""
        several = (numpy.diff(self.first) > 1)[self.sentence]
        return several[numpy.diff(self.starts) > 0]


def _cut(starts: Ints, max_length: int, fixed: Ints | None) -> _Layout:
    edges, first, shift = [0], [0], []
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        n = end - begin
        own = numpy.array([0, n])
        if n > max_length:
            own = numpy.linspace(0, n, -(-n // max_length) + 1).astype(int)
            if fixed is not None:
                own = _uncovered(own, fixed[begin:end])
        edges.extend((begin + own[1:]).tolist())
        shift.extend(own[:-1].tolist())
        first.append(len(shift))
    ends = numpy.array(first)
    sentence = numpy.repeat(numpy.arange(len(starts) - 1), numpy.diff(ends))
    return _Layout(numpy.array(edges, "int32"), ends, sentence, numpy.array(shift, "int32"))


def _uncovered(edges: Longs, fixed: Ints) -> Longs:
    """The nearest cuts of a sentence that no fixed arc crosses."""
    n = len(fixed)
    modifier = numpy.flatnonzero(fixed > 0) + 1
    low, high = (
        numpy.minimum(fixed[modifier - 1], modifier),
        numpy.maximum(fixed[modifier - 1], modifier),
    )
    # cut e is between tokens e and e + 1
    arcs = numpy.cumsum(
        numpy.bincount(low, minlength=n + 1) - numpy.bincount(high, minlength=n + 1)
    )
    free = numpy.flatnonzero(arcs == 0)
    right = numpy.minimum(numpy.searchsorted(free, edges), len(free) - 1)
    left = numpy.maximum(right - 1, 0)
    nearer = numpy.abs(free[left] - edges) <= numpy.abs(free[right] - edges)
    return numpy.unique(numpy.where(nearer, free[left], free[right]))


class _Between(NamedTuple):
    """An arc over pieces: roots it may start from and lead to, with their probabilities, and its own."""

    heads: Ints
    head_probs: Floats
    modifiers: Ints
    modifier_probs: Floats
    label: int
    prob: float


class PiecewiseParses:
    """Implements `trees.interface.Parses` for batches with sentences in pieces."""

    def __init__(self, starts: Ints, layout: _Layout, pieces: Parses, top: Parses, roots: Longs):
        """top: Those of the roots of pieces, for every sentence with several."""
        self.labelled = pieces.labelled
        self._starts = starts
        self._layout = layout
        self._pieces = pieces
        self._top = top
        self._roots = roots
        self._several = numpy.diff(layout.first) > 1
        self._top_of = numpy.cumsum(self._several) - 1
        shift = numpy.repeat(layout.shift, numpy.diff(layout.starts))
        self.heads = numpy.where(pieces.heads > 0, pieces.heads + shift, 0).astype("int32")
        self.labels = pieces.labels.copy()
        self.labels[roots] = top.labels
        # the first root of a root's sentence, and where that sentence begins
        n_pieces = numpy.diff(layout.first)[self._several]
        first = numpy.repeat(numpy.cumsum(n_pieces) - n_pieces, n_pieces)
        begin = numpy.repeat(starts[:-1][self._several], n_pieces)
        self._heads_of_roots = first + top.heads - 1
        position = roots[self._heads_of_roots] - begin + 1
        self.heads[roots] = numpy.where(top.heads > 0, position, 0)

    def head_probs(self) -> NDArray[numpy.float32]:
        probs = self._pieces.head_probs().copy()
        as_root = probs[self._roots]
        pieces = numpy.flatnonzero(self._several[self._layout.sentence]).tolist()
        totals = [self._roots_of(p, min_prob=0.0)[1].sum() for p in pieces]
        heads = numpy.where(self._top.heads > 0, (as_root / totals)[self._heads_of_roots], 1.0)
        probs[self._roots] = as_root * self._top.head_probs() * heads
        return probs

    def label_probs(self) -> NDArray[numpy.float32]:
        probs = self._pieces.label_probs().copy()
        probs[self._roots] = self._top.label_probs()
        return probs

    def log_probs(self) -> Floats:
        logs = numpy.zeros(len(self._starts) - 1)
        numpy.add.at(logs, self._layout.sentence, self._pieces.log_probs())
        logs[self._several] += self._top.log_probs()
        if self.labelled:
            # as roots of pieces they have labels that the sentence does not have
            own = numpy.log(numpy.maximum(self._pieces.label_probs()[self._roots], _TINY))
            sentence = numpy.searchsorted(self._starts, self._roots, side="right") - 1
            numpy.subtract.at(logs, sentence, own.astype("float64"))
        return logs

    def marginals(self, sentence: int) -> Floats:
        first, last = self._pieces_of(sentence)
        if last - first == 1:
            return self._pieces.marginals(first)
        n = int(self._starts[sentence + 1] - self._starts[sentence])
        result = numpy.zeros((n + 1, n + 1))
        for p in range(first, last):
            own = self._pieces.marginals(p)[1:, 1:]
            inside = slice(self._layout.shift[p] + 1, self._layout.shift[p] + 1 + len(own))
            result[inside, inside] = own
        for arc in self._between(sentence, labelled=False, min_prob=0.0):
            block = numpy.outer(arc.head_probs, arc.modifier_probs) * arc.prob
            result[numpy.ix_(arc.heads, arc.modifiers)] = block
        return result

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        first, last = self._pieces_of(sentence)
        if last - first == 1:
            return self._pieces.arcs(first, labelled=labelled, min_prob=min_prob)
        found = []
        for p in range(first, last):
            own = self._pieces.arcs(p, labelled=labelled, min_prob=min_prob)
            inside, shift = own.heads > 0, self._layout.shift[p]
            found.append(
                ArcProbs(
                    own.heads[inside] + shift,
                    own.modifiers[inside] + shift,
                    own.labels[inside],
                    own.probs[inside],
                )
            )
        for arc in self._between(sentence, labelled=labelled, min_prob=min_prob):
            block = numpy.outer(arc.head_probs, arc.modifier_probs) * arc.prob
            h, m = numpy.nonzero(block >= max(min_prob, _TINY))
            label = numpy.full(len(h), arc.label, dtype="int32")
            found.append(ArcProbs(arc.heads[h], arc.modifiers[m], label, block[h, m]))
        heads, modifiers, labels, probs = map(numpy.concatenate, zip(*found, strict=True))
        order = numpy.lexsort((labels, heads, modifiers))
        return ArcProbs(heads[order], modifiers[order], labels[order], probs[order])

    def label_distributions(self, sentence: int) -> Floats:
        first, last = self._pieces_of(sentence)
        rows = numpy.concatenate([self._pieces.label_distributions(p) for p in range(first, last)])
        if last - first > 1:
            begin, end = self._starts[sentence : sentence + 2]
            own = self._roots[(self._roots >= begin) & (self._roots < end)] - begin
            rows[own] = self._top.label_distributions(int(self._top_of[sentence]))
        return rows

    def k_best(self, sentence: int, k: int, *, labelled: bool = False) -> list[Parse]:
        """The k most probable combinations of the k best trees of the pieces and over them."""
        first, last = self._pieces_of(sentence)
        if last - first == 1:
            return self._pieces.k_best(first, k, labelled=labelled)
        lists = [self._pieces.k_best(p, k, labelled=labelled) for p in range(first, last)]
        if labelled:
            lists = list(map(_but_for_roots, lists))
        top = self._top.k_best(int(self._top_of[sentence]), k, labelled=labelled)
        logs = [numpy.array([parse.log_prob for parse in own]) for own in (*lists, top)]
        if self.labelled or labelled:
            for p, own, values in zip(range(first, last), lists, logs, strict=False):
                values -= self._root_label_logs(p, own)
        chosen, totals = best_sums(logs, k)
        result = []
        for *numbers, over, log_prob in zip(*chosen.T, totals, strict=True):
            parts = [own[i] for own, i in zip(lists, numbers, strict=True)]
            result.append(self._joined(first, parts, top[over], float(log_prob)))
        return result

    def distribution(
        self, sentence: int, *, more: ArcMask | None = None, labelled: bool = False
    ) -> TreeDistribution:
        first, last = self._pieces_of(sentence)
        if last - first > 1:
            return trees_of(self, sentence)
        return self._pieces.distribution(first, more=more, labelled=labelled)

    def _joined(self, first: int, parts: Sequence[Parse], top: Parse, log_prob: float) -> Parse:
        shifts = self._layout.shift[first : first + len(parts)]
        pairs = list(zip(parts, shifts, strict=True))
        heads = numpy.concatenate(
            [numpy.where(part.heads > 0, part.heads + shift, 0) for part, shift in pairs]
        ).astype("int32")
        labels = numpy.concatenate([part.labels for part in parts])
        roots = numpy.flatnonzero(heads == 0)
        heads[roots] = numpy.where(top.heads > 0, roots[top.heads - 1] + 1, 0)
        labels[roots] = top.labels
        return Parse(heads, labels, log_prob)

    def _pieces_of(self, sentence: int) -> tuple[int, int]:
        return int(self._layout.first[sentence]), int(self._layout.first[sentence + 1])

    def _root_label_logs(self, piece: int, parses: Sequence[Parse]) -> Floats:
        """log P(label | arc) of the roots of some trees of a piece."""
        arcs = self._pieces.arcs(piece, labelled=True, min_prob=0.0)
        total: dict[int, float] = {}
        by_label: dict[tuple[int, int], float] = {}
        for head, modifier, label, prob in arcs.rows():
            if head == 0:
                total[modifier] = total.get(modifier, 0.0) + prob
                by_label[modifier, label] = prob
        result = numpy.zeros(len(parses))
        for i, parse in enumerate(parses):
            root = int(numpy.flatnonzero(parse.heads == 0)[0])
            given = by_label.get((root + 1, int(parse.labels[root])), 0.0)
            if given:
                result[i] = numpy.log(given / total[root + 1])
        return result

    def _between(self, sentence: int, *, labelled: bool, min_prob: float) -> Iterator[_Between]:
        """The arcs between pieces, and from the root of the sentence."""
        first, last = self._pieces_of(sentence)
        roots = [(numpy.zeros(1, dtype="int32"), numpy.ones(1))]
        roots += [self._roots_of(p, min_prob=min_prob) for p in range(first, last)]
        top = self._top.arcs(int(self._top_of[sentence]), labelled=labelled, min_prob=min_prob)
        for head, modifier, label, prob in top.rows():
            heads, probs = roots[head]
            yield _Between(heads, probs / probs.sum(), *roots[modifier], label, prob)

    def _roots_of(self, piece: int, *, min_prob: float) -> tuple[Ints, Floats]:
        """What may be the root of a piece, by positions in the sentence. Projected automata say so much of
        every token by itself: as heads of other pieces, together they must make one."""
        arcs = self._pieces.arcs(piece, min_prob=min_prob)
        chosen = arcs.heads == 0
        return arcs.modifiers[chosen] + self._layout.shift[piece], arcs.probs[chosen]


def _but_for_roots(parses: list[Parse]) -> list[Parse]:
    """Trees of a piece that differ in more than the label of their root, which the sentence does not have."""
    unique: dict[bytes, Parse] = {}
    for parse in parses:
        labels = numpy.where(parse.heads == 0, MISSING, parse.labels)
        unique.setdefault(parse.heads.tobytes() + labels.tobytes(), parse)
    return list(unique.values())
