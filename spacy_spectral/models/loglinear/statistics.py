"""What is counted in annotated sentences before anything is learnt: everything that would otherwise have to
be said in advance about a language or a tag set."""

import numpy
from numpy.typing import NDArray

from ...trees.sentences import N_BINS, distance_bins
from .encode import Sentences

_MAX_LEAF = 0.15
_CHUNK = 1 << 18


def positions(starts: NDArray[numpy.int32]) -> tuple[NDArray, NDArray]:
    """For each token the start of its sentence and its position in the sentence, from 1."""
    offset = numpy.repeat(starts[:-1], numpy.diff(starts)).astype(numpy.int64)
    return offset, numpy.arange(len(offset)) - offset + 1


def separators(
    data: Sentences, heads: NDArray[numpy.int32], *, n_tags: int, n_bits: int
) -> NDArray:
    """Tags whose standing between two tokens speaks most for or against an arc between them.

    An arc is compared with its mirror image on the other side of the modifier, so that length does not
    count; a tag is worth the information its presence gives about which of the two is the arc.

    RETURNS: uint8, a bit of its own for each chosen tag.
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
    """How often a label follows another among the modifiers on one side of a head.

    RETURNS: Counts, previous label x label; the last row is START, the last column STOP.
    """
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
    """Classes of labels that tell as much as possible about the next class (as Brown clustering does).

    RETURNS: int32, the class of each label.
    """
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
