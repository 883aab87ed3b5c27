"""Lexical models of modifiers (Luque et al. 2012, 5.2): LEX, LEX+F and LEX+FCP.

A modifier is generated as tag, then word, given its head's tag and word, the direction and what the
previous modifier was: nothing (LEX), first or not (LEX+F), or first / coordination / punctuation /
other (LEX+FCP). These memories are deterministic automata, so in the chart they are classes of states
whose product with the head automata is again an automaton (eq. 21).
"""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...base.fields import Array, Record, Str, Strings
from ...trees.sentences import Tree
from .backoff import FIELDS as BACKOFF
from .backoff import BackoffModel, context_keys

LEXICAL_MODELS = {"LEX": 1, "LEX+F": 2, "LEX+FCP": 4}
_FIRST, _COORDINATION, _PUNCTUATION, _OTHER = 0, 1, 2, 3
_ROOT_WORD = -1
FIELDS = Record(
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
        symbol_class: NDArray[numpy.int32],
        tag_model: BackoffModel,
        word_model: BackoffModel,
    ):
        """kind (str): One of LEXICAL_MODELS.
        words (List[str]): Known words in lower case, sorted; every other word is one unknown word.
        symbol_class (ndarray): Class that a modifier of each symbol leaves its head in.
        tag_model (BackoffModel): Symbols of modifiers; the last outcome is STOP.
        word_model (BackoffModel): Words of modifiers given their symbols.
        """
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
        cls,
        trees: Sequence[Tree],
        symbols: Sequence[NDArray[numpy.int32]],
        n_symbols: int,
        *,
        kind: str,
    ) -> "LexicalModel":
        """Count modifiers.

        trees (Sequence[Tree]): The treebank, projective.
        symbols (Sequence[ndarray]): Symbol ids of every tree.
        n_symbols (int): How many symbols there are.
        kind (str): One of LEXICAL_MODELS.
        RETURNS (LexicalModel): The model.
        """
        if kind not in LEXICAL_MODELS:
            raise ValueError(Errors.S103.format(value=kind, choices=", ".join(LEXICAL_MODELS)))
        words = sorted({word.lower() for tree in trees for word in tree.words})
        nothing = BackoffModel.fit(numpy.zeros((0, 1), "uint64"), numpy.zeros(0), 1)
        classes = _classes(trees, symbols, n_symbols, kind)
        model = cls(kind, words, classes, nothing, nothing)
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

    def encode(self, words: Sequence[str]) -> NDArray[numpy.int64]:
        get, unknown = self._ids.get, len(self.words)
        return numpy.array([get(word.lower(), unknown) for word in words], dtype="int64")

    def weights(
        self, symbols: NDArray[numpy.int32], words: Sequence[str], *, root_symbol: int
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Factors of every arc, stop and root arc of one sentence.

        Each is divided by P(word | symbol) of the modifier: every tree generates every token once, and
        without it long sentences would underflow.

        symbols (ndarray): Symbol of every token.
        words (Sequence[str]): The tokens.
        root_symbol (int): Symbol that stands for the root.
        RETURNS (Tuple[ndarray, ndarray, ndarray]): [N, N, K] by head, modifier and previous class;
            [N, 2, K] by head, direction and previous class; [N] by token.
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
        """Read what `to_payload` gave, checked by `FIELDS`."""
        models = (BackoffModel(**payload[name]) for name in ("tag_model", "word_model"))
        return cls(payload["kind"], payload["words"], payload["symbol_class"], *models)


def _classes(trees, symbols, n_symbols: int, kind: str) -> NDArray[numpy.int32]:
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
