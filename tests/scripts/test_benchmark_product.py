"""The benchmark of products runs through, on a treebank too small to say anything."""

import subprocess
import sys
from pathlib import Path

from spacy_spectral.treebank.sample.draw import write_sample

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark_product.py"


def test_benchmark(tmp_path):
    write_sample(tmp_path, seed=1, train=400, dev=1, test=1)
    command = [
        sys.executable,
        str(SCRIPT),
        str(tmp_path / "sample-train.conllu"),
        "--sentences",
        "100",
        "--quick",
        "--stacked",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    titles = (
        "loglinear",
        "biaffine",
        "mixture of marginals",
        "product 1 : 1, at 0.75",
        "second stage, on biaffine",
    )
    for title in titles:
        (row,) = [line for line in done.stdout.splitlines() if line.strip().startswith(title)]
        uas, las, *errors = map(float, row.split()[-4:])
        assert 5 < las <= uas <= 100
        assert all(0 <= error < 60 for error in errors)
