"""The file of a log-linear model. The kernels do not check bounds: all that they rely on is declared here."""

from dataclasses import asdict
from typing import Any

import numpy

from ...base.fields import Array, Float, Format, Int, Record, Strings
from ...trees.interface import TEMPERATURE, Temperature
from ._forest import MAX_STATES
from ._score import MAX_TEMPLATES, token_outputs
from .pruner._arcs import MAX_TEMPLATES as PRUNER_MAX_TEMPLATES
from .pruner._arcs import N_FLAGS
from .pruner.model import ArcPruner
from .table import pack_table, unpack_table
from .templates import COLUMNS, MAX_PARTS, Templates

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


def model_payload(model: Any) -> dict[str, Any]:
    """RETURNS (Dict[str, Any]): The fields of the file of a `LogLinearModel`."""
    payload = {
        name: getattr(model, name)
        for name in ("tags", "labels", "moves", "label_classes", "allowed", "between_bit",
                     "function_tags")
    }  # fmt: skip
    payload["templates"] = asdict(model.templates)
    payload["table"] = pack_table(model.slots, model.entries)
    payload["temperature"] = model.temperature._asdict()
    payload["pruner"] = _pack_pruner(model.pruner)
    return payload


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


def read_model(read: dict[str, Any]) -> dict[str, Any]:
    """Make the arguments of `LogLinearModel` of a file, or raise a ValueError that says what is wrong.

    read (Dict[str, Any]): The fields; some are replaced.
    RETURNS (Dict[str, Any]): The arguments.
    """
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
