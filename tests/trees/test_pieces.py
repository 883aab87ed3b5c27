"""Long sentences in pieces against enumeration of all their trees."""

from collections import defaultdict
from itertools import pairwise, product

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import is_single_root_projective, projective_trees
from spacy_spectral.trees._eisner import is_part_of_tree
from spacy_spectral.trees.interface import ArcProbs, Parse
from spacy_spectral.trees.parses import cut_treebank, parse_in_pieces
from spacy_spectral.trees.posterior import possible
from spacy_spectral.trees.sentences import MISSING, Tokens, Treebank, Trust

LABELS = 2


def weights(token, head, label):
    """Some positive number for every arc between tokens of a batch (-1 is the root) and label."""
    return 0.05 + (((token + 1) * 7 + (head + 2) * 13 + label * 5) * 2654435761 % 1009) / 1009


def distribution(tokens, fixed=None):
    """P(heads, labels) of tokens as a sentence."""
    result = {} if tokens else {((), ()): 1.0}
    for heads in projective_trees(len(tokens)):
        if fixed is not None and any(
            f not in (MISSING, h) for f, h in zip(fixed, heads, strict=True)
        ):
            continue
        for labels in product(range(LABELS), repeat=len(tokens)):
            result[heads, labels] = numpy.prod(
                [
                    weights(token, tokens[h - 1] if h else -1, label)
                    for token, h, label in zip(tokens, heads, labels, strict=True)
                ]
            )
    total = sum(result.values())
    return {tree: weight / total for tree, weight in result.items()}


class EnumeratedParses:
    """`trees.interface.Parses` by definition."""

    def __init__(self, tokens, starts, fixed, labelled):
        self.labelled = labelled
        self.starts = starts
        self.trees = [
            distribution(tokens[a:b], None if fixed is None else fixed[a:b].tolist())
            for a, b in pairwise(starts)
        ]
        best = [max(trees, key=trees.get) for trees in self.trees]
        self.heads = numpy.array([h for heads, _ in best for h in heads], dtype="int32")
        self.labels = numpy.array([x for _, labels in best for x in labels], dtype="int32")
        self.best = best

    def _joint(self, s):
        joint = defaultdict(float)
        for (heads, labels), prob in self.trees[s].items():
            for m, (h, label) in enumerate(zip(heads, labels, strict=True), start=1):
                joint[m, h, label] += prob
        return dict(sorted(joint.items()))

    def _arc(self, s):
        arcs = defaultdict(float)
        for (m, h, _), prob in self._joint(s).items():
            arcs[m, h] += prob
        return arcs

    def head_probs(self):
        pairs = [
            (self._arc(s), m, h)
            for s, (heads, _) in enumerate(self.best)
            for m, h in enumerate(heads, start=1)
        ]
        return numpy.array([arcs[m, h] for arcs, m, h in pairs])

    def label_probs(self):
        found = []
        for s, tree in enumerate(self.best):
            joint, arcs = self._joint(s), self._arc(s)
            for m, (h, label) in enumerate(zip(*tree, strict=True), start=1):
                found.append(joint[m, h, label] / arcs[m, h])
        return numpy.array(found)

    def _log_prob(self, s, tree):
        if self.labelled:
            return numpy.log(self.trees[s][tree])
        return numpy.log(sum(p for (heads, _), p in self.trees[s].items() if heads == tree[0]))

    def log_probs(self):
        return numpy.array([self._log_prob(s, tree) for s, tree in enumerate(self.best)])

    def marginals(self, s):
        n = len(self.best[s][0])
        result = numpy.zeros((n + 1, n + 1))
        for (m, h), prob in self._arc(s).items():
            result[h, m] = prob
        return result

    def arcs(self, s, *, labelled=False, min_prob=1e-6):
        rows = [
            (key[1], key[0], key[2] if labelled else MISSING, prob)
            for key, prob in (self._joint(s) if labelled else self._arc(s)).items()
            if prob >= min_prob
        ]
        columns = list(zip(*rows, strict=True))
        return ArcProbs(
            *(numpy.array(c, dtype="int32") for c in columns[:3]), numpy.array(columns[3])
        )

    def label_distributions(self, s):
        joint, arcs = self._joint(s), self._arc(s)
        return numpy.array(
            [
                [joint.get((m, h, label), 0.0) / arcs[m, h] for label in range(LABELS)]
                for m, h in enumerate(self.best[s][0], start=1)
            ]
        )

    def k_best(self, s, k, *, labelled=False):
        if labelled:
            every = sorted(self.trees[s].items(), key=lambda item: -item[1])
            return [
                Parse(*(numpy.array(part, dtype="int32") for part in tree), numpy.log(prob))
                for tree, prob in every[:k]
            ]
        found = {}
        for tree in self.trees[s]:
            if tree[0] not in found or self.trees[s][tree] > self.trees[s][found[tree[0]]]:
                found[tree[0]] = tree
        parses = [
            Parse(*(numpy.array(part, dtype="int32") for part in tree), self._log_prob(s, tree))
            for tree in found.values()
        ]
        return sorted(parses, key=lambda parse: -parse.log_prob)[:k]


