"""Which arcs the log-linear model looks at.

The pruner is trained on either half of the text. Training sentences are then pruned by the half they do not
belong to: a pruner knows its own training data too well, and what is trained on such arcs would meet harder
ones later (this costs more than a point of UAS). Everything else is pruned by the mean of the two.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from ...trees._eisner import best_tree
from ...trees.posterior import allowed_arcs
from ._pruner import prune, train_pruner
from .encode import PRUNER, Sentences, Templates, compile_templates

# Longer arcs are looked at only if they are of one of the likeliest roots.
_REACH = 32
_N_FAR = 16
_SIZE = 1 << 21
_PARTS = 4
# Of a wider pruner: by how much the threshold is lower, and how many more heads there may be.
_LOWER, _MORE = 0.2, 1.6
# Longer sentences with fixed heads do not get all arcs: neighbouring modifiers are cubically many.
_MAX_ALL_ARCS = 100

Weights = NDArray[numpy.float32]


class Arcs(NamedTuple):
    """Kept arcs.

    starts: int32, where the heads of each token start, closed by their number.
    heads: int32, positions in the sentence, ascending for each token; 0 is the root.
    probs: float32, how likely the pruner thinks them.
    """

    starts: NDArray[numpy.int32]
    heads: NDArray[numpy.int32]
    probs: NDArray[numpy.float32]


@dataclass
class ArcPruner:
    """A first-order model of arcs with few features.

    weights: float32, a power of two of them; the first is not used.
    threshold: Keep heads with at least this probability relative to the token's best.
    most: Keep at most so many heads of a token.
    """

    templates: Templates
    weights: Weights
    between_bit: NDArray[numpy.uint8]
    threshold: float
    most: int

    def __call__(self, data: Sentences, keep: NDArray[numpy.int32] | None = None) -> Arcs:
        """Prune.

        keep: int32, a head for each token that must be kept, -1 for none.
        RETURNS: The kept arcs, among them those from the token to the left, so that there is
            always a tree.
        """
        if keep is None:
            keep = numpy.full(len(data.tags), -1, dtype=numpy.int32)
        return Arcs(*prune(
            data.columns, data.starts, data.tags, self.templates.composites, self.templates.pairs,
            self.between_bit, self.weights, self.threshold, self.most, _REACH, _N_FAR, keep,
        ))  # fmt: skip

    def wider(self) -> "ArcPruner":
        """The same pruner, more careful: where another model has its say, an arc that this one finds unlikely
        can still be the best. In products with a network, on parts of the training data that neither had
        seen, UAS and LAS were 89.89 and 87.25 on UD_English-EWT, 90.09 and 87.43 with it (70.66 and
        60.47, 70.64 and 60.43 on UD_Turkish-IMST, which is much smaller).
        """
        return replace(self, threshold=_LOWER * self.threshold, most=int(_MORE * self.most))


def fit_pruner(
    data: Sentences,
    heads: NDArray[numpy.int32],
    *,
    between_bit: NDArray[numpy.uint8],
    missing: set[str],
    threshold: float,
    most: int,
    epochs: int,
    rate: float,
    seed: int,
) -> tuple[ArcPruner, Arcs]:
    """Train a pruner, and prune its training data as if it had never seen it.

    missing: Columns the data does not have.
    epochs: Passes over either half; the first does not count for the average unless it is the
        only one.
    """
    templates = compile_templates(missing, pairs=PRUNER, unaries="", siblings="")
    rng = numpy.random.default_rng(seed)
    middle = len(data) // 2
    sentences = numpy.arange(len(data), dtype="int32")

    def train(half: NDArray[numpy.int32]) -> Weights:
        current, squares, total = (numpy.full(_SIZE, x, dtype="float32") for x in (0, 1, 0))
        for epoch in range(epochs):
            for part in numpy.array_split(rng.permutation(half), _PARTS):
                train_pruner(
                    data.columns, data.starts, data.tags, heads, templates.composites,
                    templates.pairs, between_bit, current, squares, part, rate, _REACH, _N_FAR,
                )  # fmt: skip
                if epoch or epochs == 1:
                    total += current
        return (total / (_PARTS * max(epochs - 1, 1))).astype("float32")

    def pruner(weights: Weights) -> ArcPruner:
        return ArcPruner(templates, weights, between_bit, threshold, most)

    first = train(sentences[:middle] if middle else sentences)
    second = train(sentences[middle:])
    cut = int(data.starts[middle])
    of_first = pruner(second)(data.part(0, middle), heads[:cut])
    of_second = pruner(first)(data.part(middle, len(data)), heads[cut:])
    starts = [of_first.starts[:-1], of_first.starts[-1] + of_second.starts]
    arcs = Arcs(
        numpy.concatenate(starts).astype("int32"),
        numpy.concatenate([of_first.heads, of_second.heads]),
        numpy.concatenate([of_first.probs, of_second.probs]),
    )
    return pruner(((first + second) / 2).astype("float32")), arcs


def check_arcs(arcs: Arcs, starts: NDArray[numpy.int32]) -> None:
    """Raise a ValueError unless every token has heads, ascending, in its sentence, none itself."""
    counts = numpy.diff(arcs.starts)
    lengths = numpy.diff(starts)
    sizes = {len(arcs.heads), len(arcs.probs), int(counts.sum())}
    if len(counts) != lengths.sum() or len(sizes) > 1 or (counts < 1).any() or arcs.starts[0]:
        raise SpectralError(Errors.S407)
    mods = numpy.repeat(numpy.arange(len(counts)), counts)
    position = numpy.arange(len(counts)) - numpy.repeat(starts[:-1], lengths) + 1
    inside = (arcs.heads >= 0) & (arcs.heads <= numpy.repeat(lengths, lengths)[mods])
    ascending = (numpy.diff(arcs.heads) > 0) | (numpy.diff(mods) > 0)
    if not inside.all() or not ascending.all() or (arcs.heads == position[mods]).any():
        raise SpectralError(Errors.S407)


def constrain(arcs: Arcs, starts: NDArray[numpy.int32], constraints: NDArray[numpy.int32]) -> Arcs:
    """Arcs that agree with fixed heads, with a probability of 0.

    A sentence with a fixed head keeps all arcs of its other tokens: given that head, other arcs are
    likely. A long one, for which there is neither time nor memory, keeps the pruner's arcs and those of a
    tree.

    constraints: int32, the fixed head of each token, -1 where it is free.
    """
    heads, counts = [numpy.zeros(0, dtype="int32")], numpy.diff(arcs.starts)
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        fixed = constraints[first:last]
        own = arcs.heads[arcs.starts[first] : arcs.starts[last]]
        if (fixed >= 0).any():
            keep = _agreeing(own, counts[first:last], fixed)
            own = numpy.nonzero(keep.T[1:])[1].astype("int32")
            counts[first:last] = keep[:, 1:].sum(axis=0)
        heads.append(own)
    ends = numpy.concatenate([[0], numpy.cumsum(counts)]).astype("int32")
    kept = numpy.concatenate(heads)
    return Arcs(ends, kept, numpy.zeros(len(kept), dtype="float32"))


def with_arcs(arcs: Arcs, more: NDArray[numpy.bool_]) -> Arcs:
    """The arcs of one sentence and others, [N+1, N+1] by head and modifier, with probability 0."""
    n = len(arcs.starts) - 1
    keep = more.copy()
    keep[arcs.heads, numpy.repeat(numpy.arange(1, n + 1), numpy.diff(arcs.starts))] = True
    numpy.fill_diagonal(keep, False)
    heads = numpy.nonzero(keep.T[1:])[1].astype("int32")
    starts = numpy.concatenate([[0], numpy.cumsum(keep[:, 1:].sum(axis=0))]).astype("int32")
    return Arcs(starts, heads, numpy.zeros(len(heads), dtype="float32"))


def _agreeing(
    heads: NDArray[numpy.int32], counts: NDArray[numpy.int32], fixed: NDArray[numpy.int32]
) -> NDArray[numpy.bool_]:
    """[N+1, N+1], which arcs of a sentence to keep beside its fixed heads."""
    n = len(fixed)
    tokens = numpy.arange(1, n + 1)
    wrong = numpy.flatnonzero((fixed > n) | (fixed == tokens))
    if len(wrong):
        raise SpectralError(Errors.S405.format(head=fixed[wrong[0]], token=wrong[0] + 1, n=n))
    allowed = allowed_arcs(fixed)
    keep = numpy.full((n + 1, n + 1), n <= _MAX_ALL_ARCS)
    if n > _MAX_ALL_ARCS:
        keep[heads, numpy.repeat(tokens, counts)] = True
        tree, _ = best_tree(numpy.where(allowed, numpy.where(keep, 0.0, -1.0), -numpy.inf))
        keep[tree, tokens] = True
        keep[fixed[fixed >= 0], tokens[fixed >= 0]] = True
    keep &= allowed
    numpy.fill_diagonal(keep, False)
    return keep
