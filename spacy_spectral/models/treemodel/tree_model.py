"""The latent tree model: p(tree) with a hidden state for every token."""

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...base.fields import Array, Bool, Format, Strings
from ...base.stored import Stored
from ._tree import head_probabilities, score_trees
from .statistics import Alphabet

# |x| that vectors, which are rescaled at every token, can be multiplied by
_LARGEST = 1e50
_FORMAT = Format(
    "latent tree model",
    1,
    symbols=Strings("symbols", unique=True),
    words=Bool(),
    frequency=Array("float64", "symbols+1", low=1e-100, high=1.0),
    ratios=Array("float64", "symbols+1", "states", low=-_LARGEST, high=_LARGEST),
    transitions=Array("float64", 2, "states", "states", low=-_LARGEST, high=_LARGEST),
    root=Array("float64", "states", least=1, low=-_LARGEST, high=_LARGEST),
)
# |p(tree)| is at least this times the probability of its symbols alone, per token (as a logarithm)
_FLOOR = -10.0


class TreeModel(Stored):
    """Symbols are generated top down: a state for the root, then for every child given its parent's
    state and the side it stands on; each state emits a symbol.

    p(tree) is the probability of the symbols given the shape of the tree. Trees of the same symbols can
    be compared by it; it says nothing about how many children a token has.
    """

    FORMAT = _FORMAT

    def __init__(
        self,
        alphabet: Alphabet,
        frequency: NDArray[numpy.float64],
        ratios: NDArray[numpy.float64],
        transitions: NDArray[numpy.float64],
        root: NDArray[numpy.float64],
    ):
        """alphabet (Alphabet): The symbols.
        frequency (ndarray): [symbols + 1], P(symbol); the last is for unknown symbols.
        ratios (ndarray): [symbols + 1, k], P(symbol | state) / P(symbol); the last row is 1.
        transitions (ndarray): [2, k, k], P(child state | parent state, side), by parent, then child.
        root (ndarray): [k], P(state of the root).
        """
        self.alphabet = alphabet
        self.frequency = frequency
        self.ratios = ratios
        self.transitions = transitions
        self.root = root
        self._log_frequency = numpy.log(frequency)
        self._upward = numpy.ascontiguousarray(transitions.transpose(0, 2, 1))

    @classmethod
    def from_emissions(
        cls,
        alphabet: Alphabet,
        counts: NDArray[numpy.float64],
        emissions: NDArray[numpy.float64],
        transitions: NDArray[numpy.float64],
        root: NDArray[numpy.float64],
    ) -> "TreeModel":
        """Make a model of P(symbol | state) and counts of the symbols; see `__init__`."""
        frequency = counts / counts.sum()
        ratios = numpy.ones((len(counts) + 1, len(root)))
        ratios[:-1] = emissions / frequency[:, None]
        unseen = 0.5 / counts.sum()
        return cls(alphabet, numpy.append(frequency, unseen), ratios, transitions, root)

    def encode(self, symbols: Sequence[str]) -> NDArray[numpy.int32]:
        """RETURNS (ndarray): Numbers of symbols; words that are not known are taken as the class of
        words that look like them, other symbols as unknown: they fit every state alike."""
        return self.alphabet.encode(symbols)

    def log_scores(
        self, ids: NDArray[numpy.int32], heads: NDArray[numpy.int32]
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """log |p(tree)| and the sign of p(tree) for trees of one sentence.

        What trees share is computed once. The sign is always 1 for models that are proper distributions.

        ids (ndarray): [tokens] or [trees, tokens], from `encode`.
        heads (ndarray): [trees, tokens], from 1; 0 for the root.
        RETURNS (Tuple[ndarray, ndarray]): Finite values, and 1, -1 or 0.
        """
        heads = numpy.ascontiguousarray(heads, dtype="int32")
        ids = numpy.ascontiguousarray(ids, dtype="int32")
        symbols = ids if ids.ndim == 2 else ids[None].repeat(len(heads), axis=0)
        self._check(symbols, heads)
        logs, signs = score_trees(symbols, heads, self.ratios, self._upward, self.root)
        if logs.sum() != logs.sum():  # NaN: the quickest test, this runs for every sentence
            raise ValueError(Errors.S504.format(tree=int(numpy.isnan(logs).argmax())))
        alone = self._log_frequency[ids].sum(axis=-1)
        return alone + numpy.maximum(logs, _FLOOR * heads.shape[1]), signs

    def log_frequency(self, ids: NDArray[numpy.int32]) -> float:
        """RETURNS (float): The log-probability of the symbols alone. A tree's log p minus this tells how
        much better than chance its arcs fit, whatever its words are."""
        return float(self._log_frequency[ids].sum())

    def head_probs(
        self, ids: NDArray[numpy.int32], heads: NDArray[numpy.int32]
    ) -> NDArray[numpy.float64]:
        """How well every token would fit elsewhere: P(head | the rest of the tree).

        ids (ndarray): [tokens], from `encode`.
        heads (ndarray): [tokens], from 1; 0 for the root.
        RETURNS (ndarray): [tokens, tokens]: row i sums to 1 over the heads that token i, with all below
            it, can have; zeros in the root's row.
        """
        heads = numpy.ascontiguousarray(heads, dtype="int32")
        ids = numpy.ascontiguousarray(ids, dtype="int32")
        self._check(ids[None], heads[None])
        emissions = numpy.ascontiguousarray(numpy.maximum(self.ratios[ids], 0))
        return head_probabilities(
            emissions,
            heads,
            numpy.maximum(self.transitions, 0),
            numpy.maximum(self._upward, 0),
            numpy.maximum(self.root, 0),
        )

    def _check(self, ids: NDArray[numpy.int32], heads: NDArray[numpy.int32]) -> None:
        """The kernels do not check bounds."""
        n = heads.shape[1]
        if ids.shape != heads.shape or (heads.size and (heads.min() < 0 or heads.max() > n)):
            raise ValueError(Errors.S505.format(n=n))
        if ids.size and (ids.min() < 0 or ids.max() >= len(self.ratios)):
            raise ValueError(Errors.S506)

    def extended(self, words: Sequence[str], ratios: NDArray[numpy.float64]) -> "TreeModel":
        """RETURNS (TreeModel): This model with words that the treebank does not have."""
        alphabet = Alphabet([*self.alphabet.symbols, *words], words=self.alphabet.words)
        unseen = self.frequency[-1]
        return TreeModel(
            alphabet,
            numpy.concatenate([self.frequency[:-1], numpy.full(len(words) + 1, unseen)]),
            numpy.concatenate([self.ratios[:-1], ratios, self.ratios[-1:]]),
            self.transitions,
            self.root,
        )

    def to_payload(self) -> dict[str, Any]:
        return {
            "symbols": self.alphabet.symbols,
            "words": self.alphabet.words,
            "frequency": self.frequency,
            "ratios": self.ratios,
            "transitions": self.transitions,
            "root": self.root,
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "TreeModel":
        return cls(Alphabet(read.pop("symbols"), words=read.pop("words")), **read)
