"""A treebank as flat arrays: every node of its binary trees, with numbers for symbols and rules."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...treebank.brackets import Tree
from .trees import WORD, BinaryTree, Symbol, binarize, clean


@dataclass
class Symbols:
    """The symbols of a grammar and its rules. Those of words come first.

    symbols (List[Symbol]): All symbols.
    n_words (int): How many of them words have.
    rules (ndarray): int32, [rules, 3], parent, left and right child, sorted.
    root (str): The label around trees, "" for none.
    """

    symbols: list[Symbol]
    n_words: int
    rules: NDArray[numpy.int32]
    root: str

    def __len__(self) -> int:
        return len(self.symbols)


@dataclass
class Corpus:
    """Binary trees, one after the other; children come before their parents.

    grammar (Symbols): The symbols and rules.
    words (List[str]): The words of all trees.
    starts (ndarray): int64, where the words of trees start, closed by the number of words. The nodes of
        a tree of n words starting at s are the 2n - 1 from `node_starts`.
    symbol, rule (ndarray): int32, by node; the rule of a word is -1.
    left, right, parent (ndarray): int32, nodes of the corpus, -1 for none.
    begin, end, head (ndarray): int32, words of the corpus.
    """

    grammar: Symbols
    words: list[str]
    starts: NDArray[numpy.int64]
    symbol: NDArray[numpy.int32]
    rule: NDArray[numpy.int32]
    left: NDArray[numpy.int32]
    right: NDArray[numpy.int32]
    parent: NDArray[numpy.int32]
    begin: NDArray[numpy.int32]
    end: NDArray[numpy.int32]
    head: NDArray[numpy.int32]

    @property
    def node_starts(self) -> NDArray[numpy.int64]:
        """RETURNS (ndarray): Where the nodes of trees start, closed by the number of nodes."""
        return 2 * self.starts - numpy.arange(len(self.starts))

    @property
    def roots(self) -> NDArray[numpy.int64]:
        """RETURNS (ndarray): The last node of every tree."""
        return self.node_starts[1:] - 1

    def __len__(self) -> int:
        return len(self.starts) - 1


def binary_trees(trees: Iterable[Tree]) -> list[BinaryTree]:
    """RETURNS (List[BinaryTree]): The trees that have words."""
    cleaned = (clean(tree) for tree in trees)
    return [binarize(tree) for tree in cleaned if tree is not None]


def encode(trees: Sequence[BinaryTree], *, min_count: int = 3) -> Corpus:
    """Number the symbols and rules of a treebank.

    trees (Sequence[BinaryTree]): The trees.
    min_count (int): Chains that are rarer are cut from the outside to one that is not.
    RETURNS (Corpus): The trees.
    """
    seen = Counter(symbol for tree in trees for symbol in tree.symbols)
    merged = _merge_rare(seen, min_count)
    kept = sorted(set(merged.values()), key=lambda s: (s.kind != WORD, s.kind, s.labels))
    number = {symbol: i for i, symbol in enumerate(kept)}
    number_of = {symbol: number[other] for symbol, other in merged.items()}
    n_words = sum(symbol.kind == WORD for symbol in kept)
    starts = numpy.cumsum([0, *(len(tree.words) for tree in trees)])
    node_starts = (2 * starts - numpy.arange(len(starts))).tolist()
    symbol = numpy.array([number_of[s] for tree in trees for s in tree.symbols], dtype="int32")

    def column(name: str, offsets: Sequence[int]) -> NDArray[numpy.int32]:
        values = [numpy.array(getattr(tree, name), dtype="int32") for tree in trees]
        for own, offset in zip(values, offsets, strict=False):
            own[own >= 0] += offset
        return numpy.concatenate([numpy.zeros(0, dtype="int32"), *values])

    left, right = column("left", node_starts), column("right", node_starts)
    inner = numpy.flatnonzero(left >= 0)
    parent = numpy.full(len(symbol), -1, dtype="int32")
    parent[left[inner]] = parent[right[inner]] = inner
    triples = numpy.stack([symbol[inner], symbol[left[inner]], symbol[right[inner]]], axis=1)
    rules, rule_of = numpy.unique(triples, axis=0, return_inverse=True)
    rule = numpy.full(len(symbol), -1, dtype="int32")
    rule[inner] = rule_of.ravel()
    roots = Counter(tree.root for tree in trees).most_common(1)
    return Corpus(
        Symbols(kept, n_words, rules.reshape(-1, 3).astype("int32"), roots[0][0] if roots else ""),
        [word for tree in trees for word in tree.words],
        starts, symbol, rule, left, right, parent,
        column("begin", starts.tolist()), column("end", starts.tolist()), column("head", starts.tolist()),
    )  # fmt: skip


def _merge_rare(seen: Counter[Symbol], min_count: int) -> dict[Symbol, Symbol]:
    """What each symbol counts as: itself, or the longest inner part of its chain that is not rare."""
    counts = Counter(seen)
    cut: dict[Symbol, Symbol] = {}
    # the longest first, so that what they are cut to can become frequent
    for length in range(max((len(symbol.labels) for symbol in seen), default=1), 1, -1):
        for symbol in [symbol for symbol in counts if len(symbol.labels) == length]:
            if counts[symbol] < min_count:
                cut[symbol] = Symbol(symbol.labels[1:], symbol.kind)
                counts[cut[symbol]] += counts[symbol]
    merged = {}
    for symbol in seen:
        kept = symbol
        while kept in cut:
            kept = cut[kept]
        merged[symbol] = kept
    return merged
