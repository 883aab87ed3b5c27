"""The log-linear parser against enumeration of all trees and against finite differences."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from brute_force import compare_conditioned, meets
from memory import peak_memory
from spacy_spectral.base.serialize import pack, unpack
from spacy_spectral.forest.conditions import (
    HeadIs,
    HeadIsNot,
    LabelIs,
    NoCrossing,
    SameHead,
    conditioned,
)
from spacy_spectral.models.loglinear import (
    Annotated,
    Arcs,
    Encoder,
    LogLinearModel,
    Settings,
    fit,
)
from spacy_spectral.models.loglinear import statistics as statistics_module
from spacy_spectral.models.loglinear._learn import Learner
from spacy_spectral.models.loglinear._packed import sentence_scores
from spacy_spectral.models.loglinear._score import kernel_bins
from spacy_spectral.models.loglinear._table import training_keys
from spacy_spectral.models.loglinear.encode import Sentences
from spacy_spectral.models.loglinear.packed import packed_trees
from spacy_spectral.models.loglinear.pruner import model as pruner_module
from spacy_spectral.models.loglinear.pruner._pruner import train_pruner
from spacy_spectral.models.loglinear.pruner.model import ArcPruner
from spacy_spectral.models.loglinear.statistics import separators
from spacy_spectral.models.loglinear.table import build_table
from spacy_spectral.models.loglinear.templates import COLUMNS, PRUNER, compile_templates
from spacy_spectral.trees import _eisner as eisner_trees
from spacy_spectral.trees.interface import Temperature
from spacy_spectral.trees.lengths import N_BINS, distance_bins

TAGS = ["D", "N", "V", "P"]
LABELS = ["root", "det", "arg", "mod"]
WORDS = {"D": ["the", "a"], "N": ["dog", "Cat", "man", "x1"], "V": ["saw", "ran"], "P": ["of", ","]}


def is_tree(heads):
    """Projective, one root: straight from the definition."""
    n = len(heads)
    if list(heads).count(0) != 1:
        return False
    ancestors = []
    for m in range(1, n + 1):
        chain, k = [], m
        while k:
            k = heads[k - 1]
            chain.append(k)
            if len(chain) > n:
                return False
        ancestors.append(chain)
    return all(
        h in ancestors[k - 1]
        for m, h in enumerate(heads, 1)
        for k in range(min(h, m) + 1, max(h, m))
    )


def all_trees(n):
    return [heads for heads in product(range(n + 1), repeat=n) if is_tree(heads)]


def random_tree(rng, n):
    while True:
        heads = [int(rng.integers(0, n + 1)) for _ in range(n)]
        heads[int(rng.integers(0, n))] = 0
        if is_tree(heads):
            return heads


def random_corpus(rng, lengths):
    tags = [[TAGS[rng.integers(len(TAGS))] for _ in range(n)] for n in lengths]
    words = [[WORDS[t][rng.integers(len(WORDS[t]))] for t in sentence] for sentence in tags]
    clusters = rng.integers(-1, 3, size=(sum(lengths), 4))
    pos = [["X" if t in "DP" else "Y" for t in sentence] for sentence in tags]
    second = [[TAGS[rng.integers(4)] if rng.random() < 0.3 else "" for _ in s] for s in tags]
    data = Encoder(TAGS)(words, tags, second=second, pos=pos, morphs=pos, clusters=clusters)
    heads = [h for n in lengths for h in random_tree(rng, n)]
    labels = [0 if h == 0 else int(rng.integers(1, len(LABELS))) for h in heads]
    return data, np.asarray(heads, dtype=np.int32), np.asarray(labels, dtype=np.int32)


def all_arcs(starts):
    heads, counts = [], []
    for n in np.diff(starts):
        for m in range(1, n + 1):
            heads += [h for h in range(n + 1) if h != m]
            counts.append(int(n))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    probs = np.full(len(heads), 0.5, dtype=np.float32)
    return Arcs(ends, np.asarray(heads, dtype=np.int32), probs)


def no_margins(data):
    return np.full(len(data), np.inf)


@pytest.fixture
def random_model(made_model):
    """A model with random weights for all features of a small random corpus, to be changed as you like."""
    model, *corpus = made_model
    own = {"entries": model.entries.copy(), "moves": model.moves.copy(), "_engine": None}
    return (replace(model, **own), *corpus)


@pytest.fixture(scope="module")
def made_model():
    rng = np.random.default_rng(1)
    data, heads, labels = random_corpus(rng, [1, 2, 3, 4, 5, 4, 5, 5, 3, 4])
    n_tags = len(TAGS) + 1
    templates = compile_templates(set())
    between_bit = np.asarray([0, 1, 0, 2, 4], dtype=np.uint8)
    model = LogLinearModel(
        tags=TAGS, labels=LABELS, templates=templates, slots=None, entries=None,
        moves=(rng.integers(-64, 64, (n_tags, 2, 4, 4)) / 64).astype(np.float32),
        label_classes=np.asarray([0, 1, 2, 2], dtype=np.int32),
        allowed=np.asarray([[0, 1, 1, 1], [1, 0, 0, 0]], dtype=np.uint8),
        between_bit=between_bit, function_tags=np.asarray([0, 1, 0, 0, 1], dtype=np.uint8),
        pruner=ArcPruner(
            compile_templates(set(), pairs=PRUNER, unaries="", siblings=""),
            np.zeros(1 << 10, dtype=np.float32), between_bit, 0.0, 20,
        ),
    )  # fmt: skip
    data = model.with_children(data, all_arcs(data.starts))
    *_, model.slots, model.entries = build_table(
        data, heads, labels, templates=templates, between_bit=between_bit,
        n_labels=len(LABELS), n_blocks=1, min_blocks=1,
    )  # fmt: skip
    model.entries["weight"][1:] = rng.integers(-256, 256, len(model.entries) - 1) / 1024
    return model, data, heads, labels


def find_row(model, key):
    """Open addressing, written down once more: header entry of a key, 0 if there is none."""
    if key == 0:
        return 0
    mask = len(model.slots) - 1
    at = int(key) & mask
    while model.slots["start"][at]:
        if model.slots["check"][at] == int(key) >> 32:
            return int(model.slots["start"][at])
        at = (at + 1) & mask
    return 0


def row_weights(model, key):
    """RETURNS (Tuple[float, dict]): The weight of the feature itself and those of its outputs."""
    start = find_row(model, key)
    entries = model.entries[start : start + 1 + int(model.entries["output"][start])]
    outputs = dict(zip(entries["output"][1:].tolist(), entries["weight"][1:].tolist(), strict=True))
    return float(entries["weight"][0]), outputs


def tree_scores(model, data, heads):
    """Scores of all labellings of a tree, feature by feature: {labels: score}."""
    n = len(heads)
    t = model.templates
    pairs, unaries, siblings = training_keys(
        data.columns, data.starts, data.tags, np.asarray(heads, dtype=np.int32), t.composites,
        t.pairs, t.unaries, t.siblings, model.between_bit,
    )  # fmt: skip
    common = sum(row_weights(model, key)[0] for key in siblings.ravel())
    block = 1 + N_BINS + len(LABELS)
    by_label = np.zeros((n, len(LABELS)))
    for m, h in enumerate(heads, 1):
        bin_ = int(np.searchsorted([1, 2, 3, 4, 6, 10], abs(m - h)))
        for key in pairs[m - 1]:
            weight, outputs = row_weights(model, key)
            common += weight + outputs.get(bin_, 0)
            by_label[m - 1] += [outputs.get(N_BINS + label, 0) for label in range(len(LABELS))]
        direction = 2 if h == 0 else int(m > h)
        roles = [(m, direction)] + ([(h, 3 + direction)] if h else [])
        for token, role in roles:
            for key in unaries[token - 1]:
                _, outputs = row_weights(model, key)
                first = role * block
                common += outputs.get(first, 0) + outputs.get(first + 1 + bin_, 0)
                by_label[m - 1] += [
                    outputs.get(first + 1 + N_BINS + label, 0) for label in range(len(LABELS))
                ]
    sequences = []
    for h in range(1, n + 1):
        sequences.append((h, 0, [m for m in range(h - 1, 0, -1) if heads[m - 1] == h]))
        sequences.append((h, 1, [m for m in range(h + 1, n + 1) if heads[m - 1] == h]))
    choices = [np.flatnonzero(model.allowed[int(h == 0)]).tolist() for h in heads]
    result = {}
    for labels in product(*choices):
        score = common + sum(by_label[m, label] for m, label in enumerate(labels))
        for h, side, modifiers in sequences:
            table = model.moves[0, side].astype(float) + model.moves[data.tags[h - 1], side]
            states = [3, *(int(model.label_classes[labels[m - 1]]) for m in modifiers), 3]
            score += sum(table[a, b] for a, b in pairwise(states))
        result[labels] = score
    return result


def enumerate_sentence(model, data, arcs, sentence):
    """RETURNS: {(heads, labels): probability} over all trees of the kept arcs."""
    part = data.part(sentence, sentence + 1)
    first, last = data.starts[sentence : sentence + 2]
    kept = [
        set(arcs.heads[arcs.starts[i] : arcs.starts[i + 1]].tolist()) for i in range(first, last)
    ]
    scores = {}
    for heads in all_trees(int(last - first)):
        if all(h in mine for h, mine in zip(heads, kept, strict=True)):
            for labels, score in tree_scores(model, part, heads).items():
                scores[heads, labels] = score
    log_z = np.logaddexp.reduce(list(scores.values()))
    return {tree: np.exp(score - log_z) for tree, score in scores.items()}


def likeliest_labels(forests):
    """RETURNS: The label of every arc of all sentences, if none were dropped."""
    return np.concatenate([forests.joint(s)[2].argmax(axis=1) for s in range(len(forests))])


def pruned_arcs(rng, data, heads):
    """Some arcs at random, those of a given tree among them."""
    full = all_arcs(data.starts)
    mods = np.repeat(np.arange(len(heads)), np.diff(full.starts))
    keep = (rng.random(len(mods)) < 0.6) | (full.heads == heads[mods])
    counts = np.bincount(mods[keep], minlength=len(heads))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Arcs(starts, full.heads[keep], full.probs[keep])


@pytest.mark.parametrize("pruned", [False, True])
def test_marginals_are_those_of_enumeration(random_model, pruned):
    model, data, heads, _ = random_model
    arcs = all_arcs(data.starts)
    if pruned:
        arcs = pruned_arcs(np.random.default_rng(3), data, heads)
    engine = model.engine()
    inputs = (data.columns, data.starts, data.tags, arcs.starts, arcs.heads)
    parsed = engine.parse(*inputs, no_margins(data))
    probs, arc_labels = parsed["arc_probs"], likeliest_labels(parsed["forests"])
    for sentence in range(len(data)):
        trees = enumerate_sentence(model, data, arcs, sentence)
        first, last = data.starts[sentence : sentence + 2]
        best_total = {tree_heads: 0.0 for tree_heads, _ in trees}
        for position in range(1, last - first + 1):
            token = first + position - 1
            for a in range(arcs.starts[token], arcs.starts[token + 1]):
                by_label = np.zeros(len(LABELS))
                for (tree_heads, tree_labels), p in trees.items():
                    if tree_heads[position - 1] == arcs.heads[a]:
                        by_label[tree_labels[position - 1]] += p
                total = by_label.sum()
                assert probs[a] == pytest.approx(total, abs=1e-5)
                if total > 1e-6:
                    assert by_label[arc_labels[a]] == pytest.approx(by_label.max(), abs=1e-6)
                if parsed["heads"][token] == arcs.heads[a]:
                    assert parsed["label_probs"][token] == pytest.approx(by_label / total, abs=1e-4)
                    assert parsed["labels"][token] == arc_labels[a]
                for tree_heads in best_total:
                    if tree_heads[position - 1] == arcs.heads[a]:
                        best_total[tree_heads] += np.log(max(total, 1e-12))
        # minimum risk: no tree of kept arcs has more probable arcs
        chosen = tuple(parsed["heads"][first:last].tolist())
        assert best_total[chosen] == pytest.approx(max(best_total.values()), abs=1e-4)
        chosen_labels = tuple(parsed["labels"][first:last].tolist())
        own = trees[chosen, chosen_labels]
        assert np.exp(parsed["log_probs"][sentence]) == pytest.approx(own, abs=1e-5)


def test_labels_of_all_arcs_are_those_of_enumeration(random_model):
    model, data, heads, _ = random_model
    arcs = pruned_arcs(np.random.default_rng(3), data, heads)
    inputs = (data.columns, data.starts, data.tags, arcs.starts, arcs.heads)
    forests = model.engine().parse(*inputs, no_margins(data))["forests"]
    for sentence in range(len(data)):
        arc_heads, modifiers, joint = forests.joint(sentence)
        expected = np.zeros((6, 6, len(LABELS)))
        for (tree_heads, tree_labels), p in enumerate_sentence(model, data, arcs, sentence).items():
            for m, (h, label) in enumerate(zip(tree_heads, tree_labels, strict=True), 1):
                expected[h, m, label] += p
        assert joint == pytest.approx(expected[arc_heads, modifiers], abs=1e-5)
        assert joint.sum() == pytest.approx(expected.sum(), abs=1e-4)


def test_scores_of_another_model_join_before_anything_is_summed(random_model):
    model, data, heads, _ = random_model
    rng = np.random.default_rng(4)
    arcs = pruned_arcs(rng, data, heads)
    extra = rng.normal(size=(len(arcs.heads), len(LABELS))).astype(np.float32)
    parses = model.infer(data, arcs, extra=extra)
    for sentence in range(len(data)):
        first, last = data.starts[sentence : sentence + 2]
        more = {
            (t - first + 1, arcs.heads[a]): extra[a]
            for t in range(first, last)
            for a in range(arcs.starts[t], arcs.starts[t + 1])
        }
        trees = enumerate_sentence(model, data, arcs, sentence)
        for tree in trees:
            arcs_of_tree = enumerate(zip(*tree, strict=True), 1)
            trees[tree] *= np.exp(sum(more[m, h][label] for m, (h, label) in arcs_of_tree))
        total = sum(trees.values())
        expected = np.zeros((last - first + 1, last - first + 1))
        for (tree_heads, _), p in trees.items():
            expected[list(tree_heads), range(1, last - first + 1)] += p / total
        assert parses.marginals(sentence) == pytest.approx(expected, abs=1e-4)
        own = tuple(parses.heads[first:last].tolist()), tuple(parses.labels[first:last].tolist())
        assert np.exp(parses.log_probs[sentence]) == pytest.approx(trees[own] / total, abs=1e-4)
    none = model.infer(data, arcs, extra=np.zeros_like(extra))
    assert none.arcs.probs.tolist() == model.infer(data, arcs).arcs.probs.tolist()
    with pytest.raises(ValueError, match="S409"):
        model.infer(data, arcs, extra=extra[:-1])


CONDITIONS = [
    [],
    [HeadIs(2, 1)],
    [LabelIs(1, "arg")],
    [LabelIs(3, "mod"), HeadIsNot(1, 0)],
    [SameHead(1, 3)],
    [NoCrossing(2, 3), LabelIs(2, "det")],
]


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_trees_under_conditions_are_those_of_enumeration(random_model, conditions):
    model, data, heads, _ = random_model
    arcs = pruned_arcs(np.random.default_rng(3), data, heads)
    n_found = 0
    for sentence in np.flatnonzero(np.diff(data.starts) >= 4).tolist():
        part = data.part(sentence, sentence + 1)
        first, last = data.starts[sentence : sentence + 2].tolist()
        begin, end = arcs.starts[[first, last]].tolist()
        scored = sentence_scores(
            model.engine(), part.columns, part.tags, arcs.starts[first : last + 1] - begin,
            arcs.heads[begin:end], np.inf,
        )  # fmt: skip
        packed = packed_trees(last - first, scored, model.label_classes, model.allowed)
        trees = {
            (tree, tuple(LABELS[i] for i in labels)): p
            for (tree, labels), p in enumerate_sentence(model, data, arcs, sentence).items()
        }
        if any(all(meets(c, *tree) for c in conditions) for tree in trees):
            found = conditioned(last - first, lambda _, p=packed: p, conditions, names=LABELS)
            compare_conditioned(found, trees, conditions, rel=1e-6)
            best = tuple(found.heads.tolist()), tuple(LABELS[i] for i in found.labels)
            own = trees[best] / sum(trees.values()) / found.probability
            assert np.exp(found.log_prob) == pytest.approx(own, rel=1e-6)
            n_found += 1
        else:
            with pytest.raises(ValueError, match="S916"):
                conditioned(last - first, lambda _, p=packed: p, conditions, names=LABELS)
    assert n_found >= 2


@pytest.mark.parametrize("k", [1, 7, 10_000])
def test_k_best_are_those_of_enumeration(random_model, k):
    model, data, heads, _ = random_model
    arcs = pruned_arcs(np.random.default_rng(8), data, heads)
    inputs = (data.columns, data.starts, data.tags, arcs.starts, arcs.heads)
    parsed = model.engine().parse(*inputs, no_margins(data))
    arc_labels = likeliest_labels(parsed["forests"])
    for sentence in range(len(data)):
        trees = enumerate_sentence(model, data, arcs, sentence)
        first, last = data.starts[sentence : sentence + 2]
        by_arc = {}
        for token in range(first, last):
            for a in range(arcs.starts[token], arcs.starts[token + 1]):
                prob, label = parsed["arc_probs"][a], arc_labels[a]
                by_arc[token - first, arcs.heads[a]] = np.log(max(float(prob), 1e-99)), label
        products = {
            tree: sum(by_arc[arc][0] for arc in enumerate(tree))
            for tree in {tree for tree, _ in trees}
        }
        best = sorted(products.values(), reverse=True)[:k]
        got_heads, got_labels, logs = parsed["forests"].k_best(sentence, k)
        found = [tuple(tree) for tree in got_heads.tolist()]
        assert len(set(found)) == len(found) == len(best)
        assert sorted((products[tree] for tree in found), reverse=True) == pytest.approx(best)
        for tree, labels in zip(found, got_labels.tolist(), strict=True):
            assert labels == [by_arc[arc][1] for arc in enumerate(tree)]
        expected = [
            trees[tree, tuple(labels)]
            for tree, labels in zip(found, got_labels.tolist(), strict=True)
        ]
        assert np.exp(logs) == pytest.approx(expected, abs=1e-5)
        assert logs.tolist() == sorted(logs, reverse=True)


def test_pruner_keeps_the_likeliest_arcs_among_ties():
    rng = np.random.default_rng(3)
    data, *_ = random_corpus(rng, [5, 4, 5, 3])
    templates = compile_templates(set(), pairs=PRUNER, unaries="", siblings="")
    flat = np.zeros(1 << 10, dtype=np.float32)
    bits = np.zeros(len(TAGS) + 1, dtype=np.uint8)
    every = ArcPruner(templates, flat, bits, 0.0, 20)(data)
    for most in range(1, 5):
        kept = ArcPruner(templates, flat, bits, 0.0, most)(data)
        for token, (begin, end) in enumerate(pairwise(every.starts)):
            best = sorted(every.probs[begin:end], reverse=True)[:most]
            own = kept.probs[kept.starts[token] : kept.starts[token + 1]]
            assert sorted(own, reverse=True)[: len(best)] == best
            assert len(best) <= len(own) <= len(best) + 1  # and the one to the left


def test_pruner_learns_nothing_of_tokens_that_no_candidate_tree_explains():
    n = 30
    data = Encoder(TAGS)([[f"w{i}" for i in range(n)]], [["N"] * n])
    heads = np.full(n, -1, dtype=np.int32)
    heads[[0, 3]] = 0, 25  # then some token after the 25th hangs on the first three
    templates = compile_templates(set(), pairs=PRUNER, unaries="", siblings="")
    bits = np.zeros(len(TAGS) + 1, dtype=np.uint8)
    weights, squares = np.zeros(1 << 16, dtype=np.float32), np.ones(1 << 16, dtype=np.float32)
    train_pruner(
        data.columns, data.starts, data.tags, heads, templates.composites, templates.pairs, bits,
        weights, squares, np.zeros(1, dtype=np.int32), 0.1, 3, 0,
    )  # fmt: skip
    # the root, three neighbours on either side, the head that is given
    n_arcs = (1 + 3) + (1 + 6 + 1)
    assert 0 < np.count_nonzero(weights) <= n_arcs * len(templates.pairs)


WORD = (1 << 64) - 1


def mixed(value):
    value ^= value >> 32
    value = value * 0xD6E8FEB86659FD93 & WORD
    return value ^ value >> 32


def pruner_scores(pruner, data):
    """First-order scores of all arcs of the only sentence, by the hashing of the kernels."""
    n, templates = len(data.tags), pruner.templates
    values = np.zeros((n + 1, len(templates.composites)), dtype=object)
    for position, (k, parts) in product(range(n + 1), enumerate(templates.composites.tolist())):
        value = k + 1
        for offset, column in parts:
            if column >= 0:
                at = position + offset
                atom = 11 - at if at <= 0 else 101 + at - n
                if 1 <= at <= n:
                    atom = int(data.columns[at - 1, column])
                value = (value ^ atom) * 0x9FB21C651E98DF25 & WORD
                value ^= value >> 29
        values[position, k] = value
    scores = np.full((n + 1, n + 1), -np.inf)
    for h, m in product(range(n + 1), range(1, n + 1)):
        if h == m:
            continue
        between = 0
        for tag in data.tags[min(h, m) : max(h, m) - 1] if h else ():
            between |= int(pruner.between_bit[tag])
        scores[h, m] = 0
        for t, (head, mod, kind) in enumerate(templates.pairs.tolist()):
            extra = (2 if h == 0 else int(m > h)) + 64 * (1 + between) * (kind >> 1)
            extra += 4 * (1 + (abs(h - m) if h else 0)) * (kind & 1)
            seed = 0xD1B54A32D192ED03 * (t + 1) + extra * 0x9FB21C651E98DF25
            rotated = values[m, mod] << 27 & WORD | values[m, mod] >> 37
            key = (values[h, head] + seed) * 0x9E3779B97F4A7C15 & WORD ^ rotated
            scores[h, m] += pruner.weights[mixed(key) & (len(pruner.weights) - 1)]
    return scores


@pytest.mark.parametrize("reach, n_far", [(32, 16), (2, 2), (1, 1), (1, 0)])
def test_pruner_gives_the_marginals_of_enumeration(monkeypatch, reach, n_far):
    monkeypatch.setattr(pruner_module, "_REACH", reach)
    monkeypatch.setattr(pruner_module, "_N_FAR", n_far)
    rng = np.random.default_rng(5)
    data, heads, _ = random_corpus(rng, [1, 2, 3, 4, 5, 5])
    missing = {name for i, name in enumerate(COLUMNS) if not data.columns[:, i].any()}
    templates = compile_templates(missing, pairs=PRUNER, unaries="", siblings="")
    weights = rng.normal(size=1 << 12).astype(np.float32)
    weights[0] = 0
    pruner = ArcPruner(templates, weights, np.asarray([0, 1, 0, 2, 4], dtype=np.uint8), 0, 100)
    for keep in (None, heads):
        arcs = pruner(data, keep)
        for s, (first, last) in enumerate(pairwise(data.starts.tolist())):
            n = last - first
            scores = pruner_scores(pruner, data.part(s, s + 1))
            far = 1 + np.argsort(-scores[0, 1:])[:n_far]
            for h, m in product(range(1, n + 1), range(1, n + 1)):
                kept = keep is not None and keep[first + m - 1] == h
                if abs(h - m) > reach and h not in far and not kept:
                    scores[h, m] = -np.inf
            found = np.zeros((n + 1, n + 1))
            for m in range(1, n + 1):
                own = slice(arcs.starts[first + m - 1], arcs.starts[first + m])
                found[arcs.heads[own], m] = arcs.probs[own]
                assert set(arcs.heads[own]) == set(np.flatnonzero(scores[:, m] > -np.inf))
            expected = np.zeros_like(found)
            for tree in all_trees(n):
                at = (list(tree), range(1, n + 1))
                expected[at] += np.exp(scores[at].sum())
            assert found == pytest.approx(expected / expected[0].sum(), abs=1e-6)


@pytest.mark.parametrize("largest, precise", [(0.25, 1e-5), (40.0, 0.05)])
def test_tables_are_read_in_parsing_as_in_training(random_model, largest, precise):
    """What is stored in 16 bits says the same; weights too large for that become less precise."""
    model, data, heads, _ = random_model
    entries = model.entries.copy()
    entries["weight"][len(entries) // 2] = largest
    model = replace(model, entries=entries, _engine=None)
    arcs = pruned_arcs(np.random.default_rng(3), data, heads)
    inputs = (data.columns, data.starts, data.tags, arcs.starts, arcs.heads, no_margins(data))
    one, other = model.engine().parse(*inputs), model.engine(to_learn=False).parse(*inputs)
    for name in ("arc_probs", "label_probs", "log_probs"):
        assert other[name] == pytest.approx(one[name], abs=precise)
    sharp = replace(model, temperature=Temperature(heads=1.5, labels=0.8), _engine=None)
    one, other = sharp.engine().parse(*inputs), sharp.engine(to_learn=False).parse(*inputs)
    assert other["arc_probs"] == pytest.approx(one["arc_probs"], abs=precise)


def hide(rng, heads, labels):
    """Annotation with holes."""
    heads = np.where(rng.random(len(heads)) < 0.4, -1, heads).astype(np.int32)
    labels = np.where(rng.random(len(labels)) < 0.4, -1, labels).astype(np.int32)
    return heads, labels


def test_missing_annotation_is_summed_out(random_model):
    model, data, heads, labels = random_model
    some_heads, some_labels = hide(np.random.default_rng(5), heads, labels)
    arcs = all_arcs(data.starts)
    learner = Learner(model.engine(), 1.0)
    for sentence in range(len(data)):
        first, last = data.starts[sentence : sentence + 2]
        loss, skipped = learner.gradient(
            data.columns, data.starts, data.tags, arcs.starts, arcs.heads, some_heads, some_labels,
            np.asarray([sentence], dtype=np.int32),
        )  # fmt: skip
        trees = enumerate_sentence(model, data, arcs, sentence)
        agree = 0.0
        for (tree_heads, tree_labels), p in trees.items():
            given = zip(tree_heads, tree_labels, some_heads[first:last], some_labels[first:last],
                        strict=True)  # fmt: skip
            if all(gh in (-1, h) and gl in (-1, label) for h, label, gh, gl in given):
                agree += p
        assert loss >= -1e-9 and not skipped
        assert np.exp(-loss) == pytest.approx(agree, abs=1e-5)


@pytest.mark.parametrize("partial", [False, True])
def test_gradient_is_that_of_finite_differences(random_model, partial):
    model, data, heads, labels = random_model
    rng = np.random.default_rng(7)
    arcs = pruned_arcs(rng, data, heads)
    if partial:
        heads, labels = hide(rng, heads, labels)
    model = replace(model, entries=model.entries.copy(), moves=model.moves.copy())
    batch = np.arange(len(data), dtype=np.int32)

    def loss(learner):
        return learner.gradient(
            data.columns, data.starts, data.tags, arcs.starts, arcs.heads, heads, labels, batch
        )[0]

    learner = Learner(model.engine(), 1.0)
    assert loss(learner) > 0
    entry_gradient, move_gradient = learner.gradients()
    step = 2.0**-6

    def difference(array, at):
        before = array[at]
        values = []
        for sign in (1, -1):
            array[at] = before + sign * step
            values.append(-loss(Learner(model.engine(), 1.0)))  # shares the weights
        array[at] = before
        return (values[0] - values[1]) / (2 * step)

    weights = model.entries["weight"]
    starts = set(model.slots["start"].tolist())
    groups = {
        "rows": [i for i in range(1, len(weights)) if i in starts and entry_gradient[i]],
        "outputs": [i for i in range(1, len(weights)) if i not in starts and entry_gradient[i]],
        "untouched": [i for i in range(1, len(weights)) if not entry_gradient[i]],
    }
    assert len(groups["rows"]) > 100 and len(groups["outputs"]) > 100
    for members in groups.values():
        for i in rng.choice(members, size=min(60, len(members)), replace=False):
            assert entry_gradient[i] == pytest.approx(difference(weights, i), abs=2e-3)
    for at in [tuple(rng.integers(0, s) for s in model.moves.shape) for _ in range(60)]:
        assert move_gradient[at] == pytest.approx(difference(model.moves, at), abs=2e-3)


# ----------------------------------------------------------------- training as a whole


def toy_sentence(rng):
    """Subject, verb, object, with determiners: a language that can be learnt."""
    words, tags, heads, labels = [], [], [], []

    def add(word, tag):
        words.append(word)
        tags.append(tag)
        heads.append(-1)
        labels.append("")
        return len(words)

    def noun_phrase():
        determiner = add(str(rng.choice(WORDS["D"])), "D") if rng.random() < 0.6 else None
        noun = add(str(rng.choice(WORDS["N"])), "N")
        if determiner:
            heads[determiner - 1], labels[determiner - 1] = noun, "det"
        if rng.random() < 0.3:
            of = add("of", "P")
            inner = noun_phrase()
            heads[of - 1], labels[of - 1] = inner, "det"
            heads[inner - 1], labels[inner - 1] = noun, "mod"
        return noun

    subject = noun_phrase()
    verb = add(str(rng.choice(WORDS["V"])), "V")
    heads[verb - 1], labels[verb - 1] = 0, "root"
    heads[subject - 1], labels[subject - 1] = verb, "arg"
    if words[verb - 1] == "saw":
        thing = noun_phrase()
        heads[thing - 1], labels[thing - 1] = verb, "arg"
    return words, tags, heads, labels


def toy_corpus(seed, n):
    rng = np.random.default_rng(seed)
    words, tags, heads, labels = zip(*(toy_sentence(rng) for _ in range(n)), strict=True)
    flat = [h for sentence in heads for h in sentence]
    index = [LABELS.index(label) for sentence in labels for label in sentence]
    data = Encoder(TAGS)(words, tags)
    return Annotated(data, np.asarray(flat, dtype=np.int32), np.asarray(index, dtype=np.int32))


SMALL = Settings(epochs=2, n_states=3, n_blocks=20, prune_most=8)


@pytest.fixture(scope="module")
def toy_model():
    return fit(toy_corpus(0, 200), tags=TAGS, labels=LABELS, settings=SMALL)


def test_learns_a_toy_language(toy_model):
    test = toy_corpus(1, 100)
    parses = toy_model.parse(test.sentences)
    assert (parses.heads == test.heads).mean() > 0.98
    assert (parses.labels == test.labels).mean() > 0.98
    head_probs, label_probs = parses.probs()
    assert len(head_probs) == len(label_probs) == len(test.heads)
    assert 0.9 < head_probs.mean() <= 1.0001
    assert parses.label_probs.sum(axis=1) == pytest.approx(1, abs=1e-4)
    assert (parses.label_probs.max(axis=1) == label_probs).all()
    totals = np.add.reduceat(parses.arcs.probs, parses.arcs.starts[:-1])
    assert totals == pytest.approx(1, abs=1e-4)
    assert np.isfinite(parses.log_probs).all() and (parses.log_probs <= 1e-6).all()
    matrix = parses.marginals(3)
    assert matrix[:, 1:].sum(axis=0) == pytest.approx(1, abs=1e-4)
    assert matrix[0].sum() == pytest.approx(1, abs=1e-4)


def test_training_is_deterministic_whatever_the_threads(toy_model):
    again = fit(toy_corpus(0, 200), tags=TAGS, labels=LABELS, settings=SMALL)
    threads = Settings(**{**vars(SMALL), "n_threads": 2})
    threaded = fit(toy_corpus(0, 200), tags=TAGS, labels=LABELS, settings=threads)
    assert again.to_bytes() == toy_model.to_bytes() == threaded.to_bytes()


def test_result_does_not_depend_on_batching(toy_model):
    data = toy_corpus(2, 30).sentences
    together = toy_model.parse(data)
    alone = [toy_model.parse(data.part(i, i + 1)) for i in range(len(data))]
    assert together.heads.tolist() == [h for parse in alone for h in parse.heads]
    assert together.arcs.probs.tolist() == [p for parse in alone for p in parse.arcs.probs]
    empty = toy_model.parse(Encoder(TAGS)([[], ["dog"], []], [[], ["N"], []]))
    assert empty.heads.tolist() == [0] and empty.labels.tolist() == [0]


def test_loss_is_never_negative_and_falls():
    losses = []
    fit(toy_corpus(0, 120), tags=TAGS, labels=LABELS, settings=SMALL, dev=toy_corpus(1, 20),
        progress=losses.append)  # fmt: skip
    assert [epoch.epoch for epoch in losses] == [1, 2]
    assert losses[0].loss > losses[1].loss > 0
    assert losses[1].las > 0.95


def test_trains_on_partial_annotation(toy_model):
    train = toy_corpus(0, 200)
    rng = np.random.default_rng(3)
    train.heads, train.labels = hide(rng, train.heads, train.labels)
    train.labels[train.heads < 0] = -1
    model = fit(train, tags=TAGS, labels=LABELS, settings=SMALL)
    test = toy_corpus(1, 100)
    assert (model.parse(test.sentences).heads == test.heads).mean() > 0.9


def test_fixed_heads(toy_model):
    test = toy_corpus(4, 40)
    rng = np.random.default_rng(4)
    wanted = np.full(len(test.heads), -1, dtype=np.int32)
    for first, last in zip(test.sentences.starts[:-1], test.sentences.starts[1:], strict=True):
        if last - first <= 6:
            m = int(rng.integers(0, last - first))
            wanted[first + m] = random_tree(rng, int(last - first))[m]
    fixed = wanted >= 0
    assert fixed.sum() > 10
    parses = toy_model.parse(test.sentences, constraints=wanted)
    assert (parses.heads[fixed] == wanted[fixed]).all()
    assert parses.probs()[0][fixed] == pytest.approx(1, abs=1e-5)
    for first, last in zip(test.sentences.starts[:-1], test.sentences.starts[1:], strict=True):
        assert is_tree(parses.heads[first:last].tolist())
    one = Encoder(TAGS)([["the", "dog", "ran"]], [["D", "N", "V"]])
    with pytest.raises(ValueError, match="S403"):
        toy_model.parse(one, constraints=np.asarray([0, 0, -1]))
    with pytest.raises(ValueError, match="S405"):
        toy_model.parse(one, constraints=np.asarray([7, -1, -1]))


def test_fixed_heads_do_not_change_other_sentences(toy_model):
    test = toy_corpus(4, 40)
    starts = test.sentences.starts
    wanted = np.full(len(test.heads), -1, dtype=np.int32)
    wanted[0] = test.heads[0]
    alone = toy_model.parse(test.sentences)
    together = toy_model.parse(test.sentences, constraints=wanted)
    for name in ("heads", "labels", "label_probs"):
        assert (getattr(together, name) == getattr(alone, name))[starts[1] :].all()
    assert together.log_probs[1:].tolist() == alone.log_probs[1:].tolist()
    for sentence in range(1, len(starts) - 1):
        assert (together.marginals(sentence) == alone.marginals(sentence)).all()


def test_fixed_heads_of_a_long_sentence(toy_model):
    rng = np.random.default_rng(5)
    n = 400
    tags = [TAGS[i] for i in rng.integers(0, 4, n)]
    one = Encoder(TAGS)([[WORDS[tag][0] for tag in tags]], [tags])
    wanted = np.full(n, -1, dtype=np.int32)
    wanted[[0, 100, 300]] = 390, 200, 210
    parses = toy_model.parse(one, constraints=wanted)
    assert parses.heads[[0, 100, 300]].tolist() == [390, 200, 210]
    assert eisner_trees.is_projective_tree(parses.heads)
    assert len(parses.arcs.heads) < n * (toy_model.pruner.most + 3)
    assert parses.probs()[0][wanted >= 0] == pytest.approx(1, abs=1e-5)
    wanted[[10, 20]] = 0
    with pytest.raises(ValueError, match="S403"):
        toy_model.parse(one, constraints=wanted)


@pytest.mark.parametrize(
    "setting, value",
    [("epochs", 0), ("batch_size", 0), ("prune_most", 0), ("prune_most", 1000), ("n_threads", 0)],
)
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=rf"\[S408\].*{setting}.*{value}"):
        Settings(**{setting: value})


def long_sentence(n, same):
    rng = np.random.default_rng(5)
    tags = ["N"] * n if same else [TAGS[i] for i in rng.integers(0, 4, n)]
    return Encoder(TAGS)([[WORDS[tag][0] for tag in tags]], [tags])


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("shift", [-0.75, -0.25, 0.25, 0.75])
def test_very_long_sentences(toy_model, same, shift):
    """Their totals are beyond the doubles, so charts must be rescaled, by whatever they grow."""
    sentence = long_sentence(1000, same)
    parses = toy_model.parse(sentence)
    assert eisner_trees.is_projective_tree(parses.heads)
    assert np.isfinite(parses.log_probs).all()
    assert parses.marginals(0)[:, 1:].sum(axis=0) == pytest.approx(1, abs=1e-4)
    heads, _, logs = parses.forests.k_best(0, 4)
    assert len({tree.tobytes() for tree in heads}) == 4
    assert (np.diff(logs) <= 0).all() and logs[0] >= parses.log_probs[0]
    # every token makes the same number of moves, so this adds the same to all trees
    shifted = replace(toy_model, moves=toy_model.moves + np.float32(shift), _engine=None)
    again = shifted.parse(sentence)
    assert again.log_probs == pytest.approx(parses.log_probs, abs=1e-2)
    assert again.arcs.probs == pytest.approx(parses.arcs.probs, abs=1e-4)


@pytest.mark.parametrize("same", [False, True])
def test_pruner_of_very_long_sentences(toy_model, same):
    n = 900
    everything = replace(toy_model.pruner, threshold=0.0, most=200)
    arcs = everything(long_sentence(n, same))
    sums = np.bincount(np.repeat(np.arange(n), np.diff(arcs.starts)), arcs.probs)
    assert sums == pytest.approx(1, abs=1e-4)
    # of trees, not of single tokens: there is one root
    assert arcs.probs[arcs.heads == 0].sum() == pytest.approx(1, abs=1e-4)


def test_round_trip_and_damage(toy_model):
    data = toy_model.to_bytes()
    again = LogLinearModel.from_bytes(data)
    assert again.to_bytes() == data
    test = toy_corpus(1, 20).sentences
    assert again.parse(test).arcs.probs.tolist() == toy_model.parse(test).arcs.probs.tolist()
    with pytest.raises(ValueError, match="S002"):
        LogLinearModel.from_bytes(data[:-5])
    for name, value in [
        ("label_classes", toy_model.label_classes + 50),
        ("allowed", toy_model.allowed[:, :1]),
        ("moves", toy_model.moves[:2]),
    ]:
        broken = LogLinearModel(**{**vars(toy_model), name: np.ascontiguousarray(value)})
        with pytest.raises(ValueError, match=f"S005.*'{name}'"):
            LogLinearModel.from_bytes(broken.to_bytes())
    # beyond what kernels have room for, or not in the order in which they read
    for part, name, damage in [
        ("table", "n_slots", lambda n: n - 1),
        ("table", "n_slots", lambda n: 1 << 40),
        ("table", "used", lambda used: used + np.uint32(1 << 30)),
        ("table", "used", lambda used: np.full_like(used, used[0])),
        ("table", "sizes", lambda sizes: sizes + np.uint16(1)),
        ("table", "outputs", lambda outputs: np.full_like(outputs, 60000)),
        ("table", "outputs", lambda outputs: outputs[::-1].copy()),
        ("table", "weights", lambda weights: weights[:-3]),
        ("table", "weights", lambda weights: np.full_like(weights, np.inf)),
        ("templates", "pairs", lambda pairs: pairs + np.array([0, 0, 2], dtype=np.int32)),
        ("pruner", "size", lambda size: 1 << 33),
        ("pruner", "size", lambda size: size - 1),
        ("pruner", "threshold", lambda threshold: None),
        ("pruner", "most", lambda most: 1 << 20),
    ]:
        payload = unpack("loglinear", 2, data)
        payload[part][name] = damage(payload[part][name])
        with pytest.raises(ValueError, match=f"S005.*'{part}"):
            LogLinearModel.from_bytes(pack("loglinear", 2, payload))
    for pairs in (np.tile([0, 0, 0], (65, 1)), np.array([[0, 0, 4]])):
        payload = unpack("loglinear", 2, data)
        payload["pruner"]["templates"]["pairs"] = pairs.astype(np.int32)
        with pytest.raises(ValueError, match=r"S005.*'pruner.templates.pairs'"):
            LogLinearModel.from_bytes(pack("loglinear", 2, payload))


@pytest.mark.parametrize(
    "part, left_out", [("siblings", "siblings"), ("windows", "unaries"), ("second_tag", None)]
)
def test_a_part_left_out(part, left_out):
    train, test = toy_corpus(0, 120), toy_corpus(1, 30)
    second = COLUMNS.index("second")
    for data in (train, test):
        data.sentences.columns[:, second] = data.sentences.columns[:, COLUMNS.index("tag")]
    settings = Settings(**{**vars(SMALL), part: False})
    model = fit(train, tags=TAGS, labels=LABELS, settings=settings)
    if left_out is not None:
        assert len(getattr(model.templates, left_out)) == 0
    assert (model.templates.composites[..., 1] == second).any() == (part != "second_tag")
    parses = model.parse(test.sentences)
    assert (parses.heads == test.heads).mean() > 0.95
    data = model.to_bytes()
    again = LogLinearModel.from_bytes(data)
    assert again.to_bytes() == data
    assert (again.parse(test.sentences).label_probs == parses.label_probs).all()


def test_other_arcs_than_those_of_the_pruner(toy_model):
    test = toy_corpus(1, 30)
    prepared, own = toy_model.prepare(test.sentences)
    parses = toy_model.parse(test.sentences)
    assert toy_model.infer(prepared, own).arcs.probs.tolist() == parses.arcs.probs.tolist()
    arcs = all_arcs(test.sentences.starts)
    assert (toy_model.infer(prepared, arcs).heads == test.heads).mean() > 0.98
    for bad in (arcs.heads + 1, arcs.heads[::-1], arcs.heads[:-1]):
        with pytest.raises(ValueError, match="S407"):
            toy_model.infer(prepared, arcs._replace(heads=np.ascontiguousarray(bad)))
    foreign = Encoder([*TAGS, "new"])([["x"]], [["new"]])
    with pytest.raises(ValueError, match="S406"):
        toy_model.parse(foreign)


def test_sentences_that_teach_nothing_are_counted():
    train = toy_corpus(0, 40)
    starts = train.sentences.starts
    long = np.flatnonzero(np.diff(starts) >= 4)[:2]
    assert len(long) == 2
    for first in starts[long]:
        train.heads[first : first + 4] = 3, 4, -1, -1  # these two cross
    with pytest.warns(UserWarning, match=r"\[W401\].* 2 of 40 ") as caught:
        fit(train, tags=TAGS, labels=LABELS, settings=SMALL)
    assert len(caught) == 1


def test_memory_of_training_does_not_grow_with_the_batch():
    """400 sentences of 200 tokens at once: charts and gradients of one take 3 MB."""
    peak = peak_memory("""
        import numpy as np
        from spacy_spectral.models.loglinear import Annotated, Encoder, Settings, fit
        from spacy_spectral.models.loglinear._learn import Learner
        n, tags = 200, ["N", "V"]
        data = Encoder(tags)([["dog", "ran"] * (n // 2)], [tags * (n // 2)])
        heads = np.arange(n, dtype=np.int32)
        model = fit(
            Annotated(data, heads, np.zeros(n, dtype=np.int32)), tags=tags, labels=["x"],
            settings=Settings(epochs=1, n_blocks=1, min_blocks=1),
        )
        arcs = model.pruner(data, heads)
        Learner(model.engine(), 1.0).gradient(
            data.columns, data.starts, data.tags, arcs.starts, arcs.heads, heads,
            np.zeros(n, dtype=np.int32), np.zeros(400, dtype=np.int32),
        )
    """)
    assert peak < 400


def test_useless_training_data_is_named():
    train = toy_corpus(0, 5)
    nothing = Annotated(train.sentences, np.full_like(train.heads, -1), train.labels)
    with pytest.raises(ValueError, match="S401"):
        fit(nothing, tags=TAGS, labels=LABELS)
    train.heads[:] = 0
    with pytest.raises(ValueError, match="S402"):
        fit(train, tags=TAGS, labels=LABELS)


def test_kernels_have_the_bins_of_the_tables():
    assert kernel_bins(40) == distance_bins(np.arange(1, 41)).tolist()
    assert max(kernel_bins(40)) == N_BINS - 1


def test_templates_without_columns():
    everything = compile_templates(set())
    without = compile_templates({name for name in COLUMNS if name.startswith("cluster")})
    assert len(without.pairs) < len(everything.pairs)
    assert without.composites[..., 1].max() < len(COLUMNS)


def tagged_sentences(rng, lengths, n_tags):
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tags = rng.integers(0, n_tags, starts[-1]).astype(np.int32)
    heads = np.concatenate([rng.integers(-1, n + 1, n) for n in lengths]).astype(np.int32)
    columns = np.zeros((len(tags), len(COLUMNS)), dtype=np.uint64)
    return Sentences(columns, starts, tags, np.ones(len(tags), dtype=bool)), heads


def separators_by_definition(data, heads, n_tags, n_bits):
    """Every arc with a mirror image, every tag: is it between?"""
    counts = np.full((2, N_BINS, n_tags), 0.5)
    totals = np.zeros(N_BINS)
    for begin, end in pairwise(data.starts):
        tags = data.tags[begin:end]
        for m, h in enumerate(heads[begin:end], 1):
            if h <= 0 or abs(h - m) == 1 or not 1 <= 2 * m - h <= end - begin or h == m:
                continue
            distance = distance_bins(np.asarray(h - m))
            totals[distance] += 1
            for which, other in enumerate((h, 2 * m - h)):
                for tag in set(tags[min(m, other) : max(m, other) - 1].tolist()):
                    counts[which, distance, tag] += 1
    gain = np.zeros(n_tags)
    for n, x, y in zip(totals, *counts, strict=True):
        for a, b in ((x, y), (n + 1 - x, n + 1 - y)):
            gain += (a + b) * np.log(2) + a * np.log(a / (a + b)) + b * np.log(b / (a + b))
    best = sorted(range(1, n_tags), key=lambda tag: (-round(gain[tag], 9), tag))[:n_bits]
    return [1 << best.index(tag) if tag in best else 0 for tag in range(n_tags)]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
def test_separators_are_those_of_the_definition(monkeypatch, chunk):
    monkeypatch.setattr(statistics_module, "_CHUNK", chunk)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n_tags = int(rng.integers(2, 20))
        data, heads = tagged_sentences(rng, rng.integers(1, 15, size=8), n_tags)
        bits = separators(data, heads, n_tags=n_tags, n_bits=4)
        assert bits.tolist() == separators_by_definition(data, heads, n_tags, 4)


def test_separators_take_little_memory_with_many_tags():
    data, heads = tagged_sentences(np.random.default_rng(0), [20] * 500, 1500)
    tracemalloc.start()
    separators(data, heads, n_tags=1500, n_bits=8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000 * 1500  # not even a byte for every token and tag
