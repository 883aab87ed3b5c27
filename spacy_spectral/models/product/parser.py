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

One of the experts may stand outside: a network over a tok2vec or a transformer, which is trained step by
step and looks at documents, of which nothing is known here. The product has its name and its weight, and is
given what it says of arcs (`parse_scored`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from ...base.files import Bytes, Float, Format, List, Record, Str
from ...trees.interface import (
    NEUTRAL,
    TEMPERATURE,
    ArcScorer,
    AskedArcs,
    ParserModel,
    Parses,
    Temperature,
)
from ...trees.parses import PosteriorParses, parse_in_pieces
from ...trees.posterior import arc_posterior, sentence_constraints
from ...trees.pseudoprojective import Inventory, plain
from ...trees.sentences import Floats, Ints, Longs, Tokens
from ..biaffine.parser import BiaffineParser
from ..loglinear.parser import LogLinearParser
from ..refine.model import RefinedGrammar
from ..shag.grammar import Grammar

_MAX_LENGTH = 250  # longer sentences are parsed in pieces, where no expert has a chart of its own
# What an expert thinks impossible, or does not know a label for, is very unlikely to the product.
_SMALLEST = 1e-6
Scores = tuple[NDArray[numpy.floating], NDArray[numpy.floating]]
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
    # files of older versions have none
    outside=List(Record(name=Str(), weight=Float(low=0.0, high=1e3)), optional=True),
)


