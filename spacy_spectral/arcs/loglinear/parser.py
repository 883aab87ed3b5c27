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
from ...shag._decode import k_best_trees
from ...tagger.lexicon import Clusters, clusters_from_bytes, clusters_to_bytes
from ...treebank.dependency import DELIMITER, MISSING, deprojectivize, projectivize
from ._engine import Engine
from .encode import Encoder, Sentences
from .estimate import Annotated, Epoch, Settings, fit
from .model import LogLinearModel
from .model import Parses as ModelParses
from .pieces import prune_in_pieces
from .pruner import Arcs

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
        return LogLinearParses(self, sentences, arcs, parses)

    def restored(self, heads: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """RETURNS (Tuple[ndarray, ndarray]): Heads of one sentence with crossing arcs restored, and
        plain labels."""
        if not self._decorated[labels].any():
            return heads, labels
        heads, names = deprojectivize(heads, [self.label_names[i] for i in labels])
        return heads, np.array([self._label_ids[name] for name in names], dtype=np.int32)

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
            heads[own], labels[own] = self.restored(heads[own], labels[own])
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

    def __init__(
        self, parser: LogLinearParser, sentences: Sentences, kept: Arcs, parses: ModelParses
    ):
        """parser (LogLinearParser): The parser.
        sentences (Sentences): The encoded batch.
        kept (Arcs): What the pruner kept of it, before any constraint.
        parses (Parses): What the model says.
        """
        self._parser = parser
        self._sentences = sentences
        self._kept = kept
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
        parses = self._parses
        logs = self._tree_log_probs(
            self._prepared, parses.starts, parses.arcs, parses.heads, parses.labels
        )
        failed = np.flatnonzero(~np.isfinite(logs))
        if len(failed):
            # where the chart failed tokens were parsed one by one
            own = np.log(np.maximum(self._probs[0] * self._probs[1], _SMALLEST_PROB))
            for s in failed:
                logs[s] = own[parses.starts[s] : parses.starts[s + 1]].sum()
        return logs

    def marginals(self, sentence: int) -> np.ndarray:
        return np.exp(self._parses.log_marginals(sentence))

    def label_distributions(self, sentence: int) -> np.ndarray:
        own = slice(*self._bounds(sentence))
        labels, probs = self._parses.labels[own], self.label_probs()[own]
        result = np.zeros((len(labels), len(self._parser.label_names)))
        result[np.arange(len(labels)), labels] = probs
        return result

    def k_best(self, sentence: int, k: int) -> list[Parse]:
        begin, end = self._bounds(sentence)
        trees, _ = k_best_trees(self._parses.log_marginals(sentence), k)
        if not len(trees) or np.isnan(self._parses.log_z[sentence]):
            own = slice(begin, end)
            log_prob = float(self.log_probs()[sentence])
            return [Parse(self.heads[own], self.labels[own], log_prob)]
        label_of = self._arc_labels(sentence)
        labels = label_of[trees, np.arange(1, end - begin + 1)]
        logs = self._log_probs_of(sentence, trees, labels)
        order = np.argsort(-logs, kind="stable")
        return [Parse(*self._parser.restored(trees[t], labels[t]), float(logs[t])) for t in order]

    def _bounds(self, sentence: int) -> tuple[int, int]:
        starts = self._parses.starts
        return int(starts[sentence]), int(starts[sentence + 1])

    @cached_property
    def _prepared(self) -> Sentences:
        return self._parser.model.with_children(self._sentences, self._kept)

    @cached_property
    def _engine(self) -> Engine:
        return self._parser.model.engine()

    def _arc_labels(self, sentence: int) -> np.ndarray:
        """RETURNS (ndarray): [N+1, N+1], the best label of each kept arc (head, modifier)."""
        begin, end = self._bounds(sentence)
        starts, heads, _ = self._parses.arcs
        own = slice(int(starts[begin]), int(starts[end]))
        mods = np.repeat(np.arange(1, end - begin + 1), np.diff(starts[begin : end + 1]))
        result = np.zeros((end - begin + 1, end - begin + 1), dtype=np.int32)
        result[heads[own], mods] = self._parses.arc_labels[own]
        return result

    def _log_probs_of(self, sentence: int, trees: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """RETURNS (ndarray): log P(labelled tree | sentence) of several trees of one sentence."""
        begin, end = self._bounds(sentence)
        k, n = trees.shape
        one = self._prepared.part(sentence, sentence + 1)
        copies = replace(one, columns=np.tile(one.columns, (k, 1)), tags=np.tile(one.tags, k))
        starts, heads, probs = self._parses.arcs
        first, last = int(starts[begin]), int(starts[end])
        offsets = np.arange(k)[:, None] * (last - first) + (starts[begin:end] - first)
        arcs = Arcs(
            np.append(offsets, k * (last - first)).astype(np.int32),
            np.tile(heads[first:last], k),
            np.tile(probs[first:last], k),
        )
        sentence_starts = (np.arange(k + 1) * n).astype(np.int32)
        return self._tree_log_probs(copies, sentence_starts, arcs, trees.ravel(), labels.ravel())

    def _tree_log_probs(
        self,
        prepared: Sentences,
        starts: np.ndarray,
        arcs: Arcs,
        heads: np.ndarray,
        labels: np.ndarray,
    ) -> np.ndarray:
        # not by LogLinearModel.log_probs: it would look for children among the constrained arcs
        return self._engine.log_probs(
            prepared.columns, starts, prepared.tags, arcs.starts, arcs.heads, heads, labels
        )


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
