"""What parsers that sum over hidden states have in common: how sentences are parsed, and how sure they are.

Such a model knows the marginals of arcs, and the probability of a tree, but nothing of P(tree)^(1/T): that
would be another sum over states for every tree. So at a temperature T other than 1 its distribution is one
of single arcs, by the doubt that the model has in each (see `trees.posterior.less_sure`); and everything that
can be asked of it is exact under that. Labels are chosen given trees, by their probabilities to the power of
1/T of labels. At a temperature of 1 nothing is changed, but values of projected automata are made
probabilities (see `trees.posterior.proper`).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy
from numpy.typing import NDArray

from ...trees.interface import NEUTRAL, ArcMask, ParserModel, Parses, Temperature
from ...trees.parses import PosteriorParses
from ...trees.pieces import parse_in_pieces
from ...trees.posterior import Posterior, less_sure, proper, sentence_constraints
from ...trees.sentences import Tokens
from .labels import LabelModel
from .model import SymbolTable

# (places of a sentence's tokens in the batch, arcs that are allowed) -> the distribution over its trees
PosteriorOf = Callable[[NDArray[numpy.int64], ArcMask | None], Posterior]
Kind = TypeVar("Kind", bound="TemperedParser")


class TemperedParser(ParserModel):
    """A parser by a distribution over the trees of each sentence, and labels given the trees.

    settings (Any): Has `max_length`, the longest sentence that is parsed whole.
    symbols (SymbolTable): The symbols of tokens.
    labels (LabelModel): Labels of arcs.
    temperature (Temperature): How sure it is.
    """

    settings: Any
    symbols: SymbolTable
    labels: LabelModel
    temperature: Temperature = NEUTRAL

    @property
    def label_names(self) -> list[str]:  # type: ignore[override]
        """RETURNS (List[str]): The labels; see `trees.interface.ParserModel`."""
        return self.labels.inventory.names

    def posteriors(self, tokens: Tokens, symbols: NDArray[numpy.int32]) -> PosteriorOf:
        """The model at a temperature of 1.

        tokens (Tokens): A batch.
        symbols (ndarray): Its symbols.
        RETURNS (PosteriorOf): Gives the distribution over the trees of tokens at some places.
        """
        raise NotImplementedError

    def with_temperature(self: Kind, temperature: Temperature) -> Kind:
        """RETURNS (TemperedParser): The same parser with the same tables, surer or less sure."""
        result = object.__new__(type(self))
        result.__dict__.update(self.__dict__)
        result.temperature = temperature
        return result

    def parse(
        self, tokens: Tokens, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        symbols = self.symbols.encode(tokens.symbols)
        posterior = self.posteriors(tokens, symbols)
        return self._parses(tokens, symbols, posterior, self.temperature, fixed, decode)

    def parses_at(
        self, tokens: Tokens, *, decode: str = "mbr"
    ) -> Callable[[Temperature], PosteriorParses | Parses]:
        """Parse a batch at one temperature after the other; see `trees.interface.ParserModel`."""
        symbols = self.symbols.encode(tokens.symbols)
        posterior = self.posteriors(tokens, symbols)
        known: dict[bytes, Posterior] = {}

        def remembered(places: NDArray[numpy.int64], allowed: ArcMask | None) -> Posterior:
            key = places.tobytes()
            if key not in known:
                known[key] = posterior(places, allowed)
            return known[key]

        return lambda t: self._parses(tokens, symbols, remembered, t, None, decode)

    def _parses(
        self,
        tokens: Tokens,
        symbols: NDArray[numpy.int32],
        posterior: PosteriorOf,
        temperature: Temperature,
        fixed: NDArray[numpy.int32] | None,
        decode: str,
    ) -> Parses:
        words = numpy.array(tokens.words, dtype=object)
        t = temperature

        def parse(
            chosen: NDArray[numpy.int64] | slice,
            starts: NDArray[numpy.int32],
            fixed: NDArray[numpy.int32] | None,
        ) -> PosteriorParses:
            bounds = list(pairwise(starts.tolist()))
            places = numpy.arange(len(symbols))[chosen]
            own_symbols, own_words = symbols[chosen], words[chosen].tolist()

            def distributions(
                sentences: Sequence[int], heads: Sequence[NDArray], trees: Sequence[NDArray]
            ) -> NDArray[numpy.float64]:
                own = [slice(*bounds[s]) for s in sentences]
                found = self.labels.distributions(
                    [own_symbols[s] for s in own],
                    [own_words[s] for s in own],
                    heads,
                    trees=trees,
                    root_symbol=len(self.symbols),
                )
                if t.labels == 1:
                    return found
                # against the likeliest: a small temperature must not make all of them 0
                found = (found / found.max(axis=1, keepdims=True)) ** (1 / t.labels)
                return found / found.sum(axis=1, keepdims=True)

            constraints = sentence_constraints(bounds, fixed)
            pairs = list(zip(bounds, constraints, strict=True))
            own = [posterior(places[a:b], allowed) for (a, b), allowed in pairs]

            def at(temperature: float) -> list[Posterior]:
                both = zip(own, constraints, strict=True)
                if temperature == 1:
                    return [proper(one, allowed=allowed) for one, allowed in both]
                return [less_sure(one, temperature, allowed=allowed) for one, allowed in both]

            return PosteriorParses(
                starts,
                at(t.heads),
                inventory=self.labels.inventory,
                label_distributions=distributions,
                fixed=fixed,
                decode=decode,
                choosers=None if t.choice == 1 else at(t.heads / t.choice),
                share=t.share,
            )

        max_length = self.settings.max_length
        return parse_in_pieces(parse, tokens.starts, max_length=max_length, fixed=fixed)
