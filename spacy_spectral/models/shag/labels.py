"""Relation labels: P(label | head, modifier, direction, neighbours), counted in the treebank."""

from collections import Counter
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from ...base.fields import Record, Strings
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import MISSING, Tree
from .backoff import FIELDS as BACKOFF
from .backoff import BackoffModel, context_keys

_NOTHING = numpy.zeros((0, 1), "uint64")
FIELDS = Record(labels=Strings("labels", unique=True), words=Strings(), model=BACKOFF)


class LabelModel:
    """Chooses the label of every arc of a given tree."""

    def __init__(self, inventory: Inventory, words: list[str], model: BackoffModel):
        """inventory (Inventory): The labels.
        words (List[str]): Known words, sorted.
        model (BackoffModel): Labels given their contexts.
        """
        self.inventory = inventory
        self.words = words
        self.model = model
        self._word_ids = {word: i for i, word in enumerate(words)}

    @classmethod
    def fit(
        cls, trees: Sequence[Tree], symbols: Sequence[NDArray[numpy.int32]], n_symbols: int
    ) -> "LabelModel":
        """Count labels.

        trees (Sequence[Tree]): The treebank, projective.
        symbols (Sequence[ndarray]): Symbol ids of every tree.
        n_symbols (int): How many symbols there are; the root is symbol `n_symbols`.
        RETURNS (LabelModel): The model.
        """
        inventory = Inventory.from_labels(label for tree in trees for label in tree.labels)
        frequency = Counter(word.lower() for tree in trees for word in tree.words)
        words = sorted(word for word, count in frequency.items() if count >= 2)
        model = cls(inventory, words, BackoffModel.fit(_NOTHING, numpy.zeros(0), 1))
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
    ) -> NDArray[numpy.int64]:
        """What the contexts are made of, one column per token of all sentences.

        Sentences are laid end to end with a root before each, so that nothing needs a special case.
        """
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
    ) -> NDArray[numpy.float64]:
        """P(label | arc) for one arc to every token, [tokens of all sentences, labels].

        symbols (Sequence[ndarray]): Symbol ids of every sentence.
        words (Sequence[Sequence[str]]): Words of every sentence.
        heads (Sequence[ndarray]): Heads of every sentence, 1-based, 0 for the root.
        trees (Optional[Sequence[ndarray]]): The trees that the modifiers' own modifiers are read from, by
            default the heads.
        root_symbol (int): Symbol that stands for the root.
        """
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
        """Read what `to_payload` gave, checked by `FIELDS`."""
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
