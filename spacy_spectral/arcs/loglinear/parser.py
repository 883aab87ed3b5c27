"""The log-linear model as a parser of the component: clusters, crossing arcs, long sentences, n-best.

Implements `parser.interface`. Knows nothing of spaCy.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import Errors
from ...parser.interface import Parse, Tokens, Treebank
from ...serialize import pack, unpack
from ...tagger.lexicon import Clusters, clusters_from_bytes, clusters_to_bytes
from ...treebank.dependency import DELIMITER, MISSING, deprojectivize, projectivize
from .encode import Encoder, Sentences
from .estimate import Annotated, Epoch, Settings, fit
from .model import LogLinearModel
from .model import Parses as ModelParses
from .pieces import prune_in_pieces

_KIND, _VERSION = "loglinear parser", 1
# A decorated label costs time in every arc and must be seen to be learnt: rarer ones are left out, and
# their arcs stay lifted.
_MIN_DECORATED = 10
_SMALLEST_PROB = 1e-12


class LogLinearParser:
    """A trained log-linear parser; see `parser.interface.ParserModel`.

    model (LogLinearModel): What was learnt.
    clusters (Optional[Clusters]): The word clusters it looks at.
    max_length (int): Longer sentences are pruned in pieces.
    """

    decoders = ("mbr",)

    def __init__(self, model: LogLinearModel, clusters: Clusters | None, *, max_length: int):
        self.model = model
        self.clusters = clusters
        self.max_length = max_length
        self.label_names = model.labels
        self._encoder = model.encoder()
        self._decorated = np.array([DELIMITER in label for label in model.labels], dtype=bool)
        self._label_ids = {label: i for i, label in enumerate(model.labels)}

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
        max_length (int): Longer sentences are pruned in pieces.
        dev (Optional[Treebank]): Sentences to choose the best epoch by.
        clusters (Optional[Clusters]): Word clusters; the parser keeps a copy.
        report (Callable[[str], None]): Told the loss of every epoch.
        RETURNS (LogLinearParser): The parser.
        """
        heads, names = _projective(treebank)
        if not any(names):
            raise ValueError(Errors.S401)
        # a restored arc needs its plain label even if that was never seen by itself
        labels = sorted({part for name in names if name for part in (name, _plain(name))})
        tags = sorted({symbol for symbol in treebank.tokens.symbols if symbol})
        encoder = Encoder(tags)

        def annotated(tokens: Tokens, heads: np.ndarray, names: list[str]) -> Annotated:
            ids = {label: i for i, label in enumerate(labels)}
            label_ids = np.array([ids.get(name, MISSING) for name in names], dtype=np.int32)
            return Annotated(_encode(encoder, tokens, clusters), heads, label_ids)

        def progress(epoch: Epoch) -> None:
            scores = "" if epoch.las is None else f", dev UAS {epoch.uas:.2%}, LAS {epoch.las:.2%}"
            report(f"epoch {epoch.epoch} of {epoch.n_epochs}: loss {epoch.loss:.4f}{scores}")

        model = fit(
            annotated(treebank.tokens, heads, names),
            tags=tags,
            labels=labels,
            dev=None if dev is None else annotated(dev.tokens, dev.heads, dev.labels),
            settings=settings,
            progress=progress,
        )
        return cls(model, clusters, max_length=max_length)

    def parse(
        self, tokens: Tokens, *, fixed: np.ndarray | None = None, decode: str = "mbr"
    ) -> "LogLinearParses":
        """Parse a batch of sentences; see `parser.interface.ParserModel`."""
        sentences = _encode(self._encoder, tokens, self.clusters)
        arcs = prune_in_pieces(self.model.pruner, sentences, self.max_length)
        parses = self.model.parse(sentences, arcs=arcs, constraints=fixed)
        return LogLinearParses(self, parses)

    def restore_trees(self, heads: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Restore crossing arcs and plain labels, in place.

        heads, labels (ndarray): [k, N], trees of one sentence.
        RETURNS (Tuple[ndarray, ndarray]): The same arrays.
        """
        for tree in np.flatnonzero(self._decorated[labels].any(axis=1)):
            heads[tree], names = deprojectivize(
                heads[tree], [self.label_names[i] for i in labels[tree]]
            )
            labels[tree] = [self._label_ids[name] for name in names]
        return heads, labels

    def restore_all(
        self, starts: np.ndarray, heads: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """RETURNS (Tuple[ndarray, ndarray]): The same for sentences one after the other."""
        at = np.flatnonzero(self._decorated[labels])
        if not len(at):
            return heads, labels
        heads, labels = heads.copy(), labels.copy()
        for s in np.unique(np.searchsorted(starts, at, side="right") - 1):
            own = slice(int(starts[s]), int(starts[s + 1]))
            self.restore_trees(heads[None, own], labels[None, own])
        return heads, labels

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): The serialised parser; equal parsers give equal bytes."""
        payload = {
            "model": self.model.to_bytes(),
            "clusters": clusters_to_bytes(self.clusters),
            "max_length": self.max_length,
        }
        return pack(_KIND, _VERSION, payload)

    @classmethod
    def from_bytes(cls, data: bytes) -> "LogLinearParser":
        """Read what `to_bytes` wrote, or raise a ValueError that says what is wrong."""
        payload = unpack(_KIND, _VERSION, data)
        model = LogLinearModel.from_bytes(payload["model"])
        plain = set(map(_plain, model.labels)) <= set(model.labels)
        if model.pruner is None or not plain or payload["max_length"] < 1:
            raise ValueError(Errors.S002.format(what=_KIND, reason="incomplete"))
        clusters = clusters_from_bytes(payload["clusters"])
        return cls(model, clusters, max_length=payload["max_length"])

    def __reduce__(self) -> tuple[Any, ...]:
        # through the same bytes: compiled parts and caches don't travel to other processes
        return LogLinearParser.from_bytes, (self.to_bytes(),)


class LogLinearParses:
    """Parses of a batch; see `parser.interface.Parses`."""

    def __init__(self, parser: LogLinearParser, parses: ModelParses):
        """parser (LogLinearParser): The parser.
        parses (Parses): What the model says.
        """
        self._parser = parser
        self._parses = parses
        self.heads, self.labels = parser.restore_all(parses.starts, parses.heads, parses.labels)

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

    def label_distributions(self, sentence: int) -> np.ndarray:
        return self._parses.label_probs[self._own(sentence)].astype(np.float64)

    def k_best(self, sentence: int, k: int) -> list[Parse]:
        heads, labels, logs = self._parses.forests.k_best(sentence, k)
        if not len(heads):
            own = self._own(sentence)
            log_prob = float(self.log_probs()[sentence])
            return [Parse(self.heads[own], self.labels[own], log_prob)]
        return list(map(Parse, *self._parser.restore_trees(heads, labels), logs.tolist()))

    def _own(self, sentence: int) -> slice:
        starts = self._parses.starts
        return slice(int(starts[sentence]), int(starts[sentence + 1]))


def _encode(encoder: Encoder, tokens: Tokens, clusters: Clusters | None) -> Sentences:
    everything = encoder(
        [tokens.words],
        [tokens.symbols],
        second=[tokens.second],
        pos=[tokens.pos],
        morphs=[tokens.morphs],
        clusters=None if clusters is None else clusters.ids(tokens.words),
    )
    return replace(everything, starts=tokens.starts)


def _plain(label: str) -> str:
    return label.partition(DELIMITER)[0]


def _projective(treebank: Treebank) -> tuple[np.ndarray, list[str]]:
    """RETURNS (Tuple[ndarray, List[str]]): Projective heads, and labels with frequent decorations."""
    heads, labels = treebank.heads.astype(np.int32), list(treebank.labels)
    for begin, end in treebank.tokens.bounds():
        heads[begin:end], labels[begin:end] = projectivize(
            treebank.heads[begin:end], treebank.labels[begin:end]
        )
    counts = Counter(label for label in labels if DELIMITER in label)
    return heads, [
        _plain(label) if counts.get(label, _MIN_DECORATED) < _MIN_DECORATED else label
        for label in labels
    ]
