"""The log-linear model as a parser of the component: clusters, crossing arcs, long sentences.

Implements `trees.interface`. Knows nothing of spaCy.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...base.fields import Bytes, Format, Int
from ...trees.interface import AskedArcs, Clusters, ParserModel, Parses, RankedTrees, Temperature
from ...trees.parses import cut_treebank, parse_in_pieces
from ...trees.pseudoprojective import MIN_DECORATED, Inventory, plain, projective_trees
from ...trees.sentences import Tokens, Treebank
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from .encode import Encoder, Sentences, second_names
from .estimate import Annotated, Epoch, Settings, fit
from .model import LogLinearModel
from .parses import LogLinearParses

_FORMAT = Format("loglinear parser", 1, model=Bytes(), clusters=Bytes(), max_length=Int(low=1))
# Arcs -> [arcs, labels].
LabelledArcScorer = Callable[[AskedArcs], NDArray[numpy.floating]]


class LogLinearParser(ParserModel):
    """A trained log-linear parser; see `trees.interface.ParserModel`.

    model (LogLinearModel): What was learnt.
    clusters (Optional[Clusters]): The word clusters it looks at.
    max_length (int): Longer sentences are parsed in pieces.
    """

    FORMAT = _FORMAT
    decoders = ("mbr",)

    def __init__(self, model: LogLinearModel, clusters: Clusters | None, *, max_length: int):
        self.model = model
        self.clusters = clusters
        self.max_length = max_length
        self.label_names = model.labels
        self._encoder = model.encoder()
        self.inventory = Inventory(model.labels)

    @classmethod
    def fit(
        cls,
        treebank: Treebank,
        settings: Settings,
        *,
        max_length: int,
        dev: Treebank | None = None,
        clusters: Clusters | None = None,
        report: Callable[[str], None] = print,
    ) -> "LogLinearParser":
        """Train a parser.

        treebank (Treebank): The training data. Crossing arcs are lifted, with decorated labels where
            there are enough of them; missing heads and labels are summed out.
        settings (Settings): How to train.
        max_length (int): Longer sentences are cut into pieces, here and in parsing.
        dev (Optional[Treebank]): Sentences to choose the best epoch by.
        clusters (Optional[Clusters]): Word clusters; the parser keeps a copy.
        report (Callable[[str], None]): Told the loss of every epoch.
        RETURNS (LogLinearParser): The parser.
        """
        treebank = cut_treebank(treebank, max_length)
        heads, names = projective_trees(treebank)
        if not any(names):
            raise ValueError(Errors.S401)
        inventory = Inventory.from_labels(names, min_decorated=MIN_DECORATED)
        tags = sorted({symbol for symbol in treebank.tokens.symbols if symbol})
        encoder = Encoder(tags)

        def annotated(tokens: Tokens, heads: NDArray[numpy.int32], names: list[str]) -> Annotated:
            return Annotated(_encode(encoder, tokens, clusters), heads, inventory.encode(names))

        def progress(epoch: Epoch) -> None:
            scores = "" if epoch.las is None else f", dev UAS {epoch.uas:.2%}, LAS {epoch.las:.2%}"
            report(f"epoch {epoch.epoch} of {epoch.n_epochs}: loss {epoch.loss:.4f}{scores}")

        model = fit(
            annotated(treebank.tokens, heads, names),
            tags=tags,
            labels=inventory.names,
            dev=None if dev is None else annotated(dev.tokens, dev.heads, dev.labels),
            settings=settings,
            progress=progress,
        )
        return cls(model, clusters, max_length=max_length)

    @property
    def temperature(self) -> Temperature:  # type: ignore[override]
        return self.model.temperature

    def with_temperature(self, temperature: Temperature) -> "LogLinearParser":
        """RETURNS (LogLinearParser): The same parser, surer or less sure."""
        if temperature == self.temperature:
            return self
        model = self.model.with_temperature(temperature)
        result = LogLinearParser(model, self.clusters, max_length=self.max_length)
        result._encoder = self._encoder
        return result

    def parse(
        self, tokens: Tokens, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        return self.parse_scored(None, tokens, fixed=fixed)

    def parse_scored(
        self,
        others: LabelledArcScorer | None,
        tokens: Tokens,
        *,
        fixed: NDArray[numpy.int32] | None = None,
    ) -> Parses:
        """Parse a batch of sentences, with what others say of arcs and labels added to the model's scores.

        others (Optional[LabelledArcScorer]): Scores labelled arcs of the batch.
        tokens (Tokens), fixed (Optional[ndarray]): As for `parse`.
        RETURNS (Parses): The parses.
        """
        sentences = _encode(self._encoder, tokens, self.clusters)

        def parse(
            chosen: NDArray[numpy.int64] | slice,
            starts: NDArray[numpy.int32],
            fixed: NDArray[numpy.int32] | None,
        ) -> LogLinearParses:
            own = sentences.select(chosen, starts)

            def pack(sentence: int, more: NDArray[numpy.bool_] | None) -> RankedTrees:
                here = slice(int(starts[sentence]), int(starts[sentence + 1]))
                places = numpy.arange(len(tokens.words))[chosen][here]
                ends = numpy.array([0, len(places)], dtype="int32")

                def given(arc_starts: NDArray, heads: NDArray) -> NDArray[numpy.floating]:
                    assert others is not None
                    return others(AskedArcs(places, ends, arc_starts, heads))

                return self.model.packed(
                    sentences.select(places, ends),
                    None if others is None else given,
                    constraints=None if fixed is None else fixed[here],
                    more=more,
                )

            if others is None:
                parses = self.model.parse(own, constraints=fixed)
                return LogLinearParses(parses, self.inventory, fixed, pack)
            prepared, arcs = self.model.prepare(own, fixed, wider=True)
            extra = others(AskedArcs(chosen, starts, arcs.starts, arcs.heads))
            parses = self.model.infer(
                prepared, arcs, constraints=fixed, extra=numpy.ascontiguousarray(extra, "float32")
            )
            return LogLinearParses(parses, self.inventory, fixed, pack)

        return parse_in_pieces(parse, tokens.starts, max_length=self.max_length, fixed=fixed)

    def to_payload(self) -> dict[str, Any]:
        return {
            "model": self.model.to_bytes(),
            "clusters": clusters_to_bytes(self.clusters),
            "max_length": self.max_length,
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "LogLinearParser":
        model = LogLinearModel.from_bytes(read["model"])
        whole = set(map(plain, model.labels)) <= set(model.labels)
        _FORMAT.require(whole, "model", "has decorated labels without their plain forms")
        return cls(model, clusters_from_bytes(read["clusters"]), max_length=read["max_length"])


def _encode(encoder: Encoder, tokens: Tokens, clusters: Clusters | None) -> Sentences:
    everything = encoder(
        [tokens.words],
        [tokens.symbols],
        second=[second_names(tokens.second)],
        pos=[tokens.pos],
        morphs=[tokens.morphs],
        clusters=None if clusters is None else clusters.ids(tokens.words),
    )
    return replace(everything, starts=tokens.starts)
