"""The annotation server: its routes, learning, and what it refuses."""

import json
import random

import pytest

from servers import ask, running
from spacy_spectral.base.errors import SpectralError
from spacy_spectral.serve import annotate, blocks
from spacy_spectral.serve.annotate import annotation_app, open_work
from spacy_spectral.treebank.conllu import Sentence, scan_conllu

TOKEN = "secret"


@pytest.fixture
def source(bare, tmp_path):
    path = tmp_path / "in.conllu"
    path.write_text("".join(bare), encoding="utf8")
    return path


@pytest.fixture
def server(source, learnt, works_here):
    work = open_work(source, model=str(learnt), every=0)
    with running(annotation_app(work, TOKEN)) as port:
        yield port, work


def post(port, what):
    body = json.dumps(what)
    return ask(port, "POST", f"/{TOKEN}/api/act", body, {"content-type": "application/json"})


def test_the_page_and_its_parts_are_there(server):
    port, _ = server
    found = ask(port, "GET", f"/{TOKEN}/")
    assert found.status == 200 and b"<dialog" in found.body
    for name in ("app.js", "draw.js", "style.css", "icon.svg"):
        assert ask(port, "GET", f"/{TOKEN}/{name}").status == 200
        # nothing is loaded from elsewhere
        assert b"https:" not in ask(port, "GET", f"/{TOKEN}/{name}").body
    for name in ("learner.py", "..%2Fsession.py", "nothing.js", "page"):
        assert ask(port, "GET", f"/{TOKEN}/{name}").status == 404


def test_a_sentence_is_annotated(server, source):
    port, work = server
    shown = ask(port, "GET", f"/{TOKEN}/api/view?sentence=2").json["sentence"]
    word = next(
        i for i, own in enumerate(shown["words"], 1) if own["head"] not in ("0", "1") and i != 1
    )
    found = post(port, {"do": "head", "sentence": 2, "word": word, "head": 1})
    assert found.json["sentence"]["words"][word - 1]["head"] == "1"
    assert ask(port, "GET", f"/{TOKEN}/api/choices?sentence=2&word={word}").json["deprel"]
    assert ask(port, "GET", f"/{TOKEN}/api/trees?sentence=2").json
    assert ask(port, "GET", f"/{TOKEN}/api/search?q=upos%3DX").json == []
    assert post(port, {"do": "accept", "sentence": 2}).json["panel"]["accepted"] == 1
    written = list(scan_conllu(work.journal.output, trees=False))
    assert written[2].heads[word - 1] == 0 and -1 not in written[2].heads
    assert source.read_text(encoding="utf8") != work.journal.output.read_text(encoding="utf8")


def test_wrong_questions_get_clear_answers(server):
    port, _ = server
    views = ["view?sentence=x", "view?sentence=99"]
    for path in [*views, "choices", "choices?sentence=1&word=0", "trees", "x"]:
        found = ask(port, "GET", f"/{TOKEN}/api/{path}")
        assert found.status in (400, 404) and found.json["error"], path


def test_others_are_refused(server):
    port, _ = server
    assert ask(port, "GET", "/").status == 403
    assert ask(port, "GET", f"/{TOKEN}x/api/view").status == 403
    assert ask(port, "GET", f"/{TOKEN}/", headers={"host": "evil.example"}).status == 421
    assert ask(port, "GET", f"/{TOKEN}/", headers={"origin": "http://evil.example"}).status == 403
    assert ask(port, "DELETE", f"/{TOKEN}/api/act").status == 405
    assert ask(port, "GET", f"/{TOKEN}/api/act").status == 405


def test_damaged_requests_change_nothing(server):
    """Fuzz: what is wrong gets 4xx, and no file changes."""
    port, work = server
    before = [work.journal.output.read_bytes(), work.journal.path.read_bytes()]
    chance = random.Random(0)
    values = [None, -1, 0, 1e9, True, "", "x" * 2000, "\0", "\ud800", [], {}, 2**70, 0.5, "a\tb"]
    names = ["sentence", "word", "head", "value", "name", "at", "number", "do"]
    known = ["head", "label", "value", "tree", "split_token", "join_tokens", "note", "order", "x"]
    for _ in range(300):
        what = {name: chance.choice(values) for name in chance.sample(names, 5)}
        what["do"] = chance.choice(known)
        what["sentence"] = chance.choice([0, *values[:3]])
        body = json.dumps(what).encode()
        if chance.random() < 0.3:
            at = chance.randrange(len(body))
            body = body[:at] + bytes([chance.randrange(256)]) + body[at + chance.randrange(3) :]
        if what["do"] in ("note", "order") and isinstance(what.get("value"), str):
            continue
        found = ask(port, "POST", f"/{TOKEN}/api/act", body)
        assert 400 <= found.status < 500, (body, found)
        assert "Traceback" not in found.body.decode() and found.json["error"]
    assert ask(port, "POST", f"/{TOKEN}/api/act", b"x" * (1 << 17)).status == 413
    assert [work.journal.output.read_bytes(), work.journal.path.read_bytes()] == before


@pytest.mark.usefixtures("works_here")
def test_text_becomes_sentences(tmp_path, learnt):
    path = tmp_path / "a.txt"
    path.write_text("The cook laughed. A dog saw the garden!\n\nWe left.", encoding="utf8")
    for i, model in enumerate((None, str(learnt))):
        work = open_work(path, tmp_path / f"{i}.conllu", model=model, every=0)
        assert [len(item) for item in scan_conllu(work.journal.output, trees=False)] == [4, 6, 3]
        work.close()
    # the same again goes on
    work = open_work(path, tmp_path / "0.conllu", every=0)
    assert work.session.view()["total"] == 3
    work.close()


