"""Pseudo-projective trees against spaCy's own and against the definition."""

from itertools import pairwise

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.pipeline._parser_internals import nonproj

from spacy_spectral.trees.pseudoprojective import (
    DELIMITER,
    deprojectivize,
    find_cycle,
    projective_tree,
    projectivize,
)
from spacy_spectral.trees.sentences import MISSING, Tree

LABELS = ["nmod", "obl", "advcl", "punct"]


@st.composite
def trees(draw, max_length=10):
    """Any tree with one root, mostly not projective: nodes join in a random order."""
    n = draw(st.integers(1, max_length))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k, m in enumerate(order[1:], start=1):
        heads[m - 1] = order[draw(st.integers(0, k - 1))]
    labels = draw(st.lists(st.sampled_from(LABELS), min_size=n, max_size=n))
    return heads, labels


def ancestors(heads, m):
    found = []
    while heads[m - 1] > 0:
        m = heads[m - 1]
        found.append(m)
    return found


def is_projective(heads):
    """Every token strictly inside an arc is below the arc's head (a missing head is a wildcard)."""
    for m, h in enumerate(heads, start=1):
        if h <= 0:
            continue
        for k in range(min(h, m) + 1, max(h, m)):
            path = [k, *ancestors(heads, k)]
            if h not in path and heads[path[-1] - 1] != MISSING:
                return False
    return True


def to_spacy(heads):
    return [m if head == 0 else head - 1 for m, head in enumerate(heads)]


@settings(deadline=None, max_examples=300)
@given(trees())
def test_projectivize_as_spacy_does(tree):
    heads, labels = tree
    lifted, decorated = projectivize(heads, labels)
    expected_heads, expected_labels = nonproj.projectivize(to_spacy(heads), labels)
    assert to_spacy(lifted.tolist()) == expected_heads
    assert decorated == expected_labels
    assert is_projective(lifted.tolist())


@settings(deadline=None, max_examples=200)
@given(trees())
def test_lifted_arcs_go_to_ancestors_and_others_stay(tree):
    heads, labels = tree
    lifted, decorated = projectivize(heads, labels)
    assert (lifted == 0).sum() == 1
    for m, (old, new) in enumerate(zip(heads, lifted.tolist(), strict=True), start=1):
        if old == new:
            assert decorated[m - 1] == labels[m - 1]
        else:
            assert new in ancestors(heads, m)[1:]
            assert decorated[m - 1] == labels[m - 1] + DELIMITER + labels[old - 1]
    if is_projective(heads):
        assert lifted.tolist() == heads and decorated == labels
    again, _ = projectivize(lifted, labels)
    assert again.tolist() == lifted.tolist()


@settings(deadline=None, max_examples=200)
@given(trees())
def test_unique_labels_are_restored(tree):
    """Where a label names one token only, nothing is lost."""
    heads, _ = tree
    labels = [f"label{m}" for m in range(len(heads))]
    restored, plain = deprojectivize(*projectivize(heads, labels))
    assert restored.tolist() == heads and plain == labels


@settings(deadline=None, max_examples=200)
@given(trees(), st.data())
def test_any_decoration_gives_a_tree(tree, data):
    """A parser may predict decorations that make no sense."""
    heads, labels = tree
    heads = projectivize(heads, labels)[0].tolist()
    extra = st.sampled_from(["", *(DELIMITER + label for label in [*LABELS, "other"])])
    predicted = [label + data.draw(extra) for label in labels]
    restored, plain = deprojectivize(heads, predicted)
    assert plain == labels
    assert (restored == 0).sum() == 1
    for m in range(1, len(heads) + 1):
        assert len(ancestors(restored.tolist(), m)) < len(heads)
        if DELIMITER not in predicted[m - 1]:
            assert restored[m - 1] == heads[m - 1]


def test_a_single_lifted_arc_is_restored_as_spacy_does():
    """A hearing is scheduled on the issue today."""
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

    heads = [2, 4, 4, 0, 2, 7, 5, 4]  # "on ... issue" belongs to "hearing"
    labels = ["det", "nsubj", "aux", "root", "nmod", "det", "obl", "advmod"]
    lifted, decorated = projectivize(heads, labels)
    assert lifted.tolist() == [2, 4, 4, 0, 4, 7, 5, 4]
    assert decorated[4] == "nmod||nsubj"
    doc = Doc(Vocab(), words=["w"] * 8, heads=to_spacy(lifted.tolist()), deps=decorated)
    nonproj.deprojectivize(doc)
    restored, plain = deprojectivize(lifted, decorated)
    assert to_spacy(restored.tolist()) == [token.head.i for token in doc] == to_spacy(heads)
    assert plain == [token.dep_ for token in doc] == labels


@settings(deadline=None, max_examples=200)
@given(trees(), st.data())
def test_partial_annotation(tree, data):
    heads, labels = tree
    for m in data.draw(st.sets(st.integers(0, len(heads) - 1))):
        heads[m], labels[m] = MISSING, ""
    lifted, decorated = projectivize(heads, labels)
    for m, (old, new) in enumerate(zip(heads, lifted.tolist(), strict=True)):
        if old == MISSING:
            assert new == MISSING and decorated[m] == ""
        if new == MISSING:
            assert decorated[m] == ""
        if old == 0:
            assert new == 0
    assert is_projective(lifted.tolist())


def test_trees_keep_words_and_symbols():
    tree = Tree(
        ["a", "b", "c", "d"], list("ABCD"), numpy.array([3, 4, 0, 3], "int32"), list("wxyz")
    )
    lifted = projective_tree(tree)
    assert len(lifted) == 4 and lifted.words == tree.words and lifted.symbols == tree.symbols
    assert lifted.heads.dtype == numpy.int32
    assert tree.heads.tolist() == [3, 4, 0, 3]


@pytest.mark.parametrize("heads", [[], [0], [MISSING], [MISSING, MISSING]])
def test_small_trees(heads):
    lifted, labels = projectivize(heads, [""] * len(heads))
    assert lifted.tolist() == heads and labels == [""] * len(heads)
    restored, _ = deprojectivize(lifted, labels)
    assert restored.tolist() == heads


@settings(deadline=None)
@given(st.integers(1, 7).flatmap(lambda n: st.lists(st.integers(-1, n), min_size=n, max_size=n)))
def test_cycles_are_found(heads):
    """Where there is one, projectivizing would never end."""
    cycle = find_cycle(heads)
    if cycle:
        assert all(heads[m - 1] == h for m, h in pairwise(cycle)) and cycle[0] == cycle[-1]
        assert len(cycle) == len(set(cycle)) + 1
        with pytest.raises(ValueError, match="S410"):
            projectivize(heads, [""] * len(heads))
        return
    for m in range(1, len(heads) + 1):
        for _ in heads:
            m = heads[m - 1] if m > 0 else m
        assert m <= 0
