"""What is counted of words and labels: conditional distributions with interpolated back-off (Collins 1999, as
in Luque et al. 2012, 5.2).

For contexts c_1 (most specific) .. c_L (most general)

    P(o | c_1..c_L) = t_1 f(o | c_1) + (1 - t_1) (t_2 f(o | c_2) + (1 - t_2) (... 1 / #outcomes))

with relative frequencies f and trust t = n / (n + 5 u) for a context seen n times with u outcomes.

The lexical models of modifiers are LEX, LEX+F and LEX+FCP. A modifier is generated as tag, then word, given
its head's tag and word, the direction and what the previous modifier was: nothing (LEX), first or not
(LEX+F), or first / coordination / punctuation / other (LEX+FCP). These memories are deterministic automata,
so in the chart they are classes of states whose product with the head automata is again an automaton
(eq. 21).

Labels have the distribution P(label | head, modifier, direction, neighbours).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, require_choice
from ...base.files import Array, Int, Record, Str, Strings
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import MISSING, Floats, Ints, Longs, Tree
from ._backoff import Contexts

_DIVERSITY_WEIGHT = 5.0
# `to_payload`; counts so large that nothing is left for rarer events would make probabilities 0
BACKOFF = Record(
    n_outcomes=Int(low=1, high=1 << 30),
    keys=Array("uint64", "keys", above=0, order="strict"),
    offsets=Array("int64", "keys+1", starts="events", order="strict"),
    outcomes=Array("int32", "events", low=0, below="n_outcomes", order="strict", rows="offsets"),
    counts=Array("float64", "events", above=0, high=1e12),
)


def context_keys(levels: list[tuple[NDArray, ...]]) -> NDArray[numpy.uint64]:
    """[queries, levels]: the columns of every level hashed to one 64-bit key."""
    keys = []
    for level, columns in enumerate(levels):
        key: Any = numpy.uint64(0x9E3779B97F4A7C15 * (level + 1) & 0xFFFFFFFFFFFFFFFF)
        for column in columns:
            key = _mix(key ^ numpy.asarray(column).astype("uint64"))
        keys.append(key)
    with_shape = numpy.broadcast_arrays(*keys)
    stacked = numpy.stack([key.ravel() for key in with_shape], axis=1)
    return numpy.ascontiguousarray(numpy.where(stacked == 0, numpy.uint64(1), stacked))


def _mix(key: NDArray[numpy.uint64]) -> NDArray[numpy.uint64]:
    """The finaliser of SplitMix64: every input bit reaches every output bit."""
    with numpy.errstate(over="ignore"):
        key = (key + numpy.uint64(0x9E3779B97F4A7C15)).astype("uint64")
        key = (key ^ (key >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return key ^ (key >> numpy.uint64(31))


class BackoffModel:
    """One conditional distribution, learnt by counting."""

    def __init__(
        self,
        keys: NDArray[numpy.uint64],
        offsets: Longs,
        outcomes: Ints,
        counts: Floats,
        n_outcomes: int,
    ):
        """Context k owns `outcomes[offsets[k]:offsets[k + 1]]`."""
        self.keys, self.offsets, self.outcomes, self.counts = keys, offsets, outcomes, counts
        self.n_outcomes = n_outcomes
        diversity = numpy.diff(offsets)
        totals = numpy.add.reduceat(counts, offsets[:-1]) if len(keys) else numpy.zeros(0)
        shares = counts / numpy.repeat(totals, diversity)
        trust = totals / (totals + _DIVERSITY_WEIGHT * diversity)
        self._contexts = Contexts(keys, offsets, outcomes, shares, trust, n_outcomes)

    @classmethod
    def fit(
        cls, contexts: NDArray[numpy.uint64], outcomes: NDArray, n_outcomes: int
    ) -> "BackoffModel":
        """Count events: contexts [events, levels] from `context_keys`, and their outcomes [events]."""
        keys = contexts.ravel()
        values = numpy.repeat(numpy.asarray(outcomes, dtype="int32"), contexts.shape[1])
        order = numpy.lexsort((values, keys))
        keys, values = keys[order], values[order]
        new_pair = numpy.ones(len(keys), dtype=bool)
        new_pair[1:] = (keys[1:] != keys[:-1]) | (values[1:] != values[:-1])
        pairs = numpy.flatnonzero(new_pair)
        counts = numpy.diff(numpy.append(pairs, len(keys))).astype("float64")
        keys, values = keys[pairs], values[pairs]
        unique, starts = numpy.unique(keys, return_index=True)
        offsets = numpy.append(starts, len(keys)).astype("int64")
        return cls(unique, offsets, values, counts, n_outcomes)

    @classmethod
    def of_nothing(cls) -> "BackoffModel":
        return cls.fit(numpy.zeros((0, 1), "uint64"), numpy.zeros(0), 1)

    def probabilities(self, contexts: NDArray[numpy.uint64], outcomes: NDArray) -> NDArray:
        """P(outcome | contexts) for every query."""
        wanted = numpy.ascontiguousarray(outcomes, "int32")
        return self._contexts.probabilities(contexts, wanted)

    def distributions(self, contexts: NDArray[numpy.uint64]) -> NDArray:
        """P(. | contexts) for every query: [queries, n_outcomes]."""
        return self._contexts.distributions(contexts)

    def to_payload(self) -> dict:
        return {
            "keys": self.keys,
            "offsets": self.offsets,
            "outcomes": self.outcomes,
            "counts": self.counts,
            "n_outcomes": self.n_outcomes,
        }


LEXICAL_MODELS = {"LEX": 1, "LEX+F": 2, "LEX+FCP": 4}
_FIRST, _COORDINATION, _PUNCTUATION, _OTHER = 0, 1, 2, 3
_ROOT_WORD = -1
LEXICAL = Record(
    optional=True,
    kind=Str(choices=LEXICAL_MODELS),
    words=Strings(),
    symbol_class=Array("int32", "names+1", low=0),
    tag_model=BACKOFF,
    word_model=BACKOFF,
)


class LexicalModel:
    """P(modifier or STOP | head, direction, class of the previous modifier), words included."""

    def __init__(
        self,
        kind: str,
        words: list[str],
        symbol_class: Ints,
        tag_model: BackoffModel,
        word_model: BackoffModel,
    ):
        """words: Known words in lower case, sorted; every other word is one unknown word.
        symbol_class: Class that a modifier of each symbol leaves its head in."""
        self.kind = kind
        self.words = words
        self.symbol_class = symbol_class
        self.tag_model = tag_model
        self.word_model = word_model
        self._ids = {word: i for i, word in enumerate(words)}

    @property
    def n_classes(self) -> int:
        return LEXICAL_MODELS[self.kind]

    @classmethod
    def fit(
        cls, trees: Sequence[Tree], symbols: Sequence[Ints], n_symbols: int, *, kind: str
    ) -> "LexicalModel":
        """Count modifiers."""
        require_choice(Errors.S103, kind, LEXICAL_MODELS)
        words = sorted({word.lower() for tree in trees for word in tree.words})
        nothing = BackoffModel.of_nothing()
        model = cls(kind, words, _classes(trees, symbols, n_symbols, kind), nothing, nothing)
        stop = n_symbols
        events = []
        for tree, ids in zip(trees, symbols, strict=True):
            word_ids = model.encode(tree.words)
            # per head and direction: the class left by the modifiers so far, which come outwards
            previous = numpy.zeros((len(tree) + 1, 2), dtype="int64")
            arcs = [(int(h), m) for m, h in enumerate(tree.heads, start=1) if h >= 0]
            left = [arc for arc in reversed(arcs) if arc[0] > arc[1]]
            right = [arc for arc in arcs if arc[0] < arc[1]]
            for h, m in left + right:
                side = int(m > h)
                head = (ids[h - 1], word_ids[h - 1]) if h else (n_symbols, _ROOT_WORD)
                events.append((*head, side, previous[h, side], ids[m - 1], word_ids[m - 1]))
                previous[h, side] = model.symbol_class[ids[m - 1]]
            if (tree.heads >= 0).all():
                for h in range(1, len(tree) + 1):
                    for side in (0, 1):
                        head = (ids[h - 1], word_ids[h - 1])
                        events.append((*head, side, previous[h, side], stop, 0))
        table = numpy.array(events, dtype="int64").reshape(-1, 6).T
        contexts = cls._tag_contexts(*table[:4])
        model.tag_model = BackoffModel.fit(contexts, table[4], n_symbols + 1)
        table = table[:, table[4] != stop]
        contexts = cls._word_contexts(table[0], table[1], table[2], table[4])
        model.word_model = BackoffModel.fit(contexts, table[5], len(words) + 1)
        return model

    @staticmethod
    def _tag_contexts(symbol, word, side, previous) -> NDArray[numpy.uint64]:
        return context_keys(
            [
                (symbol, side, previous, word),
                (symbol, side, previous),
                (symbol, side),
                (side, previous),
            ]
        )

    @staticmethod
    def _word_contexts(symbol, word, side, modifier) -> NDArray[numpy.uint64]:
        return context_keys(
            [
                (modifier, symbol, side, word),
                (modifier, symbol, side),
                (modifier, side),
                (modifier,),
            ]
        )

    def encode(self, words: Sequence[str]) -> Longs:
        get, unknown = self._ids.get, len(self.words)
        return numpy.array([get(word.lower(), unknown) for word in words], dtype="int64")

    def weights(
        self, symbols: Ints, words: Sequence[str], *, root_symbol: int
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Factors of every arc [N, N, K] by head, modifier and previous class, every stop [N, 2, K] by
        head, direction and previous class, and every root arc [N] of one sentence.

        Each is divided by P(word | symbol) of the modifier: every tree generates every token once, and
        without it long sentences would underflow.
        """
        n, classes = len(symbols), self.n_classes
        word = self.encode(words)
        symbol = symbols.astype("int64")
        # the most general level alone: P(word | symbol)
        general = numpy.ascontiguousarray(self._word_contexts(0, 0, 0, symbol)[:, -1:])
        base = self.word_model.probabilities(general, word)
        previous = numpy.arange(classes)
        head, head_word = symbol[:, None, None], word[:, None, None]
        # all (head, direction, previous class) rows at once, then read off modifiers and STOP
        contexts = self._tag_contexts(head, head_word, numpy.arange(2)[:, None], previous)
        tags = self.tag_model.distributions(contexts).reshape(n, 2, classes, -1)
        right = numpy.arange(n)[None, :] > numpy.arange(n)[:, None]
        rows = numpy.arange(n)[:, None]
        arcs = tags[rows, right.astype("int64"), :, symbol[None, :]]
        contexts = self._word_contexts(symbol[:, None], word[:, None], right, symbol[None, :])
        outcomes = numpy.broadcast_to(word, (n, n)).ravel()
        arcs = (
            arcs
            * (self.word_model.probabilities(contexts, outcomes).reshape(n, n) / base)[..., None]
        )
        root_contexts = self._tag_contexts(root_symbol, _ROOT_WORD, 1, 0)
        root = self.tag_model.distributions(root_contexts)[0, symbol]
        contexts = self._word_contexts(root_symbol, _ROOT_WORD, 1, symbol)
        root = root * self.word_model.probabilities(contexts, word) / base
        return numpy.ascontiguousarray(arcs), tags[..., -1], root

    def to_payload(self) -> dict:
        return {
            "kind": self.kind,
            "words": self.words,
            "symbol_class": self.symbol_class,
            "tag_model": self.tag_model.to_payload(),
            "word_model": self.word_model.to_payload(),
        }

    @classmethod
    def from_payload(cls, payload: dict) -> "LexicalModel":
        """Read what `to_payload` gave, checked by `LEXICAL`."""
        models = (BackoffModel(**payload[name]) for name in ("tag_model", "word_model"))
        return cls(payload["kind"], payload["words"], payload["symbol_class"], *models)


