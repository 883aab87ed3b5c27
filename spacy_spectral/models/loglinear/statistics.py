"""What is counted in annotated sentences before anything is learnt: everything that would otherwise
have to be said in advance about a language or a tag set."""

import numpy as np

from .encode import Sentences

# Upper ends of the bins of distance; what is longer falls into one more bin.
_DISTANCES = (1, 2, 3, 4, 6, 10)
N_DISTANCES = len(_DISTANCES) + 1
_MAX_LEAF = 0.15
_CHUNK = 1 << 18


def positions(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """RETURNS (Tuple[ndarray, ndarray]): For each token the start of its sentence and its
    position in the sentence, from 1."""
    offset = np.repeat(starts[:-1], np.diff(starts)).astype(np.int64)
    return offset, np.arange(len(offset)) - offset + 1


def distance_bins(distance: np.ndarray) -> np.ndarray:
    """RETURNS (ndarray): The bin of each distance, as in the kernels."""
    return np.searchsorted(_DISTANCES, np.abs(distance), side="left").astype(np.int64)


def separators(data: Sentences, heads: np.ndarray, *, n_tags: int, n_bits: int) -> np.ndarray:
    """Tags whose standing between two tokens speaks most for or against an arc between them.

    An arc is compared with its mirror image on the other side of the modifier, so that length
    does not
    count; a tag is worth the information its presence gives about which of the two is the arc.

    data (Sentences), heads (ndarray): The annotated sentences.
    n_tags (int): How many tags there are, the unknown one (0) included.
    n_bits (int): How many tags to choose, at most 8.
    RETURNS (ndarray): uint8, a bit of its own for each chosen tag.
    """
    offset, position = positions(data.starts)
    length = np.repeat(np.diff(data.starts), np.diff(data.starts))
    mirror = 2 * position - heads
    chosen = np.flatnonzero(
        (heads > 0) & (mirror >= 1) & (mirror <= length) & (np.abs(heads - position) > 1)
    )
    bins = distance_bins(heads - position)[chosen]

    def entropy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -x * np.log(x / (x + y)) - y * np.log(y / (x + y))

    with_arc, with_mirror = (
        _with_tag_between(
            (offset + position)[chosen], (offset + end)[chosen], bins, data.tags, n_tags
        )
        for end in (heads, mirror)
    )
    gain = np.zeros(n_tags)
    for which in np.unique(bins):
        n = np.count_nonzero(bins == which)
        x, y = with_arc[which] + 0.5, with_mirror[which] + 0.5
        gain += 2 * n * np.log(2) - entropy(x, y) - entropy(n + 1 - x, n + 1 - y)
    bits = np.zeros(n_tags, dtype=np.uint8)
    for bit, tag in enumerate(np.argsort(-gain[1:], kind="stable")[:n_bits] + 1):
        bits[tag] = 1 << bit
    return bits


def _with_tag_between(
    one: np.ndarray, other: np.ndarray, bins: np.ndarray, tags: np.ndarray, n_tags: int
) -> np.ndarray:
    """In how many pairs of tokens, numbered from 1, each tag stands between the two.

    RETURNS (ndarray): Counts, bin of distance x tag.
    """
    order = np.argsort(tags, kind="stable") + 1
    repeated = np.diff(tags[order - 1]) == 0
    previous = np.zeros(len(tags) + 1, dtype=np.int64)
    previous[order[1:][repeated]] = order[:-1][repeated]
    low, size = np.minimum(one, other), np.abs(one - other) - 1
    ends = np.cumsum(size)
    counts = np.zeros(N_DISTANCES * n_tags, dtype=np.int64)
    # the tokens between are laid out for some pairs at a time, so that memory does not grow with their number
    cuts = np.searchsorted(ends, np.arange(_CHUNK, size.sum(), _CHUNK))
    for pairs in np.split(np.arange(len(size)), cuts):
        n = size[pairs]
        pair = np.repeat(pairs, n)
        token = low[pair] + 1 + np.arange(len(pair)) - np.repeat(np.cumsum(n) - n, n)
        # a tag counts once for a pair: where it is met first
        first = previous[token] <= low[pair]
        key = bins[pair] * n_tags + tags[token - 1]
        counts += np.bincount(key[first], minlength=len(counts))
    return counts.reshape(N_DISTANCES, n_tags)


def function_tags(data: Sentences, heads: np.ndarray, *, n_tags: int) -> np.ndarray:
    """RETURNS (ndarray): uint8, 1 for tags of tokens that hardly ever have modifiers."""
    offset, _ = positions(data.starts)
    has_modifier = np.zeros(len(heads), dtype=bool)
    has_modifier[(offset + heads - 1)[heads > 0]] = True
    n_tokens = np.bincount(data.tags, minlength=n_tags)
    n_heads = np.bincount(data.tags[has_modifier], minlength=n_tags)
    return (n_heads < _MAX_LEAF * n_tokens).astype(np.uint8)


def label_successions(
    starts: np.ndarray, heads: np.ndarray, labels: np.ndarray, n_labels: int
) -> np.ndarray:
    """How often a label follows another among the modifiers on one side of a head.

    RETURNS (ndarray): Counts, previous label x label; the last row is START, the last column STOP.
    """
    counts = np.zeros((n_labels + 1, n_labels + 1))
    offset, position = positions(starts)
    for side in (False, True):
        at = np.flatnonzero((heads > 0) & (labels >= 0) & ((position > heads) == side))
        if not len(at):
            continue
        head = (offset + heads - 1)[at]
        order = np.lexsort((position[at] * (1 if side else -1), head))
        label, head = labels[at[order]], head[order]
        follows = np.concatenate([[False], head[1:] == head[:-1]])
        previous = np.where(follows, np.roll(label, 1), n_labels)
        np.add.at(counts, (previous, label), 1)
        np.add.at(counts, (label[~np.roll(follows, -1)], n_labels), 1)
    return counts


def _mutual_information(counts: np.ndarray) -> float:
    def term(values: np.ndarray) -> float:
        values = values[values > 0]
        return float((values * np.log(values)).sum())

    return term(counts) - term(counts.sum(axis=0)) - term(counts.sum(axis=1))


def label_classes(successions: np.ndarray, n_classes: int) -> np.ndarray:
    """Classes of labels that tell as much as possible about the next class (as Brown clustering
    does).

    successions (ndarray): What `label_successions` counted.
    n_classes (int): How many classes.
    RETURNS (ndarray): int32, the class of each label.
    """
    n_labels = len(successions) - 1
    order = np.argsort(-successions[:n_labels].sum(axis=1), kind="stable")
    classes = [[int(label)] for label in order[:n_classes]]
    for label in order[n_classes:]:
        classes.append([int(label)])
        member = np.zeros((len(classes) + 1, n_labels + 1))
        member[-1, -1] = 1
        for i, members in enumerate(classes):
            member[i, members] = 1
        counts = member @ successions @ member.T
        best, pair = -np.inf, (0, 1)
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
    result = np.zeros(n_labels, dtype=np.int32)
    for i, members in enumerate(classes):
        result[members] = i
    return result
