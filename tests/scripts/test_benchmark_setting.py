"""The curve over a setting is printed, on a treebank too small to say anything."""

import subprocess
import sys
from pathlib import Path

from spacy_spectral.treebank.sample.draw import write_sample

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark_setting.py"


def run(directory, *settings):
    write_sample(directory, seed=1, train=60, dev=10, test=1)
    splits = [str(directory / f"sample-{split}.conllu") for split in ("train", "dev")]
    command = [sys.executable, str(SCRIPT), *splits, *settings, "--rounds", "1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_curve(tmp_path):
    done = run(tmp_path, "--values", "0.0001", "0.05")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("0")]
    assert [row[0] for row in rows] == ["0.0001", "0.05"]
    every, some = rows
    assert 1 <= float(some[1]) < float(every[1])
    assert min(float(some[3]), float(every[3])) > 60
    assert min(float(some[4]), float(every[4])) > 0


def test_an_unknown_setting_is_an_error(tmp_path):
    done = run(tmp_path, "--setting", "prune_thresold", "--values", "0.01")
    assert done.returncode != 0
    assert "ConfigValidationError" in done.stderr and "prune_thresold" in done.stderr
