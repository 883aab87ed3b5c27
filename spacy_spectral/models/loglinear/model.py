"""The log-linear model: its parameters, and what can be asked of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...base.stored import Stored
from ...trees.conditions import MixedTrees
from ...trees.interface import NEUTRAL, RankedTrees, Temperature
from ._features import fill_children
from ._forest import Forests
from ._infer import Engine
from ._packed import sentence_scores
from .arcs import Arcs, check_arcs, constrain, with_arcs
from .encode import Encoder, Sentences
from .format import FORMAT, model_payload, read_model
from .packed import packed_trees, sharper_scores
from .pruner.model import ArcPruner
from .table import ReadTable, read_table
from .templates import COLUMNS, Templates

# Arcs this much worse than a token's best (in log odds) get probability 0 before siblings are seen.
MARGIN = 10.0


@dataclass
class ModelParses:
    """What a model says of some sentences, one token after the other.

    starts (ndarray): int32, where sentences start.
    arcs (Arcs): The kept arcs with their probabilities.
    heads (ndarray): int32, positions in the sentence, 0 for the root.
    labels (ndarray): int32, indices into the model's labels.
    label_probs (ndarray): float32, tokens x labels, the probability of every label given the head.
    log_probs (ndarray): float64 for each sentence, log p(labelled tree | sentence); nan where a chart
        failed and tokens were parsed one by one.
    forests (Forests): All trees of the sentences, packed: `forests.k_best(sentence, k)`.
    """

    starts: NDArray[numpy.int32]
    arcs: Arcs
    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    label_probs: NDArray[numpy.float32]
    log_probs: NDArray[numpy.float64]
    forests: Forests

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        """RETURNS (ndarray): [N+1, N+1], probability of each arc, head x modifier, 0 where it was not
        kept."""
        first, last = int(self.starts[sentence]), int(self.starts[sentence + 1])
        starts, heads, probs = self.arcs
        n = last - first
        here = slice(int(starts[first]), int(starts[last]))
        mods = numpy.repeat(numpy.arange(1, n + 1), numpy.diff(starts[first : last + 1]))
        result = numpy.zeros((n + 1, n + 1))
        result[heads[here], mods] = probs[here]
        return result

    def probs(self) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
        """RETURNS (Tuple[ndarray, ndarray]): For each token, the probability of its head and that of its
        label given the head."""
        tokens = numpy.arange(len(self.heads))
        mods = numpy.repeat(tokens, numpy.diff(self.arcs.starts))
        chosen = self.arcs.heads == self.heads[mods]
        return self.arcs.probs[chosen], self.label_probs[tokens, self.labels]


@dataclass
class LogLinearModel(Stored):
    """A trained parser.

    tags, labels (List[str]): The inventories; tag numbers start from 1, 0 is unknown.
    templates (Templates): What it looks at.
    slots, entries (ndarray): The feature table, see `table`.
    moves (ndarray): float32, tags x 2 sides x (C+1) x (C+1), log weights of going from the class of a
        modifier to the class of the next (START is the last row, STOP the last column).
    label_classes (ndarray): int32, the class of each label.
    allowed (ndarray): uint8, 2 x labels: labels of arcs between tokens, of arcs from the root.
    between_bit, function_tags (ndarray): uint8 for each tag, see `statistics`.
    pruner (ArcPruner): Chooses the arcs that it looks at.
    temperature (Temperature): By what its scores are divided; not those of another model that join them.
    """

    FORMAT = FORMAT

    tags: list[str]
    labels: list[str]
    templates: Templates
    slots: NDArray[Any]
    entries: NDArray[Any]
    moves: NDArray[numpy.float32]
    label_classes: NDArray[numpy.int32]
    allowed: NDArray[numpy.uint8]
    between_bit: NDArray[numpy.uint8]
    function_tags: NDArray[numpy.uint8]
    pruner: ArcPruner
    temperature: Temperature = NEUTRAL
    _engine: Engine | None = field(default=None, compare=False, repr=False)
    _table: ReadTable | None = field(default=None, compare=False, repr=False)

    def encoder(self) -> Encoder:
        """RETURNS (Encoder): Encodes sentences for this model."""
        return Encoder(self.tags)

    def engine(self, *, to_learn: bool = True) -> Engine:
        """The model behind pointers.

        to_learn (bool): Whether a `Learner` will change its `entries` and `moves`, which is not for models of
            another temperature than 1; otherwise the table is read faster.
        RETURNS (Engine): The engine.
        """
        heads, labels, choice, share = self.temperature
        table = None
        if not to_learn:
            table = self._read_table()
        return Engine(
            composites=self.templates.composites,
            pairs=self.templates.pairs,
            unaries=self.templates.unaries,
            siblings=self.templates.siblings,
            slots=self.slots,
            entries=self.entries,
            table=table,
            moves=self.moves if heads == 1 else self.moves / numpy.float32(heads),
            label_state=self.label_classes,
            allowed=self.allowed,
            between_bit=self.between_bit,
            n_columns=len(COLUMNS),
            sharpness=1 / heads,
            label_sharpness=1 / labels,
            choice=choice,
            share=share,
        )

    def _read_table(self) -> ReadTable:
        """RETURNS (ReadTable): The table as parsing reads it, made when it is needed first."""
        if self._table is None:
            self._table = read_table(self.slots, self.entries, n_labels=len(self.labels))
        return self._table

    def with_temperature(self, temperature: Temperature) -> "LogLinearModel":
        """RETURNS (LogLinearModel): The same model with the same tables, surer or less sure."""
        return replace(self, temperature=temperature, _engine=None, _table=self._read_table())

    def _reader(self) -> Engine:
        """RETURNS (Engine): The engine that parses, made when it is needed first."""
        if self._engine is None:
            self._engine = self.engine(to_learn=False)
        return self._engine

    def parse(
        self, sentences: Sentences, *, constraints: NDArray[numpy.int32] | None = None
    ) -> ModelParses:
        """Parse sentences: the tree with the most expected correct heads, and all probabilities.

        sentences (Sentences): The sentences.
        constraints (Optional[ndarray]): int32, a head for each token that must have it, -1 for the
            others. Probabilities are then conditional on them.
        RETURNS (ModelParses): The parses.
        """
        prepared, arcs = self.prepare(sentences, constraints)
        return self._infer(prepared, arcs, constraints, None)

    def prepare(
        self,
        sentences: Sentences,
        constraints: NDArray[numpy.int32] | None = None,
        *,
        wider: bool = False,
    ) -> tuple[Sentences, Arcs]:
        """The first half of `parse`, for those who want to change the arcs or to add to their scores.

        sentences (Sentences): The sentences.
        constraints (Optional[ndarray]): As for `parse`.
        wider (bool): Whether to look at more arcs, for others have their say; see `ArcPruner.wider`.
        RETURNS (Tuple[Sentences, Arcs]): The sentences as `infer` wants them, and the arcs to look at.
        """
        if sentences.tags.max(initial=0) > len(self.tags):
            raise ValueError(Errors.S406)
        arcs = (self.pruner.wider() if wider else self.pruner)(sentences)
        sentences = self.with_children(sentences, arcs)
        if constraints is not None:
            arcs = constrain(arcs, sentences.starts, numpy.asarray(constraints, dtype="int32"))
        return sentences, arcs

    def infer(
        self,
        prepared: Sentences,
        arcs: Arcs,
        *,
        constraints: NDArray[numpy.int32] | None = None,
        extra: NDArray[numpy.float32] | None = None,
    ) -> ModelParses:
        """The second half of `parse`.

        prepared (Sentences): From `prepare`.
        arcs (Arcs): The arcs to look at. Each sentence must have a projective tree of them.
        constraints (Optional[ndarray]): What they agree with; as for `prepare`.
        extra (Optional[ndarray]): float32, arcs x labels: what another model says of these arcs with these
            labels, in logarithms. It joins what this one says before anything is summed.
        RETURNS (ModelParses): The parses.
        """
        check_arcs(arcs, prepared.starts)
        if extra is not None and extra.shape != (len(arcs.heads), len(self.labels)):
            raise ValueError(Errors.S409.format(arcs=len(arcs.heads), labels=len(self.labels)))
        return self._infer(prepared, arcs, constraints, extra)

    def _infer(
        self,
        prepared: Sentences,
        arcs: Arcs,
        constraints: NDArray[numpy.int32] | None,
        extra: NDArray[numpy.float32] | None,
    ) -> ModelParses:
        margins = numpy.full(len(prepared), MARGIN)
        if constraints is not None:
            # what is unlikely may be all that is left beside fixed heads
            sentence = numpy.repeat(numpy.arange(len(prepared)), numpy.diff(prepared.starts))
            margins[sentence[numpy.asarray(constraints) >= 0]] = numpy.inf
        result = self._reader().parse(
            prepared.columns,
            prepared.starts,
            prepared.tags,
            arcs.starts,
            arcs.heads,
            margins,
            extra,
        )
        failed = numpy.isnan(result["log_probs"]) & numpy.isinf(margins)
        if failed.any():
            raise ValueError(Errors.S403.format(sentence=int(numpy.flatnonzero(failed)[0])))
        arcs = arcs._replace(probs=result.pop("arc_probs"))
        return ModelParses(prepared.starts, arcs, **result)

    def packed(
        self,
        sentence: Sentences,
        others: Callable[..., NDArray[numpy.floating]] | None = None,
        *,
        constraints: NDArray[numpy.int32] | None = None,
        more: NDArray[numpy.bool_] | None = None,
    ) -> RankedTrees:
        """All trees of one sentence, each with the weight that it has in `parse`, to put conditions on.

        sentence (Sentences): The sentence.
        others (Optional[Callable]): Gives what another model says, as `extra` of `infer`, of the arcs that
            are given by starts and heads.
        constraints (Optional[ndarray]): As for `parse`.
        more (Optional[ndarray]): [N+1, N+1], arcs to look at beside those of `parse`.
        RETURNS (RankedTrees): The trees.
        """
        prepared, arcs = self.prepare(sentence, constraints, wider=others is not None)
        margin = MARGIN
        if more is not None:
            arcs = with_arcs(arcs, more)
        if more is not None or (constraints is not None and (constraints >= 0).any()):
            margin = numpy.inf
        extra = None if others is None else others(arcs.starts, arcs.heads).astype("float32")
        for own in (margin, numpy.inf):  # without a tree left, once more with all arcs
            scored = sentence_scores(
                self._reader(), prepared.columns, prepared.tags, arcs.starts, arcs.heads, own, extra
            )
            n = len(prepared.tags)
            found = packed_trees(n, scored, self.label_classes, self.allowed)
            if found.has_tree:
                break
        t = self.temperature
        if not t.share or t.choice == 1 or not found.has_tree:
            return found
        sharp = sharper_scores(scored, self.label_classes, self.allowed, t.choice)
        other = packed_trees(n, sharp, self.label_classes, self.allowed)
        return MixedTrees([(t.share, other), (1 - t.share, found)], n, labelled=True)

    def with_children(self, sentences: Sentences, arcs: Arcs) -> Sentences:
        """RETURNS (Sentences): The sentences with the columns filled that come from the pruner."""
        result = replace(sentences, columns=sentences.columns.copy())
        is_function = self.function_tags[sentences.tags] & sentences.wordlike
        fill_children(
            result.columns,
            sentences.starts,
            arcs.starts,
            arcs.heads,
            arcs.probs,
            is_function.astype("uint8"),
            *map(COLUMNS.index, ("lower", "left", "right")),
        )
        return result

    def to_payload(self) -> dict[str, Any]:
        return model_payload(self)

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "LogLinearModel":
        return cls(**read_model(read))