def parse(starts, *, max_length, fixed=None, labelled=False):
    def of_tokens(tokens, starts, fixed):
        return EnumeratedParses(numpy.arange(1000)[tokens].tolist(), starts, fixed, labelled)

    return parse_in_pieces(
        of_tokens, numpy.array(starts, "int32"), max_length=max_length, fixed=fixed
    )


def joined(pieces, top):
    """A tree of the sentence, from trees of its pieces and one over them; labels likewise."""
    heads, labels, roots = [], [], []
    for own_heads, own_labels in pieces:
        roots.append(len(heads) + own_heads.index(0) + 1)
        shift = len(heads)
        heads += [h + shift if h else None for h in own_heads]
        labels += own_labels
    for root, h, label in zip(roots, *top, strict=True):
        heads[root - 1] = roots[h - 1] if h else 0
        labels[root - 1] = label
    return tuple(heads), tuple(labels)


def expected(begin, edges, roots):
    """P(heads, labels) of a sentence cut at edges; `roots` are the tokens that stand for pieces on top."""
    parts = [distribution(list(range(begin + a, begin + b))) for a, b in pairwise(edges)]
    parts.append(distribution(roots))
    result = defaultdict(float)
    for trees in product(*parts):
        probs = [part[tree] for part, tree in zip(parts, trees, strict=True)]
        result[joined(trees[:-1], trees[-1])] += numpy.prod(probs)
    return result


@pytest.mark.parametrize("labelled", [False, True])
def test_everything_is_that_of_the_product(labelled):
    """A sentence of five tokens in two pieces, between two short ones."""
    parses = parse([0, 2, 2, 7, 8], max_length=3, labelled=labelled)
    edges = [0, 2, 5]
    cut = EnumeratedParses(list(range(8)), [0, 2, 2, 4, 7, 8], None, labelled)
    roots = [2 + cut.best[2][0].index(0), 4 + cut.best[3][0].index(0)]
    trees = expected(2, edges, roots)
    assert sum(trees.values()) == pytest.approx(1.0)
    heads, labels = tuple(parses.heads[2:7].tolist()), tuple(parses.labels[2:7].tolist())
    joint = defaultdict(float)
    unlabelled = defaultdict(float)
    for (own_heads, own_labels), prob in trees.items():
        assert is_single_root_projective(own_heads)
        unlabelled[own_heads] += prob
        for m, (h, label) in enumerate(zip(own_heads, own_labels, strict=True), start=1):
            joint[m, h, label] += prob
    marginals = numpy.zeros((6, 6))
    for (m, h, _), prob in joint.items():
        marginals[h, m] += prob
    numpy.testing.assert_allclose(parses.marginals(2), marginals)
    arcs = parses.arcs(2, min_prob=0.0)
    assert (arcs.labels == MISSING).all() and len(arcs.heads) == (marginals > 0).sum()
    numpy.testing.assert_allclose(arcs.probs, marginals[arcs.heads, arcs.modifiers])
    few = parses.arcs(2, min_prob=0.2)
    assert len(few.heads) == (marginals >= 0.2).sum() > 0
    arcs = parses.arcs(2, labelled=True, min_prob=0.0)
    found = dict(
        zip(zip(arcs.modifiers, arcs.heads, arcs.labels, strict=True), arcs.probs, strict=True)
    )
    assert found == {key: pytest.approx(prob) for key, prob in joint.items()}
    assert list(found) == sorted(found)
    tokens = numpy.arange(1, 6)
    numpy.testing.assert_allclose(parses.head_probs()[2:7], marginals[heads, tokens])
    given = [
        joint[m, h, label] / marginals[h, m]
        for m, h, label in zip(tokens, heads, labels, strict=True)
    ]
    numpy.testing.assert_allclose(parses.label_probs()[2:7], given)
    rows = parses.label_distributions(2)
    numpy.testing.assert_allclose(rows[numpy.arange(5), labels], given)
    numpy.testing.assert_allclose(rows.sum(axis=1), 1.0)
    log_prob = parses.log_probs()[2]
    own = trees[heads, labels] if labelled else unlabelled[heads]
    assert log_prob == pytest.approx(numpy.log(own))
    every = parses.k_best(2, 10_000)
    assert {tuple(p.heads.tolist()) for p in every} == set(unlabelled) and len(every) == len(
        unlabelled
    )
    for found in every:
        tree = tuple(found.heads.tolist()), tuple(found.labels.tolist())
        own = trees[tree] if labelled else unlabelled[tree[0]]
        assert found.log_prob == pytest.approx(numpy.log(own))
    logs = [p.log_prob for p in every]
    assert logs == sorted(logs, reverse=True)
    for k in (1, 4):
        assert [p.log_prob for p in parses.k_best(2, k)] == pytest.approx(logs[:k])
    every = parses.k_best(2, 10_000, labelled=True)
    found = {(tuple(p.heads.tolist()), tuple(p.labels.tolist())): p.log_prob for p in every}
    assert len(found) == len(every)
    assert found == pytest.approx({tree: numpy.log(prob) for tree, prob in trees.items()})
    assert [p.log_prob for p in every] == sorted(found.values(), reverse=True)


