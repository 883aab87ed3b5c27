"""Split-merge EM: states are split in two, trained, and merged again where that costs least.

The expectation step sums over the states of all tokens in the given trees (see `_chains`); the maximisation
step smooths expected counts as the grammar does (see `transitions`, `lexicon`). The loss of merging two
states is estimated token by token, as in Petrov, Barrett, Thibaux & Klein (2006): with inside and outside
scores I and O of both and their relative frequencies p, a token's likelihood changes by

    (rest + (p_1 I_1 + p_2 I_2) (O_1 + O_2)) / (rest + I_1 O_1 + I_2 O_2).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ._chains import state_posteriors
from .lexicon import SeenWords, TagStates
from .statistics import Labelling, Trees
from .transitions import Transitions, root_distribution

# A state is split if it has at least so many tokens
_LEAST_TOKENS = 80
_NOISE = 0.02
_ITERATIONS_AFTER_SPLIT = 12
_ITERATIONS_AFTER_MERGE = 5
_MERGED_SHARE = 0.5


@dataclass
class Expectations:
    """Expected counts, what the maximisation step needs: those of `Transitions.from_table`, of roots
    [K], and how much every token is in every state of its tag [N, width]."""

    tag_states: TagStates
    counts: NDArray[numpy.float64]
    roots: NDArray[numpy.float64]
    weights: NDArray[numpy.float64]


class SplitMerge:
    """EM over the states of a treebank's tokens."""

    def __init__(self, trees: Trees, n_tags: int, *, most_states: int, seed: int):
        self.trees = trees
        self.most_states = most_states
        self._random = numpy.random.default_rng(seed)
        self._words = SeenWords(trees.words, trees.tags, n_tags)
        tag_states = TagStates(numpy.arange(n_tags, dtype="int32"))
        weights = numpy.ones((len(trees), 1))
        counts = numpy.zeros((2, n_tags, n_tags + 1, n_tags + 1))
        roots = numpy.zeros(n_tags)
        self.expected = Expectations(tag_states, counts, roots, weights)
        self.log_likelihood = -numpy.inf
        # with one state a token any parameters have the same expectations
        self._expect(Transitions.from_table(counts, tag_states))

    def iterate(self) -> None:
        """One iteration of EM."""
        self._expect(Transitions.from_table(self.expected.counts, self.expected.tag_states))

    def _lattice(self, tag_states: TagStates) -> tuple[NDArray, NDArray, NDArray]:
        """Tokens, states and places in rows of all states that tokens can have."""
        sizes = tag_states.size[self.trees.tags]
        tokens = numpy.repeat(numpy.arange(len(sizes)), sizes)
        offsets = numpy.concatenate([[0], numpy.cumsum(sizes)])
        local = numpy.arange(len(tokens)) - offsets[tokens]
        return tokens, tag_states.first[self.trees.tags[tokens]] + local, local

    def _expect(self, transitions: Transitions) -> None:
        old, trees = self.expected, self.trees
        tag_states = old.tag_states
        tokens, states, local = self._lattice(tag_states)
        lexicon = self._words.lexicon(tokens, states, old.weights[tokens, local], tag_states)
        emissions = self._words.weights(lexicon)[tokens, local]
        counts, roots = numpy.zeros(old.counts.shape), numpy.zeros(old.roots.shape)
        offsets = numpy.searchsorted(tokens, numpy.arange(len(trees) + 1)).astype("int32")
        posterior, inside, logs = state_posteriors(
            trees.starts,
            trees.heads,
            trees.counted,
            offsets,
            states.astype("int32"),
            emissions,
            transitions.rows,
            transitions.row_of,
            root_distribution(old.roots, tag_states)[states],
            lexicon.share[states],
            counts,
            roots,
        )
        self.log_likelihood = float(logs.sum())
        weights = numpy.zeros((len(trees), tag_states.width))
        weights[tokens, local] = posterior
        self._inside = numpy.zeros_like(weights)
        self._inside[tokens, local] = inside
        self.expected = Expectations(tag_states, counts, roots, weights)

    def split(self) -> NDArray[numpy.int64]:
        """Split the states that are frequent enough in two, the most frequent first."""
        old = self.expected
        tag_states = old.tag_states
        share = self._state_totals()
        order = numpy.argsort(-share, kind="stable")
        order = order[share[order] >= _LEAST_TOKENS][: self.most_states - tag_states.n_states]
        copies = numpy.ones(tag_states.n_states, dtype="int64")
        copies[order] = 2
        origin = numpy.repeat(numpy.arange(tag_states.n_states), copies)
        self.expected = _divided(old, origin, copies, self.trees.tags, self._random)
        return numpy.flatnonzero(origin[1:] == origin[:-1])

    def merge(self, pairs: NDArray[numpy.int64], share: float = _MERGED_SHARE) -> None:
        """Merge the pairs of states that tell least."""
        losses = self._losses(pairs)
        merged = pairs[numpy.argsort(losses, kind="stable")[: int(share * len(pairs))]]
        target = numpy.ones(self.expected.tag_states.n_states, dtype="int64")
        target[merged + 1] = 0
        self.expected = _joined(self.expected, numpy.cumsum(target) - 1, self.trees.tags)

    def _state_totals(self) -> NDArray[numpy.float64]:
        tokens, states, local = self._lattice(self.expected.tag_states)
        n_states = self.expected.tag_states.n_states
        totals = numpy.bincount(states, self.expected.weights[tokens, local], n_states)
        return totals.astype("float64")

    def _losses(self, pairs: NDArray[numpy.int64]) -> NDArray[numpy.float64]:
        """By how much the logarithm of the likelihood falls if a pair is merged; see above."""
        expected, tag_states = self.expected, self.expected.tag_states
        totals = self._state_totals()
        losses = numpy.zeros(len(pairs))
        for i, state in enumerate(pairs.tolist()):
            tag, column = tag_states.tag_of[state], tag_states.local[state]
            own = self.trees.tags == tag
            posterior = expected.weights[own, column : column + 2]
            inside = self._inside[own, column : column + 2]
            outside = numpy.divide(posterior, inside, out=inside * 0, where=inside > 0)
            p = totals[state : state + 2] / max(totals[state : state + 2].sum(), 1e-300)
            together = (inside @ p) * outside.sum(axis=1)
            ratio = 1.0 - posterior.sum(axis=1) + together
            losses[i] = -numpy.log(numpy.maximum(ratio, 1e-300)).sum()
        return losses

    def labelling(self) -> Labelling:
        """The likeliest state of every token."""
        parts = self.expected.weights.argmax(axis=1)
        return Labelling.from_parts(self.trees.tags, parts, self.expected.tag_states.n_tags)


