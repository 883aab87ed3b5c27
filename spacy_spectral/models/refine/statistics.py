"""What is counted: which child follows which sibling under which head."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy
from numpy.typing import NDArray

from ...trees.sentences import MISSING
from .lexicon import TagStates

LEFT, RIGHT = 0, 1
# Instead of a token: no sibling before the first child, no child after the last one.
NONE = -1


@dataclass
class Events:
    """What heads generate, as indices of tokens, head by head, LEFT before RIGHT, from the inside out: a
    child (NONE after the last one) after the sibling before (NONE for the first)."""

    side: NDArray[numpy.int64]
    head: NDArray[numpy.int64]
    previous: NDArray[numpy.int64]
    child: NDArray[numpy.int64]


@dataclass
class Trees:
    """Trees to learn from, one after the other; projective, and perhaps known in part. Heads stand in
    the sentence, from 1; 0 is the root, MISSING a token without one, or whose head may have other
    children that are not known on that side."""

    starts: NDArray[numpy.int32]
    words: list[str]
    tags: NDArray[numpy.int32]
    heads: NDArray[numpy.int32]

    def __post_init__(self) -> None:
        # Where a token's head is missing, any head that can see it could be it.
        n = len(self.heads)
        self.counted = numpy.ones((n, 2), dtype="uint8")
        self.heads = self.heads.copy()
        missing = numpy.flatnonzero(self.heads == MISSING)
        sentence = self.sentence_of
        for s in numpy.unique(sentence[missing]):
            own = slice(int(self.starts[s]), int(self.starts[s + 1]))
            where = numpy.flatnonzero(self.heads[own] == MISSING)
            position = numpy.arange(own.stop - own.start)
            self.counted[own, LEFT] = position <= where[0]
            self.counted[own, RIGHT] = position >= where[-1]
            heads = self.heads[own]
            modifier = numpy.flatnonzero(heads > 0)
            side = (modifier + 1 > heads[modifier]).astype("int64")
            complete = self.counted[own][heads[modifier] - 1, side] == 1
            heads[modifier[~complete]] = MISSING

    def __len__(self) -> int:
        return len(self.tags)

    @cached_property
    def sentence_of(self) -> NDArray[numpy.int64]:
        """The number of every token's sentence."""
        return numpy.repeat(numpy.arange(len(self.starts) - 1), numpy.diff(self.starts))

    @cached_property
    def head_tokens(self) -> NDArray[numpy.int64]:
        """The head of every token among all tokens, NONE if it has none."""
        first = self.starts[:-1][self.sentence_of].astype("int64")
        return numpy.where(self.heads > 0, first + self.heads - 1, NONE)

    @cached_property
    def roots(self) -> NDArray[numpy.int64]:
        """The tokens that are roots."""
        return numpy.flatnonzero(self.heads == 0)

    @cached_property
    def events(self) -> Events:
        """All that is generated, but by the root."""
        child = numpy.flatnonzero(self.head_tokens != NONE)
        head = self.head_tokens[child]
        side = (child > head).astype("int64")
        # one STOP for every half that is known, farther away than all tokens
        token, stop_side = numpy.nonzero(self.counted)
        child = numpy.concatenate([child, numpy.full(len(token), NONE)])
        head, side = numpy.concatenate([head, token]), numpy.concatenate([side, stop_side])
        distance = numpy.where(child == NONE, len(self) + 1, numpy.abs(child - head))
        order = numpy.lexsort((distance, side, head))
        child, head, side = child[order], head[order], side[order]
        # a new half begins after every STOP
        previous = numpy.concatenate([[NONE], child[:-1]]) if len(child) else child
        return Events(side, head, previous, child)

    @cached_property
    def sequences(self) -> tuple[NDArray, NDArray, NDArray]:
        """For every token the innermost and the outermost child ([N, 2], by side) and its sibling
        on the outer side; NONE where there is none."""
        events, n = self.events, len(self)
        inner, outer = numpy.full((2, n, 2), NONE)
        following = numpy.full(n, NONE)
        first = (events.previous == NONE) & (events.child != NONE)
        inner[events.head[first], events.side[first]] = events.child[first]
        last = events.child == NONE
        outer[events.head[last], events.side[last]] = events.previous[last]
        inside = (events.previous != NONE) & (events.child != NONE)
        following[events.previous[inside]] = events.child[inside]
        return inner, outer, following

    @cached_property
    def previous(self) -> NDArray[numpy.int64]:
        """The sibling of every token on the inner side; NONE where there is none."""
        following = self.sequences[2]
        previous = numpy.full(len(self), NONE)
        followed = numpy.flatnonzero(following != NONE)
        previous[following[followed]] = followed
        return previous


def count_rows(columns: Sequence[NDArray]) -> tuple[NDArray[numpy.int32], NDArray[numpy.float64]]:
    """The distinct rows in order, and how often each occurs."""
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    keys = numpy.ravel_multi_index(tuple(columns), tuple(sizes)) if len(columns[0]) else columns[0]
    distinct, counts = numpy.unique(keys, return_counts=True)
    rows = numpy.stack(numpy.unravel_index(distinct.astype("int64"), tuple(sizes)), axis=1)
    return rows.astype("int32"), counts.astype("float64")


@dataclass
class Labelling:
    """States [N] of tokens, and the tag [K] that each state refines. Those of a tag are neighbours, the
    largest first."""

    states: NDArray[numpy.int32]
    tag_of: NDArray[numpy.int32]

    @classmethod
    def from_parts(cls, tags: NDArray[numpy.int32], parts: NDArray, n_tags: int) -> "Labelling":
        """Number states: tokens have tags, and are in parts of these, which are any numbers. A tag
        without tokens gets a state, too."""
        pairs = numpy.stack([tags.astype("int64"), parts.astype("int64")])
        distinct, which, counts = numpy.unique(
            pairs, axis=1, return_inverse=True, return_counts=True
        )
        # a part of no tokens for every tag that has none
        unseen = numpy.setdiff1d(numpy.arange(n_tags), tags)
        tag = numpy.concatenate([distinct[0], unseen])
        size = numpy.concatenate([counts, numpy.zeros(len(unseen), dtype="int64")])
        order = numpy.lexsort((numpy.arange(len(tag)), -size, tag))
        rank = numpy.empty_like(order)
        rank[order] = numpy.arange(len(order))
        return cls(rank[which.ravel()].astype("int32"), tag[order].astype("int32"))

    @property
    def n_states(self) -> int:
        return len(self.tag_of)

    @cached_property
    def tag_states(self) -> TagStates:
        """Which states refine which tag."""
        return TagStates(self.tag_of)