class ProductParser(ParserModel):
    """A product of trained parsers; see `trees.interface.ParserModel`."""

    FORMAT = _FORMAT
    temperature: Temperature

    def __init__(
        self,
        experts: Mapping[str, ParserModel],
        weights: Mapping[str, float],
        *,
        temperature: Temperature = NEUTRAL,
    ):
        """weights: Of the experts, and of those that stand outside."""
        self.experts = dict(experts)
        self.outside = [name for name in weights if name not in self.experts]
        self.weights = {name: float(weights[name]) for name in [*self.experts, *self.outside]}
        self.temperature = temperature
        self._active = [name for name, weight in self.weights.items() if weight > 0]
        if not self._active or min(self.weights.values()) < 0:
            raise SpectralError(Errors.S453.format(weights=self.weights))
        inside = [name for name in self._active if name in self.experts]
        self._host = next((n for n in inside if isinstance(self.experts[n], LogLinearParser)), None)
        first = self.experts[self._host or [*inside, *self.experts][0]]
        self.label_names: Sequence[str] = list(first.label_names)
        # what is known of words: the experts share it
        everyone = self.experts.values()
        self.clusters = next((e.clusters for e in everyone if e.clusters is not None), None)
        self.vectors = next((e.vectors for e in everyone if e.vectors is not None), None)
        self.inventory = Inventory(self.label_names)
        self.sources = sorted({source for expert in everyone for source in expert.sources})

    def with_temperature(self, temperature: Temperature) -> "ProductParser":
        """The same product, more or less confident."""
        return ProductParser(self.experts, self.weights, temperature=temperature)

    def with_weights(self, weights: Mapping[str, float]) -> "ProductParser":
        """The same experts with other weights."""
        return ProductParser(self.experts, weights, temperature=self.temperature)

    @cached_property
    def _chart(self) -> ParserModel:
        """The expert whose chart is used, or the only one, as confident as the product; it is made once."""
        name = self._host or self._active[0]
        return self.experts[name].with_temperature(self.temperature.weighted(self.weights[name]))

    def parse(self, tokens: Tokens, *, fixed: Ints | None = None) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        return self.parse_scored(self.scorers(tokens), tokens, fixed=fixed)

    def parses_at(self, tokens: Tokens) -> Callable[[Temperature], Parses]:
        """Parse a batch at one temperature after the other; see `trees.interface.ParserModel`."""
        scorers = self.scorers(tokens)
        return lambda t: self.with_temperature(t).parse_scored(scorers, tokens)

    def scorers(self, tokens: Tokens) -> dict[str, ArcScorer]:
        """What the experts but the one with the chart, and those outside, say of arcs. With another product
        of the same experts it need not be computed again."""
        if len(self._active) == 1 or not len(tokens):
            return {}
        return {
            name: ExpertScores(_scorer(expert, tokens), expert.label_names, self.label_names)
            for name, expert in self.experts.items()
            if name in self._active and name != self._host
        }

    def parse_scored(
        self, scorers: Mapping[str, ArcScorer], tokens: Tokens, *, fixed: Ints | None = None
    ) -> Parses:
        """Parse a batch, given what `scorers` has said of it, and experts outside."""
        if not len(tokens):
            return next(iter(self.experts.values())).parse(tokens, fixed=fixed)
        if len(self._active) == 1 and self._active[0] in self.experts:
            return self._chart.parse(tokens, fixed=fixed)
        others = WeightedScores(
            [
                (self.temperature.weighted(self.weights[name]), scorers[name])
                for name in self._active
                if name != self._host
            ]
        )
        if self._host is None:
            pieces = _FirstOrder(others, tokens, self.inventory, self.temperature)
            return parse_in_pieces(pieces, tokens.starts, max_length=_MAX_LENGTH, fixed=fixed)
        return cast(LogLinearParser, self._chart).parse_scored(others, tokens, fixed=fixed)

    def to_payload(self) -> dict[str, Any]:
        kinds = {kind: name for name, kind in KINDS.items()}
        rows = [
            (name, kinds[type(expert)], self.weights[name], expert.to_bytes())
            for name, expert in self.experts.items()
        ]
        experts = [dict(zip(("name", "kind", "weight", "model"), row, strict=True)) for row in rows]
        outside = [{"name": name, "weight": self.weights[name]} for name in self.outside]
        return {
            "experts": experts,
            "temperature": self.temperature._asdict(),
            "outside": outside or None,
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "ProductParser":
        rows = [*read["experts"], *(read["outside"] or ())]
        weights = {expert["name"]: expert["weight"] for expert in rows}
        _FORMAT.require(len(weights) == len(rows), "experts", "has a name twice")
        _FORMAT.require(max(weights.values()) > 0, "experts", "has no weight above 0")
        experts = {
            expert["name"]: KINDS[expert["kind"]].from_bytes(expert["model"])
            for expert in read["experts"]
        }
        return cls(experts, weights, temperature=Temperature.read(read["temperature"]))


@dataclass
class WeightedScores:
    """What several experts say of labelled arcs, added up: [arcs, labels]."""

    scorers: Sequence[tuple[Temperature, ArcScorer]]

    def __call__(self, asked: AskedArcs) -> NDArray[numpy.floating]:
        total: Any = 0.0
        for own, scorer in self.scorers:
            heads, labels = scorer(asked)
            weighted = labels / own.labels
            weighted += (heads / own.heads)[:, None]
            total = weighted + total
        return total


class ExpertScores(ArcScorer):
    """What an expert says of arcs, in terms of the product's labels; see `trees.interface.ArcScorer`. What it
    said last of all tokens of the batch it need not compute again."""

    def __init__(self, scorer: ArcScorer, names: Sequence[str], wanted: Sequence[str]):
        """names: The labels that the expert knows.
        wanted: The labels that are asked for. One that the expert does not know counts as its plain form,
        and as very unlikely if that is not known either."""
        self._scorer = scorer
        self._columns: Longs | None = None
        if list(names) != list(wanted):
            index = {name: i for i, name in enumerate(names)}
            known = [index.get(name, index.get(plain(name), -1)) for name in wanted]
            self._columns = numpy.array(known)
        self._last: tuple[AskedArcs, Scores] | None = None

    def __call__(self, asked: AskedArcs) -> Scores:
        if not isinstance(asked.tokens, slice):
            return self._scores(asked)
        last = self._last
        if last is None or not all(map(numpy.array_equal, last[0][1:], asked[1:])):
            last = self._last = asked, self._scores(asked)
        return last[1]

    def _scores(self, asked: AskedArcs) -> Scores:
        arcs, labels = self._scorer(asked)
        if self._columns is None:
            return arcs, labels
        chosen = labels[:, self._columns]
        return arcs, numpy.where(self._columns >= 0, chosen, numpy.log(_SMALLEST))


def _scorer(expert: ParserModel, tokens: Tokens) -> ArcScorer:
    # weights and the temperature of the product say how much an expert counts, not its own temperature
    return expert.scorer(tokens) or ProbabilityScores(expert.with_temperature(NEUTRAL), tokens)


class ProbabilityScores(ArcScorer):
    """Logarithms of an expert's probabilities of labelled arcs; see `trees.interface.ArcScorer`."""

    def __init__(self, expert: ParserModel, tokens: Tokens):
        self._expert = expert
        self._tokens = tokens
        self._n_labels = len(expert.label_names)

    def __call__(self, asked: AskedArcs) -> Scores:
        parses = self._expert.parse(self._tokens.at(asked.tokens, asked.starts))
        joint = numpy.full((len(asked.heads), self._n_labels), _SMALLEST / self._n_labels)
        for s, (tokens, own, modifiers) in enumerate(asked.sentences()):
            n = tokens.stop - tokens.start
            place = numpy.full((n + 1, n + 1), -1)
            place[asked.heads[own], modifiers] = numpy.arange(own.start, own.stop)
            found = parses.arcs(s, labelled=True, min_prob=_SMALLEST / self._n_labels)
            rows = place[found.heads, found.modifiers]
            kept = rows >= 0
            numpy.add.at(joint, (rows[kept], found.labels[kept]), found.probs[kept])
        total = joint.sum(axis=1)
        return numpy.log(total), numpy.log(joint / total[:, None])


@dataclass
class _FirstOrder:
    """Parses by the chart of single arcs: those of a sentence's tokens are scored with all their heads; see
    `trees.parses.ParseTokens`."""

    score: WeightedScores
    tokens: Tokens
    inventory: Inventory
    temperature: Temperature

    def __call__(self, chosen: Longs | slice, starts: Ints, fixed: Ints | None) -> PosteriorParses:
        bounds = list(pairwise(starts.tolist()))
        every = numpy.arange(len(self.tokens.words))[chosen]
        tables, posteriors, choosers = [], [], []
        for (a, b), allowed in zip(bounds, sentence_constraints(bounds, fixed), strict=True):
            n = b - a
            heads = numpy.tile(numpy.arange(n + 1, dtype="int32"), n)
            own = numpy.array([0, n], dtype="int32")
            edges = numpy.arange(0, n * (n + 1) + 1, n + 1, dtype="int32")
            labelled = self.score(AskedArcs(every[a:b], own, edges, heads)).reshape(n, n + 1, -1)
            top = labelled.max(axis=2, keepdims=True)
            total = top[..., 0] + numpy.log(numpy.exp(labelled - top).sum(axis=2))
            tables.append(labelled - total[..., None])
            arcs = numpy.zeros((n + 1, n + 1))
            arcs[:, 1:] = total.T
            posteriors.append(arc_posterior(arcs, allowed=allowed))
            if self.temperature.choice != 1:
                choosers.append(arc_posterior(self.temperature.choice * arcs, allowed=allowed))
        return PosteriorParses(
            starts,
            posteriors,
            inventory=self.inventory,
            label_distributions=_LabelTables(tables, len(self.inventory)),
            fixed=fixed,
            choosers=choosers or None,
            share=self.temperature.share,
        )


@dataclass
class _LabelTables:
    """log P(label | arc) of all arcs: for every sentence [tokens, heads, labels]; see
    `trees.parses.LabelDistributions`."""

    tables: list[NDArray[numpy.floating]]
    n_labels: int

    def __call__(
        self, sentences: Sequence[int], heads: Sequence[NDArray], trees: Sequence[NDArray]
    ) -> Floats:
        rows = [
            self.tables[s][numpy.arange(len(own)), own]
            for s, own in zip(sentences, heads, strict=True)
        ]
        return numpy.exp(numpy.concatenate([numpy.zeros((0, self.n_labels)), *rows]))
