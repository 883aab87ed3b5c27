"""Labellings: a state for every token of a treebank, whatever method found it."""

from dataclasses import dataclass
from functools import cached_property

import numpy
from numpy.typing import NDArray

from .lexicon import TagStates


@dataclass
class Labelling:
    """States of tokens. Every state refines one tag; those of a tag are neighbours, the largest first.

    states: int32, [N], the state of every token.
    tag_of: int32, [K], the tag that each state refines.
    """

    states: NDArray[numpy.int32]
    tag_of: NDArray[numpy.int32]

    @classmethod
    def from_parts(cls, tags: NDArray[numpy.int32], parts: NDArray, n_tags: int) -> "Labelling":
        """Number states.

        tags: [N], the tag of every token.
        parts: [N], which part of its tag a token belongs to, by any numbers.
        n_tags: How many tags there are; one without tokens gets a state, too.
        """
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
