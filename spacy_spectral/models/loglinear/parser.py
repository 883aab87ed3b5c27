"""The log-linear model as a parser of the component: clusters, crossing arcs, long sentences.

Implements `trees.interface`. Knows nothing of spaCy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.files import Bytes, Format, Int, Strings
from ...trees.interface import (
    ArcMask,
    ArcProbs,
    AskedArcs,
    Clusters,
    Parse,
    ParserModel,
    Parses,
    Temperature,
    TreeDistribution,
)
from ...trees.parses import (
    distinct_parses,
    parse_in_pieces,
    restored_arcs,
    restored_parses,
)
from ...trees.pseudoprojective import Inventory, plain
from ...trees.sentences import MISSING, Ints, Longs, Tokens
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from .encode import Encoder, Sentences, second_names
from .model import MARGIN, LogLinearModel, ModelParses, with_arcs

_FORMAT = Format(
    "loglinear parser",
    1,
    model=Bytes(),
    clusters=Bytes(),
    max_length=Int(low=1),
    # files of older versions have none
    sources=Strings(unique=True, optional=True),
)
# Arcs -> [arcs, labels].
LabelledArcScorer = Callable[[AskedArcs], NDArray[numpy.floating]]
_SMALLEST_PROB = 1e-12


@dataclass
class _Batch:
    """A batch of which some tokens are parsed; see `trees.parses.ParseTokens`."""

    model: LogLinearModel
    inventory: Inventory
    sentences: Sentences
    others: LabelledArcScorer | None

    def __call__(
        self, tokens: Longs | slice, starts: Ints, fixed: Ints | None
    ) -> "LogLinearParses":
        return LogLinearParses(self, tokens, starts, fixed)

    def infer(
        self, tokens: Longs | slice, starts: Ints, fixed: Ints | None, more: ArcMask | None = None
    ) -> ModelParses:
        """more: [N+1, N+1], arcs of the only sentence to look at beside those of the pruner."""
        own = self.sentences.select(tokens, starts)
        prepared, arcs = self.model.prepare(own, fixed, wider=self.others is not None)
        margin, extra = MARGIN, None
        if more is not None:
            arcs, margin = with_arcs(arcs, more), numpy.inf
        if self.others is not None:
            scores = self.others(AskedArcs(tokens, starts, arcs.starts, arcs.heads))
            extra = numpy.ascontiguousarray(scores, "float32")
        return self.model.infer(prepared, arcs, constraints=fixed, extra=extra, margin=margin)


class LogLinearParses:
    """Parses of a batch; implements `trees.interface.Parses`."""

    labelled = True

    def __init__(self, batch: _Batch, tokens: Longs | slice, starts: Ints, fixed: Ints | None):
        """tokens: Of the batch.
        fixed: The heads that were given, MISSING for others.
        """
        self._batch, self._tokens, self._fixed = batch, tokens, fixed
        self._parses = batch.infer(tokens, starts, fixed)
        self._inventory = batch.inventory
        self.heads, self.labels = self._inventory.restored(
            starts, self._parses.heads, self._parses.labels, fixed
        )

    @cached_property
    def _probs(self) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
        heads, labels = self._parses.probs()
        restored = restored_arcs(self, self._parses.starts, self._parses.heads, self._parses.labels)
        if len(restored.tokens):
            heads, labels = heads.copy(), labels.copy()
            heads[restored.tokens] = restored.head_probs
            labels[restored.tokens] = restored.label_probs
        return heads, labels

    def head_probs(self) -> NDArray[numpy.float32]:
        return self._probs[0]

    def label_probs(self) -> NDArray[numpy.float32]:
        return self._probs[1]

    def log_probs(self) -> NDArray[numpy.float64]:
        logs = self._parses.log_probs.copy()
        failed = numpy.flatnonzero(~numpy.isfinite(logs)).tolist()
        if failed:
            # where the chart failed tokens were parsed one by one; no weights that were learnt make a tree
            # that was chosen too unlikely for a number
            heads, labels = self._parses.probs()
            own = numpy.log(numpy.maximum(heads * labels, _SMALLEST_PROB))
            for s in failed:
                logs[s] = own[self._own(s)].sum()
        return logs

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        return self._parses.marginals(sentence)

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        heads, modifiers, joint = self._parses.forests.joint(sentence)
        table = joint if labelled else joint.sum(axis=1, keepdims=True)
        arc, label = numpy.nonzero((table >= min_prob) & (table > 0))
        labels = label.astype("int32") if labelled else numpy.full(len(arc), MISSING, dtype="int32")
        return ArcProbs(heads[arc], modifiers[arc], labels, table[arc, label].astype("float64"))

    def label_distributions(self, sentence: int) -> NDArray[numpy.float64]:
        return self._parses.label_probs[self._own(sentence)].astype("float64")

    def k_best(self, sentence: int, k: int, *, labelled: bool = False) -> list[Parse]:
        own = self._own(sentence)
        fixed = None if self._fixed is None else self._fixed[own]
        heads, labels, logs = self._parses.forests.k_best(sentence, k)
        if not len(heads):
            log_prob = float(self.log_probs()[sentence])
            return [Parse(self.heads[own], self.labels[own], log_prob)]
        if not labelled:
            return restored_parses(heads, labels, logs.tolist(), self._inventory, fixed)
        trees = self._batch.model.trees(self._parses.forests, sentence)
        n = heads.shape[1]
        total, _ = trees.total(numpy.ones((n + 1, n + 1), dtype=bool), {})
        return distinct_parses(
            lambda m: [
                tree._replace(score=min(tree.score - total, 0.0)) for tree in trees.k_best(m)
            ],
            self._inventory,
            fixed,
            k,
        )

    def distribution(
        self, sentence: int, *, more: ArcMask | None = None, labelled: bool = False
    ) -> TreeDistribution:
        forests = self._parses.forests
        if more is not None:
            own = self._own(sentence)
            tokens = numpy.arange(len(self._batch.sentences.tags))[self._tokens][own]
            ends = numpy.array([0, len(tokens)], dtype="int32")
            fixed = None if self._fixed is None else self._fixed[own]
            forests, sentence = self._batch.infer(tokens, ends, fixed, more).forests, 0
        return self._batch.model.trees(forests, sentence)

    def _own(self, sentence: int) -> slice:
        starts = self._parses.starts
        return slice(int(starts[sentence]), int(starts[sentence + 1]))


class LogLinearParser(ParserModel):
    """A trained log-linear parser; see `trees.interface.ParserModel`."""

    FORMAT = _FORMAT

    def __init__(
        self,
        model: LogLinearModel,
        clusters: Clusters | None,
        *,
        max_length: int,
        sources: Sequence[str] = (),
    ):
        """sources: The treebanks that it can parse like, if it has learnt from several."""
        self.model = model
        self.clusters = clusters
        self.max_length = max_length
        self.sources = list(sources)
        self.label_names = model.labels
        self._encoder = model.encoder()
        self.inventory = Inventory(model.labels)

    @property
    def temperature(self) -> Temperature:  # type: ignore[override]
        return self.model.temperature

    def with_temperature(self, temperature: Temperature) -> "LogLinearParser":
        """The same parser, more or less confident."""
        if temperature == self.temperature:
            return self
        return self._with(self.model.with_temperature(temperature))

    def with_pruner(
        self, *, threshold: float | None = None, most: int | None = None
    ) -> "LogLinearParser":
        """The same parser, looking at more or fewer arcs; see `model.ArcPruner`."""
        return self._with(self.model.with_pruner(threshold=threshold, most=most))

    def _with(self, model: LogLinearModel) -> "LogLinearParser":
        result = LogLinearParser(
            model, self.clusters, max_length=self.max_length, sources=self.sources
        )
        result._encoder = self._encoder
        return result

    def parse(self, tokens: Tokens, *, fixed: Ints | None = None) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        return self.parse_scored(None, tokens, fixed=fixed)

    def parse_scored(
        self,
        others: LabelledArcScorer | None,
        tokens: Tokens,
        *,
        fixed: Ints | None = None,
    ) -> Parses:
        """Parse a batch of sentences, with what others say of arcs and labels added to the model's scores."""
        if tokens.sources:
            tokens.require_known(self.sources)
        sentences = encode_tokens(self._encoder, tokens, self.clusters)
        batch = _Batch(self.model, self.inventory, sentences, others)
        return parse_in_pieces(batch, tokens.starts, max_length=self.max_length, fixed=fixed)

    def to_payload(self) -> dict[str, Any]:
        return {
            "model": self.model.to_bytes(),
            "clusters": clusters_to_bytes(self.clusters),
            "max_length": self.max_length,
            "sources": self.sources,
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "LogLinearParser":
        model = LogLinearModel.from_bytes(read["model"])
        whole = set(map(plain, model.labels)) <= set(model.labels)
        _FORMAT.require(whole, "model", "has decorated labels without their plain forms")
        return cls(
            model,
            clusters_from_bytes(read["clusters"]),
            max_length=read["max_length"],
            sources=read["sources"] or (),
        )


def encode_tokens(encoder: Encoder, tokens: Tokens, clusters: Clusters | None) -> Sentences:
    """A batch as the model sees it."""
    everything = encoder(
        [tokens.words],
        [tokens.symbols],
        second=[second_names(tokens.second)],
        pos=[tokens.pos],
        morphs=[tokens.morphs],
        clusters=None if clusters is None else clusters.ids(tokens.words),
        sources=[tokens.sources] if len(tokens.sources) else None,
    )
    return replace(everything, starts=tokens.starts)
