"""Picking sentences to annotate: in the order of the annotation page."""

import re

import pytest
import spacy
from spacy.cli._util import app
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.treebank.conllu import scan_conllu


def run(*arguments):
    result = CliRunner().invoke(app, ["spectral", "pick", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def expected(output):
    return [float(value) for value in re.findall("# expected_errors = (.*)", output)]


def test_doubtful_sentences_come_first(learnt, few, tmp_path):
    code, everything = run(learnt, few["dev"], "-n", 0)
    scores = expected(everything)
    assert code == 0 and len(scores) == 30 and scores == sorted(scores, reverse=True)
    _, first = run(learnt, few["dev"], few["test"], "-n", 7)
    _, all_ = run(learnt, few["dev"], few["test"], "-n", 0)
    assert all_.startswith(first) and len(expected(first)) == 7
    code, told = run(learnt, few["dev"], "-n", 5, "-o", tmp_path / "a.conllu")
    assert code == 0 and "5 of 30 sentences" in told
    assert everything.startswith((tmp_path / "a.conllu").read_text(encoding="utf8"))
    # words and comments are kept, and probabilities are there
    gold = {own.sent_id: own for own in scan_conllu(few["dev"])}
    found = list(scan_conllu(tmp_path / "a.conllu"))
    assert [own.words for own in found] == [gold[own.sent_id].words for own in found]
    assert everything.count("HeadProb=") == sum(len(own) for own in gold.values())


def test_scores_are_what_the_probabilities_say(learnt, few):
    _, everything = run(learnt, few["dev"], "-n", 3)
    for block in everything.strip().split("\n\n"):
        pairs = re.findall(r"HeadProb=([\d.]+)\|DepProb=([\d.]+)", block)
        errors = sum(1 - float(a) * float(b) for a, b in pairs) / len(pairs) ** 0.5
        assert errors == pytest.approx(expected(block)[0], abs=0.01)


def test_other_orders(learnt, few):
    _, document = run(learnt, few["dev"], "-n", 0, "--order", "document")
    ids = re.findall("# sent_id = (.*)", document)
    assert ids == [own.sent_id for own in scan_conllu(few["dev"])]
    random = [
        re.findall(
            "# sent_id = (.*)", run(learnt, few["dev"], "-n", 0, "--order", "random", *more)[1]
        )
        for more in ((), ("--seed", 0), ("--seed", 1))
    ]
    assert random[0] == random[1] != random[2] and sorted(random[2]) == sorted(ids)


def test_what_is_wrong_is_told(learnt, few, tmp_path):
    assert "S678" in run(learnt, few["dev"], "--order", "x")[1]
    assert "S201" in run(learnt, tmp_path / "none.txt")[1]
    spacy.blank("en").to_disk(tmp_path / "blank")
    code, told = run(tmp_path / "blank", few["dev"])
    assert code == 1 and "S688" in told
