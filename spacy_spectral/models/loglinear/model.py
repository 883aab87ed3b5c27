"""The log-linear model: its parameters, its file, and what can be asked of them."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from ...base.files import Array, Float, Format, Int, Record, Stored, Strings
from ...trees.conditions import MixedTrees
from ...trees.interface import NEUTRAL, TEMPERATURE, RankedTrees, Temperature
from ._features import MAX_TEMPLATES, fill_children, token_outputs
from ._forest import MAX_STATES, Forests
from ._infer import Engine, sentence_scores
from ._pruner import MAX_TEMPLATES as PRUNER_MAX_TEMPLATES
from ._pruner import N_FLAGS
from .encode import COLUMNS, MAX_PARTS, Encoder, Sentences, Templates
from .packed import packed_trees, sharper_scores
from .pruner import ArcPruner, Arcs, check_arcs, constrain, with_arcs
from .table import ReadTable, pack_table, read_table, unpack_table

# Arcs this much worse than a token's best (in log odds) get probability 0 before siblings are seen.
MARGIN = 10.0

# The file. The kernels do not check bounds: all that they rely on is declared here.
# Farther from 0 than any weight that training gives; sums of so large numbers are finite.
_LARGEST = 1e6
_WEIGHTS: dict[str, Any] = {"low": -_LARGEST, "high": _LARGEST}
MAX_LABELS = 1 << 12
MAX_HEADS = 999
_MAX_OFFSET = 8


def _templates(most: int) -> Record:
    return Record(
        composites=Array("int32", "composites", MAX_PARTS, 2, least=1, most=1024),
        pairs=Array("int32", "pairs", 3, low=0, most=most),
        unaries=Array("int32", "unaries", low=0, below="composites", most=most),
        siblings=Array("int32", "siblings", 3, low=0, below="composites", most=most),
    )


FORMAT = Format(
    "loglinear",
    2,
    tags=Strings("tags", unique=True),
    labels=Strings("labels", unique=True, least=1, most=MAX_LABELS),
    moves=Array("float32", "tags+1", 2, "states+1", "states+1", **_WEIGHTS),
    label_classes=Array("int32", "labels", low=0, below="states"),
    allowed=Array("uint8", 2, "labels", high=1),
    between_bit=Array("uint8", "tags+1"),
    function_tags=Array("uint8", "tags+1", high=1),
    templates=_templates(MAX_TEMPLATES),
    table=Record(
        n_slots=Int(low=1, high=1 << 31),
        used=Array("uint32", "rows", below="n_slots", unique=True),
        checks=Array("uint32", "rows"),
        sizes=Array(("uint16", "uint32"), "rows", sizes="outputs"),
        outputs=Array(("uint16", "uint32"), "outputs", order="strict", rows="sizes"),
        weights=Array(("float16", "float32"), "rows+outputs+1", **_WEIGHTS),
    ),
    pruner=Record(
        templates=_templates(PRUNER_MAX_TEMPLATES),
        size=Int(low=2, high=1 << 24),
        used=Array("uint32", "used", low=1, below="size", order="strict"),
        weights=Array("float32", "used", **_WEIGHTS),
        threshold=Float(low=0.0, high=1.0),
        most=Int(low=1, high=MAX_HEADS),
    ),
    temperature=TEMPERATURE,
)


@dataclass
class ModelParses:
    """What a model says of some sentences, one token after the other.

    starts: int32, where sentences start.
    heads: int32, positions in the sentence, 0 for the root.
    labels: int32, indices into the model's labels.
    label_probs: float32, tokens x labels, the probability of every label given the head.
    log_probs: float64 for each sentence, log p(labelled tree | sentence); nan where a chart
        failed and tokens were parsed one by one.
    forests: All trees of the sentences, packed: `forests.k_best(sentence, k)`.
    """

    starts: NDArray[numpy.int32]
    arcs: Arcs
    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    label_probs: NDArray[numpy.float32]
    log_probs: NDArray[numpy.float64]
    forests: Forests

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        """[N+1, N+1], probability of each arc, head x modifier, 0 where it was not kept."""
        first, last = int(self.starts[sentence]), int(self.starts[sentence + 1])
        starts, heads, probs = self.arcs
        n = last - first
        here = slice(int(starts[first]), int(starts[last]))
        mods = numpy.repeat(numpy.arange(1, n + 1), numpy.diff(starts[first : last + 1]))
        result = numpy.zeros((n + 1, n + 1))
        result[heads[here], mods] = probs[here]
        return result

    def probs(self) -> tuple[NDArray[numpy.float32], NDArray[numpy.float32]]:
        """For each token, the probability of its head and that of its label given the head."""
        tokens = numpy.arange(len(self.heads))
        mods = numpy.repeat(tokens, numpy.diff(self.arcs.starts))
        chosen = self.arcs.heads == self.heads[mods]
        return self.arcs.probs[chosen], self.label_probs[tokens, self.labels]


@dataclass
class LogLinearModel(Stored):
    """A trained parser.

    tags, labels: The inventories; tag numbers start from 1, 0 is unknown.
    slots, entries: The feature table, see `table`.
    moves: float32, tags x 2 sides x (C+1) x (C+1), log weights of going from the class of a
        modifier to the class of the next (START is the last row, STOP the last column).
    label_classes: int32, the class of each label.
    allowed: uint8, 2 x labels: labels of arcs between tokens, of arcs from the root.
    between_bit, function_tags: uint8 for each tag, see `statistics`.
    temperature: By what its scores are divided; not those of another model that join them.
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
        """Encodes sentences for this model."""
        return Encoder(self.tags)

    def engine(self, *, to_learn: bool = True) -> Engine:
        """The model behind pointers.

        to_learn: Whether a `Learner` will change its `entries` and `moves`, which is not for
            models of another temperature than 1; otherwise the table is read faster.
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
        """The table as parsing reads it, made when it is needed first."""
        if self._table is None:
            self._table = read_table(self.slots, self.entries, n_labels=len(self.labels))
        return self._table

    def with_temperature(self, temperature: Temperature) -> "LogLinearModel":
        """The same model with the same tables, more or less confident."""
        return replace(self, temperature=temperature, _engine=None, _table=self._read_table())

    def _reader(self) -> Engine:
        """The engine that parses, made when it is needed first."""
        if self._engine is None:
            self._engine = self.engine(to_learn=False)
        return self._engine

    def parse(
        self, sentences: Sentences, *, constraints: NDArray[numpy.int32] | None = None
    ) -> ModelParses:
        """Parse sentences: the tree with the most expected correct heads, and all probabilities.

        constraints: int32, a head for each token that must have it, -1 for the others.
            Probabilities are then conditional on them.
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

        wider: Keep more arcs, because another model's scores will be added; see `ArcPruner.wider`.
        """
        if sentences.tags.max(initial=0) > len(self.tags):
            raise SpectralError(Errors.S406)
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

        prepared: From `prepare`.
        arcs: The arcs to look at. Each sentence must have a projective tree of them.
        extra: float32, arcs x labels: what another model says of these arcs with these labels,
            in logarithms. It joins what this one says before anything is summed.
        """
        check_arcs(arcs, prepared.starts)
        if extra is not None and extra.shape != (len(arcs.heads), len(self.labels)):
            raise SpectralError(Errors.S409.format(arcs=len(arcs.heads), labels=len(self.labels)))
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
            raise SpectralError(Errors.S403.format(sentence=int(numpy.flatnonzero(failed)[0])))
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

        others: Gives what another model says, as `extra` of `infer`, of the arcs that are given
            by starts and heads.
        more: [N+1, N+1], arcs to look at beside those of `parse`.
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
        """The sentences with the columns filled that come from the pruner."""
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
        payload = {
            name: getattr(self, name)
            for name in ("tags", "labels", "moves", "label_classes", "allowed", "between_bit",
                         "function_tags")
        }  # fmt: skip
        payload["templates"] = asdict(self.templates)
        payload["table"] = pack_table(self.slots, self.entries)
        payload["temperature"] = self.temperature._asdict()
        payload["pruner"] = _pack_pruner(self.pruner)
        return payload

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "LogLinearModel":
        return cls(**_read_model(read))