def test_other_sentences_are_as_they_were():
    starts = [0, 2, 2, 7, 8]
    parses, whole = (parse(starts, max_length=length) for length in (3, 9))
    for s, begin, end in ((0, 0, 2), (3, 7, 8)):
        assert parses.heads[begin:end].tolist() == whole.heads[begin:end].tolist()
        assert parses.marginals(s).tolist() == whole.marginals(s).tolist()
        assert parses.log_probs()[s] == whole.log_probs()[s]
        assert parses.k_best(s, 2)[0].log_prob == whole.k_best(s, 2)[0].log_prob
        assert parses.arcs(s).probs.tolist() == whole.arcs(s).probs.tolist()
        assert parses.label_distributions(s).tolist() == whole.label_distributions(s).tolist()


@pytest.mark.parametrize("n", [3, 7, 11, 20])
@pytest.mark.parametrize("max_length", [0, 2, 3])
def test_pieces_of_pieces(n, max_length):
    parses = parse([0, n], max_length=max_length)
    assert is_single_root_projective(parses.heads.tolist())
    numpy.testing.assert_allclose(parses.marginals(0)[:, 1:].sum(axis=0), 1.0)
    arcs = parses.arcs(0, min_prob=0.0)
    numpy.testing.assert_allclose(numpy.bincount(arcs.modifiers, arcs.probs)[1:], 1.0)
    found = parses.k_best(0, 5)
    # one token and two: 2 trees of the second piece, 2 over both
    assert len({p.heads.tobytes() for p in found}) == (4 if n == 3 > max_length else 5)
    assert all(is_single_root_projective(p.heads.tolist()) for p in found)


@settings(max_examples=60)
@given(st.data())
def test_fixed_heads_are_kept_in_pieces(data):
    n = data.draw(st.integers(4, 9))
    tree = list(data.draw(st.sampled_from(projective_trees(min(n, 6)))))
    # the rest hangs on the last of them, one after the other
    tree += list(range(len(tree), n))
    fixed = numpy.array([h if data.draw(st.booleans()) else MISSING for h in tree], dtype="int32")
    length = numpy.abs(fixed - numpy.arange(1, n + 1))[fixed > 0].max(initial=0)
    if length > 3:
        return  # the pieces that hold such arcs are too large to be enumerated
    parses = parse([0, n], max_length=2, fixed=fixed)
    known = fixed != MISSING
    assert parses.heads[known].tolist() == fixed[known].tolist()
    assert is_single_root_projective(parses.heads.tolist())
    tokens = numpy.flatnonzero(known)
    numpy.testing.assert_allclose(parses.marginals(0)[fixed[known], tokens + 1], 1.0)
    for found in parses.k_best(0, 3):
        assert found.heads[known].tolist() == fixed[known].tolist()


