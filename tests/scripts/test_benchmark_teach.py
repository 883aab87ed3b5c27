"""The table of what a parser learns from another one is printed, on a treebank too small to say anything."""

import json
import sys

import numpy
import pytest
import spacy

from pipelines import from_raw_text
from spacy_spectral.treebank.documents import read_docs


@pytest.fixture(scope="module")
def place(few, tmp_path_factory):
    path = tmp_path_factory.mktemp("teach")
    own = {"spectral_parser": {"model": {"@architectures": "spacy-spectral.LogLinear.v1"}}}
    from_raw_text(few["train"], **own).to_disk(path / "teacher")
    docs = read_docs(few["test"], spacy.blank("en").vocab)
    (path / "text.txt").write_text("\n".join(doc.text for doc in docs), "utf8")
    other = few["train"].read_text("utf8").replace("\tnsubj\t", "\tsubject\t")
    (path / "other.conllu").write_text(other, "utf8")
    return path


def test_rows(script, place, few, monkeypatch, capsys):
    arguments = ["benchmark_teach.py", str(few["train"]), str(few["dev"])]
    for name, value in {
        "teacher": place / "teacher",
        "text": place / "text.txt",
        "other": place / "other.conllu",
        "keep": place / "kept",
        "json": place / "figures.json",
        "epochs": 2,
    }.items():
        arguments += [f"--{name}", str(value)]
    rows = ["untaught", "hard-1", "soft-0.3", "likely", "agreed", "all", "other-named"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--only", *rows])
    script.main()
    assert "soft arcs of the likeliest" in capsys.readouterr().out
    found = json.loads((place / "figures.json").read_text("utf8"))
    # with names, all is parsed like the gold trees, and once more like the others
    assert [row["name"] for row in found] == [*rows, "other-named"]
    by_name = {row["name"]: row for row in found}
    assert by_name["untaught"]["tokens"] == 0 < by_name["hard-1"]["tokens"]
    assert by_name["all"]["tokens"] > 1.5 * by_name["hard-1"]["tokens"]
    assert [by_name[name]["weight"] for name in ("hard-1", "soft-0.3")] == [1, 0.3]
    for row in found:
        assert all(0.3 < row[key] <= 1 for key in ("uas", "las", "dev_uas", "dev_las"))
    # the other treebank has no such label
    assert found[-1]["dev_las"] < found[-2]["dev_las"] - 0.02
    assert found[-1]["dev_uas"] > found[-2]["dev_uas"] - 0.05


def test_rows_of_another_treebank_need_one(script, place, few, monkeypatch, capsys):
    arguments = [few["train"], few["dev"], "--teacher", "x", "--text", "x", "--only", "other"]
    monkeypatch.setattr(sys, "argv", ["benchmark_teach.py", *map(str, arguments)])
    with pytest.raises(SystemExit):
        script.main()
    assert "--other is missing" in capsys.readouterr().err


def test_the_likeliest_sentences_are_chosen(script):
    from refine_data import make_tokens
    from spacy_spectral.trees.sentences import Treebank, Trust

    tokens = make_tokens([[("a", "X")] * n for n in (2, 3, 4, 5)])
    silver = Treebank(tokens, numpy.zeros(14, dtype="int32"), ["x"] * 14, Trust.whole(4, 14))
    probs = numpy.array([0.5, 0.9, 0.7, 0.8])

    def lengths(*chosen):
        return numpy.diff(script.part_of(silver, *chosen).tokens.starts).tolist()

    assert lengths(0.3, None) == [2, 3]
    assert lengths(0.3, probs) == [3, 5]
    assert lengths(1.0, None) == lengths(1.0, probs) == [2, 3, 4, 5]


def test_sentences_by_whether_experts_agree(script, monkeypatch):
    """Of two sentences, the first has another head in one expert, and the second another label."""
    from types import SimpleNamespace

    from refine_data import make_tokens
    from spacy_spectral.models.product.parser import ProductParser
    from spacy_spectral.trees.sentences import Treebank

    def expert(names, heads, labels):
        parses = SimpleNamespace(heads=numpy.array(heads), labels=numpy.array(labels))
        return SimpleNamespace(label_names=names, parse=lambda tokens: parses)

    product = object.__new__(ProductParser)
    product.experts = {
        "one": expert(["x", "y"], [2, 0, 2, 3, 0], [0, 1, 0, 1, 1]),
        "other": expert(["y", "x"], [0, 0, 2, 3, 0], [1, 0, 1, 1, 0]),
    }
    monkeypatch.setattr(script.spacy, "load", lambda path: None)
    monkeypatch.setattr(script, "parser_of", lambda nlp: SimpleNamespace(grammar=product))
    tokens = make_tokens([[("a", "X")] * n for n in (2, 3)])
    silver = Treebank(tokens, numpy.zeros(5, dtype="int32"), ["x"] * 5)
    assert script.agreement("teacher", silver).tolist() == [1 / 2, 2 / 3]