def _pack_pruner(model: ArcPruner) -> dict[str, Any]:
    used = numpy.flatnonzero(model.weights).astype("uint32")
    return {
        "templates": asdict(model.templates),
        "size": len(model.weights),
        "used": used,
        "weights": model.weights[used],
        "threshold": float(model.threshold),
        "most": int(model.most),
    }


def _read_model(read: dict[str, Any]) -> dict[str, Any]:
    """Make the arguments of `LogLinearModel` of a file, or raise a ValueError that says what is wrong."""
    read["moves"] = read["moves"].copy()  # the engine can learn, too
    FORMAT.require(read["allowed"].any(axis=1).all(), "allowed", "leaves no label")
    n_states = read["moves"].shape[-1] - 1
    FORMAT.require(1 <= n_states <= MAX_STATES, "moves", f"has {n_states} states")
    read["templates"] = _read_templates(read["templates"], "templates", n_flags=2)
    read["slots"], read["entries"] = _read_table(read.pop("table"), len(read["labels"]))
    read["pruner"] = _read_pruner(read["pruner"], read["between_bit"])
    read["temperature"] = Temperature.read(read["temperature"])
    return read


def _read_templates(read: dict[str, Any], name: str, *, n_flags: int) -> Templates:
    n = len(read["composites"])
    offsets, columns = read["composites"][..., 0], read["composites"][..., 1]
    sound = (columns >= -1).all() and (columns < len(COLUMNS)).all()
    FORMAT.require(sound, f"{name}.composites", "has unknown columns")
    sound = (abs(offsets.astype("int64")) <= _MAX_OFFSET).all()
    FORMAT.require(sound, f"{name}.composites", "looks too far")
    FORMAT.require((read["pairs"][:, :2] < n).all(), f"{name}.pairs", "has unknown composites")
    FORMAT.require((read["pairs"][:, 2] < n_flags).all(), f"{name}.pairs", "has unknown flags")
    return Templates(**read)


