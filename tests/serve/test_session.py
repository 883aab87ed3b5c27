"""What a person does to sentences, and what is shown then."""

import itertools
import random
from pathlib import Path

import numpy
import pytest

from spacy_spectral.base.errors import SpectralError
from spacy_spectral.serve import blocks
from spacy_spectral.serve.engine import Engine, complete_tree, expected_errors
from spacy_spectral.serve.journal import ACCEPTED, OPEN, Journal
from spacy_spectral.serve.session import Session
from spacy_spectral.treebank.conllu import Sentence, find_cycle, scan_conllu, tree_problems


@pytest.fixture(scope="module")
def engine(learnt):
    return Engine.load(learnt, number=0, told="the model")


@pytest.fixture
def session(engine, bare, tmp_path):
    journal = Journal(tmp_path / "o.conllu")
    journal.open("x", bare)
    yield Session(journal, engine)
    journal.close()


def heads(shown):
    return [word["head"] for word in shown["sentence"]["words"]]


def file_of(session):
    return session.journal.output.read_text(encoding="utf8")


def test_the_rest_is_parsed_anew_around_a_fix(session, engine):
    shown = session.view(3)
    before = heads(shown)
    n, changed = len(before), 0
    for word in range(1, n + 1):
        for head in range(n + 1):
            if head == word or str(head) == before[word - 1]:
                continue
            found = session.act({"do": "head", "sentence": 3, "word": word, "head": head})
            new = heads(found)
            assert new[word - 1] == str(head)
            assert found["sentence"]["words"][word - 1]["fixed"]
            local = [int(h) - 1 if h != "0" else i for i, h in enumerate(new)]
            assert tree_problems(local) == []
            changed += sum(a != b for a, b in zip(before, new, strict=True)) > 1
            assert heads(session.act({"do": "undo", "sentence": 3})) == before
    assert changed > n  # others changed with it


def test_probabilities_are_those_of_the_parser(session, engine, bare):
    sentence, _ = blocks.read_block(bare[3])
    doc = engine.nlp(spaced(engine.nlp, sentence))
    for token, word in zip(doc, session.view(3)["sentence"]["words"], strict=True):
        assert word["p"] == pytest.approx(token._.head_prob, abs=1e-4)
        assert word["q"] == pytest.approx(token._.dep_prob, abs=1e-4)
        assert word["head"] == ("0" if token.head == token else str(token.head.i + 1))
        assert (word["upos"], word["lemma"]) == (token.pos_, token.lemma_)
        total = word["p"] + sum(p for _, p in word["others"])
        assert total <= 1.001


def spaced(nlp, sentence):
    from spacy.tokens import Doc

    starts = [True] + [False] * (len(sentence) - 1)
    return Doc(nlp.vocab, words=sentence.words, spaces=sentence.spaces, sent_starts=starts)


def test_accepted_sentences_are_in_the_file(session, bare):
    before = session.view(0)["sentence"]
    found = session.act({"do": "accept", "sentence": 0})
    assert found["panel"]["accepted"] == 1 and found["sentence"]["id"] != 0
    text = file_of(session)
    # all other sentences are as they were
    assert text.endswith("".join(bare[1:]))
    sentence, problems = blocks.read_block(blocks.split_blocks(text)[0])
    assert problems == []
    assert [str(h + 1) if h != i else "0" for i, h in enumerate(sentence.heads)] == [
        word["head"] for word in before["words"]
    ]
    assert sentence.upos == [word["upos"] for word in before["words"]]
    session.act({"do": "undo", "sentence": 0})
    assert file_of(session) == "".join(bare)
    session.act({"do": "redo", "sentence": 0})
    assert file_of(session) == text
    # and can be edited again
    found = session.act(
        {"do": "value", "sentence": 0, "word": 1, "name": "lemma", "value": "new one"}
    )
    assert found["sentence"]["words"][0]["lemma"] == "new one" and file_of(session) == text
    session.act({"do": "accept", "sentence": 0})
    changed = [
        (a, b)
        for a, b in zip(text.split("\n"), file_of(session).split("\n"), strict=True)
        if a != b
    ]
    assert len(changed) == 1 and changed[0][1].split("\t")[2] == "new one"


def test_gold_sentences_stay_byte_for_byte(engine, gold, tmp_path):
    journal = Journal(tmp_path / "o.conllu")
    journal.open("x", gold)
    session = Session(journal, engine)
    for i in range(len(gold)):
        session.act({"do": "accept", "sentence": i})
    assert file_of(session) == "".join(gold)
    journal.close()


