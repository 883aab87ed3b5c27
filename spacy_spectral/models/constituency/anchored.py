"""The model of anchored rules: a conditional random field over the trees of forests."""

from collections.abc import Callable

import numpy
from numpy.typing import NDArray

from ._anchored import AnchoredTable
from .forest import Forest, RulePairs
from .items import Items
from .span import gold_nodes
from .statistics import Corpus


def gold_forest(
    corpus: Corpus, items: Items, *, strong: NDArray[numpy.bool_], pairs: RulePairs
) -> tuple[Forest, NDArray[numpy.uint8], NDArray[numpy.uint8]]:
    """A forest of the gold trees and of what else a model of spans thinks likely.

    corpus (Corpus): The treebank.
    items (Items): The items of the model of spans.
    strong (ndarray): bool, which of them may be joined by rules that were not seen.
    pairs (RulePairs): The rules.
    RETURNS (Tuple[Forest, ndarray, ndarray]): The forest; which items and edges are in gold trees.
    """
    keys, gold_keys = items.keys(), gold_nodes(corpus).keys()
    every = numpy.unique(numpy.concatenate([keys, gold_keys]))
    is_strong = numpy.isin(every, keys[strong]).astype("uint8")
    lengths = numpy.diff(corpus.starts).astype("int32")
    forest = Forest.build(pairs, lengths, Items.from_keys(every, len(corpus)), strong=is_strong)
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
