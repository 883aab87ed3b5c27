"""What a log-linear model says of a batch, as every parser says it: see `trees.interface.Parses`."""

from collections.abc import Callable
from functools import cached_property

import numpy
from numpy.typing import NDArray

from ...trees.interface import ArcMask, ArcProbs, Parse, RankedTrees, TreeDistribution
from ...trees.parses import distinct_parses, restored_arcs, restored_parses
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import MISSING
from .model import ModelParses

_SMALLEST_PROB = 1e-12
# (sentence, arcs that were left out) -> its trees
Pack = Callable[[int, NDArray[numpy.bool_] | None], RankedTrees]


class LogLinearParses:
    """Parses of a batch; implements `trees.interface.Parses`."""

    labelled = True

    def __init__(
        self,
        parses: ModelParses,
        inventory: Inventory,
        fixed: NDArray[numpy.int32] | None,
        pack: Pack,
    ):
        """parses (ModelParses): What the model says.
        inventory (Inventory): The labels.
        fixed (Optional[ndarray]): The heads that were given, MISSING for others.
        pack (Pack): Scores a sentence once more and packs its trees.
        """
        self._pack = pack
        self._parses = parses
        self._inventory = inventory
        self._fixed = fixed
        self.heads, self.labels = inventory.restored(
            parses.starts, parses.heads, parses.labels, fixed
        )

    @cached_property
    def _probs(self) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
        heads, labels = self._parses.probs()
        restored = restored_arcs(self, self._parses.starts, self._parses.heads, self._parses.labels)
        if len(restored.tokens):
            heads, labels = heads.copy(), labels.copy()
            heads[restored.tokens] = restored.head_probs
            labels[restored.tokens] = restored.label_probs
        return heads, labels

    def head_probs(self) -> NDArray[numpy.float32]:
        return self._probs[0]

    def label_probs(self) -> NDArray[numpy.float32]:
        return self._probs[1]

    def log_probs(self) -> NDArray[numpy.float64]:
        logs = self._parses.log_probs.copy()
        failed = numpy.flatnonzero(numpy.isnan(logs)).tolist()
        if failed:
            # where the chart failed tokens were parsed one by one
            heads, labels = self._parses.probs()
            own = numpy.log(numpy.maximum(heads * labels, _SMALLEST_PROB))
            for s in failed:
                logs[s] = own[self._own(s)].sum()
        return logs

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        return self._parses.marginals(sentence)

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        heads, modifiers, joint = self._parses.forests.joint(sentence)
        table = joint if labelled else joint.sum(axis=1, keepdims=True)
        arc, label = numpy.nonzero((table >= min_prob) & (table > 0))
        labels = label.astype("int32") if labelled else numpy.full(len(arc), MISSING, dtype="int32")
        return ArcProbs(heads[arc], modifiers[arc], labels, table[arc, label].astype("float64"))

    def label_distributions(self, sentence: int) -> NDArray[numpy.float64]:
        return self._parses.label_probs[self._own(sentence)].astype("float64")

    def k_best(self, sentence: int, k: int, *, labelled: bool = False) -> list[Parse]:
        own = self._own(sentence)
        fixed = None if self._fixed is None else self._fixed[own]
        heads, labels, logs = self._parses.forests.k_best(sentence, k)
        if not len(heads):
            log_prob = float(self.log_probs()[sentence])
            return [Parse(self.heads[own], self.labels[own], log_prob)]
        if not labelled:
            return restored_parses(heads, labels, logs.tolist(), self._inventory, fixed)
        trees = self._pack(sentence, None)
        n = heads.shape[1]
        total, _ = trees.total(numpy.ones((n + 1, n + 1), dtype=bool), {})
        return distinct_parses(
            lambda m: [
                tree._replace(score=min(tree.score - total, 0.0)) for tree in trees.k_best(m)
            ],
            self._inventory,
            fixed,
            k,
        )

    def distribution(
        self, sentence: int, *, more: ArcMask | None = None, labelled: bool = False
    ) -> TreeDistribution:
        return self._pack(sentence, more)

    def _own(self, sentence: int) -> slice:
        starts = self._parses.starts
        return slice(int(starts[sentence]), int(starts[sentence + 1]))
