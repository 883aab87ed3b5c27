"""UD-style scores against counts by hand, with the traps of spaCy's own scorer."""

import random

import numpy
import pytest
import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_spectral.pipeline.annotations import ParseValues, store_parse
from spacy_spectral.scorers import score_calibration, score_ud

WORDS = ["The", "dog", "saw", "it", "."]
HEADS = [1, 2, 2, 2, 2]
DEPS = ["det", "nsubj", "ROOT", "obj", "punct"]


def make(words=WORDS, heads=HEADS, deps=DEPS, tags=None):
    return Doc(Vocab(), words=words, heads=heads, deps=deps, tags=tags)


def test_all_tokens_and_no_punctuation():
    predicted = make(heads=[2, 2, 2, 2, 1], deps=["det", "nsubj", "root", "iobj", "punct"])
    scores = score_ud([Example(predicted, make())])
    assert (scores["uas"], scores["las"]) == (3 / 5, 2 / 5)
    assert (scores["uas_no_punct"], scores["las_no_punct"]) == (3 / 4, 2 / 4)
    assert (scores["tokens"], scores["sentences"], scores["tag_acc"]) == (5, 1, None)


def test_universal_labels_and_lemmas():
    gold = Doc(Vocab(), words=WORDS, heads=HEADS, deps=["det", "nsubj:pass", "ROOT", "obj", "punct"],
               lemmas=["the", "dog", "see", "it", ""])  # fmt: skip
    predicted = make(deps=["det", "nsubj", "ROOT", "obj:x", "obl"])
    predicted[1].lemma_, predicted[2].lemma_ = "dog", "saw"
    scores = score_ud([Example(predicted, gold)])
    assert (scores["las"], scores["las_universal"]) == (2 / 5, 4 / 5)
    assert (scores["las_universal_no_punct"], scores["lemma_acc"]) == (1.0, 1 / 4)


def test_punctuation_is_decided_by_the_gold_label():
    """Calling a word `punct` must not take it out of the score."""
    predicted = make(deps=["det", "punct", "ROOT", "obj", "punct"])
    scores = score_ud([Example(predicted, make())])
    assert (scores["las_no_punct"], scores["uas_no_punct"]) == (3 / 4, 1.0)


def test_missing_gold_heads_do_not_leak_into_other_examples():
    partial = make(deps=["det", "", "ROOT", "obj", "punct"])
    wrong = make(heads=[2, 0, 2, 2, 2])
    scores = score_ud([Example(make(), partial), Example(wrong, make())])
    assert scores["tokens"] == 9
    assert scores["uas"] == 7 / 9


def test_unparsed_documents_have_no_right_root():
    unparsed = Doc(Vocab(), words=WORDS, tags=["A", "B", "C", "D", "E"])
    scores = score_ud([Example(unparsed, make(tags=["A", "B", "C", "D", "X"]))])
    assert (scores["uas"], scores["las"], scores["tag_acc"]) == (0, 0, 4 / 5)


def test_full_labels_in_lower_case():
    gold = make(["a", "b", "c"], [1, 1, 1], ["nmod:poss", "ROOT", "Obj"])
    predicted = make(["a", "b", "c"], [1, 1, 1], ["nmod", "root", "obj"])
    assert score_ud([Example(predicted, gold)])["las"] == 2 / 3


def test_other_tokenisation_and_white_space():
    gold = make(["do", "n't", "go"], [2, 2, 2], ["aux", "advmod", "ROOT"])
    predicted = make(["don't", "  ", "go"], [2, 0, 2], ["aux", "dep", "ROOT"])
    scores = score_ud([Example(predicted, gold)])
    assert (scores["tokens"], scores["uas"]) == (3, 1 / 3)


def test_nothing_to_score():
    assert score_ud([])["uas"] is None
    scorer = spacy.registry.scorers.get("spacy-spectral.ud_scorer.v1")()
    assert scorer([])["dep_las_per_type"] is None


def test_registered_scorer_agrees_with_spacy_where_both_apply():
    """Same tokenisation, nothing missing, all labels: then spaCy's F-score is an accuracy."""
    chance = random.Random(0)
    examples = []
    for _ in range(50):
        gold, predicted = (
            make(
                heads=[chance.randrange(1, 3), 2, 2, chance.randrange(1, 3), 2],
                deps=[chance.choice("ab"), "c", "ROOT", chance.choice("bc"), "d"],
            )
            for _ in range(2)
        )
        examples.append(Example(predicted, gold))
    ours = spacy.registry.scorers.get("spacy-spectral.ud_scorer.v1")()(examples)
    theirs = Scorer.score_deps(examples, "dep", getter=lambda t, attr: t.dep_.lower())
    assert ours["dep_uas"] == pytest.approx(theirs["dep_uas"])
    assert ours["dep_las"] == pytest.approx(theirs["dep_las"])
    assert ours["dep_las_per_type"].keys() == theirs["dep_las_per_type"].keys()
    for label, scores in theirs["dep_las_per_type"].items():
        assert ours["dep_las_per_type"][label] == pytest.approx(scores)


def certain(doc, heads, labels=None):
    """The document with probabilities of its heads and labels."""
    values = ParseValues(
        sents=numpy.array([0, len(doc)], dtype="int32"),
        head_prob=numpy.array(heads, dtype="float32"),
        dep_prob=None if labels is None else numpy.array(labels, dtype="float32"),
    )
    store_parse(doc, values)
    return doc


def test_calibration_compares_probabilities_with_what_is_right():
    predicted = make(heads=[2, 2, 2, 2, 2], deps=["det", "nsubj", "ROOT", "iobj", "punct"])
    certain(predicted, [0.5, 0.9, 1.0, 0.8, 1.0], [0.5, 0.9, 1.0, 0.25, 1.0])
    partial = certain(make(["a", "b"], [1, 1], ["det", "ROOT"]), [0.3, 0.7])
    gold = make(["a", "b"], [1, 1], ["", "ROOT"])
    found = score_calibration([Example(predicted, make()), Example(partial, gold)])
    assert (found["heads"].counts.sum(), found["arcs"].counts.sum()) == (6, 5)
    wrong_head, wrong_arcs = 0.5**2, 0.25**2 + 0.2**2
    known = 0.1**2 + 0.2**2 + 0.3**2
    assert found["heads"].brier == pytest.approx((wrong_head + known) / 6, abs=1e-6)
    assert found["arcs"].brier == pytest.approx((wrong_arcs + 0.19**2) / 5, abs=1e-6)


def test_calibration_of_nothing():
    assert score_calibration([]) == {}
    assert score_calibration([Example(make(), make())]) == {}
    changed = certain(make(), [0.5] * 5)
    for token in changed:
        token.head = changed[2]  # "The" was parsed otherwise
    assert score_calibration([Example(changed, make())])["heads"].counts.sum() == 4
