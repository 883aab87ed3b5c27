"""The log-linear model as a parser of the component: clusters, crossing arcs, long sentences, n-best.

Implements `trees.interface`. Knows nothing of spaCy.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ...base.errors import Errors
from ...base.fields import Bytes, Format, Int
from ...trees.interface import ArcProbs, Clusters, Parse, Parses
from ...trees.inventory import MIN_DECORATED, Inventory, plain, projective_trees
from ...trees.pieces import cut_treebank, parse_in_pieces
from ...trees.sentences import MISSING, Tokens, Treebank
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from .encode import Encoder, Sentences, second_names
from .estimate import Annotated, Epoch, Settings, fit
from .model import LogLinearModel
from .model import Parses as ModelParses

_FORMAT = Format("loglinear parser", 1, model=Bytes(), clusters=Bytes(), max_length=Int(low=1))
_SMALLEST_PROB = 1e-12


class LogLinearParser:
    """A trained log-linear parser; see `trees.interface.ParserModel`.

    model (LogLinearModel): What was learnt.
    clusters (Optional[Clusters]): The word clusters it looks at.
    max_length (int): Longer sentences are parsed in pieces.
    """

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

        def annotated(tokens: Tokens, heads: np.ndarray, names: list[str]) -> Annotated:
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

    def parse(
        self, tokens: Tokens, *, fixed: np.ndarray | None = None, decode: str = "mbr"
    ) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        sentences = _encode(self._encoder, tokens, self.clusters)

        def parse(
            chosen: np.ndarray | slice, starts: np.ndarray, fixed: np.ndarray | None
        ) -> LogLinearParses:
            parses = self.model.parse(sentences.select(chosen, starts), constraints=fixed)
            return LogLinearParses(parses, self.inventory, fixed)

        return parse_in_pieces(parse, tokens.starts, max_length=self.max_length, fixed=fixed)

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): The serialised parser; equal parsers give equal bytes."""
        payload = {
            "model": self.model.to_bytes(),
            "clusters": clusters_to_bytes(self.clusters),
            "max_length": self.max_length,
        }
        return _FORMAT.pack(payload)

    @classmethod
    def from_bytes(cls, data: bytes) -> "LogLinearParser":
        """Read what `to_bytes` wrote, or raise a ValueError that says what is wrong."""
        read = _FORMAT.unpack(data)
        model = LogLinearModel.from_bytes(read["model"])
        _FORMAT.require(model.pruner is not None, "model", "has no pruner")
        whole = set(map(plain, model.labels)) <= set(model.labels)
        _FORMAT.require(whole, "model", "has decorated labels without their plain forms")
        return cls(model, clusters_from_bytes(read["clusters"]), max_length=read["max_length"])

    def __reduce__(self) -> tuple[Any, ...]:
        # through the same bytes: compiled parts and caches don't travel to other processes
        return LogLinearParser.from_bytes, (self.to_bytes(),)


class LogLinearParses:
    """Parses of a batch; see `trees.interface.Parses`."""

    labelled = True

    def __init__(self, parses: ModelParses, inventory: Inventory, fixed: np.ndarray | None):
        """parses (Parses): What the model says.
        inventory (Inventory): The labels.
        fixed (Optional[ndarray]): The heads that were given, MISSING for others.
        """
        self._parses = parses
        self._inventory = inventory
        self._fixed = fixed
        self.heads, self.labels = inventory.restored(
            parses.starts, parses.heads, parses.labels, fixed
        )

    @cached_property
    def _probs(self) -> tuple[np.ndarray, np.ndarray]:
        return self._parses.probs()

    def head_probs(self) -> np.ndarray:
        return self._probs[0]

    def label_probs(self) -> np.ndarray:
        return self._probs[1]

    def log_probs(self) -> np.ndarray:
        logs = self._parses.log_probs.copy()
        failed = np.flatnonzero(np.isnan(logs))
        if len(failed):
            # where the chart failed tokens were parsed one by one
            own = np.log(np.maximum(self._probs[0] * self._probs[1], _SMALLEST_PROB))
            for s in failed:
                logs[s] = own[self._own(s)].sum()
        return logs

    def marginals(self, sentence: int) -> np.ndarray:
        return self._parses.marginals(sentence)

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        heads, modifiers, joint = self._parses.forests.joint(sentence)
        table = joint if labelled else joint.sum(axis=1, keepdims=True)
        arc, label = np.nonzero((table >= min_prob) & (table > 0))
        labels = label.astype(np.int32) if labelled else np.full(len(arc), MISSING, dtype=np.int32)
        return ArcProbs(heads[arc], modifiers[arc], labels, table[arc, label].astype(np.float64))

    def label_distributions(self, sentence: int) -> np.ndarray:
        return self._parses.label_probs[self._own(sentence)].astype(np.float64)

    def k_best(self, sentence: int, k: int) -> list[Parse]:
        heads, labels, logs = self._parses.forests.k_best(sentence, k)
        if not len(heads):
            own = self._own(sentence)
            log_prob = float(self.log_probs()[sentence])
            return [Parse(self.heads[own], self.labels[own], log_prob)]
        k, n = heads.shape
        final = self._inventory.restored(
            np.arange(k + 1) * n,
            heads.ravel(),
            labels.ravel(),
            None if self._fixed is None else np.tile(self._fixed[self._own(sentence)], k),
        )
        return list(map(Parse, *(column.reshape(k, n) for column in final), logs.tolist()))

    def _own(self, sentence: int) -> slice:
        starts = self._parses.starts
        return slice(int(starts[sentence]), int(starts[sentence + 1]))


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
