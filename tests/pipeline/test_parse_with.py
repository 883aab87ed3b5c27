"""Parsing documents under conditions."""

import math

import pytest
import spacy
from spacy.tokens import Doc

from spacy_spectral.forest.conditions import (
    HeadIs,
    HeadIsNot,
    LabelIs,
    NoCrossing,
    RootIs,
    SameHead,
)
from spacy_spectral.trees.interface import Temperature

SPECTRAL = {"@architectures": "spacy-spectral.SHAG.v1", "estimator": "spectral", "states": 8}


@pytest.fixture(scope="module")
def parsed(trained, examples):
    """The parser, and a parsed document of two sentences with white space between."""
    docs = [eg.reference for eg in examples(trained)[:2]]
    words = [[t.text for t in doc] for doc in docs]
    tags = [[t.tag_ for t in doc] for doc in docs]
    first = len(words[0])
    starts = [i in (0, first + 1) for i in range(len(words[0]) + 1 + len(words[1]))]
    doc = Doc(
        trained.vocab,
        [*words[0], "\n", *words[1]],
        tags=[*tags[0], "", *tags[1]],
        sent_starts=starts,
    )
    parser = trained.get_pipe("spectral_parser")
    return parser, parser(doc), first


def test_without_conditions_it_is_the_likeliest_tree(parsed):
    """The parse itself may be another tree, with the best sum of marginals."""
    parser, doc, _ = parsed
    found = parser.parse_with(doc, [])
    assert len(found) == 2
    for own, trees, table in zip(found, parser.nbest(doc, 20), parser.marginals(doc), strict=True):
        assert own.probability == pytest.approx(1)
        assert own.tree.logprob >= max(tree.logprob for tree in trees) - 1e-9
        words = [i for i in range(own.tree.start, len(doc)) if not doc[i].is_space]
        place = {i: k for k, i in enumerate(words)}
        for k, (head, prob) in enumerate(zip(own.tree.heads, own.head_probs, strict=True)):
            assert prob == pytest.approx(table[k, place[head]], abs=1e-9)


def test_conditions_hold(parsed):
    parser, doc, first = parsed
    before = doc.to_bytes()
    last = first - 1
    tree = parser.parse_with(doc, [RootIs(last)])[0].tree
    assert tree.heads[last] == last
    tree = parser.parse_with(doc, [HeadIs(0, 2)])[0].tree
    assert tree.heads[0] == 2
    head = doc[0].head.i
    tree = parser.parse_with(doc, [HeadIsNot(0, head)])[0].tree
    assert tree.heads[0] != head
    tree = parser.parse_with(doc, [SameHead(0, last)])[0].tree
    assert tree.heads[0] == tree.heads[last]
    tree = parser.parse_with(doc, [NoCrossing(0, 2)])[0].tree
    assert sum(tree.heads[i] not in (0, 1, 2) or tree.heads[i] == i for i in range(3)) == 1
    label = next(label for label in parser.labels if label != doc[1].dep_)
    found = parser.parse_with(doc, [LabelIs(1, label)])
    assert found[0].tree.deps[1] == label and found[0].probability < 1
    assert parser.parse_with(doc, [LabelIs(1, label.upper())])[0].tree == found[0].tree
    # the other sentence is as it was
    assert found[1].probability == pytest.approx(1)
    second = first + 1
    tree = parser.parse_with(doc, [RootIs(second)])[1].tree
    assert tree.start == second and tree.heads[0] == second
    assert doc.to_bytes() == before


def test_bad_conditions(parsed):
    parser, doc, first = parsed
    for bad in (
        HeadIs(0, first + 2),  # of another sentence
        HeadIs(0, 0),
        HeadIs(0, 999),
        HeadIs(first, 0),  # white space
        RootIs(-1),
        SameHead(1, 1),
        NoCrossing(2, 0),
        LabelIs(0, "no such label"),
    ):
        with pytest.raises(ValueError, match="S915"):
            parser.parse_with(doc, [bad])
    with pytest.raises(ValueError, match=r"S919.*'HeadIs'"):
        parser.parse_with(doc, ["HeadIs"])
    with pytest.raises(ValueError, match=r"S916.*RootIs\(token=0\), RootIs\(token=1\)"):
        parser.parse_with(doc, [RootIs(0), RootIs(1)])


def test_long_sentences(parsed, monkeypatch):
    parser, doc, first = parsed
    monkeypatch.setattr("spacy_spectral.pipeline.conditions.MAX_LENGTH", 2)
    found = parser.parse_with(doc, [])
    tokens = [token for token in doc if not token.is_space]
    assert [head for own in found for head in own.tree.heads] == [t.head.i for t in tokens]
    assert [dep for own in found for dep in own.tree.deps] == [t.dep_ for t in tokens]
    assert all(own.probability == 1 for own in found)
    with pytest.raises(ValueError, match=rf"S918.*RootIs\(token={first + 1}\).*up to 2"):
        parser.parse_with(doc, [RootIs(first + 1)])


@pytest.mark.parametrize(("calibrated", "last"), [(False, 380), (True, 180)])
def test_projected_automata_give_probabilities(examples, calibrated, last):
    """Values of single trees can be below 0, so that those of others sum to more than 1."""
    nlp = spacy.blank("en")
    parser = nlp.add_pipe("spectral_parser", config={"model": SPECTRAL})
    read = examples(nlp)
    nlp.initialize(lambda: read[:80])
    if calibrated:
        parser.learner.keep_temperature(Temperature(2.0, 1.0, 2.0, 0.7))
    doc = parser(Doc.from_docs([example.predicted for example in read[80:last]]))
    sents = list(doc.sents)
    assert max(sent._.parse_logprob for sent in sents) <= 0
    for best in parser.nbest(doc, 5):
        assert math.fsum(math.exp(tree.logprob) for tree in best) <= 1 + 1e-9
        assert max(tree.logprob for tree in best) <= 0
    for rank in (-1, -2):
        conditions, expected = [], []
        for sent, table in zip(sents, parser.marginals(doc), strict=True):
            token = len(sent) // 2
            head = int(table[token].argsort()[rank])
            place = sent.start + token, sent.start + head
            conditions.append(RootIs(place[0]) if head == token else HeadIs(*place))
            expected.append(table[token, head])
        found = parser.parse_with(doc, conditions)
        assert max(own.tree.logprob for own in found) <= 0
        assert [own.probability for own in found] == pytest.approx(expected, rel=1e-9)
