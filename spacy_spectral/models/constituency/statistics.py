"""A treebank as flat arrays: every node of its binary trees, with numbers for symbols and rules; and the
items and rules that forests are made of."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ...treebank.brackets import Tree
from ...trees.sentences import Ints
from .trees import GROWS_LEFT, GROWS_RIGHT, WORD, BinaryTree, Symbol, binarize, clean

# where the nodes of trees begin and end, in their sentences, and their symbols
Nodes = tuple[Ints, Ints, Ints]
_FREQUENT_MODIFIER = 20
_FREQUENT_HEAD = 10


@dataclass
class Symbols:
    """The symbols of a grammar, those of words first, and its rules.

    rules: [rules, 3], parent, left and right child. First those of the treebank, sorted, then those that
    only seem possible: a phrase with a head and a modifier that it was not seen with.
    seen: By rule: 2 if it was seen several times, 1 if once, 0 if it only seems possible.
    backoff: By rule: the probability of those that only seem possible, 0 for others.
    root: The label around trees, "" for none.
    """

    symbols: list[Symbol]
    n_words: int
    rules: NDArray[numpy.int32]
    seen: NDArray[numpy.uint8]
    backoff: NDArray[numpy.float64]
    root: str

    def __len__(self) -> int:
        return len(self.symbols)

    def nodes(self, trees: Iterable[BinaryTree]) -> list[Nodes | None]:
        """Where the nodes of trees begin and end, and their symbols; None for a tree with a symbol that the
        grammar has not. Chains are cut as `encode` cuts them."""
        number = {symbol: i for i, symbol in enumerate(self.symbols)}
        result: list[Nodes | None] = []
        for tree in trees:
            found = []
            for symbol in tree.symbols:
                while symbol not in number and len(symbol.labels) > 1:
                    symbol = Symbol(symbol.labels[1:], symbol.kind)
                found.append(number.get(symbol, -1))
            begin, end, symbols = (
                numpy.array(own, dtype="int32") for own in (tree.begin, tree.end, found)
            )
            result.append((begin, end, symbols) if min(found) >= 0 else None)
        return result


def rule_features(grammar: Symbols) -> NDArray[numpy.int32]:
    """What the model of anchored rules sees of rules: [rules, 4], parent, left and right child, and the
    number of the rule. Those that were seen once, and those that were not, are all the same rule to it:
    so it learns from the former what to think of the latter."""
    number = numpy.where(grammar.seen > 1, numpy.arange(len(grammar.rules)), len(grammar.rules))
    return numpy.column_stack([grammar.rules, number]).astype("int32")


class Items(NamedTuple):
    """Items of all sentences of a batch: the words that they cover, counted in their sentences, `end`
    exclusive, and their symbols."""

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


def joined(parts: Sequence[Nodes]) -> Nodes:
    """The nodes of several trees, one after the other."""
    nothing = numpy.zeros(0, dtype="int32")
    begin, end, symbol = (
        numpy.concatenate([nothing, *(own[i] for own in parts)]) for i in range(3)
    )
    return begin, end, symbol


class RulePairs:
    """The rules of a grammar, to be found by their children: where those of a pair start ([symbols ** 2
    + 1]), and by place rule, parent and whether it was seen; of a pair, rules that were seen come first.
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
class Corpus:
    """Binary trees, one after the other; children come before their parents. The nodes of a tree of n
    words are the 2n - 1 from `node_starts`.

    symbol, rule: By node; the rule of a word is -1.
    left, right, parent: Nodes of the corpus, -1 for none; begin, end, head: words of the corpus.
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
        """Where the nodes of trees start, closed by the number of nodes."""
        return 2 * self.starts - numpy.arange(len(self.starts))

    @property
    def roots(self) -> NDArray[numpy.int64]:
        """The last node of every tree."""
        return self.node_starts[1:] - 1

    def __len__(self) -> int:
        return len(self.starts) - 1


def binary_trees(trees: Iterable[Tree]) -> list[BinaryTree]:
    """The trees that have words."""
    cleaned = (clean(tree) for tree in trees)
    return [binarize(tree) for tree in cleaned if tree is not None]


def encode(trees: Sequence[BinaryTree], *, min_count: int = 3) -> Corpus:
    """Number the symbols and rules of a treebank. Chains that are rarer than `min_count` are cut from
    the outside to one that is not."""
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
    head = column("head", starts.tolist())
    side = head[inner] == head[left[inner]]
    possible, weights = _possible_rules(kept, rules, rule_of.ravel(), side)
    counts = numpy.bincount(rule_of.ravel(), minlength=len(rules))
    grammar = Symbols(
        kept,
        n_words,
        numpy.concatenate([rules.reshape(-1, 3), possible]).astype("int32"),
        numpy.concatenate([numpy.minimum(counts, 2), numpy.zeros(len(possible))]).astype("uint8"),
        numpy.concatenate([numpy.zeros(len(rules)), weights]),
        roots[0][0] if roots else "",
    )
    return Corpus(
        grammar, [word for tree in trees for word in tree.words],
        starts, symbol, rule, left, right, parent,
        column("begin", starts.tolist()), column("end", starts.tolist()), head,
    )  # fmt: skip


def _possible_rules(
    symbols: list[Symbol], rules: NDArray, rule_of: NDArray, head_is_left: NDArray
) -> tuple[NDArray[numpy.int64], NDArray[numpy.float64]]:
    """Rules that join a frequent head of a label to a frequent modifier of that side, and were not seen, with
    their probabilities.

    One in seventy rules of new text was not seen in ten thousand trees, and every sixth sentence has such a
    rule. Their probability is that of meeting a new rule of the parent (Witten & Bell), shared out by how
    frequent head and modifier are.

    rules, rule_of: The rules of the treebank, and which of them every inner node has.
    head_is_left: Whether the head of every inner node is in its left child.
    """
    names = {name: i for i, name in enumerate(sorted({symbol.labels[-1] for symbol in symbols}))}
    base = numpy.array([names[symbol.labels[-1]] for symbol in symbols])
    kind = numpy.array([symbol.kind for symbol in symbols])
    nodes, n = rules[rule_of], len(symbols)
    found, weights = [numpy.zeros((0, 3), dtype="int64")], [numpy.zeros(0)]
    for is_left, not_kind in ((True, GROWS_LEFT), (False, GROWS_RIGHT)):
        own = nodes[head_is_left == is_left]
        head, modifier = (own[:, 1], own[:, 2]) if is_left else (own[:, 2], own[:, 1])
        modifiers = numpy.bincount(modifier, minlength=n)
        heads = numpy.bincount(base[own[:, 0]] * n + head, minlength=len(names) * n)
        frequent = numpy.flatnonzero(modifiers >= _FREQUENT_MODIFIER)
        for pair in numpy.flatnonzero(heads >= _FREQUENT_HEAD).tolist():
            label, h = divmod(pair, n)
            of_label = (base == label) & (kind != WORD) & (kind != not_kind)
            parents = numpy.flatnonzero(of_label)
            triples = numpy.empty((len(parents), len(frequent), 3), dtype="int64")
            triples[:, :, 0] = parents[:, None]
            triples[:, :, 1] = h if is_left else frequent
            triples[:, :, 2] = frequent if is_left else h
            found.append(triples.reshape(-1, 3))
            own_weights = heads[pair] * modifiers[frequent].astype("float64")
            weights.append(numpy.tile(own_weights, len(parents)))
    triples, weight = numpy.concatenate(found), numpy.concatenate(weights)
    key = (triples[:, 0] * n + triples[:, 1]) * n + triples[:, 2]
    key, first = numpy.unique(key, return_index=True)
    known = (rules[:, 0].astype("int64") * n + rules[:, 1]) * n + rules[:, 2]
    new = ~numpy.isin(key, known)
    triples, weight = triples[first[new]], weight[first[new]]
    # the share of new rules among those of a parent
    types = numpy.bincount(rules[:, 0], minlength=n)
    mass = types / numpy.maximum(types + numpy.bincount(nodes[:, 0], minlength=n), 1)
    total = numpy.bincount(triples[:, 0], weights=weight, minlength=n)
    return triples, weight * mass[triples[:, 0]] / numpy.maximum(total[triples[:, 0]], 1e-300)


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
