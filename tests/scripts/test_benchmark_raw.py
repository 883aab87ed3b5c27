"""The benchmark from raw text runs through, on a treebank too small to say anything."""

import subprocess
import sys
from pathlib import Path

import pytest
import srsly

from spacy_spectral.raw import MEASURES
from spacy_spectral.treebank.sample.draw import write_sample

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark_raw.py"


def test_quick_benchmark(tmp_path):
    pytest.importorskip("udtools")
    write_sample(tmp_path, seed=1, train=80, dev=15, test=1)
    splits = [str(tmp_path / f"sample-{split}.conllu") for split in ("train", "dev")]
    (tmp_path / "text.txt").write_text("The dog saw a man. It ran.\n\nA man saw it.\n", "utf8")
    options = ["--quick", "--no-udpipe", "--text", str(tmp_path / "text.txt")]
    options += ["--json", str(tmp_path / "out.json")]
    command = [sys.executable, str(SCRIPT), *splits, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = srsly.read_json(tmp_path / "out.json")
    systems = results["systems"]
    assert list(systems) == ["ours", "ours, spaCy's tokens", "spaCy"]
    for figures in systems.values():
        assert figures.keys() >= {*map(str.lower, MEASURES), "words_s"}
        assert 0 <= figures["las"] <= figures["uas"] <= figures["words"] <= 1
    assert systems["ours"]["las"] > 0.5 > systems["spaCy"]["las"]
    assert systems["ours"]["gold_las"] > 0.5 > systems["spaCy"]["gold_las"] >= 0
    names = {"tokenizer", "spectral_senter", "spectral_tagger", "spectral_lemmatizer"}
    assert results["training"].keys() == names | {"spectral_parser", "jack-knifed tags"}
    assert results["parts"].keys() == names | {"spectral_parser", "Doc"}
    for title in ("Lemmas", "Words / CPU s", "tokens, sentences, lemmas"):
        assert title in done.stdout