def _divided(
    old: Expectations,
    origin: NDArray,
    copies: NDArray,
    tags: NDArray,
    random: numpy.random.Generator,
) -> Expectations:
    """Counts of states that were split: equal parts with some noise."""
    k = len(origin)
    tag_states = TagStates(old.tag_states.tag_of[origin])
    outer = numpy.append(origin, old.tag_states.n_states)  # FIRST and STOP are not split
    share = 1.0 / numpy.append(copies[origin], 1)
    counts = old.counts[:, origin][:, :, outer][:, :, :, outer]
    counts *= share[:k, None, None]
    counts *= share[:, None]
    counts *= share
    # what a head generates, and what follows a sibling
    counts *= 1.0 + _NOISE * random.uniform(-1, 1, (2, k, 1, k + 1))
    counts *= 1.0 + _NOISE * random.uniform(-1, 1, (2, 1, k + 1, k + 1))
    column = numpy.zeros((tag_states.n_tags, tag_states.width), dtype="int64")
    column[tag_states.tag_of, tag_states.local] = old.tag_states.local[origin]
    part = tag_states.table(share[:k])[tags]
    weights = numpy.take_along_axis(old.weights, column[tags], axis=1) * part
    weights *= 1.0 + _NOISE * random.uniform(-1, 1, weights.shape)
    return Expectations(tag_states, counts, old.roots[origin] * share[:k], weights)


def _joined(old: Expectations, target: NDArray, tags: NDArray) -> Expectations:
    """Counts of states that were merged."""
    starts = numpy.flatnonzero(numpy.diff(target, prepend=-1))
    outer = numpy.append(starts, len(target))
    tag_states = TagStates(old.tag_states.tag_of[starts])
    counts = old.counts
    for axis, bounds in ((1, starts), (2, outer), (3, outer)):
        counts = numpy.add.reduceat(counts, bounds, axis=axis)
    weights = numpy.zeros((len(tags), tag_states.width))
    # where the column of an old state goes
    column = old.tag_states.table(tag_states.local[target]).astype("int64")
    rows = numpy.arange(len(tags))
    for own in range(old.weights.shape[1]):
        numpy.add.at(weights, (rows, column[tags, own]), old.weights[:, own])
    return Expectations(tag_states, counts, numpy.add.reduceat(old.roots, starts), weights)


def split_merge_labelling(
    trees: Trees,
    n_tags: int,
    *,
    cycles: int = 3,
    most_states: int = 300,
    seed: int = 0,
    progress: Callable[[Iterable], Iterable] = iter,
    report: Callable[[str], None] = lambda message: None,
) -> Labelling:
    """Give every token a state."""
    model = SplitMerge(trees, n_tags, most_states=most_states, seed=seed)
    steps = _ITERATIONS_AFTER_SPLIT + _ITERATIONS_AFTER_MERGE
    for step in progress(range(cycles * steps)):
        if step % steps == 0:
            pairs = model.split()
        elif step % steps == _ITERATIONS_AFTER_SPLIT:
            model.merge(pairs)
        model.iterate()
        if (step + 1) % steps == 0:
            n_states = model.expected.tag_states.n_states
            report(
                f"cycle {(step + 1) // steps} of {cycles}: {n_states} states, "
                f"log-likelihood {model.log_likelihood:.0f}"
            )
    return model.labelling()
