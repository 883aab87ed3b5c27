"""Sentences, trees and treebanks as flat arrays. Knows nothing of spaCy.

One convention for heads below the readers of files: they count from 1; 0 is the root, MISSING (-1) a token
without annotation.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors, SpectralError

MISSING = -1
# Arrays, by what they hold.
Ints = NDArray[numpy.int32]
Longs = NDArray[numpy.int64]
Floats = NDArray[numpy.float64]
Bools = NDArray[numpy.bool_]


def sentence_blocks(starts: NDArray, size: int) -> Iterator[tuple[slice, NDArray]]:
    """Some sentences at a time, of about so many tokens: these tokens, and where their sentences start among
    them."""
    if len(starts) < 2:
        return
    firsts = numpy.flatnonzero(numpy.diff(starts[:-1] // size, prepend=-1))
    for first, end in pairwise([*firsts.tolist(), len(starts) - 1]):
        own = starts[first : end + 1]
        yield slice(int(own[0]), int(own[-1])), own - own[0]


@dataclass
class SecondTags(Sequence[tuple[str, float] | None]):
    """What a tagger would have said otherwise: which of the named tags each token has, -1 for none, and their
    probabilities."""

    names: list[str]
    tags: NDArray[numpy.int64]
    probs: NDArray[numpy.float32]

    def __len__(self) -> int:
        return len(self.tags)

    def __getitem__(self, at: Any) -> Any:
        """Tag and probability, None for none; a list for a slice."""
        if isinstance(at, slice):
            return [self[i] for i in range(len(self))[at]]
        tag = int(self.tags[at])
        return (self.names[tag], float(self.probs[at])) if tag >= 0 else None


@dataclass
class Tree:
    """One sentence of a treebank. Symbols are what the automata see of tokens, e.g. tags; heads count
    from 1, 0 is the root, MISSING (with the label "") is not annotated."""

    words: list[str]
    symbols: list[str]
    heads: Ints
    labels: list[str]

    def __len__(self) -> int:
        return len(self.words)


@dataclass
class Tokens:
    """Sentences one after the other, as a parser sees them; starts are closed by the number of tokens.
    Symbols are tags, or whatever the setting `symbol` names; `second` is the tagger's second guess and
    its probability, None where there is none; other values are "" where there are none. `sources` are
    treebanks to parse like; none if nothing is said of them."""

    starts: Ints
    words: list[str]
    symbols: list[str]
    second: Sequence[tuple[str, float] | None]
    pos: list[str]
    morphs: list[str]
    sources: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.starts) - 1

    def require_known(self, sources: Sequence[str]) -> None:
        """Raise an error if a sentence is to be parsed like a treebank that a model has not learnt from."""
        require_known(set(self.sources), sources, "spectral_parser")

    def bounds(self) -> list[tuple[int, int]]:
        """Where each sentence begins and ends."""
        return list(pairwise(self.starts.tolist()))

    def at(self, places: Longs | slice, starts: Ints) -> "Tokens":
        """Some of the tokens, as sentences that start there."""
        chosen = range(len(self.words))[places] if isinstance(places, slice) else places.tolist()
        columns: list[Any] = [self.words, self.symbols, self.second, self.pos, self.morphs]
        columns += [self.sources] if len(self.sources) else []
        return Tokens(starts, *[[column[i] for i in chosen] for column in columns])

    def select(self, chosen: Bools) -> "Tokens":
        lengths = numpy.diff(self.starts)
        starts = numpy.concatenate([[0], numpy.cumsum(lengths[chosen])]).astype("int32")
        return self.at(numpy.flatnonzero(numpy.repeat(chosen, lengths)), starts)


def require_known(asked: Collection[str], sources: Sequence[str], component: str) -> None:
    """Raise an error if one of the treebanks that are asked for, "" for none, is not among those that a
    model has learnt from."""
    unknown = set(asked) - {"", *sources}
    if unknown:
        known = ", ".join(sources) or "none"
        error = Errors.S644.format(source=min(unknown), known=known, component=component)
        raise SpectralError(error)


@dataclass
class Trust:
    """How far trees are to be believed that a parser has made.

    weights: Of sentences; those of gold trees are 1.
    shares: By token, what the arc of the tree has; the rest is that of another arc.
    heads, labels: That arc; MISSING and "" where the tree's has everything.
    """

    weights: NDArray[numpy.float32]
    shares: NDArray[numpy.float32]
    heads: Ints
    labels: list[str]

    @classmethod
    def whole(cls, n_sentences: int, n_tokens: int, weight: float = 1.0) -> "Trust":
        """The trees as they are."""
        return cls(
            numpy.full(n_sentences, weight, dtype="float32"),
            numpy.ones(n_tokens, dtype="float32"),
            numpy.full(n_tokens, MISSING, dtype="int32"),
            [""] * n_tokens,
        )


@dataclass
class Treebank:
    """Sentences with their trees: heads, MISSING where not annotated, and relations, "" there. If some trees
    are not gold, `trust` tells how far to believe them."""

    tokens: Tokens
    heads: Ints
    labels: list[str]
    trust: Trust | None = None

    def require_gold(self, model: str) -> None:
        """Raise an error if trees have weights, for models that can't learn from such."""
        if self.trust is not None:
            raise SpectralError(Errors.S640.format(model=model))

    def trees(self) -> list[Tree]:
        """The sentences as single trees."""
        tokens = self.tokens
        return [
            Tree(tokens.words[a:b], tokens.symbols[a:b], self.heads[a:b], self.labels[a:b])
            for a, b in tokens.bounds()
        ]

    @classmethod
    def joined(cls, parts: Sequence["Treebank"]) -> "Treebank":
        """The sentences of several, one after the other."""
        lengths = [numpy.diff(part.tokens.starts) for part in parts]
        starts = numpy.concatenate([[0], numpy.cumsum(numpy.concatenate(lengths))])
        names = ("words", "symbols", "second", "pos", "morphs")
        columns = [[v for part in parts for v in getattr(part.tokens, name)] for name in names]
        if any(len(part.tokens.sources) for part in parts):
            of_parts = [part.tokens.sources or [""] * len(part.heads) for part in parts]
            columns.append([source for own in of_parts for source in own])
        tokens = Tokens(starts.astype("int32"), *columns)
        heads = numpy.concatenate([part.heads for part in parts])
        labels = [label for part in parts for label in part.labels]
        if all(part.trust is None for part in parts):
            return cls(tokens, heads, labels)
        own = [part.trust or Trust.whole(len(part.tokens), len(part.heads)) for part in parts]
        whole = Trust(
            numpy.concatenate([trust.weights for trust in own]),
            numpy.concatenate([trust.shares for trust in own]),
            numpy.concatenate([trust.heads for trust in own]),
            [label for trust in own for label in trust.labels],
        )
        return cls(tokens, heads, labels, whole)

    def select(self, chosen: Bools) -> "Treebank":
        mask = numpy.repeat(chosen, numpy.diff(self.tokens.starts))
        labels, trust = list(compress(self.labels, mask.tolist())), self.trust
        if trust is not None:
            others = list(compress(trust.labels, mask.tolist()))
            trust = Trust(trust.weights[chosen], trust.shares[mask], trust.heads[mask], others)
        return Treebank(self.tokens.select(chosen), self.heads[mask], labels, trust)

    @classmethod
    def mixed(cls, parts: Sequence["Treebank"]) -> "Treebank":
        """The sentences of several, either half with a half of each: pruners are trained on either half."""
        if len(parts) == 1:
            return parts[0]
        pairs = [part._halves() for part in parts]
        return cls.joined([own[which] for which in (0, 1) for own in pairs])

    def _halves(self) -> tuple["Treebank", "Treebank"]:
        is_first = numpy.arange(len(self.tokens)) < len(self.tokens) // 2
        return self.select(is_first), self.select(~is_first)


