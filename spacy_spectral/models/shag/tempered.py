"""What parsers that sum over hidden states have in common: how sentences are parsed, and how
confident they are.

Such a model knows the marginals of arcs, and the probability of a tree, but nothing of P(tree)^(1/T): that
would be another sum over states for every tree. So at a temperature T other than 1 its distribution is one
of single arcs, by the doubt that the model has in each (see `trees.posterior.at_temperature`); and
everything that can be asked of it is exact under that. Labels are chosen given trees, by their probabilities
to the power of 1/T of labels. At a temperature of 1 nothing is changed, but values of projected automata are
made probabilities.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy
from numpy.typing import NDArray

from ...trees.interface import NEUTRAL, ArcMask, ParserModel, Parses, Temperature
from ...trees.parses import PosteriorParses, parse_in_pieces
from ...trees.posterior import (
    MixedPosterior,
    Posterior,
    at_temperature,
    sentence_constraints,
)
from ...trees.sentences import Floats, Ints, Longs, Tokens
from .backoff import LabelModel
from .model import SymbolTable

# (places of a sentence's tokens in the batch, arcs that are allowed) -> the distribution over its trees
PosteriorOf = Callable[[Longs, ArcMask | None], Posterior]
Kind = TypeVar("Kind", bound="TemperedParser")


class TemperedParser(ParserModel):
    """A parser by a distribution over the trees of each sentence, and labels given the trees. Its
    settings have `max_length`, the longest sentence that is parsed whole."""

    settings: Any
    symbols: SymbolTable
    labels: LabelModel
    temperature: Temperature = NEUTRAL

    @property
    def label_names(self) -> list[str]:  # type: ignore[override]
        """The labels; see `trees.interface.ParserModel`."""
        return self.labels.inventory.names

    def posteriors(self, tokens: Tokens, symbols: Ints) -> PosteriorOf:
        """The model at a temperature of 1."""
        raise NotImplementedError

    def with_temperature(self: Kind, temperature: Temperature) -> Kind:
        """The same parser with the same tables, more or less confident."""
        result = object.__new__(type(self))
        result.__dict__.update(self.__dict__)
        result.temperature = temperature
        return result

    def parse(self, tokens: Tokens, *, fixed: Ints | None = None) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        symbols = self.symbols.encode(tokens.symbols)
        posterior = self.posteriors(tokens, symbols)
        return self._parses(tokens, symbols, posterior, self.temperature, fixed)

    def parses_at(self, tokens: Tokens) -> Callable[[Temperature], Parses]:
        """Parse a batch at one temperature after the other; see `trees.interface.ParserModel`."""
        symbols = self.symbols.encode(tokens.symbols)
        posterior = _Remembered(self.posteriors(tokens, symbols))
        return lambda t: self._parses(tokens, symbols, posterior, t, None)

    def _parses(
        self,
        tokens: Tokens,
        symbols: Ints,
        posterior: PosteriorOf,
        temperature: Temperature,
        fixed: Ints | None,
    ) -> Parses:
        words = numpy.array(tokens.words, dtype=object)
        pieces = _AutomataPieces(self, symbols, words, posterior, temperature)
        return parse_in_pieces(
            pieces, tokens.starts, max_length=self.settings.max_length, fixed=fixed
        )


@dataclass
class _Remembered:
    """Distributions over trees that are computed once."""

    posterior: PosteriorOf
    known: dict[bytes, Posterior] = field(default_factory=dict)

    def __call__(self, places: Longs, allowed: ArcMask | None) -> Posterior:
        key = places.tobytes()
        if key not in self.known:
            self.known[key] = self.posterior(places, allowed)
        return self.known[key]


@dataclass
class _AutomataPieces:
    """Parses some tokens of a batch; see `trees.parses.ParseTokens`."""

    model: TemperedParser
    symbols: Ints
    words: NDArray[numpy.object_]
    posterior: PosteriorOf
    temperature: Temperature

    def __call__(self, chosen: Longs | slice, starts: Ints, fixed: Ints | None) -> PosteriorParses:
        t, labels = self.temperature, self.model.labels
        bounds = list(pairwise(starts.tolist()))
        constraints = sentence_constraints(bounds, fixed)
        places = numpy.arange(len(self.symbols))[chosen]
        pairs = zip(bounds, constraints, strict=True)
        own = [(self.posterior(places[a:b], allowed), allowed) for (a, b), allowed in pairs]
        sharp = t.heads / t.choice
        return PosteriorParses(
            starts,
            _Tempered(own, t),
            inventory=labels.inventory,
            label_distributions=_Labels(
                labels,
                self.symbols[chosen],
                self.words[chosen].tolist(),
                bounds,
                len(self.model.symbols),
                t.labels,
            ),
            fixed=fixed,
            choosers=[
                values if sharp == 1 else at_temperature(values, sharp, allowed=allowed)
                for values, allowed in own
            ],
        )


@dataclass
class _Tempered(Sequence[Posterior]):
    """Distributions at a temperature, made when they are asked for: trees alone do not need them."""

    own: list[tuple[Posterior, ArcMask | None]]
    temperature: Temperature
    made: dict[int, Posterior] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, sentence: Any) -> Any:
        if sentence not in self.made:
            t, (values, allowed) = self.temperature, self.own[sentence]
            found = at_temperature(values, t.heads, allowed=allowed)
            if t.choice != 1 and t.share > 0:
                sharp = at_temperature(values, t.heads / t.choice, allowed=allowed)
                found = MixedPosterior(sharp, found, t.share)
            self.made[sentence] = found
        return self.made[sentence]


@dataclass
class _Labels:
    """P(label | arc)^(1/T), normalised; see `trees.parses.LabelDistributions`."""

    labels: LabelModel
    symbols: Ints
    words: list[str]
    bounds: list[tuple[int, int]]
    root_symbol: int
    temperature: float

    def __call__(
        self, sentences: Sequence[int], heads: Sequence[NDArray], trees: Sequence[NDArray]
    ) -> Floats:
        own = [slice(*self.bounds[s]) for s in sentences]
        found = self.labels.distributions(
            [self.symbols[s] for s in own],
            [self.words[s] for s in own],
            heads,
            trees=trees,
            root_symbol=self.root_symbol,
        )
        if self.temperature == 1:
            return found
        # against the likeliest: a small temperature must not make all of them 0
        found = (found / found.max(axis=1, keepdims=True)) ** (1 / self.temperature)
        return found / found.sum(axis=1, keepdims=True)
