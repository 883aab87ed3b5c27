"""From annotated sentences to a log-linear model."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ._engine import Engine
from ._features import build_slots
from ._pruner import fill_children, prune, train_pruner
from ._score import training_keys
from .encode import Sentences
from .templates import COLUMNS, PRUNER, compile_templates

N_DISTANCES = 7
SLOT = np.dtype([("check", "<u4"), ("start", "<u4")])
ENTRY = np.dtype([("weight", "<f4"), ("output", "<u4")])


@dataclass
class Settings:
    epochs: int = 4
    rate: float = 0.05
    initial_squares: float = 1.0
    decay: float = 1e-5
    batch_size: int = 4
    min_count: int = 2
    n_states: int = 12
    threshold: float = 1e-3
    most: int = 12
    n_between: int = 6
    seed: int = 0
    pairs: str | None = None
    unaries: str | None = None
    siblings: str | None = None
    pruner_epochs: int = 2
    pruner_rate: float = 0.1


def distance_bins(starts, heads):
    n = int(starts[-1])
    position = np.arange(n) - np.repeat(starts[:-1], np.diff(starts)) + 1
    distance = np.abs(position - heads)
    return np.searchsorted([1, 2, 3, 4, 6, 10], distance, side="left").astype(np.int64)


def directions(starts, heads):
    n = int(starts[-1])
    position = np.arange(n) - np.repeat(starts[:-1], np.diff(starts)) + 1
    return np.where(heads == 0, 2, (position > heads).astype(np.int64))


def _rows(keys, codes, min_count, width):
    """Keep keys seen often enough, with the outputs seen with them.

    keys (uint64[n]), codes (List[int64[n]]): Keys and the outputs (-1: none) of each occurrence.
    RETURNS: kept keys, outputs per key, outputs
    """
    uniq, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    kept = (counts >= min_count) & (uniq != 0)
    new = np.cumsum(kept) - 1
    inside = kept[inverse]
    ids = new[inverse]
    pairs = [(ids * width + code)[inside & (code >= 0)] for code in codes]
    n_kept = int(kept.sum())
    if pairs:
        flat = np.unique(np.concatenate(pairs))
        sizes = np.bincount(flat // width, minlength=n_kept)
        outputs = flat % width
    else:
        sizes = np.zeros(n_kept, dtype=np.int64)
        outputs = np.zeros(0, dtype=np.int64)
    return uniq[kept], sizes, outputs


def build_table(data: Sentences, heads, labels, templates, between_bit, n_labels, min_count):
    pair_keys, unary_keys, sibling_keys = training_keys(
        data.columns, data.starts, data.tags, heads, templates.composites, templates.pairs,
        templates.unaries, templates.siblings, between_bit,
    )  # fmt: skip
    known = heads >= 0
    distance = np.where(known, distance_bins(data.starts, heads), -1)
    label = labels.astype(np.int64)
    direction = directions(data.starts, heads)
    parts = []
    label_out = np.where(label >= 0, label + N_DISTANCES, -1)
    for t in range(pair_keys.shape[1]):
        keys = np.ascontiguousarray(pair_keys[:, t])
        parts.append(_rows(keys, [distance, label_out], min_count, N_DISTANCES + n_labels))
    block = 1 + N_DISTANCES + n_labels
    offset = np.repeat(data.starts[:-1], np.diff(data.starts))
    has_head = heads > 0
    head_at = (offset + heads - 1)[has_head]
    nothing = np.full(int(has_head.sum()), -1, dtype=np.int64)
    mod_base = np.where(known, direction * block, -1)
    mod_dist = np.where(known, mod_base + 1 + distance, -1)
    mod_label = np.where(known & (label >= 0), mod_base + 1 + N_DISTANCES + label, -1)
    head_base = ((3 + direction) * block)[has_head]
    head_dist = head_base + 1 + distance[has_head]
    head_label = np.where(
        label[has_head] >= 0, head_base + 1 + N_DISTANCES + label[has_head], nothing
    )
    for t in range(unary_keys.shape[1]):
        keys = unary_keys[:, t]
        both = np.concatenate([keys, keys[head_at]])
        codes = [
            np.concatenate([mod_base, head_base]),
            np.concatenate([mod_dist, head_dist]),
            np.concatenate([mod_label, head_label]),
        ]
        parts.append(_rows(both, codes, min_count, 5 * block))
    for t in range(sibling_keys.shape[1]):
        parts.append(_rows(np.ascontiguousarray(sibling_keys[:, t]), [], min_count, 1))
    keys = np.concatenate([part[0] for part in parts])
    sizes = np.concatenate([part[1] for part in parts])
    outputs = np.concatenate([part[2] for part in parts])
    row_starts = 1 + np.concatenate([[0], np.cumsum(sizes + 1)])
    entries = np.zeros(int(row_starts[-1]), dtype=ENTRY)
    row_starts = row_starts[:-1]
    entries["output"][row_starts] = sizes
    body = np.ones(len(entries), dtype=bool)
    body[0] = False
    body[row_starts] = False
    entries["output"][body] = outputs
    n_slots = 1 << int(np.ceil(np.log2(max(2 * len(keys), 16))))
    slots = np.zeros(n_slots, dtype=SLOT)
    build_slots(keys, row_starts.astype(np.uint32), slots)
    return slots, entries


def sibling_counts(starts, heads, labels, n_labels):
    """How often a label follows another among the modifiers on one side of a head."""
    counts = np.zeros((n_labels + 1, n_labels + 1))
    n = int(starts[-1])
    offset = np.repeat(starts[:-1], np.diff(starts))
    position = np.arange(n) - offset + 1
    for side in (0, 1):
        mine = (heads > 0) & (labels >= 0) & ((position > heads) == bool(side))
        at = np.flatnonzero(mine)
        head = (offset + heads - 1)[at]
        order = np.lexsort((position[at] * (1 if side else -1), head))
        at, head = at[order], head[order]
        same = np.concatenate([[False], head[1:] == head[:-1]])
        previous = np.where(same, np.concatenate([[0], labels[at][:-1]]), n_labels)
        np.add.at(counts, (previous, labels[at]), 1)
        last = np.concatenate([~same[1:], [True]])
        np.add.at(counts, (labels[at][last], np.full(int(last.sum()), n_labels)), 1)
    return counts


def _information(counts):
    total = counts.sum()
    joint = counts[counts > 0]
    rows, columns = counts.sum(1), counts.sum(0)
    rows, columns = rows[rows > 0], columns[columns > 0]
    return (
        (joint * np.log(joint)).sum() - (rows * np.log(rows)).sum()
        - (columns * np.log(columns)).sum() + total * np.log(max(total, 1))
    )  # fmt: skip


def label_states(counts, n_states):
    """Brown-like classes of labels: merge so that a class still tells most of its neighbours."""
    n_labels = len(counts) - 1
    frequency = counts[:n_labels].sum(1)
    order = np.argsort(-frequency, kind="stable")
    classes = [[int(label)] for label in order[:n_states]]

    def matrix(groups):
        member = np.zeros((len(groups) + 1, n_labels + 1))
        for i, group in enumerate(groups):
            member[i, group] = 1
        member[-1, n_labels] = 1
        return member @ counts @ member.T

    for label in order[n_states:]:
        classes.append([int(label)])
        table = matrix(classes)
        best, best_pair = -np.inf, None
        size = len(classes)
        for i in range(size):
            for j in range(i + 1, size):
                merged = table.copy()
                merged[i] += merged[j]
                merged[:, i] += merged[:, j]
                merged[j] = 0
                merged[:, j] = 0
                value = _information(merged)
                if value > best:
                    best, best_pair = value, (i, j)
        i, j = best_pair
        classes[i] += classes.pop(j)
    result = np.zeros(n_labels, dtype=np.int32)
    for i, group in enumerate(classes):
        result[group] = i
    return result


def separators(data: Sentences, heads, n_tags, n_between):
    """Tags whose standing between two tokens speaks most for or against an arc: a bit for each."""
    position = np.arange(len(heads)) - np.repeat(data.starts[:-1], np.diff(data.starts)) + 1
    offset = np.repeat(data.starts[:-1], np.diff(data.starts)).astype(np.int64)
    length = np.repeat(np.diff(data.starts), np.diff(data.starts))
    presence = np.zeros((len(heads) + 1, n_tags), dtype=np.int32)
    presence[np.arange(len(heads)) + 1, data.tags] = 1
    presence = np.cumsum(presence, axis=0, dtype=np.int32)
    gold = np.flatnonzero(heads > 0)
    distance = heads[gold] - position[gold]
    # what competes with an arc: one of the same length on the other side
    other = position[gold] - distance
    possible = (other >= 1) & (other <= length[gold]) & (np.abs(distance) > 1)
    gold, distance = gold[possible], distance[possible]
    bins = distance_bins(data.starts, heads)[gold]

    def between(sign):
        end = position[gold] + sign * distance
        low = np.minimum(position[gold], end)
        high = np.maximum(position[gold], end)
        return presence[offset[gold] + high - 1] - presence[offset[gold] + low] > 0

    gain = np.zeros(n_tags)
    true, false = between(1), between(-1)
    for b in np.unique(bins):
        inside = bins == b
        n = inside.sum()
        p, q = true[inside].sum(0) + 0.5, false[inside].sum(0) + 0.5

        def entropy(x, y):
            s = x + y
            return -(x * np.log(x / s) + y * np.log(y / s))

        gain += 2 * n * np.log(2) - entropy(p, q) - entropy(n + 1 - p, n + 1 - q)
    gain[0] = -np.inf
    bits = np.zeros(n_tags, dtype=np.uint8)
    for bit, tag in enumerate(np.argsort(-gain, kind="stable")[:n_between]):
        bits[tag] = 1 << bit
    return bits


def function_tags(data: Sentences, heads, n_tags):
    """Tags of tokens that hardly ever have modifiers."""
    offset = np.repeat(data.starts[:-1], np.diff(data.starts))
    has_child = np.zeros(len(heads), dtype=bool)
    has_child[(offset + heads - 1)[heads > 0]] = True
    n_tokens = np.bincount(data.tags, minlength=n_tags)
    n_parents = np.bincount(data.tags[has_child], minlength=n_tags)
    return ((n_parents < 0.15 * n_tokens) & (n_tokens >= 10)).astype(np.uint8)


@dataclass
class LocalPruner:
    templates: object
    weights: np.ndarray
    between_bit: np.ndarray
    threshold: float
    most: int

    def __call__(self, data: Sentences, keep=None):
        if keep is None:
            keep = np.full(len(data.tags), -1, dtype=np.int32)
        return prune(
            data.columns, data.starts, data.tags, self.templates.composites, self.templates.pairs,
            self.between_bit, self.weights, self.threshold, self.most, keep,
        )  # fmt: skip


def fit_pruner(data, heads, between_bit, missing, settings):
    """Train the pruner on two halves. Training arcs come from the half that did not see them, so that
    they look as they will on new text; the mean of both halves prunes everything else."""
    templates = compile_templates(missing, pairs=PRUNER, unaries="", siblings="")
    halves = np.array_split(np.arange(len(data), dtype=np.int32), 2)
    rng = np.random.default_rng(settings.seed)
    pruners = []
    for half in halves:
        weights = np.zeros(1 << 21, dtype=np.float32)
        squares = np.ones(1 << 21, dtype=np.float32)
        total = np.zeros(1 << 21, dtype=np.float32)
        parts = [p for _ in range(settings.pruner_epochs) for p in np.array_split(rng.permutation(half), 4)]
        for i, part in enumerate(parts):
            train_pruner(
                data.columns, data.starts, data.tags, heads, templates.composites, templates.pairs,
                between_bit, weights, squares, part, settings.pruner_rate,
            )  # fmt: skip
            if i >= 4:
                total += weights
        pruners.append(LocalPruner(templates, total / (len(parts) - 4), between_bit, settings.threshold, settings.most))
    cut = int(data.starts[halves[1][0]])
    first, second = slice_sentences(data, 0, len(halves[0])), slice_sentences(data, len(halves[0]), len(data))
    a = pruners[1](first, heads[:cut])
    b = pruners[0](second, heads[cut:])
    arcs = (np.concatenate([a[0], b[0][1:] + a[0][-1]]), np.concatenate([a[1], b[1]]), np.concatenate([a[2], b[2]]))
    weights = (pruners[0].weights + pruners[1].weights) / 2
    return LocalPruner(templates, weights, between_bit, settings.threshold, settings.most), arcs


def slice_sentences(data, begin, end):
    a, b = int(data.starts[begin]), int(data.starts[end])
    return Sentences(data.columns[a:b], (data.starts[begin : end + 1] - a).astype(np.int32), data.tags[a:b], data.wordlike[a:b])