@dataclass
class Batch:
    """The sentences of some documents.

    offsets: Where each document starts among all tokens, closed by their number.
    places: Where each token of `tokens` stands among all tokens, whitespace included.
    values: The attributes of all tokens that were read, to notice changes.
    """

    docs: list[Any]
    offsets: Longs
    places: Longs
    tokens: Tokens
    values: NDArray[numpy.uint64]


# First distance of every bin: 1, 2, 3, 4, 5-6, 7-10, 11 and more
_EDGES = numpy.array([2, 3, 4, 5, 7, 11])
N_BINS = len(_EDGES) + 1
_PSEUDO_COUNT = 20.0


# Bin of every distance up to the first of the last bin
DISTANCE_BINS = numpy.digitize(numpy.arange(_EDGES[-1] + 1), _EDGES).astype("int32")


def distance_bins(distances: NDArray) -> Longs:
    """The bin of each distance, whatever its direction; `_lengths.pxd` has the same."""
    return numpy.digitize(numpy.abs(distances), _EDGES)


def length_table(heads: NDArray, modifiers: NDArray, distances: NDArray, n_symbols: int) -> Floats:
    """Estimate the factor [head symbol, direction, modifier symbol, bin], backing off to the modifier
    and direction, then to the direction alone. Distances are positions of the modifier minus those of
    its head."""
    counts = numpy.zeros((n_symbols, 2, n_symbols, N_BINS))
    bins = distance_bins(distances)
    numpy.add.at(counts, (heads, (distances > 0).astype("int64"), modifiers, bins), 1.0)
    by_direction = counts.sum(axis=(0, 2)) + 1.0 / N_BINS
    by_direction /= by_direction.sum(axis=-1, keepdims=True)
    by_modifier = _interpolate(counts.sum(axis=0), by_direction[:, None])
    return _interpolate(counts, by_modifier[None])


def _interpolate(counts: NDArray, general: NDArray) -> NDArray:
    total = counts.sum(axis=-1, keepdims=True)
    return (counts + _PSEUDO_COUNT * general) / (total + _PSEUDO_COUNT)
