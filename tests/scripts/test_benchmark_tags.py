"""The table of what a tagger learns from another treebank is printed, on one too small to say anything."""

import json
import sys

import pytest


@pytest.mark.parametrize("model", ["linear", "product"])
def test_rows(script, few, tmp_path, monkeypatch, capsys, model):
    other = few["train"].read_text("utf8").replace("\tNOUN\tNN", "\tNOUN\tTHING")
    (tmp_path / "other.conllu").write_text(other, "utf8")
    arguments = [few["train"], few["dev"], "--other", tmp_path / "other.conllu", "--weights", 0.5]
    arguments += ["--blocks", 1, "--epochs", 2, "--model", model, "--json", tmp_path / "all.json"]
    arguments += ["--only", "named"] if model == "product" else []
    monkeypatch.setattr(sys, "argv", ["benchmark_tags.py", *map(str, arguments)])
    script.main()
    assert "named, weight 0.5" in capsys.readouterr().out
    found = {row["name"]: row for row in json.loads((tmp_path / "all.json").read_text("utf8"))}
    named = found["named, weight 0.5"]
    assert 0.7 < named["dev_tags"] <= 1 and named["seconds"] > 0
    if model == "linear":
        # without names conventions are mixed
        assert found["plain, weight 0.5"]["dev_tags"] < named["dev_tags"]
        assert found["alone"]["dev_tags"] > 0.7