def test_wrong_inputs_are_told(tmp_path, bare):
    with pytest.raises(SpectralError, match="S201"):
        open_work(tmp_path / "none.txt")
    (tmp_path / "a.txt").write_text(" \n")
    with pytest.raises(SpectralError, match="S675"):
        open_work(tmp_path / "a.txt")
    (tmp_path / "a.conllu").write_text("1\ta\n\n")
    with pytest.raises(SpectralError, match=r"a.conllu:1: \[S013\]"):
        open_work(tmp_path / "a.conllu")
    (tmp_path / "b.conllu").write_text(bare[0])
    with pytest.raises(SpectralError, match="S004"):
        open_work(tmp_path / "b.conllu", tmp_path / "b.conllu" / "c.conllu")
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".journal")]


def test_a_file_is_annotated_in_place(tmp_path, gold):
    path = tmp_path / "a.conllu"
    path.write_text("".join(gold), encoding="utf8")
    work = open_work(path, path, every=0)
    work.session.act({"do": "value", "sentence": 0, "word": 1, "name": "lemma", "value": "x"})
    work.session.act({"do": "accept", "sentence": 0})
    work.close()
    assert path.read_text(encoding="utf8").endswith("".join(gold[1:]))
    work = open_work(path, path, every=0)
    assert work.session.view()["panel"]["accepted"] == 1
    work.close()


@pytest.mark.usefixtures("works_here")
def test_it_learns_from_nothing(few, tmp_path):
    """After some accepted sentences there is a model; after more, another; and after a restart, the last."""
    source = tmp_path / "in.conllu"
    sentences = blocks.split_blocks(few["train"].read_text(encoding="utf8"))[:40]
    source.write_text("".join(sentences), encoding="utf8")
    work = open_work(source, every=10, first=4)
    session, learner = work.session, work.learner
    assert session.engine.nlp is None
    told = [session.engine.told]
    for i in range(40):
        # gold sentences are accepted as they are
        session.act({"do": "accept", "sentence": i})
        learner.consider()
        learner.wait()
        assert "failed" not in session.learning
        if session.engine.told != told[-1]:
            told.append(session.engine.told)
    assert told[1:] == [
        f"model {k}, {n} accepted sentences" for k, n in enumerate((4, 14, 24, 34), 1)
    ]
    assert session.view()["panel"]["las"] > 30
    assert len(list(learner.directory.iterdir())) == 1
    work.close()
    work = open_work(source, every=10)
    assert work.session.engine.told == told[-1]
    work.learner.wait()
    work.close()


def test_a_model_goes_on_learning(few, bare, learnt, tmp_path):
    source = tmp_path / "in.conllu"
    source.write_text("".join(bare), encoding="utf8")
    work = open_work(source, model=str(learnt), train=few["train"], every=2)
    work.learner.wait()  # all sentences have been looked at
    assert set(work.session.scores) == set(range(len(bare)))
    found = work.session.view()
    first = found["sentence"]["id"]
    assert work.session.scores[first] == max(work.session.scores.values())
    for _ in range(2):
        found = work.session.act({"do": "accept", "sentence": found["sentence"]["id"]})
    work.learner.consider()
    work.learner.wait()
    assert work.session.learning == "" and work.session.engine.number == 1
    assert first not in work.session.scores and len(work.session.scores) == len(bare) - 2
    work.close()


def test_failed_training_is_told(few, learnt, tmp_path, monkeypatch):
    source = tmp_path / "in.conllu"
    source.write_text(few["dev"].read_text(encoding="utf8"), encoding="utf8")
    work = open_work(source, model=str(learnt), train=few["train"], every=1)
    work.learner.wait()
    work.learner.more = "no CoNLL-U\n\n"
    work.session.act({"do": "accept", "sentence": 0})
    work.learner.consider()
    work.learner.wait()
    assert "failed" in work.session.learning and "S013" in work.session.learning
    assert work.session.engine.number == 0
    assert work.session.act({"do": "accept", "sentence": 1})["panel"]["accepted"] == 2
    work.close()


@pytest.mark.usefixtures("works_here")
def test_what_is_written_is_always_valid(source, learnt):
    """A script that clicks about."""
    work = open_work(source, model=str(learnt), every=0)
    session, chance = work.session, random.Random(1)
    done = set()
    for _ in range(250):
        items = session.journal.items
        item = chance.choice(items[:8])
        n = len(blocks.values(item.block))
        word, other = chance.randint(1, n), chance.randint(0, n)
        what = chance.choice(
            [
                {"do": "head", "word": word, "head": other},
                {"do": "head", "word": word, "head": other},
                {"do": "label", "word": word, "value": chance.choice(["obj", "nsubj", "root"])},
                {"do": "value", "word": word, "name": "upos", "value": "VERB"},
                {"do": "release", "word": word},
                {"do": "tree", "number": chance.randint(0, 4)},
                {"do": "split_token", "word": word, "at": 1},
                {"do": "join_tokens", "word": word},
                {"do": "split_sentence", "word": word},
                {"do": "join_sentences"},
                {"do": "accept"},
                {"do": "undo"},
                {"do": "redo"},
                {"do": "note", "value": "hm"},
            ]
        )
        try:
            session.act({"sentence": item.id, **what})
            done.add(what["do"])
        except SpectralError:
            pass
        found = list(scan_conllu(work.journal.output, trees=False))
        assert all(isinstance(own, Sentence) for own in found), found
        assert len(found) == len(session.journal.items)
    assert len(done) == 13
    work.close()


def test_names_of_files(tmp_path):
    assert annotate.stem(tmp_path / "a.conllu.gz") == "a"