# what can be part of a tree


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_parts_of_trees_are_those_of_enumeration(n):
    trees = projective_trees(n) if n else [()]
    parts = {
        tuple(h if keep else MISSING for h, keep in zip(heads, kept, strict=True))
        for heads in trees
        for kept in product([False, True], repeat=n)
    }
    for heads in product(range(-2, n + 2), repeat=n):
        assert is_part_of_tree(numpy.array(heads, dtype="int32")) == (heads in parts), heads


@given(st.lists(st.integers(-1, 7), min_size=5, max_size=7))
def test_parts_of_longer_trees(heads):
    n = len(heads)
    agree = any(
        all(h in (MISSING, own) for h, own in zip(heads, tree, strict=True))
        for tree in projective_trees(n)
    )
    assert possible(numpy.array(heads)) == agree


# what is learnt from


def test_treebanks_are_cut():
    words = list("abcdefghij")
    tokens = Tokens(numpy.array([0, 3, 10], "int32"), *([list(words)] * 5))
    heads = numpy.array([2, 0, 2, 2, 0, 2, 2, 4, -1, 1], dtype="int32")
    labels = [f"l{i}" for i in range(10)]
    cut = cut_treebank(Treebank(tokens, heads, labels), 4)
    assert cut.tokens.starts.tolist() == [0, 3, 6, 10]
    # in the last piece, two hang on the one before it
    assert cut.heads.tolist() == [2, 0, 2, 2, 0, 2, -1, 1, -1, -1]
    assert cut.labels == [*labels[:6], "", "l7", "l8", ""]
    heads[6:] = [2, 4, 4, 4]
    cut = cut_treebank(Treebank(tokens, heads, labels), 4)
    assert cut.heads.tolist() == [2, 0, 2, 2, 0, 2, 0, 1, 1, 1]
    assert cut.labels[6] == "" and cut.labels[:6] == labels[:6]
    assert cut_treebank(Treebank(tokens, heads, labels), 7).heads is heads


def test_what_is_believed_of_trees_is_cut_with_them():
    tokens = Tokens(numpy.array([0, 3, 10], "int32"), *([list("abcdefghij")] * 5))
    heads = numpy.array([2, 0, 2, 2, 0, 2, 2, 4, 4, 4], dtype="int32")
    others = numpy.array([0, -1, 1, 3, -1, 5, -1, 1, 6, 0], dtype="int32")
    names = ["" if head < 0 else f"m{i}" for i, head in enumerate(others.tolist())]
    shares = numpy.linspace(0.5, 0.95, 10, dtype="float32")
    weights = numpy.array([1, 0.25], dtype="float32")
    trust = Trust(weights, shares, others, names)
    bank = Treebank(tokens, heads, [f"l{i}" for i in range(10)], trust)
    cut = cut_treebank(bank, 4).trust
    assert cut.weights.tolist() == [1, 0.25, 0.25]
    # arcs from another piece are not there, and roots of a piece are not those of the sentence
    assert cut.heads.tolist() == [0, -1, 1, 3, -1, -1, -1, -1, 3, -1]
    assert cut.labels == ["m0", "", "m2", "m3", "", "", "", "", "m8", ""]
    assert [i for i, share in enumerate(cut.shares) if share < 1] == [0, 2, 3, 8]
    # halves, put together again; gold trees are believed wholly
    joined = Treebank.mixed([bank, Treebank(tokens, heads, bank.labels)])
    gold = [MISSING] * 10
    assert joined.trust.weights.tolist() == [1, 1, 0.25, 1]
    assert joined.trust.heads.tolist() == [*others[:3], *gold[:3], *others[3:], *gold[3:]]
    assert joined.trust.labels == [*names[:3], *[""] * 3, *names[3:], *[""] * 7]
    assert joined.trust.shares[[0, 6, 12]].tolist() == shares[[0, 3, 9]].tolist()
    assert (joined.trust.shares[[3, 4, 5, 13, 19]] == 1).all()
    with pytest.raises(ValueError, match=r"S640.*SHAG"):
        bank.require_gold("SHAG.v1")
