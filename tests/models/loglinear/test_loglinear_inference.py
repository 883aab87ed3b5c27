"""The log-linear parser against enumeration of all trees and against finite differences."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from brute_force import Always, compare_conditioned, meets, projective_trees
from loglinear_data import LABELS, TAGS, all_arcs, hide, pruned_arcs, random_corpus
from spacy_spectral.forest.conditions import (
    HeadIs,
    HeadIsNot,
    LabelIs,
    NoCrossing,
    SameHead,
    SentenceTrees,
    conditioned,
)
from spacy_spectral.models.loglinear._features import training_keys
from spacy_spectral.models.loglinear._learn import Learner
from spacy_spectral.models.loglinear.encode import PRUNER, compile_templates
from spacy_spectral.models.loglinear.model import ArcPruner, LogLinearModel
from spacy_spectral.models.loglinear.packed import packed_trees, sharper_scores
from spacy_spectral.models.loglinear.statistics import build_table
from spacy_spectral.trees.conditions import MixedTrees
from spacy_spectral.trees.interface import Temperature
from spacy_spectral.trees.sentences import N_BINS


def no_margins(data):
    return np.full(len(data), np.inf)


def log_probs(parsed, data):
    return parsed["forests"].log_probs(data.starts, parsed["heads"], parsed["labels"])


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
    for heads in projective_trees(int(last - first)):
        if all(h in mine for h, mine in zip(heads, kept, strict=True)):
            for labels, score in tree_scores(model, part, heads).items():
                scores[heads, labels] = score
    log_z = np.logaddexp.reduce(list(scores.values()))
    return {tree: np.exp(score - log_z) for tree, score in scores.items()}


def likeliest_labels(forests):
    """RETURNS: The label of every arc of all sentences, if none were dropped."""
    return np.concatenate([forests.joint(s)[2].argmax(axis=1) for s in range(len(forests))])


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
        assert np.exp(log_probs(parsed, data)[sentence]) == pytest.approx(own, abs=1e-5)


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
    inputs = (data.columns, data.starts, data.tags, arcs.starts, arcs.heads)
    forests = model.engine().parse(*inputs, no_margins(data))["forests"]
    n_found = 0
    for sentence in np.flatnonzero(np.diff(data.starts) >= 4).tolist():
        first, last = data.starts[sentence : sentence + 2].tolist()
        scored = forests.scores(sentence)
        packed = packed_trees(last - first, scored, model.label_classes, model.allowed)
        trees = {
            (tree, tuple(LABELS[i] for i in labels)): p
            for (tree, labels), p in enumerate_sentence(model, data, arcs, sentence).items()
        }
        if any(all(meets(c, *tree) for c in conditions) for tree in trees):
            found = conditioned(
                last - first, SentenceTrees(Always(packed)), conditions, names=LABELS
            )
            compare_conditioned(found, trees, conditions, rel=1e-6)
            best = tuple(found.heads.tolist()), tuple(LABELS[i] for i in found.labels)
            own = trees[best] / sum(trees.values()) / found.probability
            assert np.exp(found.log_prob) == pytest.approx(own, rel=1e-6)
            n_found += 1
        else:
            with pytest.raises(ValueError, match="S916"):
                conditioned(last - first, SentenceTrees(Always(packed)), conditions, names=LABELS)
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
    for name in ("arc_probs", "label_probs"):
        assert other[name] == pytest.approx(one[name], abs=precise)
    assert log_probs(other, data) == pytest.approx(log_probs(one, data), abs=precise)
    sharp = replace(model, temperature=Temperature(heads=1.5, labels=0.8), _engine=None)
    one, other = sharp.engine().parse(*inputs), sharp.engine(to_learn=False).parse(*inputs)
    assert other["arc_probs"] == pytest.approx(one["arc_probs"], abs=precise)


def mixed(trees, states, choice, share, arc_scores):
    """The definition: a share of P^choice of trees with their states, but P(state | arc)^1.5 if that is less;
    labels given these as they are."""

    def correction(heads, own):
        total = 0.0
        for m, (h, state) in enumerate(zip(heads, own, strict=True), start=1):
            weights = np.exp(arc_scores[h, m] - arc_scores[h, m].max())
            total += np.log(weights[np.array(states) == state].sum() / weights.sum())
        return np.exp((min(choice, 1.5) - choice) * total)

    groups = {}
    for (heads, labels), p in trees.items():
        key = heads, tuple(states[label] for label in labels)
        groups[key] = groups.get(key, 0.0) + p
    powers = {key: p**choice * correction(*key) for key, p in groups.items()}
    total = sum(powers.values())
    result = {}
    for (heads, labels), p in trees.items():
        key = heads, tuple(states[label] for label in labels)
        result[heads, labels] = share * powers[key] / total * p / groups[key] + (1 - share) * p
    return result


@pytest.mark.parametrize(("choice", "share"), [(1.8, 0.4), (0.6, 0.7), (1.8, 1.0), (1.8, 0.0)])
def test_mixtures_are_those_of_enumeration(random_model, choice, share):
    model, data, heads, _ = random_model
    states = model.label_classes.tolist()
    model = replace(model, temperature=Temperature(1.0, 1.0, choice, share), _engine=None)
    arcs = pruned_arcs(np.random.default_rng(3), data, heads)
    inputs = (data.columns, data.starts, data.tags, arcs.starts, arcs.heads)
    parsed = model.engine().parse(*inputs, no_margins(data))
    for sentence in range(len(data)):
        trees = enumerate_sentence(model, data, arcs, sentence)
        first, last = data.starts[sentence : sentence + 2]
        n = int(last - first)
        scored = parsed["forests"].scores(sentence)
        arc_scores = np.full((n + 1, n + 1, len(LABELS)), -np.inf)
        arc_scores[scored["heads"], scored["modifiers"]] = scored["scores"]
        arc_scores[0][:, model.allowed[1] == 0] = -np.inf
        arc_scores[1:][..., model.allowed[0] == 0] = -np.inf
        trees = mixed(trees, states, choice, share, arc_scores)
        expected = np.zeros((n + 1, n + 1, len(LABELS)))
        for (tree, labels), p in trees.items():
            expected[list(tree), range(1, n + 1), list(labels)] += p
        found = np.zeros_like(expected)
        arc_heads, modifiers, joint = parsed["forests"].joint(sentence)
        found[arc_heads, modifiers] = joint
        assert found == pytest.approx(expected, abs=1e-5)
        for token in range(first, last):
            own = slice(arcs.starts[token], arcs.starts[token + 1])
            assert parsed["arc_probs"][own] == pytest.approx(
                expected.sum(axis=2)[arcs.heads[own], token - first + 1], abs=1e-5
            )
            row = expected[parsed["heads"][token], token - first + 1]
            assert parsed["label_probs"][token] == pytest.approx(row / row.sum(), abs=1e-4)
        chosen = tuple(tuple(parsed[name][first:last].tolist()) for name in ("heads", "labels"))
        assert np.exp(log_probs(parsed, data)[sentence]) == pytest.approx(trees[chosen], rel=1e-4)
        for tree, labels, log_prob in zip(*parsed["forests"].k_best(sentence, 5), strict=True):
            own = trees[tuple(tree.tolist()), tuple(labels.tolist())]
            assert np.exp(log_prob) == pytest.approx(own, rel=1e-4, abs=1e-9)
        both = [
            (weight, packed_trees(n, scores, model.label_classes, model.allowed))
            for weight, scores in (
                (share, sharper_scores(scored, model.label_classes, model.allowed, choice)),
                (1 - share, scored),
            )
        ]
        names = {
            (tree, tuple(LABELS[label] for label in labels)): p
            for (tree, labels), p in trees.items()
        }
        packed = MixedTrees(both, n, labelled=True)
        for conditions in ([], [HeadIsNot(n, 0)] if n > 1 else []):
            result = conditioned(n, SentenceTrees(Always(packed)), conditions, names=LABELS)
            compare_conditioned(result, names, conditions, rel=1e-4, labelled=None)
            # the best of the mixture is, at least, what its own score says
            score = np.exp(result.log_prob) * result.probability
            key = tuple(result.heads.tolist()), tuple(LABELS[i] for i in result.labels.tolist())
            assert score == pytest.approx(names[key], rel=1e-3)


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


def believed(rng, data, arcs, heads, labels):
    """Weights of sentences, shares of the arcs of a tree, and other arcs of some tokens."""
    weights = rng.choice([0.25, 1, 1.5], len(data)).astype(np.float32)
    shares = np.ones(len(heads), dtype=np.float32)
    others, their_labels = (np.full(len(heads), -1, dtype=np.int32) for _ in range(2))
    for m in np.flatnonzero(rng.random(len(heads)) < 0.7):
        # another head, or the same one with another label
        head = int(rng.choice(arcs.heads[arcs.starts[m] : arcs.starts[m + 1]]))
        free = [] if head == 0 else [i for i in (1, 2, 3) if (head, i) != (heads[m], labels[m])]
        if (head == 0) != (heads[m] == 0):
            free = [0] if head == 0 else free
        if free:
            shares[m], others[m] = rng.uniform(0.2, 0.9), head
            their_labels[m] = rng.choice(free)
    return weights, shares, others, their_labels


def test_silver_trees_count_as_far_as_they_are_believed(random_model):
    """The loss is the cross-entropy towards the distribution of all trees of believed arcs."""
    model, data, heads, labels = random_model
    arcs = all_arcs(data.starts)
    trust = believed(np.random.default_rng(3), data, arcs, heads, labels)
    weights, shares, others, their_labels = trust
    n_several = 0
    for sentence in range(len(data)):
        first = data.starts[sentence]
        found, skipped = Learner(model.engine(), 1.0).gradient(
            data.columns, data.starts, data.tags, arcs.starts, arcs.heads, heads, labels,
            np.asarray([sentence], dtype=np.int32), map, *trust,
        )  # fmt: skip
        target = {}
        for tree in (trees := enumerate_sentence(model, data, arcs, sentence)):
            weight = 1.0
            for m, arc in enumerate(zip(*tree, strict=True), start=first):
                is_own = arc == (heads[m], labels[m])
                is_other = arc == (others[m], their_labels[m])
                weight *= shares[m] * is_own + (1 - shares[m]) * is_other
            if weight:
                target[tree] = weight
        n_several += len(target) > 1
        total = sum(target.values())
        expected = -sum(weight / total * np.log(trees[tree]) for tree, weight in target.items())
        assert found == pytest.approx(weights[sentence] * expected, rel=1e-5) and not skipped
    assert n_several > len(data) // 2


def test_trees_that_are_wholly_believed_are_gold_bit_by_bit(random_model):
    model, data, heads, labels = random_model
    arcs = pruned_arcs(np.random.default_rng(7), data, heads)
    batch = np.arange(len(data), dtype=np.int32)
    whole, none = np.ones(len(heads), dtype=np.float32), np.full(len(heads), -1, dtype=np.int32)
    # another arc that has no share
    some = np.where(np.arange(len(heads)) % 2, heads, none).astype(np.int32)
    same = np.where(some < 0, -1, np.maximum(labels, 1)).astype(np.int32)
    gradients = []
    for trust in [
        (),
        (whole[: len(data)], whole, none, none),
        (whole[: len(data)], whole, some, same),
    ]:
        learner = Learner(model.engine(), 1.0)
        loss, _ = learner.gradient(
            data.columns, data.starts, data.tags, arcs.starts, arcs.heads, heads, labels, batch,
            map, *trust,
        )  # fmt: skip
        gradients.append((loss, *learner.gradients()))
    for loss, entries, moves in gradients[1:]:
        assert loss == pytest.approx(gradients[0][0], rel=1e-6)
        assert (entries == gradients[0][1]).all() and (moves == gradients[0][2]).all()


@pytest.mark.parametrize("kind", ["whole", "partial", "silver"])
def test_gradient_is_that_of_finite_differences(random_model, kind):
    model, data, heads, labels = random_model
    rng = np.random.default_rng(7)
    arcs = pruned_arcs(rng, data, heads)
    trust = believed(rng, data, arcs, heads, labels) if kind == "silver" else ()
    if kind == "partial":
        heads, labels = hide(rng, heads, labels)
    model = replace(model, entries=model.entries.copy(), moves=model.moves.copy())
    batch = np.arange(len(data), dtype=np.int32)

    def loss(learner):
        return learner.gradient(
            data.columns, data.starts, data.tags, arcs.starts, arcs.heads, heads, labels, batch,
            map, *trust,
        )[0]  # fmt: skip

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
