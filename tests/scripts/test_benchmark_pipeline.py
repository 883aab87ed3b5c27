"""The benchmark of the pipeline runs through, on a treebank too small to say anything."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import srsly

from spacy_spectral.treebank.sample.draw import write_sample

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark_pipeline.py"
FIGURES = {
    "tag", "pos", "uas", "las", "seconds", "curve", "whole_words_s", "parser_words_s", "size_mb",
    "text_words_s", "calls_s", "peak_mb",
}  # fmt: skip


def test_quick_benchmark(tmp_path):
    write_sample(tmp_path, seed=1, train=60, dev=20, test=1)
    splits = [str(tmp_path / f"sample-{split}.conllu") for split in ("train", "dev")]
    text = "The dog saw a man. It ran.\n\nA man saw the dog.\n"
    (tmp_path / "text.txt").write_text(text, encoding="utf8")
    command = [
        sys.executable,
        str(SCRIPT),
        *splits,
        "--quick",
        "--text",
        str(tmp_path / "text.txt"),
        "--json",
        str(tmp_path / "out.json"),
        "--plot",
        str(tmp_path / "picture.svg"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    results = srsly.read_json(tmp_path / "out.json")
    systems = results["systems"]
    assert list(systems)[:3] == ["ours", "accurate", "spaCy"]
    picture = ElementTree.parse(tmp_path / "picture.svg")
    circles = picture.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == len(systems)
    for figures in systems.values():
        assert figures.keys() >= FIGURES
        assert 0 <= figures["las"] <= figures["uas"] <= 1
        assert (
            min(
                figures["whole_words_s"],
                figures["text_words_s"],
                figures["calls_s"],
                figures["size_mb"],
                figures["peak_mb"],
            )
            > 0
        )
    # a few steps teach spaCy next to nothing; ours is trained to the end
    assert systems["ours"]["uas"] > 0.7
    # the last score on dev that training reported is of the model that was written
    for name in ("ours", "accurate"):
        assert systems[name]["curve"][-1][1] == pytest.approx(systems[name]["las"], abs=1e-3)
    assert max(las for _, las in systems["spaCy"]["curve"]) == pytest.approx(
        systems["spaCy"]["las"], abs=1e-6
    )
    assert systems["spaCy"]["pos"] is None
    assert results["passes"]["spaCy"]["ours_seconds"] <= systems["ours"]["seconds"]
    assert list(results["lengths"]) == ["10", "20", "50", "100", "150", "200"]
    assert results["ablation"].keys() == {"second tag"}
    for title in ("LAS", "words/CPU s", "Peak memory", "second tag"):
        assert title in done.stdout
