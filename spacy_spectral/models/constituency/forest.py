"""Packed forests of binary trees over the sentences of a batch; see `_forest.pyx` for the order of things."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ._forest import best_trees, connect, inside_outside, reach
from .statistics import Symbols


class Items(NamedTuple):
    """Items of all sentences of a batch.

    starts (ndarray): int64, where the items of sentences start, closed by the number of items.
    begin, end (ndarray): int32, the words that items cover, counted in their sentences; `end` exclusive.
    symbol (ndarray): int32.
    """

    starts: NDArray[numpy.int64]
    begin: NDArray[numpy.int32]
    end: NDArray[numpy.int32]
    symbol: NDArray[numpy.int32]

    @classmethod
    def from_keys(cls, keys: NDArray[numpy.int64], n_sentences: int) -> "Items":
        """The items of `keys`, which are sorted."""
        starts = numpy.searchsorted(keys >> 44, numpy.arange(n_sentences + 1))
        width, begin, symbol = (keys >> 28) & 0xFFFF, (keys >> 12) & 0xFFFF, keys & 0xFFF
        return cls(starts, *(own.astype("int32") for own in (begin, begin + width, symbol)))

    @property
    def sentence(self) -> NDArray[numpy.int64]:
        """The sentence of every item."""
        n = len(self.starts) - 1
        return numpy.repeat(numpy.arange(n, dtype="int64"), numpy.diff(self.starts))

    def keys(self) -> NDArray[numpy.int64]:
        """A number for each item. Their order is that of forests: by sentence, width, beginning and
        symbol."""
        key = (self.sentence << 16 | (self.end - self.begin)) << 16 | self.begin
        return key << 12 | self.symbol


class RulePairs:
    """The rules of a grammar, to be found by their children.

    start (ndarray): int32, [symbols ** 2 + 1], where the rules of a pair of children start.
    rule, parent (ndarray): int32, by place; of a pair, rules that were seen come first.
    seen (ndarray): uint8, by place.
    """

    def __init__(self, grammar: Symbols, *, possible: bool = False):
        n = len(grammar)
        pair = grammar.rules[:, 1].astype("int64") * n + grammar.rules[:, 2]
        if not possible:
            pair = pair[grammar.seen > 0]
        # stable: rules that were not seen are the last of the grammar
        order = numpy.argsort(pair, kind="stable")
        self.seen = grammar.seen[order]
        self.start = numpy.zeros(n * n + 1, dtype="int32")
        numpy.cumsum(numpy.bincount(pair, minlength=n * n), out=self.start[1:])
        self.rule = order.astype("int32")
        self.parent = numpy.ascontiguousarray(grammar.rules[order, 0])
        self.n_symbols = n


@dataclass
class Forest:
    """Items and edges of all sentences of a batch, children before their parents.

    lengths (ndarray): int32, the numbers of words of sentences.
    starts (ndarray): int64, where the items of sentences start, closed by the number of items.
    begin, end, symbol (ndarray): int32, by item.
    edge_starts (ndarray): int64, where the edges of items start, closed by the number of edges.
    left, right (ndarray): int32, by edge, items of the batch.
    rule (ndarray): int32, by edge.
    """

    lengths: NDArray[numpy.int32]
    starts: NDArray[numpy.int64]
    begin: NDArray[numpy.int32]
    end: NDArray[numpy.int32]
    symbol: NDArray[numpy.int32]
    edge_starts: NDArray[numpy.int64]
    left: NDArray[numpy.int32]
    right: NDArray[numpy.int32]
    rule: NDArray[numpy.int32]

    def __post_init__(self) -> None:
        self.is_word = (self.end - self.begin == 1).astype("uint8")
        of_item = numpy.repeat(self.lengths, numpy.diff(self.starts))
        self.is_root = (self.end - self.begin == of_item).astype("uint8")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def items(self) -> Items:
        return Items(self.starts, self.begin, self.end, self.symbol)

    @property
    def parent(self) -> NDArray[numpy.int64]:
        """The parent of every edge."""
        return numpy.repeat(numpy.arange(len(self.begin)), numpy.diff(self.edge_starts))

    @classmethod
    def build(
        cls,
        pairs: RulePairs,
        lengths: NDArray[numpy.int32],
        items: Items,
        *,
        strong: NDArray[numpy.uint8] | None = None,
    ) -> "Forest":
        """All trees of some items, without items that are in none.

        lengths (ndarray): int32, the numbers of words of sentences.
        strong (Optional[ndarray]): uint8, items that may be joined by rules that were not seen.
        """
        strong = numpy.zeros(len(items.begin), dtype="uint8") if strong is None else strong
        edges = connect(
            *items, strong, lengths,
            pairs.start, pairs.rule, pairs.parent, pairs.seen, pairs.n_symbols,
        )  # fmt: skip
        forest = cls(lengths, *items, *edges)
        every = numpy.ones(len(items.begin), dtype="uint8")
        return forest.pruned(every, numpy.ones(len(forest.left), dtype="uint8"))[0]

    def pruned(
        self, items: NDArray[numpy.uint8], edges: NDArray[numpy.uint8]
    ) -> tuple["Forest", NDArray[numpy.int64], NDArray[numpy.int64]]:
        """Only trees of some items and edges.

        items, edges (ndarray): uint8, what is kept.
        RETURNS (Tuple[Forest, ndarray, ndarray]): The smaller forest, and which items and edges are in it.
        """
        keep, keep_edge = reach(
            self.starts,
            self.is_word,
            self.is_root,
            self.edge_starts,
            self.left,
            self.right,
            items,
            edges,
        )
        number = numpy.cumsum(keep) - 1
        kept, kept_edges = numpy.flatnonzero(keep), numpy.flatnonzero(keep_edge)
        before = numpy.concatenate([[0], numpy.cumsum(keep)])
        edges_before = numpy.concatenate([[0], numpy.cumsum(keep_edge)])
        forest = Forest(
            self.lengths,
            before[self.starts],
            self.begin[kept], self.end[kept], self.symbol[kept],
            numpy.append(edges_before[self.edge_starts[:-1]][kept], len(kept_edges)),
            number[self.left[kept_edges]].astype("int32"),
            number[self.right[kept_edges]].astype("int32"),
            self.rule[kept_edges],
        )  # fmt: skip
        return forest, kept, kept_edges

    def posteriors(
        self,
        items: NDArray[numpy.float64],
        edges: NDArray[numpy.float64],
        roots: NDArray[numpy.float64],
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]]:
        """log Z by sentence, and posteriors of items and of edges. Scores are those of items, of edges, and
        of items as roots."""
        return inside_outside(*self._arrays(), items, edges, roots)

    def k_best(
        self,
        items: NDArray[numpy.float64],
        edges: NDArray[numpy.float64],
        roots: NDArray[numpy.float64],
        k: int,
    ) -> list[list[tuple[list[int], float]]]:
        """The k trees of every sentence with the greatest sums of scores, best first: the items of each,
        children before parents and left before right, and its score."""
        return best_trees(*self._arrays(), items, edges, roots, k)

    def best(
        self,
        items: NDArray[numpy.float64],
        edges: NDArray[numpy.float64],
        roots: NDArray[numpy.float64],
    ) -> list[list[int]]:
        """The items of the best tree of every sentence, as `k_best` has them; empty if there is none."""
        found = self.k_best(items, edges, roots, 1)
        return [own[0][0] if own else [] for own in found]

    def _arrays(self) -> tuple[NDArray, ...]:
        return (
            self.starts, self.lengths, self.begin, self.end, self.edge_starts, self.left, self.right,
        )  # fmt: skip
