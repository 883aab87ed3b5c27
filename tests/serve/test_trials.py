"""The trials of servers in small: kills, wrong requests, load."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")

from server_trials import XMI, annotate_requests, send_wrong, serve_requests, unchanged
from servers import running
from spacy_spectral.serve.annotate import annotation_app, open_work
from spacy_spectral.serve.models import Model, Models
from spacy_spectral.serve.service import service_app

SCRIPT = Path(__file__).parents[2] / "scripts" / "server_trials.py"


def trial(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    header, _, row = (line for line in done.stdout.splitlines() if line.strip())
    return header, row.split()


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
def test_what_was_accepted_outlives_kills(few):
    _, (kills, _, accepted, lost, invalid) = trial("kills", few["dev"], "--kills", 6)
    assert (kills, lost, invalid) == ("6", "0", "0") and int(accepted) > 0


def test_wrong_requests_to_annotate(bare, learnt, tmp_path):
    source = tmp_path / "in.conllu"
    source.write_text("".join(bare[:10]), encoding="utf8")
    work = open_work(source, model=str(learnt), every=0)
    with running(annotation_app(work, "token")) as port:
        before = unchanged(work.journal.output)
        found = send_wrong(port, lambda rng: annotate_requests(rng, "/token"), 200, 0)
        assert unchanged(work.journal.output) == before
    assert found["4xx"] > 190 and not found["bad"] + found["traceback"] + found["still right"]


def test_wrong_requests_to_serve(served):
    with running(service_app(Models([Model.load(f"model={served}")]))) as port:
        found = send_wrong(port, lambda rng: serve_requests(rng, XMI), 200, 0)
    assert found["4xx"] > 150 and not found["bad"] + found["traceback"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_answers_under_load(served, few, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("The cook laughed. We left it there.\nA dog saw the garden!\n")
    options = ("--clients", 4, "--minutes", 0.02)
    header, row = trial("load", served, text, *options)
    assert header.split()[:3] == ["requests", "errors", "different"]
    assert int(row[0]) > 4 and row[1:3] == ["0", "0"]
