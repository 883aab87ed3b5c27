"""Relation labels: P(label | head, modifier, direction, neighbours), counted in the treebank."""

from collections import Counter
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from ..errors import Errors
from ..treebank.dependency import MISSING, Tree
from .backoff import BackoffModel, context_keys


class LabelModel:
    """Chooses the label of every arc of a given tree."""

    def __init__(self, labels: list[str], words: list[str], model: BackoffModel):
        """labels (List[str]): The labels, sorted.
        words (List[str]): Known words, sorted.
        model (BackoffModel): Labels given their contexts.
        """
        self.labels = labels
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
        labels = sorted({label for tree in trees for label in tree.labels if label})
        frequency = Counter(word.lower() for tree in trees for word in tree.words)
        words = sorted(word for word, count in frequency.items() if count >= 2)
        model = cls(labels, words, None)
        index = {label: i for i, label in enumerate(labels)}
        contexts, outcomes = [], []
        for tree, ids in zip(trees, symbols, strict=True):
            known = [m for m, label in enumerate(tree.labels) if label and tree.heads[m] != MISSING]
            columns = model._columns(ids, tree.words, tree.heads, n_symbols)
            contexts.append(columns[:, known])
            outcomes.extend(index[tree.labels[m]] for m in known)
        table = numpy.concatenate(contexts, axis=1) if contexts else numpy.zeros((8, 0), "int64")
        model.model = BackoffModel.fit(_contexts(table), numpy.array(outcomes), max(len(labels), 1))
        return model

    def _columns(
        self, symbols: NDArray, words: Sequence[str], heads: NDArray, root: int
    ) -> NDArray:
        """What the contexts are made of, one column per token.

        The symbol of the outermost left modifier of a token tells a marked phrase from a bare one.
        """
        n = len(symbols)
        get, unknown = self._word_ids.get, len(self.words)
        word = numpy.array([get(w.lower(), unknown) for w in words] + [unknown], dtype="int64")
        symbol = numpy.append(symbols, root).astype("int64")
        head = heads.astype("int64") - 1  # the root and missing heads read the last entry
        head[head < 0] = n
        own = numpy.arange(n)
        marker = numpy.full(n + 1, root + 1)
        inner = numpy.flatnonzero((head > own) & (head < n))[::-1]
        marker[head[inner]] = symbol[inner]
        marker_word = numpy.full(n + 1, unknown + 1)
        marker_word[head[inner]] = word[inner]
        neighbours = numpy.concatenate([[root], symbol[:n], [root]])
        return numpy.stack(
            [
                symbol[head],
                symbol[:n],
                (own > head) * 2 + (numpy.abs(own - head) == 1),
                marker[:n],
                marker_word[:n],
                word[:n],
                word[head],
                neighbours[:n] * (root + 2) + neighbours[2:],
            ]
        )

    def distributions(
        self, symbols: NDArray, words: Sequence[str], heads: NDArray, *, root_symbol: int
    ) -> NDArray[numpy.float64]:
        """P(label) for every token's arc, [N, labels]; the tokens of a tree, or of several in one go."""
        table = self._columns(symbols, words, heads, root_symbol)
        return self.model.distributions(_contexts(table))

    def to_payload(self) -> dict:
        return {"labels": self.labels, "words": self.words, "model": self.model.to_payload()}

    @classmethod
    def from_payload(cls, payload: dict) -> "LabelModel":
        model = BackoffModel.from_payload(payload["model"])
        if model.n_outcomes != max(len(payload["labels"]), 1):
            raise ValueError(Errors.S002.format(what="label model", reason="number of labels"))
        return cls(payload["labels"], payload["words"], model)


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
