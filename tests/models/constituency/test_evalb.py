"""Scores as `evalb` counts them; what it prints for these trees with COLLINS.prm was read off its source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_spectral.models.constituency.evalb import Constituent, constituents, score_trees
from spacy_spectral.treebank.brackets import Tree, read_brackets


def trees(tmp_path, *lines):
    path = tmp_path / "trees.ptb"
    path.write_text("\n".join(lines), encoding="utf8")
    return list(read_brackets(path))


def compare(tmp_path, gold, predicted):
    return score_trees(trees(tmp_path, gold), trees(tmp_path, predicted))


GOLD = "(ROOT (S (NP (DT The) (NN dog)) (VP (VBZ barks) (PRT (RP out))) (. .)))"


def test_equal_trees(tmp_path):
    counts = compare(tmp_path, GOLD, GOLD)
    assert (counts.f1, counts.precision, counts.recall) == (1, 1, 1)
    assert (counts.exact_match, counts.tag_accuracy) == (1, 1)
    # S, NP, VP and PRT: the root is no bracket
    assert counts.gold.total() == 4
    # punctuation is no word
    assert counts.words == 4


@pytest.mark.parametrize(
    "predicted, matched, n_predicted",
    [
        # a wrong label
        ("(ROOT (S (NP (DT The) (NN dog)) (NP (VBZ barks) (PRT (RP out))) (. .)))", 3, 4),
        # PRT and ADVP are the same
        ("(ROOT (S (NP (DT The) (NN dog)) (VP (VBZ barks) (ADVP (RP out))) (. .)))", 4, 4),
        # where punctuation hangs does not matter
        ("(ROOT (S (NP (DT The) (NN dog)) (VP (VBZ barks) (PRT (RP out)) (. .))))", 4, 4),
        # nor what is only around punctuation
        ("(ROOT (S (NP (DT The) (NN dog)) (VP (VBZ barks) (PRT (RP out))) (NP (. .))))", 4, 4),
        # functions do not matter
        ("(TOP (S (NP-SBJ=2 (DT The) (NN dog)) (VP (VBZ barks) (PRT (RP out))) (. .)))", 4, 4),
        # brackets are matched one to one
        ("(ROOT (S (NP (NP (DT The) (NN dog))) (VP (VBZ barks) (PRT (RP out))) (. .)))", 4, 5),
        # no structure at all
        ("(ROOT (S (DT The) (NN dog) (VBZ barks) (RP out) (. .)))", 1, 1),
        # evalb would skip this sentence ("Length unmatch"): words are deleted by gold tags here
        ("(ROOT (S (NP (DT The) (NN dog)) (VP (VBZ barks) (PRT (RP out))) (NN .)))", 4, 4),
        ("(ROOT (S (NP (DT The) (, dog)) (VP (VBZ barks) (PRT (RP out))) (. .)))", 4, 4),
    ],
)
def test_cases(tmp_path, predicted, matched, n_predicted):
    counts = compare(tmp_path, GOLD, predicted)
    assert counts.matched.total() == matched
    assert counts.gold.total() == 4
    assert counts.predicted.total() == n_predicted
    assert counts.exact == (matched == n_predicted == 4)
    assert counts.precision == matched / n_predicted
    assert counts.recall == matched / 4
    assert counts.f1 == pytest.approx(2 * matched / (4 + n_predicted))


def test_tags(tmp_path):
    counts = compare(tmp_path, "(S (DT a) (NN b) (. .))", "(S (DT a) (NNP b) (, .))")
    assert counts.tag_accuracy == 0.5
    counts = compare(tmp_path, "(S (RB a) (PRT b))", "(S (RB a) (ADVP b))")
    assert counts.tag_accuracy == 1


def test_nothing_but_punctuation(tmp_path):
    counts = compare(tmp_path, "(ROOT (NP (. .) (: :)))", "(ROOT (S (. .) (: :)))")
    assert (counts.f1, counts.exact_match, counts.tag_accuracy) == (None, None, None)
    assert counts.sentences == 0


def test_a_bracket_that_fits_no_token_is_wrong():
    from spacy_spectral.models.constituency.evalb import Counts

    counts = Counts()
    gold = [Constituent("S", 0, 2), Constituent("NP", 0, 1)]
    counts.add(gold, [Constituent("S", 0, 2), Constituent("NP", -1, -1)], ["A", "B"], ["A", ""])
    assert (counts.matched.total(), counts.predicted.total(), counts.gold.total()) == (1, 2, 2)
    assert counts.tag_accuracy == 0.5
    assert not counts.exact


TREES = st.recursive(
    st.builds(
        lambda label, word: Tree(label, word=word),
        st.sampled_from(["A", "B", ".", ","]),
        st.just("w"),
    ),
    lambda inner: st.builds(
        Tree, st.sampled_from(["S", "NP"]), st.lists(inner, min_size=1, max_size=4)
    ),
    max_leaves=10,
)


def slow_brackets(node, tags, spans, place):
    """Another way to the same brackets: recursion, and spans as tuples of the words that are kept."""
    if node.word:
        place.append(len(place))
        return [place[-1]] if tags[place[-1]] not in (".", ",") else []
    words = [word for child in node.children for word in slow_brackets(child, tags, spans, place)]
    if words:
        spans.append((node.label, tuple(words)))
    return words


@given(TREES, TREES)
def test_against_another_way_to_count(gold, predicted):
    tags = [leaf.label for leaf in gold.leaves()]
    if len(tags) != sum(1 for _ in predicted.leaves()):
        predicted = Tree("S", [Tree("A", word="w") for _ in tags])
    ours, theirs = [], []
    slow_brackets(gold, tags, ours, [])
    slow_brackets(predicted, tags, theirs, [])
    matched = 0
    left = list(theirs)
    for bracket in ours:
        if bracket in left:
            left.remove(bracket)
            matched += 1
    counts = score_trees([gold], [predicted])
    assert counts.gold.total() == len(ours)
    assert counts.predicted.total() == len(theirs)
    assert counts.matched.total() == matched
    words_left = sum(tag not in (".", ",") for tag in tags)
    assert counts.words == words_left
    assert counts.sentences == bool(words_left)
    assert counts.exact == (bool(words_left) and sorted(ours) == sorted(theirs))


def test_constituents(tmp_path):
    found, tags = constituents(trees(tmp_path, GOLD)[0])
    assert found == [("ROOT", 0, 5), ("S", 0, 5), ("NP", 0, 2), ("VP", 2, 4), ("PRT", 3, 4)]
    assert tags == ["DT", "NN", "VBZ", "RP", "."]
