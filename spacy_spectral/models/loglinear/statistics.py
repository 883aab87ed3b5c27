"""What is counted in annotated sentences before anything is learnt: everything that would otherwise have to
be said in advance about a language or a tag set, and the features that are kept.

A feature must occur in several blocks of the text: what occurs in one document only looks reliable in
training and is never seen again. In the table a row is a weight for the arc, then weights for the bins of
distance and the labels that were seen with the feature (`_features.pxd` has the layout of outputs).
"""

import numpy
from numpy.typing import NDArray

from ...base._linear import ENTRY, build_slots, lay_out, number_keys
from ...trees.sentences import N_BINS, distance_bins
from ._features import training_keys
from .encode import Sentences, Templates
from .model import STEPS

_MAX_LEAF = 0.15
_CHUNK = 1 << 18


def positions(starts: NDArray[numpy.int32]) -> tuple[NDArray, NDArray]:
    """For each token the start of its sentence and its position in the sentence, from 1."""
    offset = numpy.repeat(starts[:-1], numpy.diff(starts)).astype(numpy.int64)
    return offset, numpy.arange(len(offset)) - offset + 1


def separators(
    data: Sentences, heads: NDArray[numpy.int32], *, n_tags: int, n_bits: int
) -> NDArray:
    """A bit of its own for each of the tags whose standing between two tokens speaks most for or against
    an arc between them.

    An arc is compared with its mirror image on the other side of the modifier, so that length does not
    count; a tag is worth the information its presence gives about which of the two is the arc.
    """
    offset, position = positions(data.starts)
    length = numpy.repeat(numpy.diff(data.starts), numpy.diff(data.starts))
    mirror = 2 * position - heads
    chosen = numpy.flatnonzero(
        (heads > 0) & (mirror >= 1) & (mirror <= length) & (numpy.abs(heads - position) > 1)
    )
    bins = distance_bins(heads - position)[chosen]

    def entropy(x: NDArray, y: NDArray) -> NDArray:
        return -x * numpy.log(x / (x + y)) - y * numpy.log(y / (x + y))

    with_arc, with_mirror = (
        _with_tag_between(
            (offset + position)[chosen], (offset + end)[chosen], bins, data.tags, n_tags
        )
        for end in (heads, mirror)
    )
    gain = numpy.zeros(n_tags)
    for which in numpy.unique(bins):
        n = numpy.count_nonzero(bins == which)
        x, y = with_arc[which] + 0.5, with_mirror[which] + 0.5
        gain += 2 * n * numpy.log(2) - entropy(x, y) - entropy(n + 1 - x, n + 1 - y)
    bits = numpy.zeros(n_tags, dtype=numpy.uint8)
    for bit, tag in enumerate(numpy.argsort(-gain[1:], kind="stable")[:n_bits] + 1):
        bits[tag] = 1 << bit
    return bits


def _with_tag_between(
    one: NDArray, other: NDArray, bins: NDArray, tags: NDArray[numpy.int32], n_tags: int
) -> NDArray:
    """In how many pairs of tokens, numbered from 1, each tag stands between them: bin of distance x tag."""
    order = numpy.argsort(tags, kind="stable") + 1
    repeated = numpy.diff(tags[order - 1]) == 0
    previous = numpy.zeros(len(tags) + 1, dtype=numpy.int64)
    previous[order[1:][repeated]] = order[:-1][repeated]
    low, size = numpy.minimum(one, other), numpy.abs(one - other) - 1
    ends = numpy.cumsum(size)
    counts = numpy.zeros(N_BINS * n_tags, dtype=numpy.int64)
    # the tokens between are laid out for some pairs at a time, so that memory does not grow with their number
    cuts = numpy.searchsorted(ends, numpy.arange(_CHUNK, size.sum(), _CHUNK))
    for pairs in numpy.split(numpy.arange(len(size)), cuts):
        n = size[pairs]
        pair = numpy.repeat(pairs, n)
        token = low[pair] + 1 + numpy.arange(len(pair)) - numpy.repeat(numpy.cumsum(n) - n, n)
        # a tag counts once for a pair: where it is met first
        first = previous[token] <= low[pair]
        key = bins[pair] * n_tags + tags[token - 1]
        counts += numpy.bincount(key[first], minlength=len(counts))
    return counts.reshape(N_BINS, n_tags)


def function_tags(data: Sentences, heads: NDArray[numpy.int32], *, n_tags: int) -> NDArray:
    """uint8, 1 for tags of tokens that hardly ever have modifiers."""
    offset, _ = positions(data.starts)
    has_modifier = numpy.zeros(len(heads), dtype=bool)
    has_modifier[(offset + heads - 1)[heads > 0]] = True
    n_tokens = numpy.bincount(data.tags, minlength=n_tags)
    n_heads = numpy.bincount(data.tags[has_modifier], minlength=n_tags)
    return (n_heads < _MAX_LEAF * n_tokens).astype(numpy.uint8)


def label_successions(
    starts: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    labels: NDArray[numpy.int32],
    n_labels: int,
) -> NDArray:
    """How often a label (columns, STOP last) follows another (rows, START last) among the modifiers on
    one side of a head."""
    counts = numpy.zeros((n_labels + 1, n_labels + 1))
    offset, position = positions(starts)
    for side in (False, True):
        at = numpy.flatnonzero((heads > 0) & (labels >= 0) & ((position > heads) == side))
        if not len(at):
            continue
        head = (offset + heads - 1)[at]
        order = numpy.lexsort((position[at] * (1 if side else -1), head))
        label, head = labels[at[order]], head[order]
        follows = numpy.concatenate([[False], head[1:] == head[:-1]])
        previous = numpy.where(follows, numpy.roll(label, 1), n_labels)
        numpy.add.at(counts, (previous, label), 1)
        numpy.add.at(counts, (label[~numpy.roll(follows, -1)], n_labels), 1)
    return counts


def _mutual_information(counts: NDArray) -> float:
    def term(values: NDArray) -> float:
        values = values[values > 0]
        return float((values * numpy.log(values)).sum())

    return term(counts) - term(counts.sum(axis=0)) - term(counts.sum(axis=1))


def label_classes(successions: NDArray, n_classes: int) -> NDArray:
    """Classes of labels that tell as much as possible about the next class (as Brown clustering does)."""
    n_labels = len(successions) - 1
    order = numpy.argsort(-successions[:n_labels].sum(axis=1), kind="stable")
    classes = [[int(label)] for label in order[:n_classes]]
    for label in order[n_classes:]:
        classes.append([int(label)])
        member = numpy.zeros((len(classes) + 1, n_labels + 1))
        member[-1, -1] = 1
        for i, members in enumerate(classes):
            member[i, members] = 1
        counts = member @ successions @ member.T
        best, pair = -numpy.inf, (0, 1)
        for i in range(len(classes)):
            for j in range(i + 1, len(classes)):
                merged = counts.copy()
                merged[i] += merged[j]
                merged[:, i] += merged[:, j]
                merged[j] = merged[:, j] = 0
                value = _mutual_information(merged)
                if value > best:
                    best, pair = value, (i, j)
        classes[pair[0]] += classes.pop(pair[1])
    result = numpy.zeros(n_labels, dtype=numpy.int32)
    for i, members in enumerate(classes):
        result[members] = i
    return result


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
    return all_keys, starts, build_slots(all_keys, starts), entries


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
    return build_slots(keys[alive], new_starts.astype(numpy.uint32)), result
