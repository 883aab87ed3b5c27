"""One sentence as the chart of the refined grammar wants it, and what coarser grammars leave of it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy
from numpy.typing import NDArray

from ...trees.posterior import Factors, Posterior
from ._chains import state_posteriors
from ._lattice import inside_outside
from .lexicon import Lattice
from .transitions import Layer, Transitions, group_states


@dataclass
class LatticeFactors(Factors):
    """See `trees.posterior.Factors`. Arcs have weights [N, N] (head, modifier), every state of every
    token one as child of the root."""

    lattice: Lattice
    transitions: Transitions
    weights: NDArray[numpy.float64]
    root: NDArray[numpy.float64]
    log_scale: float = 0.0

    def __len__(self) -> int:
        return len(self.weights)

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
        return inside_outside(
            self.lattice.offsets,
            self.lattice.states,
            self.lattice.emissions,
            self.transitions.rows,
            self.transitions.row_of,
            self.weights,
            self.root,
        )

    def inside_outside(self) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]:
        z, marginals, _, largest = self._chart
        return z, marginals.copy(), largest

    def state_marginals(self) -> NDArray[numpy.float64]:
        """P(state | sentence) of every state of the lattice."""
        z, _, marginals, _ = self._chart
        return marginals / z

    def only(self, kept: NDArray[numpy.bool_]) -> "LatticeFactors":
        """The same with some of the states; every token must keep one."""
        return replace(self, lattice=self.lattice.only(kept), root=self.root[kept])

    def tree_scores(self, trees: NDArray[numpy.int32]) -> tuple[NDArray, NDArray]:
        k, n = trees.shape
        lattice = self.lattice.repeated(k)
        root = numpy.tile(self.root, k)
        _, _, logs = state_posteriors(
            numpy.arange(0, k * n + 1, n, dtype="int32"),
            numpy.ascontiguousarray(trees.ravel(), "int32"),
            numpy.ones((k * n, 2), dtype="uint8"),
            lattice.offsets,
            lattice.states,
            lattice.emissions,
            self.transitions.rows,
            self.transitions.row_of,
            root,
            root,
        )
        with numpy.errstate(divide="ignore"):
            arcs = numpy.log(self.weights[trees - 1, numpy.arange(n)])
        return logs + numpy.where(trees > 0, arcs, 0.0).sum(axis=1), numpy.ones(k)


# Coarser grammars look at a sentence before finer ones: what they find hopeless is left out.
#
# First the grammar of the tags, then that of groups of states that behave alike (see `group_states`),
# each over what the one before it has left. An arc stays if its marginal is large enough, a state if that of
# its group is; so does what is in the best tree, and every token's likeliest group. What is left is summed
# over exactly: the result is the distribution of the grammar given that no other arc and state is used.
#
# Words alone tell too little to leave states out by: on parts of three training treebanks 8 instead of 16
# states a token cost 0.1-2 points; what the groups leave out costs nothing that can be measured.

# The grammar of the tags leaves out arcs below `prune`; that of groups, which knows better, arcs and states
# below so many times that (chosen on parts of training treebanks), but not what is this likely.
_GROUP_ARCS, _GROUP_STATES = 30.0, 300.0
_LIKELY = 0.1
# At most so many heads of a token are left
_MOST_HEADS = 16


@dataclass
class Pass:
    """A grammar of groups of states: the group of every state [K], P(state | tag), and how many times
    `prune` the marginals of arcs and groups must be."""

    layer: Layer
    groups: NDArray[numpy.int32]
    share: NDArray[numpy.float64]
    arcs: float = 1.0
    states: float = 1.0

    def __post_init__(self) -> None:
        self._share = numpy.bincount(self.groups, self.share)
        self._is_tags = self.layer.tag_states.width == 1

    def lattice(self, fine: Lattice) -> tuple[Lattice, NDArray[numpy.int64]]:
        """Sum over the states of every group."""
        n_groups = len(self._share)
        n = len(fine.offsets) - 1
        token = numpy.repeat(numpy.arange(n), numpy.diff(fine.offsets))
        if self._is_tags:
            return Lattice.of_single(self.groups[fine.states[fine.offsets[:-1]]]), token
        keys, which = numpy.unique(token * n_groups + self.groups[fine.states], return_inverse=True)
        group = (keys % n_groups).astype("int32")
        weights = numpy.bincount(which.ravel(), fine.emissions * self.share[fine.states])
        offsets = numpy.searchsorted(keys, numpy.arange(n + 1) * n_groups).astype("int32")
        return Lattice(offsets, group, weights / self._share[group]), which.ravel()

    def left(
        self, factors: LatticeFactors, allowed: NDArray[numpy.bool_] | None, prune: float
    ) -> tuple[NDArray[numpy.bool_], NDArray[numpy.bool_]] | None:
        """The arcs ([N+1, N+1]) and groups that this grammar leaves of a sentence; None if there was no
        chart."""
        found = Posterior.from_factors([factors], allowed)
        used = found.factors
        if not isinstance(used, LatticeFactors):
            return None
        arcs = found.marginals >= self._least(self.arcs, prune)
        if len(factors) > _MOST_HEADS:
            order = numpy.argpartition(-found.marginals, _MOST_HEADS, axis=0)[_MOST_HEADS:]
            numpy.put_along_axis(arcs, order, False, axis=0)
        # at least one tree
        arcs[found.heads, numpy.arange(1, len(factors) + 1)] = True
        states = used.state_marginals()
        offsets = used.lattice.offsets
        best = numpy.repeat(numpy.maximum.reduceat(states, offsets[:-1]), numpy.diff(offsets))
        return arcs, (states >= self._least(self.states, prune)) | (states >= best)

    def _least(self, times: float, prune: float) -> float:
        return max(min(times * prune, _LIKELY), prune)


def passes(coarse: Layer, fine: Layer, share: NDArray[numpy.float64]) -> list[Pass]:
    """The grammars that look at a sentence before the finest does; `share` is P(state | tag)."""
    result = [Pass(coarse, fine.tag_states.tag_of, share)]
    groups = group_states(fine)
    if int(groups.max()) + 1 > fine.tag_states.n_tags:
        result.append(Pass(fine.grouped(groups), groups, share, _GROUP_ARCS, _GROUP_STATES))
    return result
