"""`spacy spectral evaluate --raw`."""

import sys

import pytest
import srsly
from spacy.cli._util import app
from typer.testing import CliRunner

from pipelines import from_raw_text
from spacy_spectral.raw import MEASURES, evaluate_raw


@pytest.fixture(scope="module")
def nlp(sample):
    pytest.importorskip("udtools.udeval")
    return from_raw_text(sample["train"])


def test_all_measures(nlp, sample):
    scores = evaluate_raw(nlp, sample["dev"])
    assert set(scores) == {*map(str.lower, MEASURES), "words_per_second"}
    for name, least in {
        "tokens": 0.99,
        "words": 0.99,
        "sentences": 0.9,
        "lemmas": 0.9,
        "las": 0.6,
    }.items():
        assert least < scores[name] <= 1


def test_command(nlp, sample, tmp_path):
    nlp.to_disk(tmp_path / "model")
    arguments = ["spectral", "evaluate", str(tmp_path / "model"), str(sample["dev"]), "--raw"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "scores.json")])
    assert result.exit_code == 0, result.output
    assert "Lemmas" in result.output
    assert srsly.read_json(tmp_path / "scores.json")["words"] > 0.99


def test_what_is_missing_is_said_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "udtools", None)
    with pytest.raises(ValueError, match="S607"):
        evaluate_raw(None, tmp_path)