def _classes(trees, symbols, n_symbols: int, kind: str) -> Ints:
    """Which symbols coordinate or punctuate is read off the treebank: most of their arcs say so."""
    classes = numpy.zeros(n_symbols, dtype="int32")
    if kind == "LEX":
        return classes
    if kind == "LEX+F":
        return classes + 1
    counts = numpy.zeros((n_symbols, 3))
    relation = {"cc": 0, "punct": 1}
    for tree, ids in zip(trees, symbols, strict=True):
        for symbol, label in zip(ids, tree.labels, strict=True):
            counts[symbol, relation.get(label, 2)] += 1
    majority = counts > counts.sum(axis=1, keepdims=True) / 2
    classes[:] = _OTHER
    classes[majority[:, 0]] = _COORDINATION
    classes[majority[:, 1]] = _PUNCTUATION
    return classes


LABELS = Record(labels=Strings("labels", unique=True), words=Strings(), model=BACKOFF)


class LabelModel:
    """Chooses the label of every arc of a given tree."""

    def __init__(self, inventory: Inventory, words: list[str], model: BackoffModel):
        self.inventory = inventory
        self.words = words
        self.model = model
        self._word_ids = {word: i for i, word in enumerate(words)}

    @classmethod
    def fit(cls, trees: Sequence[Tree], symbols: Sequence[Ints], n_symbols: int) -> "LabelModel":
        """Count labels; the root is symbol `n_symbols`."""
        inventory = Inventory.from_labels(label for tree in trees for label in tree.labels)
        frequency = Counter(word.lower() for tree in trees for word in tree.words)
        words = sorted(word for word, count in frequency.items() if count >= 2)
        model = cls(inventory, words, BackoffModel.of_nothing())
        if not len(inventory):
            return model
        words_of, heads_of = [tree.words for tree in trees], [tree.heads for tree in trees]
        columns = model._columns(symbols, words_of, heads_of, heads_of, n_symbols)
        outcomes = inventory.encode(
            label if head != MISSING else ""
            for tree in trees
            for label, head in zip(tree.labels, tree.heads, strict=True)
        )
        known = outcomes != MISSING
        contexts = _contexts(columns[:, known])
        model.model = BackoffModel.fit(contexts, outcomes[known], len(inventory))
        return model

    def _columns(
        self,
        symbols: Sequence[NDArray],
        words: Sequence[Sequence[str]],
        heads: Sequence[NDArray],
        trees: Sequence[NDArray],
        root: int,
    ) -> Longs:
        """What the contexts are made of, one column per token. Sentences are laid end to end with a root
        before each, so that nothing needs a special case."""
        lengths = numpy.array([len(own) for own in symbols])
        begins = numpy.cumsum(lengths + 1) - lengths - 1  # where each sentence's root stands
        size = int(lengths.sum()) + len(lengths) + 1
        token = numpy.ones(size, dtype=bool)
        token[begins] = False
        token[-1] = False
        get, unknown = self._word_ids.get, len(self.words)
        symbol = numpy.full(size, root)
        symbol[token] = numpy.concatenate(symbols)
        word = numpy.full(size, unknown)
        word[token] = [get(text.lower(), unknown) for sentence in words for text in sentence]
        own = numpy.flatnonzero(token)
        # a missing head reads the root
        head, in_tree = (
            numpy.maximum(numpy.concatenate(column), 0) + numpy.repeat(begins, lengths)
            for column in (heads, trees)
        )
        # the outermost left modifier of a token tells a marked phrase from a bare one
        marker = numpy.zeros(size, dtype="int64")
        left = own < in_tree
        marker[in_tree[left][::-1]] = own[left][::-1]
        return numpy.stack(
            [
                symbol[head],
                symbol[own],
                (own > head) * 2 + (numpy.abs(own - head) == 1),
                symbol[marker[own]],
                word[marker[own]],
                word[own],
                word[head],
                symbol[own - 1] * (root + 1) + symbol[own + 1],
            ]
        )

    def distributions(
        self,
        symbols: Sequence[NDArray],
        words: Sequence[Sequence[str]],
        heads: Sequence[NDArray],
        *,
        trees: Sequence[NDArray] | None = None,
        root_symbol: int,
    ) -> Floats:
        """[tokens of all sentences, labels]: P(label | arc) for one arc to every token. The modifiers'
        own modifiers are read from `trees`, by default the heads."""
        if not len(symbols):
            return numpy.zeros((0, len(self.inventory)))
        return self.model.distributions(
            _contexts(self._columns(symbols, words, heads, trees or heads, root_symbol))
        )

    def to_payload(self) -> dict:
        return {
            "labels": self.inventory.names,
            "words": self.words,
            "model": self.model.to_payload(),
        }

    @classmethod
    def from_payload(cls, payload: dict) -> "LabelModel":
        """Read what `to_payload` gave, checked by `LABELS`."""
        model = BackoffModel(**payload["model"])
        return cls(Inventory(payload["labels"]), payload["words"], model)


def _contexts(table: NDArray) -> NDArray[numpy.uint64]:
    head, modifier, side, marker, marker_word, word, head_word, around = table
    arc = (modifier, head, side)
    return context_keys(
        [
            (*arc, marker, marker_word, word, head_word, around),
            (*arc, marker, marker_word, word, head_word),
            (*arc, marker, marker_word, word),
            (*arc, marker, marker_word),
            (*arc, marker),
            arc,
            (modifier, head),
            (modifier,),
        ]
    )
