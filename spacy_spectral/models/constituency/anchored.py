"""The model of anchored rules: a conditional random field over the trees of forests."""

from collections.abc import Callable

import numpy
from numpy.typing import NDArray

from ._anchored import AnchoredTable
from .forest import Forest, RulePairs
from .span import gold_nodes
from .statistics import Corpus


def gold_forest(
    corpus: Corpus,
    starts: NDArray[numpy.int64],
    begin: NDArray[numpy.int32],
    end: NDArray[numpy.int32],
    symbol: NDArray[numpy.int32],
    *,
    strong: NDArray[numpy.bool_],
    pairs: RulePairs,
) -> tuple[Forest, NDArray[numpy.uint8], NDArray[numpy.uint8]]:
    """A forest of the gold trees and of what else a model of spans thinks likely.

    corpus (Corpus): The treebank.
    starts ... symbol: The items of the model of spans.
    strong (ndarray): bool, which of them may be joined by rules that were not seen.
    pairs (RulePairs): The rules.
    RETURNS (Tuple[Forest, ndarray, ndarray]): The forest; which items and edges are in gold trees.
    """
    node_starts, node_begin, node_end, node_symbol = gold_nodes(corpus)
    sentence = numpy.concatenate([
        numpy.repeat(numpy.arange(len(corpus)), numpy.diff(starts)),
        numpy.repeat(numpy.arange(len(corpus)), numpy.diff(node_starts)),
    ])  # fmt: skip
    begin, end, symbol = (
        numpy.concatenate([own, gold]).astype("int64")
        for own, gold in ((begin, node_begin), (end, node_end), (symbol, node_symbol))
    )
    key = _item_key(sentence, end - begin, begin, symbol)
    items = numpy.unique(key)
    is_strong = numpy.isin(items, key[: len(strong)][strong]).astype("uint8")
    lengths = numpy.diff(corpus.starts).astype("int32")
    width, start, label = (items >> 28) & 0xFFFF, (items >> 12) & 0xFFFF, items & 0xFFF
    item_starts = numpy.searchsorted(items >> 44, numpy.arange(len(corpus) + 1))
    columns = (column.astype("int32") for column in (start, start + width, label))
    forest = Forest.build(pairs, lengths, item_starts, *columns, strong=is_strong)
    forest_key = _item_key(forest.sentence, forest.end - forest.begin, forest.begin, forest.symbol)
    node_item = numpy.searchsorted(forest_key, key[-len(node_symbol) :])
    gold = numpy.zeros(len(forest_key), dtype="uint8")
    gold[node_item] = 1
    # an edge is gold if it joins the two children that its gold parent has
    left_of = numpy.full(len(forest_key), -1)
    right_of = left_of.copy()
    inner = corpus.left >= 0
    left_of[node_item[inner]] = node_item[corpus.left[inner]]
    right_of[node_item[inner]] = node_item[corpus.right[inner]]
    parent = forest.parent
    gold_edge = (left_of[parent] == forest.left) & (right_of[parent] == forest.right)
    return forest, gold, gold_edge.astype("uint8")


def _item_key(
    sentence: NDArray, width: NDArray, begin: NDArray, symbol: NDArray
) -> NDArray[numpy.int64]:
    """A number for each item, in the order of items."""
    key = (sentence.astype("int64") << 16 | width) << 16 | begin
    return key << 12 | symbol


def train_anchored(
    table: AnchoredTable,
    corpus: Corpus,
    tokens: NDArray[numpy.int32],
    forest: Forest,
    gold: NDArray[numpy.uint8],
    gold_edge: NDArray[numpy.uint8],
    *,
    offset: NDArray[numpy.float64] | None = None,
    epochs: int = 3,
    rate: float = 0.1,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
    """Train by conditional likelihood.

    RETURNS (Tuple[ndarray, ndarray]): The averaged weights of items and of anchored rules.
    """
    table.begin_learning(1.0)
    random = numpy.random.default_rng(seed)
    offset = numpy.zeros(len(forest.left)) if offset is None else offset
    for epoch in range(epochs):
        order = random.permutation(len(corpus)).astype("int32")
        loss = table.learn(
            tokens, corpus.starts, forest.starts, forest.begin, forest.end, forest.symbol,
            forest.edge_starts, forest.left, forest.right, forest.rule, gold, gold_edge, offset, order,
            rate,
        )  # fmt: skip
        if report is not None:
            mean = loss / max(len(corpus), 1)
            report(f"anchored rules, epoch {epoch + 1} of {epochs}: loss {mean:.3f} a sentence")
    return table.averaged()
