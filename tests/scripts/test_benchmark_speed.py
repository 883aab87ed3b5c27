"""The benchmark of speed runs through, on a treebank too small to say anything."""

import argparse

import pytest
import spacy
from arguments import settings_of
from benchmark_pipeline import CONFIGS
from spacy.training.initialize import init_nlp

ARCS = "arcs that the pruner leaves, a token"


def test_speed(script, few, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("The dog saw a man. It ran.\n\nA man saw the dog.\n", encoding="utf8")
    options = argparse.Namespace(
        train=few["train"], dev=few["dev"], lang="en", vectors=None, fair_vectors=False, quick=True,
        minutes=0, symbol="TAG", text=text, lines=20, rounds=1, models=[tmp_path / "ours"],
        thresholds=[None], most=[None], names=None,
    )  # fmt: skip
    config = spacy.util.load_config(CONFIGS / "pipeline.cfg", overrides=settings_of(options))
    init_nlp(config).to_disk(tmp_path / "ours")
    figures = script.run(options, tmp_path)
    assert list(figures) == ["spaCy", str(tmp_path / "ours")]
    assert figures["spaCy"]["ratio"] == 1 and "las" not in figures["spaCy"]
    ours = figures[str(tmp_path / "ours")]
    assert ours["words_s"] > 0 and ours["ratio"] > 0 and 0.5 < ours["las"] <= ours["uas"] <= 1
    parts = ours["microseconds"]
    assert next(iter(parts)) == "tokenizer" and list(parts)[-2:] == ["spectral_parser", "all"]
    assert parts["all"] == pytest.approx(sum(list(parts.values())[:-1]))
    assert min(ours["reads"].values()) > 0
    assert "times spaCy" in capsys.readouterr().out
    # the same with other limits of its pruner, by another name
    options.thresholds, options.most, options.names = [0.01, 0.9], [10, 2], ["ours"]
    figures = script.run(options, tmp_path)
    assert list(figures)[1:] == [
        "ours, threshold 0.01, most 10", "ours, threshold 0.01, most 2",
        "ours, threshold 0.9, most 10", "ours, threshold 0.9, most 2",
    ]  # fmt: skip
    arcs = [own["reads"][ARCS] for own in list(figures.values())[1:]]
    assert arcs[0] > arcs[3] and arcs[0] >= arcs[1] and arcs[1] >= arcs[3]
    assert "microseconds" not in figures["ours, threshold 0.9, most 2"]


def test_points_of_the_picture(script):
    assert script.point("spaCy=1,83.35") == ("spaCy", 1.0, pytest.approx(0.8335))
