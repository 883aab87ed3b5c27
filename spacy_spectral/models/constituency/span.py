"""The models of spans, which prune for the others and always have a tree, and of anchored rules: how they are
trained. Both are conditional random fields, over all trees and over those of forests."""

from collections.abc import Callable
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base._linear import build_slots, lay_out
from ._anchored import AnchoredTable
from ._forest import Forest
from ._table import FeatureTable
from .statistics import Corpus, Items, RulePairs

# weights nearer to 0 are not worth their place in a file
SMALL = 0.02


def new_table(
    corpus: Corpus, tokens: NDArray[numpy.int32], *, min_count: int
) -> tuple[FeatureTable, NDArray[numpy.uint64]]:
    """A table of all features that occur on several gold spans, with weights of 0, and the keys of its rows.

    tokens: Attributes of its words.
    """
    n_words, n_phrases = corpus.grammar.n_words, len(corpus.grammar) - corpus.grammar.n_words
    nothing = numpy.zeros(0, dtype="uint64")
    empty = _table(nothing, nothing, nothing, n_words, n_phrases)
    nodes = gold_nodes(corpus)
    rows = []
    for of_words in (True, False):
        found = empty.keys(tokens, corpus.starts, *nodes[:3], of_words)
        own = corpus.symbol[(corpus.end - corpus.begin == 1) == of_words]
        own_labels = own.astype("int64") - (0 if of_words else n_words)
        for column in found.T:
            distinct, inverse, counts = numpy.unique(
                column, return_inverse=True, return_counts=True
            )
            keep = (counts >= min_count) & (distinct != 0)
            number = numpy.where(keep, numpy.cumsum(keep) - 1, -1)[inverse]
            n_labels = n_words + n_phrases
            codes = numpy.unique((number * n_labels + own_labels)[number >= 0])
            # distinct keys, how many labels each was seen with, and which
            sizes = numpy.bincount(codes // n_labels, minlength=int(keep.sum()))
            rows.append((distinct[keep], sizes, codes % n_labels))
    keys, sizes, labels = (numpy.concatenate(part) for part in zip(*rows, strict=True))
    return _table(keys, sizes, labels, n_words, n_phrases), keys


def _table(
    keys: NDArray[numpy.uint64], sizes: NDArray, labels: NDArray, n_words: int, n_phrases: int
) -> FeatureTable:
    """A table without weights."""
    starts, entries, _ = lay_out(sizes, labels)
    return FeatureTable(build_slots(keys, starts), entries, n_words, n_phrases)


def gold_nodes(corpus: Corpus) -> Items:
    """The nodes of trees, as they come."""
    offset = numpy.repeat(corpus.starts[:-1], numpy.diff(corpus.node_starts)).astype("int32")
    return Items(corpus.node_starts, corpus.begin - offset, corpus.end - offset, corpus.symbol)


def compact(
    table: FeatureTable, keys: NDArray[numpy.uint64], weights: list[NDArray[numpy.float32]]
) -> list[FeatureTable]:
    """Tables without what hardly counts, with weights that are as precise as files are."""
    is_header = numpy.zeros(len(table.weights), dtype=bool)
    is_header[table.headers] = True
    row = numpy.cumsum(is_header) - 1
    keep = numpy.max(numpy.abs(weights), axis=0) >= SMALL
    alive = numpy.bincount(row[keep], minlength=len(keys)) > 0
    keep = (keep | is_header) & alive[row]
    has_label = keep & ~is_header
    sizes = numpy.bincount(row[has_label], minlength=len(keys))[alive]
    labels = table.labels[has_label]
    smaller = _table(keys[alive], sizes, labels, table.n_words, table.n_phrases)
    return [smaller.with_weights(own[keep].astype("float16")) for own in weights]


def train(
    table: FeatureTable | AnchoredTable,
    learn: Callable[[NDArray[numpy.int32], float], float],
    n: int,
    name: str,
    *,
    epochs: int,
    rate: float,
    seed: int,
    report: Callable[[str], None],
) -> Any:
    """Train a table by conditional likelihood. RETURNS: The averaged weights, as the table gives them.

    learn: Takes the numbers of sentences, in the order to learn from them, and the rate of learning; gives
        the loss.
    n: How many sentences there are.
    """
    table.begin_learning(1.0)
    random = numpy.random.default_rng(seed)
    for epoch in range(epochs):
        loss = learn(random.permutation(n).astype("int32"), rate) / max(n, 1)
        report(f"{name}, epoch {epoch + 1} of {epochs}: loss {loss:.3f} a sentence")
    return table.averaged()


def gold_forest(
    corpus: Corpus, items: Items, *, strong: NDArray[numpy.bool_], pairs: RulePairs
) -> tuple[Forest, NDArray[numpy.uint8], NDArray[numpy.uint8]]:
    """A forest of the gold trees and of what else a model of spans thinks likely; and what of it is gold.

    strong: Which items may be joined by rules that were not seen.
    """
    keys, gold_keys = items.keys(), gold_nodes(corpus).keys()
    every = numpy.unique(numpy.concatenate([keys, gold_keys]))
    is_strong = numpy.isin(every, keys[strong]).astype("uint8")
    lengths = numpy.diff(corpus.starts).astype("int32")
    forest = Forest.build(pairs, lengths, Items.from_keys(every, len(corpus)), is_strong)
    node_item = numpy.searchsorted(forest.items.keys(), gold_keys)
    gold = numpy.zeros(len(forest.begin), dtype="uint8")
    gold[node_item] = 1
    # an edge is gold if it joins the two children that its gold parent has
    left_of = numpy.full(len(gold), -1)
    right_of = left_of.copy()
    inner = corpus.left >= 0
    left_of[node_item[inner]] = node_item[corpus.left[inner]]
    right_of[node_item[inner]] = node_item[corpus.right[inner]]
    parent = forest.parent
    gold_edge = (left_of[parent] == forest.left) & (right_of[parent] == forest.right)
    return forest, gold, gold_edge.astype("uint8")