def _read_table(read: dict[str, Any], n_labels: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    n_slots, n_rows, outputs = read["n_slots"], len(read["used"]), read["outputs"]
    # more than the rows, so that a search ends; not many more, so that the file is as large as the table
    sound = n_rows < n_slots <= 8 * n_rows + 16 and _is_power_of_two(n_slots)
    FORMAT.require(sound, "table.n_slots", f"is {n_slots} for {n_rows} rows")
    # the widest rows are those of tokens; outputs of pairs are bounded by the kernel
    width = token_outputs(n_labels)
    FORMAT.require(outputs.max(initial=0) < width, "table.outputs", "has unknown outputs")
    FORMAT.require(read["weights"][0] == 0, "table.weights", "does not start from 0")
    return unpack_table(read)


def _read_pruner(read: dict[str, Any], between_bit: numpy.ndarray) -> ArcPruner:
    FORMAT.require(_is_power_of_two(read["size"]), "pruner.size", "is no power of two")
    weights = numpy.empty(read["size"], dtype="float32")
    weights[:] = 0  # not `zeros`: see `table`
    weights[read["used"]] = read["weights"]
    templates = _read_templates(read["templates"], "pruner.templates", n_flags=N_FLAGS)
    FORMAT.require(len(templates.pairs) > 0, "pruner.templates.pairs", "has no templates")
    return ArcPruner(templates, weights, between_bit, read["threshold"], read["most"])


def _is_power_of_two(n: int) -> bool:
    return n > 1 and n & (n - 1) == 0
