"""One sentence as the chart of the head automata wants it."""

from dataclasses import dataclass, replace

import numpy
from numpy.typing import NDArray

from ...trees.posterior import Factors
from ._chart import Chart
from ._viterbi import viterbi
from .model import OperatorModel


@dataclass
class AutomataFactors(Factors):
    """See `trees.posterior.Factors`; the arrays are those of `_chart.Chart`."""

    symbols: NDArray[numpy.int32]
    word_class: NDArray[numpy.int32]
    automata: OperatorModel
    states: int
    weights: NDArray[numpy.float64]
    stop: NDArray[numpy.float64]
    root: NDArray[numpy.float64]
    log_scale: float = 0.0

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def non_negative(self) -> bool:
        return self.automata.non_negative

    def chart(self) -> Chart:
        """RETURNS (Chart): The chart of the sentence."""
        automata = self.automata
        return Chart(
            self.symbols,
            self.word_class,
            automata.start,
            automata.operators,
            self.weights,
            self.stop,
            self.root,
            self.states,
        )

    def restricted(self, allowed: NDArray[numpy.bool_]) -> "AutomataFactors":
        weights = self.weights * allowed[1:, 1:, None]
        return replace(self, weights=weights, root=self.root * allowed[0, 1:])

    def scaled(self, factor: float) -> "AutomataFactors":
        return replace(
            self,
            weights=self.weights * factor,
            root=self.root * factor,
            log_scale=self.log_scale + len(self.symbols) * float(numpy.log(factor)),
        )

    def inside_outside(self) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]:
        return self.chart().inside_outside()

    def tree_scores(self, trees: NDArray[numpy.int32]) -> tuple[NDArray, NDArray]:
        return self.chart().tree_scores(trees)

    def viterbi(self) -> NDArray[numpy.int32]:
        """The tree of the best (tree, hidden states) pair; for non-negative automata only."""
        with numpy.errstate(divide="ignore"):
            heads, _ = viterbi(
                self.symbols,
                self.word_class,
                self.automata.log_start,
                self.automata.log_operators,
                numpy.log(self.weights),
                numpy.log(self.stop),
                numpy.log(self.root),
            )
        return heads
