"""The latent tree model: p(tree) with a hidden state for every token."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bool, Format, Stored, Strings
from ...trees.sentences import MISSING, Tokens
from ..eigenwords.vocabulary import normalize, signatures
from ._tree import head_probabilities, score_trees

# Symbols seen less often are counted as the class of words that look like them.
MIN_COUNT = 3


class Alphabet:
    """Numbers of symbols. One that is not known is counted as the narrowest class of words that look
    like it, or, for tags, has the number after the last.
    """

    def __init__(self, symbols: Sequence[str], *, words: bool):
        """words: Whether unknown symbols have classes."""
        self.symbols = list(symbols)
        self.words = words
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Sequence[str]) -> NDArray[numpy.int32]:
        """Their numbers; `len(self)` for what is not known."""
        ids, unknown = self._ids, len(self.symbols)
        numbers = numpy.empty(len(symbols), dtype="int32")
        for i, symbol in enumerate(symbols):
            number = ids.get(symbol)
            if number is None:
                number = unknown
                if self.words:
                    number = next((ids[n] for n in _other_names(symbol) if n in ids), unknown)
            numbers[i] = number
        return numbers

    @classmethod
    def count(cls, sentences: Iterable[Sequence[str]], *, words: bool) -> "Alphabet":
        """Make an alphabet of what is frequent enough; rare words are counted as their classes."""
        counts = Counter(symbol for sentence in sentences for symbol in sentence)
        if not words:
            return cls(sorted(counts), words=False)
        known = {symbol for symbol, n in counts.items() if n >= MIN_COUNT}
        classes: Counter[str] = Counter()
        for symbol, n in counts.items():
            if symbol not in known:
                for name in _other_names(symbol):
                    classes[name] += n
        known.update(name for name, n in classes.items() if n >= MIN_COUNT)
        # not the wide classes whose words all have a narrower one: nothing would be known of them
        used = set(cls(sorted(known), words=True).encode(list(counts)).tolist())
        return cls([name for i, name in enumerate(sorted(known)) if i in used], words=True)


def _other_names(word: str) -> Iterator[str]:
    normal = normalize(word)
    yield normal
    yield normal.lower()
    yield from signatures(word)


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
        """frequency: [symbols + 1], P(symbol); the last is for unknown symbols.
        ratios: [symbols + 1, k], P(symbol | state) / P(symbol); the last row is 1.
        transitions: [2, k, k], P(child state | parent state, side), by parent, then child."""
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
        """Numbers of symbols; words that are not known are taken as the class of words that look
        like them, other symbols as unknown: they fit every state alike."""
        return self.alphabet.encode(symbols)

    def log_scores(
        self, ids: NDArray[numpy.int32], heads: NDArray[numpy.int32]
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """log |p(tree)|, finite, and the sign of p(tree) for trees [trees, tokens] of one sentence, with
        numbers from `encode`. What trees share is computed once. The sign is always 1 for models that
        are proper distributions."""
        heads = numpy.ascontiguousarray(heads, dtype="int32")
        ids = numpy.ascontiguousarray(ids, dtype="int32")
        symbols = ids if ids.ndim == 2 else ids[None].repeat(len(heads), axis=0)
        self._check(symbols, heads)
        logs, signs = score_trees(symbols, heads, self.ratios, self._upward, self.root)
        if logs.sum() != logs.sum():  # NaN: the quickest test, this runs for every sentence
            raise SpectralError(Errors.S504.format(tree=int(numpy.isnan(logs).argmax())))
        alone = self._log_frequency[ids].sum(axis=-1)
        return alone + numpy.maximum(logs, _FLOOR * heads.shape[1]), signs

    def log_frequency(self, ids: NDArray[numpy.int32]) -> float:
        """The log-probability of the symbols alone. A tree's log p minus this tells how much better
        than chance its arcs fit, whatever its words are."""
        return float(self._log_frequency[ids].sum())

    def head_probs(
        self, ids: NDArray[numpy.int32], heads: NDArray[numpy.int32]
    ) -> NDArray[numpy.float64]:
        """How well every token would fit elsewhere, P(head | the rest of the tree): row i sums to 1 over
        the heads that token i, with all below it, can have; zeros in the root's row."""
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
            raise SpectralError(Errors.S505.format(n=n))
        if ids.size and (ids.min() < 0 or ids.max() >= len(self.ratios)):
            raise SpectralError(Errors.S506)

    def extended(self, words: Sequence[str], ratios: NDArray[numpy.float64]) -> "TreeModel":
        """This model with words that the treebank does not have."""
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


class TreeScore(NamedTuple):
    """How well the parts of one tree fit together.

    log_prob: log p(tree), summed over the tree models: of words, tags and labels.
    gain: log p(tree) minus the log-probability of its symbols alone, per token. Low for unlikely trees,
    whatever their words and length are.
    head_probs: For every token the probability of its head given the rest of the tree; NaN for the root.
    """

    log_prob: float
    gain: float
    head_probs: NDArray[numpy.float64]


def tree_scores(
    models: Mapping[str, TreeModel],
    tokens: Tokens,
    heads: NDArray[numpy.int32],
    labels: Sequence[str],
) -> list[TreeScore | None]:
    """Score one tree for each sentence; None where heads are missing."""
    symbols = {"words": tokens.words, "tags": tokens.symbols, "labels": labels}
    encoded = [(model, model.encode(symbols[kind])) for kind, model in models.items()]
    return [
        None
        if (heads[begin:end] == MISSING).any()
        else _score([(model, ids[begin:end]) for model, ids in encoded], heads[begin:end])
        for begin, end in tokens.bounds()
    ]


def _score(
    encoded: Sequence[tuple[TreeModel, NDArray[numpy.int32]]], heads: NDArray[numpy.int32]
) -> TreeScore:
    n = len(heads)
    log_prob = gain = 0.0
    # models of different symbols are taken as independent, given the tree
    fit = numpy.ones((n, n))
    for model, ids in encoded:
        (own,), _ = model.log_scores(ids, heads[None])
        log_prob += own
        gain += own - model.log_frequency(ids)
        fit *= model.head_probs(ids, heads)
    total = fit.sum(axis=1)
    probs = fit[numpy.arange(n), numpy.maximum(heads - 1, 0)]
    head_probs = numpy.divide(probs, total, out=numpy.zeros(n), where=total > 0)
    return TreeScore(log_prob, gain / n, numpy.where(heads == 0, numpy.nan, head_probs))
