"""Parses of a batch of sentences by models that are distributions over unlabelled trees."""

from collections.abc import Callable, Sequence

import numpy
from numpy.typing import NDArray

from .constraints import allowed_arcs
from .interface import Parse
from .inventory import Inventory
from .posterior import Posterior
from .sentences import MISSING


class PosteriorParses:
    """Implements `trees.interface.Parses`: one posterior a sentence, and labels given the trees."""

    def __init__(
        self,
        starts: NDArray[numpy.int32],
        posteriors: Sequence[Posterior],
        *,
        inventory: Inventory,
        label_distributions: Callable[[Sequence[int], Sequence[NDArray]], NDArray],
        fixed: NDArray[numpy.int32] | None,
        decode: str,
    ):
        """starts (ndarray): Where sentences start, closed by the number of tokens.
        posteriors (Sequence[Posterior]): The distribution over each sentence's trees.
        inventory (Inventory): The labels.
        label_distributions (Callable): P(label | arc) for the trees of some sentences, given their
            numbers and heads: [tokens of all of them, labels].
        fixed (Optional[ndarray]): The heads that were given, MISSING for others.
        decode (str): "mbr" or "viterbi".
        """
        self._starts = starts
        self._posteriors = posteriors
        self._inventory = inventory
        self._label_distributions = label_distributions
        self._fixed = fixed
        self._trees = [
            posterior.heads if decode == "mbr" else posterior.viterbi() for posterior in posteriors
        ]
        self._distributions = label_distributions(range(len(posteriors)), self._trees)
        self._best = self._distributions.argmax(axis=1).astype("int32")
        heads = numpy.concatenate([numpy.zeros(0, dtype="int32"), *self._trees])
        self.heads, self.labels = inventory.restored(starts, heads, self._best, fixed)

    def head_probs(self) -> NDArray[numpy.float32]:
        values = [
            posterior.marginals[tree, numpy.arange(1, len(tree) + 1)]
            for posterior, tree in zip(self._posteriors, self._trees, strict=True)
        ]
        return numpy.concatenate([numpy.zeros(0), *values]).astype("float32")

    def label_probs(self) -> NDArray[numpy.float32]:
        chosen = numpy.arange(len(self._best)), self._best
        return self._distributions[chosen].astype("float32")

    def log_probs(self) -> NDArray[numpy.float64]:
        pairs = zip(self._posteriors, self._trees, strict=True)
        return numpy.array([posterior.log_probability(tree) for posterior, tree in pairs])

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        return self._posteriors[sentence].marginals

    def label_distributions(self, sentence: int) -> NDArray[numpy.float64]:
        return self._distributions[self._own(sentence)]

    def k_best(self, sentence: int, k: int) -> list[Parse]:
        found = self._posteriors[sentence].k_best(k)
        trees = [heads for heads, _ in found]
        distributions = self._label_distributions([sentence] * len(trees), trees)
        labels = distributions.argmax(axis=1).astype("int32")
        shape = len(trees), len(trees[0])
        fixed = (
            None if self._fixed is None else numpy.tile(self._fixed[self._own(sentence)], shape[0])
        )
        starts = numpy.arange(shape[0] + 1, dtype="int32") * shape[1]
        final = self._inventory.restored(starts, numpy.concatenate(trees), labels, fixed)
        return list(
            map(Parse, *(column.reshape(shape) for column in final), [log for _, log in found])
        )

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