def test_a_label_fixes_its_arc(session):
    word = session.view(2)["sentence"]["words"][1]
    label = "root" if word["head"] == "0" else "dislocated"
    found = session.act({"do": "label", "sentence": 2, "word": 2, "value": label})
    new = found["sentence"]["words"][1]
    assert (new["head"], new["deprel"], new["fixed"]) == (word["head"], label, True)
    found = session.act({"do": "release", "sentence": 2, "word": 2})
    assert found["sentence"]["words"][1] == word | {"edited": ["deprel", "head"]}


def test_a_part_of_speech_changes_what_follows_from_it(session):
    words = session.view(2)["sentence"]["words"]
    place = next(i for i, word in enumerate(words) if word["upos"] == "NOUN")
    act = {"do": "value", "sentence": 2, "word": place + 1, "name": "upos", "value": "VERB"}
    new = session.act(act)["sentence"]["words"][place]
    assert new["upos"] == "VERB" and new["xpos"] != words[place]["xpos"]
    choices = session.choices(2, place + 1)
    assert choices["xpos"][0][0].startswith("V") or choices["xpos"][0][1] > 0
    assert all(a[1] >= b[1] for own in choices.values() for a, b in itertools.pairwise(own))


def test_the_best_trees_can_be_taken(session):
    trees = session.best_trees(1)
    assert [tree["logprob"] for tree in trees] == sorted(
        (t["logprob"] for t in trees), reverse=True
    )
    found = session.act({"do": "tree", "sentence": 1, "number": 2})
    assert heads(found) == [str(head) for head in trees[2]["heads"]]
    assert found["sentence"]["fixes"] == 1


def test_sentences_and_words_change_their_borders(session, bare):
    whole = session.view(4)["sentence"]
    n = session.view(4)["total"]
    found = session.act({"do": "split_sentence", "sentence": 4, "word": 3})
    assert found["total"] == n + 1 and len(found["sentence"]["words"]) == 2
    second = session.neighbour(4, 1)
    assert second == len(bare)
    found = session.act({"do": "join_sentences", "sentence": second})
    assert found["sentence"]["text"] == whole["text"] and found["total"] == n
    long = next(i for i, w in enumerate(whole["words"], 1) if len(w["form"]) > 3)
    found = session.act({"do": "split_token", "sentence": 4, "word": long, "at": 2})
    assert len(found["sentence"]["words"]) == len(whole["words"]) + 1
    found = session.act({"do": "join_tokens", "sentence": 4, "word": long})
    assert [w["form"] for w in found["sentence"]["words"]] == [w["form"] for w in whole["words"]]
    for _ in range(4):
        session.act({"do": "undo", "sentence": 0})
    assert file_of(session) == "".join(bare)
    assert session.view(4)["sentence"]["words"] == whole["words"]


def test_orders(session, bare):
    session.act({"do": "order", "sentence": 0, "value": "document"})
    seen = []
    found = session.view()
    while found["panel"]["left"]:
        seen.append(found["sentence"]["id"])
        do = "skip" if len(seen) == 3 else "accept"
        found = session.act({"do": do, "sentence": seen[-1]})
    assert seen == list(range(len(bare)))
    assert found["sentence"]["id"] == 2  # skipped ones come last
    assert session.act({"do": "accept", "sentence": 2})["sentence"] is None


def test_most_expected_errors_come_first(session):
    session.swap(None, {5: 0.5, 6: 2.0, 7: 1.0})
    assert session.view()["sentence"]["id"] == 6
    assert session.act({"do": "accept", "sentence": 6})["sentence"]["id"] == 7
    session.act({"do": "order", "sentence": 0, "value": "random"})
    assert session.view()["sentence"]["id"] == session.view()["sentence"]["id"]


def test_fixes_of_open_sentences_are_partial_annotation(session, bare):
    session.act({"do": "accept", "sentence": 0})
    session.act({"do": "head", "sentence": 1, "word": 1, "head": 2})
    text, n = session.annotated()
    assert n == 1
    path = session.journal.output.with_name("learn.conllu")
    path.write_text(text, encoding="utf8")
    _one, other = scan_conllu(path)
    assert isinstance(other, Sentence), other
    assert other.heads[0] == 1 and set(other.heads[1:]) == {-1}
    # a label is needed, too: without a model there is none
    assert other.deps[0]


def test_notes_and_search(session):
    session.act({"do": "note", "sentence": 2, "value": "is it so?"})
    assert session.view(2)["sentence"]["note"] == "is it so?"
    assert [found["id"] for found in session.search("note=so?")] == [2]
    form = session.view(5)["sentence"]["words"][0]["form"]
    assert 5 in [found["id"] for found in session.search(f"form={form}")]
    assert session.search("no such words at all") == []


