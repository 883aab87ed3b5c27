"""A grammar over states of one fineness, and coarser ones made of it."""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...base.linalg import kmeans
from .labelling import Labelling
from .lexicon import TagStates
from .statistics import Trees, count_rows
from .transitions import Transitions, event_states

# How many observations the tags of roots are worth
_ROOT_STRENGTH = 3.0


@dataclass
class Layer:
    """A grammar over states, of tags or finer.

    contexts: int32, [n, 4], what was seen; see `Transitions.fit`.
    counts: [n], how often.
    roots: [K], how often states are roots.
    """

    tag_states: TagStates
    contexts: NDArray[numpy.int32]
    counts: NDArray[numpy.float64]
    roots: NDArray[numpy.float64]

    def __post_init__(self) -> None:
        self.transitions = Transitions.fit(self.contexts, self.counts, self.tag_states)
        self.root = root_distribution(self.roots, self.tag_states)

    @classmethod
    def fit(cls, trees: Trees, labelling: Labelling) -> "Layer":
        """The grammar of a treebank whose tokens have states."""
        k = labelling.n_states
        contexts, counts = count_rows(event_states(trees.events, labelling.states, k))
        roots = numpy.bincount(labelling.states[trees.roots], minlength=k).astype("float64")
        return cls(labelling.tag_states, contexts, counts, roots)

    def grouped(self, groups: NDArray[numpy.int32]) -> "Layer":
        """The grammar of groups of states, given the group of every state."""
        # FIRST and STOP stay what they are
        n_groups = int(groups.max()) + 1
        of = numpy.append(groups, n_groups).astype("int64")
        side, *states = self.contexts.astype("int64").T
        columns = (side, *(of[column] for column in states))
        shape = (2, *[n_groups + 1] * 3)
        cells, which = numpy.unique(numpy.ravel_multi_index(columns, shape), return_inverse=True)
        contexts = numpy.stack(numpy.unravel_index(cells, shape), axis=1).astype("int32")
        counts = numpy.bincount(which.ravel(), self.counts, minlength=len(cells))
        tag_of = numpy.zeros(n_groups, dtype="int32")
        tag_of[groups] = self.tag_states.tag_of
        roots = numpy.bincount(groups, self.roots, minlength=n_groups)
        return Layer(TagStates(tag_of), contexts, counts.astype("float64"), roots.astype("float64"))

    def to_payload(self) -> dict[str, NDArray]:
        return {
            "contexts": self.contexts.astype("uint16"),
            "counts": self.counts.astype("uint32"),
            "roots": self.roots.astype("uint32"),
        }

    @classmethod
    def from_payload(cls, payload: dict[str, NDArray], tag_states: TagStates) -> "Layer":
        """What `to_payload` gave, checked by `format`."""
        return cls(
            tag_states,
            payload["contexts"].astype("int32"),
            payload["counts"].astype("float64"),
            payload["roots"].astype("float64"),
        )


def root_distribution(roots: NDArray, tag_states: TagStates) -> NDArray[numpy.float64]:
    """[K], P(state | root), smoothed by the tags of roots."""
    tags = numpy.bincount(tag_states.tag_of, roots) + 0.1
    general = (tags / tags.sum() / tag_states.size)[tag_states.tag_of]
    return (roots + _ROOT_STRENGTH * general) / (roots.sum() + _ROOT_STRENGTH)


def group_states(layer: Layer) -> NDArray[numpy.int32]:
    """Put states of a tag that behave alike into groups: about as many as the root of their number.

    A state is described by the tags among which it is generated and by those of its children.

    RETURNS: int32, [K], the group of every state; those of a tag have numbers in a row.
    """
    tag_states = layer.tag_states
    k, n_tags = tag_states.n_states, tag_states.n_tags
    side, head, previous, child = layer.contexts.astype("int64").T
    tags = numpy.append(tag_states.tag_of, n_tags)
    shape = (2, 2, n_tags + 1, n_tags + 1)
    size = int(numpy.prod(shape))
    groups = numpy.zeros(k, dtype="int32")
    begin = 0
    # tag by tag: a table of all states is larger than the grammar
    for first, n in zip(tag_states.first[:-1].tolist(), tag_states.size.tolist(), strict=True):
        own = slice(first, first + n)
        if n == 1:
            groups[own] = begin
            begin += 1
            continue
        vectors = numpy.zeros((n, size))
        for which, state, other in ((0, head, child), (1, child, head)):
            rows = numpy.flatnonzero((state >= first) & (state < first + n))
            around = tags[other[rows]], tags[previous[rows]]
            cell = numpy.ravel_multi_index((which, side[rows], *around), shape)
            numpy.add.at(vectors, (state[rows] - first, cell), layer.counts[rows])
        total = vectors.sum(axis=1)
        # roots of shares: their distances are those of distributions (Hellinger)
        vectors /= numpy.maximum(total, 1.0)[:, None]
        numpy.sqrt(vectors, out=vectors)
        found = kmeans(vectors, int(numpy.ceil(numpy.sqrt(n))), weights=total + 1.0)
        numbers = numpy.unique(found, return_inverse=True)[1]
        groups[own] = begin + numbers
        begin += int(numbers.max()) + 1
    return groups
