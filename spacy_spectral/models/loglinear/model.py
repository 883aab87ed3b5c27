"""The log-linear parser: conditional probabilities of labelled trees over the kept arcs."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.errors import Errors
from ...trees._eisner import best_tree
from ...trees.constraints import allowed_arcs
from ...trees.inventory import Inventory
from ._engine import Engine
from ._forest import Forests
from ._pruner import fill_children
from .encode import Encoder, Sentences
from .format import pack_model, unpack_model
from .pruner import ArcPruner, Arcs
from .templates import COLUMNS, Templates

# Arcs this much worse than a token's best (in log odds) get probability 0 before siblings are seen.
MARGIN = 10.0
# Longer sentences with fixed heads do not get all arcs: neighbouring modifiers are cubically many.
_MAX_ALL_ARCS = 100


@dataclass
class Parses:
    """Parses of some sentences, one token after the other.

    starts (ndarray): int32, where sentences start.
    arcs (Arcs): The kept arcs with their probabilities.
    heads (ndarray): int32, positions in the sentence, 0 for the root.
    labels (ndarray): int32, indices into the model's labels.
    label_probs (ndarray): float32, tokens x labels, the probability of every label given the head.
    arc_labels (ndarray): int32, the likeliest label of each kept arc.
    log_probs (ndarray): float64 for each sentence, log p(labelled tree | sentence); nan where a chart
        failed and tokens were parsed one by one.
    forests (Forests): All trees of the sentences, packed: `forests.k_best(sentence, k)`.
    """

    starts: np.ndarray
    arcs: Arcs
    heads: np.ndarray
    labels: np.ndarray
    label_probs: np.ndarray
    arc_labels: np.ndarray
    log_probs: np.ndarray
    forests: Forests

    def marginals(self, sentence: int) -> np.ndarray:
        """RETURNS (ndarray): float64, (N+1) x (N+1), probability of each arc, head x modifier, 0 where
        it was not kept."""
        first, last = int(self.starts[sentence]), int(self.starts[sentence + 1])
        starts, heads, probs = self.arcs
        n = last - first
        here = slice(int(starts[first]), int(starts[last]))
        mods = np.repeat(np.arange(1, n + 1), np.diff(starts[first : last + 1]))
        result = np.zeros((n + 1, n + 1))
        result[heads[here], mods] = probs[here]
        return result

    def probs(self) -> tuple[np.ndarray, np.ndarray]:
        """RETURNS (Tuple[ndarray, ndarray]): float32 for each token, the probability of its
        head and that of its label given the head."""
        mods = np.repeat(np.arange(len(self.heads)), np.diff(self.arcs.starts))
        chosen = self.arcs.heads == self.heads[mods]
        return self.arcs.probs[chosen], self.label_probs[np.arange(len(self.heads)), self.labels]


@dataclass
class LogLinearModel:
    """A trained parser.

    tags, labels (List[str]): The inventories; tag numbers start from 1, 0 is unknown.
    templates (Templates): What it looks at.
    slots, entries (ndarray): The feature table, see `table`.
    moves (ndarray): float32, tags x 2 sides x (C+1) x (C+1), log weights of going from the
        class of a modifier to the class of the next (START is the last row, STOP the last column).
    label_classes (ndarray): int32, the class of each label.
    allowed (ndarray): uint8, 2 x labels: labels of arcs between tokens, of arcs from the root.
    between_bit, function_tags (ndarray): uint8 for each tag, see `statistics`.
    pruner (Optional[ArcPruner]): Its own pruner; without one, `parse` needs arcs.
    """

    tags: list[str]
    labels: list[str]
    templates: Templates
    slots: Any
    entries: Any
    moves: np.ndarray
    label_classes: np.ndarray
    allowed: np.ndarray
    between_bit: np.ndarray
    function_tags: np.ndarray
    pruner: ArcPruner | None
    _engine: Engine | None = None

    def encoder(self) -> Encoder:
        """RETURNS (Encoder): Encodes sentences for this model."""
        return Encoder(self.tags)

    def engine(self) -> Engine:
        """RETURNS (Engine): The model behind pointers; learning with it changes `entries`,
        `moves`."""
        t = self.templates
        return Engine(
            composites=t.composites, pairs=t.pairs, unaries=t.unaries, siblings=t.siblings,
            slots=self.slots, entries=self.entries, moves=self.moves,
            label_state=self.label_classes, allowed=self.allowed, between_bit=self.between_bit,
            n_columns=len(COLUMNS),
        )  # fmt: skip

    def parse(
        self,
        sentences: Sentences,
        *,
        constraints: np.ndarray | None = None,
        arcs: Arcs | None = None,
    ) -> Parses:
        """Parse sentences: the tree with the most expected correct heads, and all probabilities.

        sentences (Sentences): The sentences.
        constraints (Optional[ndarray]): int32, a head for each token that must have it, -1 for the
            others. Probabilities are then conditional on them.
        arcs (Optional[Arcs]): Arcs kept by another pruner than the model's own. They must contain a
            projective tree for each sentence.
        RETURNS (Parses): The parses.
        """
        sentences, arcs = self._prepare(sentences, arcs)
        margins = np.full(len(sentences), MARGIN)
        if constraints is not None:
            constraints = np.asarray(constraints, dtype=np.int32)
            arcs = constrain(arcs, sentences.starts, constraints)
            # what is unlikely may be all that is left beside fixed heads
            sentence = np.repeat(np.arange(len(sentences)), np.diff(sentences.starts))
            margins[sentence[constraints >= 0]] = np.inf
        result = self._compiled().parse(
            sentences.columns, sentences.starts, sentences.tags, arcs.starts, arcs.heads,
            margins,
        )  # fmt: skip
        failed = np.isnan(result["log_probs"]) & np.isinf(margins)
        if failed.any():
            raise ValueError(Errors.S403.format(sentence=int(np.flatnonzero(failed)[0])))
        arcs = arcs._replace(probs=result.pop("arc_probs"))
        return Parses(sentences.starts, arcs, **result)

    def log_probs(
        self,
        sentences: Sentences,
        heads: np.ndarray,
        labels: np.ndarray,
        *,
        arcs: Arcs | None = None,
    ) -> np.ndarray:
        """Exact log-probabilities of given labelled trees.

        sentences (Sentences): The sentences.
        heads (ndarray), labels (ndarray): int32[tokens] or int32[k, tokens], one tree or k trees of
            every sentence, nothing missing. Many trees hardly take longer than one.
        arcs (Optional[Arcs]): Arcs kept by another pruner.
        RETURNS (ndarray): float64[sentences] or float64[k, sentences], log p(tree | sentence), -inf for
            a tree with an arc that the pruner did not keep.
        """
        sentences, arcs = self._prepare(sentences, arcs)
        result = self._compiled().log_probs(
            sentences.columns, sentences.starts, sentences.tags, arcs.starts, arcs.heads,
            np.ascontiguousarray(np.atleast_2d(heads), dtype=np.int32),
            np.ascontiguousarray(np.atleast_2d(labels), dtype=np.int32),
        )  # fmt: skip
        return result if np.ndim(heads) == 2 else result[0]

    def with_children(self, sentences: Sentences, arcs: Arcs) -> Sentences:
        """RETURNS (Sentences): The sentences with the columns filled that come from the pruner."""
        result = replace(sentences, columns=sentences.columns.copy())
        is_function = self.function_tags[sentences.tags] & sentences.wordlike
        fill_children(
            result.columns, sentences.starts, arcs.starts, arcs.heads, arcs.probs,
            is_function.astype(np.uint8), *map(COLUMNS.index, ("lower", "left", "right")),
        )  # fmt: skip
        return result

    def _prepare(self, sentences: Sentences, arcs: Arcs | None) -> tuple[Sentences, Arcs]:
        if sentences.tags.max(initial=0) > len(self.tags):
            raise ValueError(Errors.S406)
        if arcs is not None:
            check_arcs(arcs, sentences.starts)
        elif self.pruner is None:
            raise ValueError(Errors.S404)
        else:
            arcs = self.pruner(sentences)
        return self.with_children(sentences, arcs), arcs

    def _compiled(self) -> Engine:
        if self._engine is None:
            self._engine = self.engine()
        return self._engine

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): The serialised model; equal models give equal bytes."""
        return pack_model(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "LogLinearModel":
        """Read what `to_bytes` wrote, or raise a ValueError that says what is wrong.

        data (bytes): The serialised model.
        RETURNS (LogLinearModel): The model.
        """
        return cls(**unpack_model(data))


def check_arcs(arcs: Arcs, starts: np.ndarray) -> None:
    """Raise a ValueError unless every token has heads, ascending, in its sentence, none itself."""
    counts = np.diff(arcs.starts)
    lengths = np.diff(starts)
    sizes = {len(arcs.heads), len(arcs.probs), int(counts.sum())}
    if len(counts) != lengths.sum() or len(sizes) > 1 or (counts < 1).any() or arcs.starts[0]:
        raise ValueError(Errors.S407)
    mods = np.repeat(np.arange(len(counts)), counts)
    position = np.arange(len(counts)) - np.repeat(starts[:-1], lengths) + 1
    inside = (arcs.heads >= 0) & (arcs.heads <= np.repeat(lengths, lengths)[mods])
    ascending = (np.diff(arcs.heads) > 0) | (np.diff(mods) > 0)
    if not inside.all() or not ascending.all() or (arcs.heads == position[mods]).any():
        raise ValueError(Errors.S407)


def constrain(arcs: Arcs, starts: np.ndarray, constraints: np.ndarray) -> Arcs:
    """Arcs that agree with fixed heads, with a probability of 0.

    A sentence with a fixed head keeps all arcs of its other tokens: given that head, other arcs are
    likely. A long one, for which there is neither time nor memory, keeps the pruner's arcs and
    those of a tree.

    arcs (Arcs): The kept arcs.
    starts (ndarray): Where sentences start.
    constraints (ndarray): int32, the fixed head of each token, -1 where it is free.
    RETURNS (Arcs): The arcs.
    """
    heads, counts = [np.zeros(0, dtype=np.int32)], np.diff(arcs.starts)
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        fixed, n = constraints[first:last], last - first
        own = arcs.heads[arcs.starts[first] : arcs.starts[last]]
        if not (fixed >= 0).any():
            heads.append(own)
            continue
        tokens = np.arange(1, n + 1)
        wrong = np.flatnonzero((fixed > n) | (fixed == tokens))
        if len(wrong):
            raise ValueError(Errors.S405.format(head=fixed[wrong[0]], token=wrong[0] + 1, n=n))
        allowed = allowed_arcs(fixed)
        keep = np.full((n + 1, n + 1), n <= _MAX_ALL_ARCS)
        if n > _MAX_ALL_ARCS:
            keep[own, np.repeat(tokens, counts[first:last])] = True
            tree, _ = best_tree(np.where(allowed, np.where(keep, 0.0, -1.0), -np.inf))
            keep[tree, tokens] = True
            keep[fixed[fixed >= 0], tokens[fixed >= 0]] = True
        keep &= allowed
        np.fill_diagonal(keep, False)
        heads.append(np.nonzero(keep.T[1:])[1].astype(np.int32))
        counts[first:last] = keep[:, 1:].sum(axis=0)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    kept = np.concatenate(heads)
    return Arcs(ends, kept, np.zeros(len(kept), dtype=np.float32))


def score(
    model: LogLinearModel,
    sentences: Sentences,
    heads: np.ndarray,
    labels: np.ndarray,
    *,
    arcs: Arcs | None = None,
) -> tuple[float, float]:
    """RETURNS (Tuple[float, float]): UAS and LAS over all tokens whose head is annotated, of trees as users
    get them: crossing arcs restored, labels plain."""
    parses = model.parse(sentences, arcs=arcs)
    inventory = Inventory(model.labels)
    found, found_labels = inventory.restored(parses.starts, parses.heads, parses.labels)
    known = heads >= 0
    right = (found == heads)[known]
    return float(right.mean()), float((right & (found_labels == labels)[known]).mean())