@pytest.mark.parametrize(
    "what",
    [
        {"do": "head", "word": 1, "head": 1},
        {"do": "head", "word": 1, "head": 1000},
        {"do": "head", "word": 0, "head": 1},
        {"do": "head", "word": True, "head": 0},
        {"do": "label", "word": 1, "value": "a b"},
        {"do": "label", "word": 1, "value": "a||b"},
        {"do": "value", "word": 1, "name": "upos", "value": "NAME"},
        {"do": "value", "word": 1, "name": "feats", "value": "A"},
        {"do": "value", "word": 1, "name": "lemma", "value": "a\tb"},
        {"do": "value", "word": 1, "name": "head", "value": "1"},
        {"do": "value", "word": 1, "name": "xpos", "value": "a b"},
        {"do": "tree", "number": 99},
        {"do": "split_token", "word": 1, "at": 0},
        {"do": "split_sentence", "word": 1},
        {"do": "join_tokens", "word": 99},
        {"do": "order", "value": "best"},
        {"do": "undo"},
        {"do": "nothing"},
        {"do": None},
        {},
    ],
)
def test_what_can_not_be_done_changes_nothing(session, what):
    before, size = session.journal.items, session.journal.path.stat().st_size
    with pytest.raises(SpectralError, match=r"\[S\d+\]"):
        session.act({"sentence": 0, **what})
    assert session.journal.items is before and session.journal.path.stat().st_size == size


def test_from_nothing(bare, gold, tmp_path):
    """Without a model all is asked of the person."""
    journal = Journal(tmp_path / "o.conllu")
    journal.open("x", bare[:2])
    session = Session(journal, Engine())
    with pytest.raises(SpectralError, match="S671"):
        session.act({"do": "accept", "sentence": 0})
    for i, own in enumerate(blocks.values(gold[0]), start=1):
        session.act({"do": "head", "sentence": 0, "word": i, "head": int(own["head"])})
    for i, own in enumerate(blocks.values(gold[0]), start=1):
        session.act({"do": "label", "sentence": 0, "word": i, "value": own["deprel"]})
        for name in ("upos", "xpos", "lemma", "feats"):
            session.act({"do": "value", "sentence": 0, "word": i, "name": name, "value": own[name]})
    found = session.act({"do": "accept", "sentence": 0})
    assert found["sentence"]["id"] == 1 and found["sentence"]["words"][0]["head"] == "_"
    assert file_of(session) == gold[0] + bare[1]
    assert session.best_trees(1) == [] and session.choices(1, 1)["upos"]
    journal.close()


def test_crossing_fixes_still_give_a_tree():
    chance = random.Random(0)
    for _ in range(300):
        n = chance.randint(1, 9)
        order = chance.sample(range(1, n + 1), n)
        tree = [0] * n  # any tree, crossing arcs, too
        for i, word in enumerate(order[1:], start=1):
            tree[word - 1] = chance.choice(order[:i])
        given = numpy.array([h if chance.random() < 0.5 else -1 for h in tree], dtype="int32")
        marginals = numpy.random.default_rng(n).random((n + 1, n + 1))
        found = complete_tree(given, marginals)
        assert find_cycle(found) is None or find_cycle(found) == []
        assert found.count(0) == 1
        assert all(h == g for h, g in zip(found, given.tolist(), strict=True) if g >= 0)


def test_states_are_kept_over_restarts(session, bare, engine):
    session.act({"do": "accept", "sentence": 1})
    session.act({"do": "head", "sentence": 0, "word": 1, "head": 2})
    path = Path(session.journal.output)
    session.journal.close()
    journal = Journal(path)
    journal.open("x", None)
    again = Session(journal, engine)
    assert [item.status for item in journal.items[:3]] == [OPEN, ACCEPTED, OPEN]
    assert again.view(0)["sentence"]["words"][0]["head"] == "2"
    journal.close()


def test_errors_of_sentences_agree_with_the_order(learnt, bare, tmp_path, engine):
    from spacy_spectral.serve.learner import expected

    (tmp_path / "a.conllu").write_text("".join(bare), encoding="utf8")
    scores = expected(engine.nlp, tmp_path / "a.conllu")
    sentence, _ = blocks.read_block(bare[2])
    doc = engine.nlp(spaced(engine.nlp, sentence))
    probs = [token._.head_prob * token._.dep_prob for token in doc]
    assert scores[2] == pytest.approx(expected_errors(probs), abs=1e-4)
