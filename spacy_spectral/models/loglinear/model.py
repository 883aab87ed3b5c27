"""The log-linear model: which arcs it looks at, its parameters, its file, and what can be asked of it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base._linear import empty_slots, lay_out
from ...base.errors import Errors, SpectralError
from ...base.files import Array, Float, Format, Int, Record, Stored, Strings
from ...trees._eisner import best_tree
from ...trees.conditions import MixedTrees
from ...trees.interface import NEUTRAL, TEMPERATURE, ArcMask, RankedTrees, Temperature
from ...trees.posterior import allowed_arcs
from ...trees.sentences import N_BINS, Ints
from ._features import MAX_TEMPLATES, fill_children, token_outputs
from ._infer import MAX_STATES, Engine, Forests
from ._pruner import MAX_TEMPLATES as PRUNER_MAX_TEMPLATES
from ._pruner import N_FLAGS, prune
from ._table import make_buckets, make_cells
from .encode import COLUMNS, MAX_PARTS, Encoder, Sentences, Templates
from .packed import packed_trees, sharper_scores

# Longer arcs are looked at only if they are of one of the likeliest roots.
REACH = 32
N_FAR = 16
# Of a wider pruner: by how much the threshold is lower, and how many more heads there may be.
_LOWER, _MORE = 0.2, 1.6
# Longer sentences with fixed heads do not get all arcs: neighbouring modifiers are cubically many.
_MAX_ALL_ARCS = 100
# Weights are multiples of 1 / STEPS: in parsing they are 16-bit numbers.
STEPS = 1024.0
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


class Arcs(NamedTuple):
    """Kept arcs.

    starts: int32, where the heads of each token start, closed by their number.
    heads: int32, positions in the sentence, ascending for each token; 0 is the root.
    probs: float32, how likely the pruner thinks them.
    """

    starts: Ints
    heads: Ints
    probs: NDArray[numpy.float32]


@dataclass
class ArcPruner:
    """A first-order model of arcs with few features.

    weights: float32, a power of two of them; the first is not used.
    threshold: Keep heads with at least this probability relative to the token's best.
    most: Keep at most so many heads of a token.
    """

    templates: Templates
    weights: NDArray[numpy.float32]
    between_bit: NDArray[numpy.uint8]
    threshold: float
    most: int

    def __call__(self, data: Sentences, keep: Ints | None = None) -> Arcs:
        """Prune.

        keep: int32, a head for each token that must be kept, -1 for none.
        RETURNS: The kept arcs, among them those from the token to the left, so that there is
            always a tree.
        """
        if keep is None:
            keep = numpy.full(len(data.tags), -1, dtype=numpy.int32)
        return Arcs(*prune(
            data.columns, data.starts, data.tags, self.templates.composites, self.templates.pairs,
            self.between_bit, self.weights, self.threshold, self.most, REACH, N_FAR, keep,
        ))  # fmt: skip

    def wider(self) -> "ArcPruner":
        """The same pruner, more careful: where another model has its say, an arc that this one finds unlikely
        can still be the best. In products with a network, on parts of the training data that neither had
        seen, UAS and LAS were 89.89 and 87.25 on UD_English-EWT, 90.09 and 87.43 with it (70.66 and
        60.47, 70.64 and 60.43 on UD_Turkish-IMST, which is much smaller).
        """
        return replace(self, threshold=_LOWER * self.threshold, most=int(_MORE * self.most))


def check_arcs(arcs: Arcs, starts: Ints) -> None:
    """Raise a ValueError unless every token has heads, ascending, in its sentence, none itself."""
    counts = numpy.diff(arcs.starts)
    lengths = numpy.diff(starts)
    sizes = {len(arcs.heads), len(arcs.probs), int(counts.sum())}
    if len(counts) != lengths.sum() or len(sizes) > 1 or (counts < 1).any() or arcs.starts[0]:
        raise SpectralError(Errors.S407)
    mods = numpy.repeat(numpy.arange(len(counts)), counts)
    position = numpy.arange(len(counts)) - numpy.repeat(starts[:-1], lengths) + 1
    inside = (arcs.heads >= 0) & (arcs.heads <= numpy.repeat(lengths, lengths)[mods])
    ascending = (numpy.diff(arcs.heads) > 0) | (numpy.diff(mods) > 0)
    if not inside.all() or not ascending.all() or (arcs.heads == position[mods]).any():
        raise SpectralError(Errors.S407)


def constrain(arcs: Arcs, starts: Ints, constraints: Ints) -> Arcs:
    """Arcs that agree with fixed heads, with a probability of 0.

    A sentence with a fixed head keeps all arcs of its other tokens: given that head, other arcs are
    likely. A long one, for which there is neither time nor memory, keeps the pruner's arcs and those of a
    tree.

    constraints: The fixed head of each token, -1 where it is free.
    """
    heads, counts = [], []
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        fixed = constraints[first:last]
        kept = _mask(arcs, first, last)
        if (fixed >= 0).any():
            kept = _agreeing(kept, fixed)
        heads.append(numpy.nonzero(kept.T[1:])[1])
        counts.append(kept[:, 1:].sum(axis=0))
    return _unlikely(heads, counts)


def with_arcs(arcs: Arcs, more: ArcMask) -> Arcs:
    """The arcs of one sentence and others, with a probability of 0."""
    keep = more | _mask(arcs, 0, len(arcs.starts) - 1)
    numpy.fill_diagonal(keep, False)
    return _unlikely([numpy.nonzero(keep.T[1:])[1]], [keep[:, 1:].sum(axis=0)])


def _mask(arcs: Arcs, first: int, last: int) -> ArcMask:
    """The arcs of the sentence of some tokens."""
    n, starts = last - first, arcs.starts[first : last + 1]
    keep = numpy.zeros((n + 1, n + 1), dtype=bool)
    modifiers = numpy.repeat(numpy.arange(1, n + 1), numpy.diff(starts))
    keep[arcs.heads[starts[0] : starts[-1]], modifiers] = True
    return keep


def _unlikely(heads: Iterable[NDArray], counts: Iterable[NDArray]) -> Arcs:
    """Arcs, from the heads of sentences and how many each of their tokens has."""
    kept = numpy.concatenate([numpy.zeros(0), *heads]).astype("int32")
    starts = numpy.cumsum(numpy.concatenate([[0], *counts])).astype("int32")
    return Arcs(starts, kept, numpy.zeros(len(kept), dtype="float32"))


def _agreeing(kept: ArcMask, fixed: Ints) -> ArcMask:
    """Which arcs of a sentence to keep beside its fixed heads."""
    n = len(fixed)
    tokens = numpy.arange(1, n + 1)
    wrong = numpy.flatnonzero((fixed > n) | (fixed == tokens))
    if len(wrong):
        raise SpectralError(Errors.S405.format(head=fixed[wrong[0]], token=wrong[0] + 1, n=n))
    allowed = allowed_arcs(fixed)
    keep = kept | (n <= _MAX_ALL_ARCS)
    if n > _MAX_ALL_ARCS:
        tree, _ = best_tree(numpy.where(allowed, numpy.where(keep, 0.0, -1.0), -numpy.inf))
        keep[tree, tokens] = True
        keep[fixed[fixed >= 0], tokens[fixed >= 0]] = True
    keep &= allowed
    numpy.fill_diagonal(keep, False)
    return keep


class ReadTable(NamedTuple):
    """The table as it is read in parsing, see `_table.pxd`.

    buckets: uint32[buckets + 1, 16].
    bits: uint32, which checks there may be.
    step: What weights are multiples of.
    """

    buckets: NDArray[numpy.uint32]
    bits: NDArray[numpy.uint32]
    cells: NDArray[Any]
    step: float


@dataclass
class ModelParses:
    """What a model says of some sentences, one token after the other.

    starts: int32, where sentences start.
    heads: int32, positions in the sentence, 0 for the root.
    labels: int32, indices into the model's labels.
    label_probs: float32, tokens x labels, the probability of every label given the head.
    failed: bool for each sentence, where the chart failed and tokens were parsed one by one.
    forests: All trees of the sentences, packed: `forests.k_best(sentence, k)`.
    """

    starts: NDArray[numpy.int32]
    arcs: Arcs
    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    label_probs: NDArray[numpy.float32]
    failed: NDArray[numpy.bool_]
    forests: Forests

    @cached_property
    def log_probs(self) -> NDArray[numpy.float64]:
        """log p(labelled tree | sentence) for each sentence; nan where the chart failed."""
        return self.forests.log_probs(self.starts, self.heads, self.labels)

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
    slots, entries: The feature table, see `statistics.build_table`.
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
        return Engine(self, len(COLUMNS), None if to_learn else self._read_table())

    def _read_table(self) -> ReadTable:
        """The table as parsing reads it, made when it is needed first."""
        if self._table is None:
            self._table = read_table(self.slots, self.entries, n_labels=len(self.labels))
        return self._table

    def with_temperature(self, temperature: Temperature) -> "LogLinearModel":
        """The same model with the same tables, more or less confident."""
        return replace(self, temperature=temperature, _engine=None, _table=self._read_table())

    def with_pruner(
        self, *, threshold: float | None = None, most: int | None = None
    ) -> "LogLinearModel":
        """The same model with the same tables, looking at more or fewer arcs."""
        pruner = replace(
            self.pruner,
            threshold=self.pruner.threshold if threshold is None else threshold,
            most=self.pruner.most if most is None else most,
        )
        return replace(self, pruner=pruner)

    def _reader(self) -> Engine:
        """The engine that parses, made when it is needed first."""
        if self._engine is None:
            self._engine = self.engine(to_learn=False)
        return self._engine

    def parse(self, sentences: Sentences, *, constraints: Ints | None = None) -> ModelParses:
        """Parse sentences: the tree with the most expected correct heads, and all probabilities.

        constraints: int32, a head for each token that must have it, -1 for the others.
            Probabilities are then conditional on them.
        """
        prepared, arcs = self.prepare(sentences, constraints)
        return self._infer(prepared, arcs, constraints)

    def prepare(
        self,
        sentences: Sentences,
        constraints: Ints | None = None,
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
        constraints: Ints | None = None,
        extra: NDArray[numpy.float32] | None = None,
        margin: float = MARGIN,
    ) -> ModelParses:
        """The second half of `parse`.

        prepared: From `prepare`.
        arcs: The arcs to look at. Each sentence must have a projective tree of them.
        extra: float32, arcs x labels: what another model says of these arcs with these labels,
            in logarithms. It joins what this one says before anything is summed.
        margin: See `MARGIN`.
        """
        check_arcs(arcs, prepared.starts)
        if extra is not None and extra.shape != (len(arcs.heads), len(self.labels)):
            raise SpectralError(Errors.S409.format(arcs=len(arcs.heads), labels=len(self.labels)))
        return self._infer(prepared, arcs, constraints, extra, margin)

    def _infer(
        self,
        prepared: Sentences,
        arcs: Arcs,
        constraints: Ints | None,
        extra: NDArray[numpy.float32] | None = None,
        margin: float = MARGIN,
    ) -> ModelParses:
        margins = numpy.full(len(prepared), margin)
        has_fixed = numpy.zeros(len(prepared), dtype=bool)
        if constraints is not None:
            sentence = numpy.repeat(numpy.arange(len(prepared)), numpy.diff(prepared.starts))
            has_fixed[sentence[numpy.asarray(constraints) >= 0]] = True
            # what is unlikely may be all that is left beside fixed heads
            margins[has_fixed] = numpy.inf
        result = self._reader().parse(
            prepared.columns,
            prepared.starts,
            prepared.tags,
            arcs.starts,
            arcs.heads,
            margins,
            extra,
        )
        failed = result["failed"] & has_fixed
        if failed.any():
            raise SpectralError(Errors.S403.format(sentence=int(numpy.flatnonzero(failed)[0])))
        arcs = arcs._replace(probs=result.pop("arc_probs"))
        return ModelParses(prepared.starts, arcs, **result)

    def trees(self, forests: Forests, sentence: int) -> RankedTrees:
        """All trees of a parsed sentence, each with the weight that it has there, to put conditions on."""
        scored = forests.scores(sentence)
        n = len(scored["empty"]) // 2 - 1
        found = packed_trees(n, scored, self.label_classes, self.allowed)
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
    weights[:] = 0  # not `zeros`: see `base._linear.empty_slots`
    weights[read["used"]] = read["weights"]
    templates = _read_templates(read["templates"], "pruner.templates", n_flags=N_FLAGS)
    FORMAT.require(len(templates.pairs) > 0, "pruner.templates.pairs", "has no templates")
    return ArcPruner(templates, weights, between_bit, read["threshold"], read["most"])


def _is_power_of_two(n: int) -> bool:
    return n > 1 and n & (n - 1) == 0


def pack_table(slots: NDArray, entries: NDArray) -> dict[str, Any]:
    """The table without its empty slots, in as few bytes as it takes."""
    used = numpy.flatnonzero(slots["start"])
    used = used[numpy.argsort(slots["start"][used])]
    starts = slots["start"][used]
    is_output = numpy.ones(len(entries), dtype=bool)
    is_output[0] = False
    is_output[starts] = False
    outputs, sizes = entries["output"][is_output], entries["output"][starts]
    weights = numpy.ascontiguousarray(entries["weight"])
    half = weights.astype(numpy.float16)
    return {
        "n_slots": len(slots),
        "used": used.astype(numpy.uint32),
        "checks": slots["check"][used],
        "sizes": _narrow(sizes),
        "outputs": _narrow(outputs),
        "weights": half if (half == weights).all() else weights,
    }


def unpack_table(packed: dict[str, Any]) -> tuple[NDArray, NDArray]:
    """RETURNS (Tuple[ndarray, ndarray]): Slots and entries; the caller has checked what is packed."""
    starts, entries, _ = lay_out(packed["sizes"], packed["outputs"])
    entries["weight"] = packed["weights"]
    slots = empty_slots(packed["n_slots"])
    slots["check"][packed["used"]] = packed["checks"]
    slots["start"][packed["used"]] = starts
    return slots, entries


def read_table(slots: NDArray, entries: NDArray, *, n_labels: int) -> ReadTable:
    """The learnt table as parsing reads it."""
    in_use = numpy.flatnonzero(slots["start"])
    used = in_use[numpy.argsort(slots["start"][in_use])].astype(numpy.uint32)
    scale, largest = STEPS, float(numpy.abs(entries["weight"]).max())
    while largest * scale > 32767:
        scale /= 2
    cells, places = make_cells(slots, entries, used, 1 + N_BINS + n_labels, scale)
    buckets, bits = make_buckets(slots, used, places)
    return ReadTable(buckets, bits, cells, 1 / scale)


def _narrow(values: NDArray) -> NDArray:
    return values.astype(numpy.uint16 if values.max(initial=0) < 1 << 16 else numpy.uint32)
