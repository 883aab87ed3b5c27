"""One sentence as the chart of the refined grammar wants it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy
from numpy.typing import NDArray

from ...trees.posterior import Factors
from ._chains import tree_scores
from ._lattice import inside_outside
from .lexicon import Lattice
from .transitions import Transitions


@dataclass
class LatticeFactors(Factors):
    """See `trees.posterior.Factors`.

    lattice (Lattice): The states of every token.
    transitions (Transitions): What heads generate.
    weights (ndarray): [N, N], of every arc (head, modifier).
    root (ndarray): Weight of every state of every token as child of the root.
    """

    lattice: Lattice
    transitions: Transitions
    weights: NDArray[numpy.float64]
    root: NDArray[numpy.float64]
    log_scale: float = 0.0

    def __len__(self) -> int:
        return len(self.weights)

    def arguments(self) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray, NDArray, NDArray]:
        lattice, grammar = self.lattice, self.transitions
        return (
            lattice.offsets,
            lattice.states,
            lattice.emissions,
            grammar.rows,
            grammar.row_of,
            self.weights,
            self.root,
        )

    def restricted(self, allowed: NDArray[numpy.bool_]) -> "LatticeFactors":
        root = self.root * numpy.repeat(allowed[0, 1:], numpy.diff(self.lattice.offsets))
        return replace(self, weights=self.weights * allowed[1:, 1:], root=root)

    def scaled(self, factor: float) -> "LatticeFactors":
        return replace(
            self,
            weights=self.weights * factor,
            root=self.root * factor,
            log_scale=self.log_scale + len(self) * float(numpy.log(factor)),
        )

    @cached_property
    def _chart(self) -> tuple[float, NDArray, NDArray, NDArray]:
        return inside_outside(*self.arguments())

    def inside_outside(self) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]:
        z, marginals, _, largest = self._chart
        return z, marginals.copy(), largest

    def state_marginals(self) -> NDArray[numpy.float64]:
        """RETURNS (ndarray): P(state | sentence) of every state of the lattice."""
        z, _, marginals, _ = self._chart
        return marginals / z

    def only(self, kept: NDArray[numpy.bool_]) -> "LatticeFactors":
        """RETURNS (LatticeFactors): The same with some of the states; every token must keep one."""
        return replace(self, lattice=self.lattice.only(kept), root=self.root[kept])

    def tree_scores(self, trees: NDArray[numpy.int32]) -> tuple[NDArray, NDArray]:
        with numpy.errstate(divide="ignore"):
            logs = tree_scores(*self.arguments(), numpy.ascontiguousarray(trees))
        return logs, numpy.ones(len(logs))

    def viterbi(self) -> NDArray[numpy.int32]:
        raise NotImplementedError
