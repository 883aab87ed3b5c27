"""The feature table: which features are kept, and which outputs each has a weight for.

A feature must occur in several blocks of the text: what occurs in one document only looks reliable in
training and is never seen again. A row is a weight for the arc, then weights for the bins of distance and the
labels that were seen with the feature (`_features.pxd` has the layout of outputs).
"""

from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base._linear import ENTRY, build_slots, empty_slots, lay_out, number_keys
from ...trees.sentences import N_BINS, distance_bins
from ._features import training_keys
from ._table import make_buckets, make_cells
from .encode import Sentences, Templates
from .statistics import positions

# Weights are multiples of 1 / STEPS: in parsing they are 16-bit numbers.
STEPS = 1024.0


def build_table(
    data: Sentences,
    heads: NDArray[numpy.int32],
    labels: NDArray[numpy.int32],
    *,
    templates: Templates,
    between_bit: NDArray[numpy.uint8],
    n_labels: int,
    n_blocks: int,
    min_blocks: int,
) -> tuple[NDArray, ...]:
    """Make the table with all weights 0.

    n_blocks, min_blocks: Into how many blocks to cut the text, and in how many of them a feature must occur
        to be kept.
    RETURNS: Keys and first entries of the rows, slots and entries.
    """
    pair_keys, unary_keys, sibling_keys = training_keys(
        data.columns, data.starts, data.tags, heads, templates.composites, templates.pairs,
        templates.unaries, templates.siblings, between_bit,
    )  # fmt: skip
    offset, position = positions(data.starts)
    labels = labels.astype(numpy.int64)
    known, labelled = heads >= 0, (heads >= 0) & (labels >= 0)
    distance = distance_bins(heads - position)
    # outputs of pairs: distance, label
    width = N_BINS + n_labels
    pair_outputs = [numpy.where(known, distance, -1), numpy.where(labelled, N_BINS + labels, -1)]
    # outputs of tokens: (direction as modifier | side as head) x (arc, distance, label)
    block = 1 + width
    side = (position > heads).astype(numpy.int64)
    as_mod = numpy.where(heads == 0, 2, side) * block
    as_head = (3 + side) * block
    inner = heads > 0
    head_at = (offset + heads - 1)[inner]

    def outputs(first: NDArray[numpy.int64]) -> list[NDArray[numpy.int64]]:
        """Of the block that starts there: any arc, its distance, its label; -1 for what is not known."""
        seen = (
            (known, first),
            (known, first + 1 + distance),
            (labelled, first + 1 + N_BINS + labels),
        )
        return [numpy.where(where, output, -1) for where, output in seen]

    mod_outputs, head_outputs = outputs(as_mod), outputs(as_head)
    blocks = _blocks(len(heads), n_blocks)
    rows = []
    for column in pair_keys.T:
        numbers, keys = number_keys(numpy.ascontiguousarray(column), blocks, min_blocks)
        rows.append((keys, *_outputs(len(keys), width, [(numbers, pair_outputs)])))
    for column in unary_keys.T:
        numbers, keys = number_keys(numpy.ascontiguousarray(column), blocks, min_blocks)
        seen = [(numbers, mod_outputs), (numbers[head_at], [out[inner] for out in head_outputs])]
        rows.append((keys, *_outputs(len(keys), 5 * block, seen)))
    blocks = _blocks(len(sibling_keys), n_blocks)
    for column in sibling_keys.T:
        _, keys = number_keys(numpy.ascontiguousarray(column), blocks, min_blocks)
        rows.append((keys, *_outputs(len(keys), 1, [])))
    all_keys, sizes, all_outputs = (numpy.concatenate(part) for part in zip(*rows, strict=True))
    starts, entries, _ = lay_out(sizes, all_outputs)
    return all_keys, starts, _slots_of(all_keys, starts), entries


def _blocks(n: int, n_blocks: int) -> NDArray:
    return (numpy.arange(n, dtype=numpy.int64) * n_blocks // max(n, 1)).astype(numpy.int32)


def _outputs(
    n_keys: int, width: int, seen: list[tuple[NDArray, list[NDArray]]]
) -> tuple[NDArray, NDArray]:
    """How many outputs were seen with each key, and which."""
    codes = [numpy.zeros(0, dtype=numpy.int64)]
    for numbers, outputs in seen:
        codes += [
            (numbers * numpy.int64(width) + output)[(numbers >= 0) & (output >= 0)]
            for output in outputs
        ]
    distinct = numpy.unique(numpy.concatenate(codes))
    return numpy.bincount(distinct // width, minlength=n_keys), distinct % width


def _slots_of(keys: NDArray[numpy.uint64], starts: NDArray) -> NDArray:
    return build_slots(numpy.ascontiguousarray(keys), starts.astype(numpy.uint32))


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


def drop_small_weights(
    keys: NDArray[numpy.uint64],
    starts: NDArray[numpy.int64],
    entries: NDArray,
    weights: NDArray[numpy.float32],
    *,
    smallest: float,
) -> tuple[NDArray, NDArray]:
    """The table without what hardly counts: it takes less memory and is read faster.

    weights: float32, a weight for every entry.
    smallest: Weights nearer to 0 than this are dropped, and rows that have no others.
    """
    is_start = numpy.zeros(len(entries), dtype=bool)
    is_start[starts] = True
    row = numpy.cumsum(is_start) - 1
    large = numpy.abs(weights) >= smallest
    large[0] = False
    alive = numpy.bincount(row[1:], weights=large[1:], minlength=len(keys)) > 0
    keep = large | is_start
    keep[1:] &= alive[row[1:]]
    keep[0] = True
    result = numpy.empty(int(keep.sum()), dtype=ENTRY)
    result["output"] = entries["output"][keep]
    # as precise as they are stored
    steps = numpy.round(numpy.where(large, weights, 0)[keep] * numpy.float32(STEPS))
    result["weight"] = (steps / numpy.float32(STEPS)).astype(numpy.float16)
    new_starts = numpy.flatnonzero(is_start[keep])
    result["output"][new_starts] = numpy.diff(numpy.append(new_starts, len(result))) - 1
    return _slots_of(keys[alive], new_starts), result
