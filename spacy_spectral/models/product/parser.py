"""The product of experts: parsers that see different things, multiplied.

    P(tree) ~ prod_i P_i(tree)^(w_i / t)

where w_i are the weights of the experts and t is the temperature of the product. Scores of the experts meet
in one chart: the log-linear expert's, if there is one, over the arcs that its pruner keeps (more of them than
when it is alone), with its siblings and states; otherwise the chart of single arcs. So marginals, n-best
lists, fixed heads and long sentences are as exact as those of one parser. Experts without scores of their own
(SHAG and the refined grammar sum over hidden states) take part by the logarithms of their probabilities of
labelled arcs; the refined grammar by those given the arcs that are left. Temperatures that experts have by
themselves do not count.

A weight of zero leaves an expert out, and an expert that is alone with weight 1 is what it is by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...base.fields import Bytes, Float, Format, List, Record, Str
from ...base.stored import Stored
from ...trees.interface import (
    NEUTRAL,
    TEMPERATURE,
    ArcScorer,
    AskedArcs,
    ParserModel,
    Parses,
    Temperature,
    Tempered,
)
from ...trees.parses import PosteriorParses
from ...trees.pieces import parse_in_pieces
from ...trees.posterior import arc_posterior, sentence_constraints
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import Tokens
from ..biaffine.parser import BiaffineParser
from ..loglinear.parser import LabelledArcScorer, LogLinearParser
from ..refine.model import RefinedGrammar
from ..shag.grammar import Grammar
from .scores import ProbabilityScores, remembered, translated

_MAX_LENGTH = 250  # longer sentences are parsed in pieces, where no expert has a chart of its own
# What can be an expert, by the names in files.
KINDS: dict[str, Any] = {
    "loglinear": LogLinearParser,
    "biaffine": BiaffineParser,
    "shag": Grammar,
    "refined": RefinedGrammar,
}
_FORMAT = Format(
    "product of parsers",
    1,
    experts=List(
        Record(
            name=Str(),
            kind=Str(choices=tuple(KINDS)),
            weight=Float(low=0.0, high=1e3),
            model=Bytes(),
        ),
        least=1,
    ),
    temperature=TEMPERATURE,
)


class ProductParser(Stored):
    """A product of trained parsers; see `trees.interface.ParserModel`.

    experts (Dict[str, ParserModel]): The parsers, by name.
    weights (Dict[str, float]): How much each counts.
    temperature (Temperature): How sure the product is.
    """

    FORMAT = _FORMAT
    decoders: Sequence[str] = ("mbr",)

    def __init__(
        self,
        experts: Mapping[str, ParserModel],
        weights: Mapping[str, float],
        *,
        temperature: Temperature = NEUTRAL,
    ):
        self.experts = dict(experts)
        self.weights = {name: float(weights[name]) for name in experts}
        self.temperature = temperature
        self._active = [name for name, weight in self.weights.items() if weight > 0]
        if not self._active or min(self.weights.values()) < 0:
            raise ValueError(Errors.S453.format(weights=self.weights))
        self._host = next(
            (n for n in self._active if isinstance(self.experts[n], LogLinearParser)), None
        )
        first = self.experts[self._host or self._active[0]]
        self.label_names: Sequence[str] = list(first.label_names)
        self.inventory = Inventory(self.label_names)

    @property
    def clusters(self) -> Any:
        """What is known of words: the experts share it."""
        return self._shared("clusters")

    @property
    def vectors(self) -> Any:
        return self._shared("vectors")

    def _shared(self, name: str) -> Any:
        found = (getattr(expert, name, None) for expert in self.experts.values())
        return next((value for value in found if value is not None), None)

    def with_temperature(self, temperature: Temperature) -> "ProductParser":
        """RETURNS (ProductParser): The same product, surer or less sure."""
        return ProductParser(self.experts, self.weights, temperature=temperature)

    def with_weights(self, weights: Mapping[str, float]) -> "ProductParser":
        """RETURNS (ProductParser): The same experts with other weights."""
        return ProductParser(self.experts, weights, temperature=self.temperature)

    @cached_property
    def _chart(self) -> ParserModel:
        """The expert whose chart is used, or the only one, as sure as the product; it is made once."""
        name = self._host or self._active[0]
        expert = self.experts[name]
        if not isinstance(expert, Tempered):
            return expert
        return expert.with_temperature(self.temperature.weighted(self.weights[name]))

    def parse(
        self, tokens: Tokens, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        return self.parse_with(self.scorers(tokens), tokens, fixed=fixed)

    def scorers(self, tokens: Tokens) -> dict[str, ArcScorer]:
        """RETURNS (Dict[str, ArcScorer]): What the experts but the one with the chart say of arcs; with
        another product of the same experts it need not be computed again."""
        if len(self._active) == 1 or not len(tokens):
            return {}
        return {
            name: translated(_scorer(expert, tokens), expert.label_names, self.label_names)
            for name, expert in self.experts.items()
            if name in self._active and name != self._host
        }

    def parses_at(self, tokens: Tokens, *, decode: str = "mbr") -> Callable[[Temperature], Parses]:
        """Parse a batch at one temperature after the other; see `trees.calibration.parses_at`."""
        scorers = self.remembered_scorers(tokens)
        return lambda t: self.with_temperature(t).parse_with(scorers, tokens)

    def remembered_scorers(self, tokens: Tokens) -> dict[str, ArcScorer]:
        """RETURNS (Dict[str, ArcScorer]): As `scorers`; what they have said they need not compute again."""
        return {name: remembered(scorer) for name, scorer in self.scorers(tokens).items()}

    def parse_with(
        self,
        scorers: Mapping[str, ArcScorer],
        tokens: Tokens,
        *,
        fixed: NDArray[numpy.int32] | None = None,
    ) -> Parses:
        """Parse a batch, given what `scorers` has said of it."""
        t = self.temperature
        if len(self._active) == 1 or not len(tokens):
            return self._chart.parse(tokens, fixed=fixed)

        def others(asked: AskedArcs) -> NDArray[numpy.floating]:
            total: Any = 0.0
            for name, scorer in scorers.items():
                heads, labels = scorer(asked)
                own = t.weighted(self.weights[name])
                weighted = labels / own.labels
                weighted += (heads / own.heads)[:, None]
                total = weighted + total
            return total

        if self._host is None:
            return _first_order(others, tokens, self.inventory, fixed, t)
        return cast(LogLinearParser, self._chart).parse_with(others, tokens, fixed=fixed)

    def to_payload(self) -> dict[str, Any]:
        kinds = {kind: name for name, kind in KINDS.items()}
        experts = [
            {
                "name": name,
                "kind": kinds[type(expert)],
                "weight": self.weights[name],
                "model": expert.to_bytes(),
            }
            for name, expert in self.experts.items()
        ]
        return {"experts": experts, "temperature": self.temperature._asdict()}

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "ProductParser":
        names = [expert["name"] for expert in read["experts"]]
        _FORMAT.require(len(set(names)) == len(names), "experts", "has a name twice")
        weights = {expert["name"]: expert["weight"] for expert in read["experts"]}
        _FORMAT.require(max(weights.values()) > 0, "experts", "has no weight above 0")
        experts = {
            expert["name"]: KINDS[expert["kind"]].from_bytes(expert["model"])
            for expert in read["experts"]
        }
        return cls(experts, weights, temperature=Temperature.read(read["temperature"]))


def _scorer(expert: ParserModel, tokens: Tokens) -> ArcScorer:
    own = getattr(expert, "scorer", None)
    if own is not None:
        return own(tokens)
    # how sure experts are by themselves is nothing to the product, which has weights and a temperature
    neutral = expert.with_temperature(NEUTRAL) if isinstance(expert, Tempered) else expert
    return ProbabilityScores(neutral, tokens)


def _first_order(
    score: LabelledArcScorer,
    tokens: Tokens,
    inventory: Inventory,
    fixed: NDArray[numpy.int32] | None,
    temperature: Temperature,
) -> Parses:
    """Parses by the chart of single arcs: those of a sentence's tokens are scored with all their heads."""

    def parse(
        chosen: NDArray[numpy.int64] | slice,
        starts: NDArray[numpy.int32],
        fixed: NDArray[numpy.int32] | None,
    ) -> PosteriorParses:
        bounds = list(pairwise(starts.tolist()))
        every = numpy.arange(len(tokens.words))[chosen]
        tables, posteriors, choosers = [], [], []
        for (a, b), allowed in zip(bounds, sentence_constraints(bounds, fixed), strict=True):
            n = b - a
            heads = numpy.tile(numpy.arange(n + 1, dtype="int32"), n)
            own = numpy.array([0, n], dtype="int32")
            edges = numpy.arange(0, n * (n + 1) + 1, n + 1, dtype="int32")
            labelled = score(AskedArcs(every[a:b], own, edges, heads)).reshape(n, n + 1, -1)
            top = labelled.max(axis=2, keepdims=True)
            total = top[..., 0] + numpy.log(numpy.exp(labelled - top).sum(axis=2))
            tables.append(labelled - total[..., None])
            arcs = numpy.zeros((n + 1, n + 1))
            arcs[:, 1:] = total.T
            posteriors.append(arc_posterior(arcs, allowed=allowed))
            if temperature.choice != 1:
                choosers.append(arc_posterior(temperature.choice * arcs, allowed=allowed))

        def distributions(
            sentences: Sequence[int], heads: Sequence[NDArray], trees: Sequence[NDArray]
        ) -> NDArray[numpy.float64]:
            rows = [
                tables[s][numpy.arange(len(own)), own]
                for s, own in zip(sentences, heads, strict=True)
            ]
            return numpy.exp(numpy.concatenate([numpy.zeros((0, len(inventory))), *rows]))

        return PosteriorParses(
            starts,
            posteriors,
            inventory=inventory,
            label_distributions=distributions,
            fixed=fixed,
            decode="mbr",
            choosers=choosers or None,
            share=temperature.share,
        )

    return parse_in_pieces(parse, tokens.starts, max_length=_MAX_LENGTH, fixed=fixed)
