"""Progress on a terminal."""

import io
import re
import sys

import pytest

from spacy_spectral.base.progress import EpochBar, report
from spacy_spectral.models.linear.classifier import Epoch


class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen(text):
    """The lines that a terminal shows after a text with line ends and returns."""
    lines = []
    for line in re.sub(r"\x1b\[A", "", text).split("\n"):
        cells: list[str] = []
        for part in line.split("\r"):
            cells[: len(part)] = part
        lines.append("".join(cells).rstrip())
    return lines


@pytest.mark.parametrize("columns", [80, 120])
def test_messages_stand_above_an_open_bar(monkeypatch, columns):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    with EpochBar("spectral_lemmatizer", 10) as progress:
        report("spectral_lemmatizer", "'spectral_tagger' jack-knifed in 5 blocks")
        progress(Epoch("lemmas", 1, 10, 0.5, 0.9))
        report("spectral_lemmatizer", "more")
    lines = screen(terminal.getvalue())
    assert lines[0] == "spectral_lemmatizer: 'spectral_tagger' jack-knifed in 5 blocks"
    assert lines[1] == "spectral_lemmatizer: more"
    assert lines[2:] == [
        "spectral_lemmatizer: 10 epochs, lemmas: loss 0.5000, 90.00% right in training",
        "",
    ]


def test_lines_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with EpochBar("spectral_tagger", 2) as progress:
        report("spectral_tagger", "begins")
        for number in (1, 2):
            progress(Epoch("tags", number, 2, 0.5 / number, 0.8))
    shown = sys.stderr.getvalue()
    assert (
        shown
        == "spectral_tagger: begins\nspectral_tagger: 2 epochs, tags: loss 0.2500, 80.00% right in training\n"
    )


def test_a_training_that_failed_has_no_result(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with pytest.raises(RuntimeError), EpochBar("spectral_tagger", 2) as progress:
        progress(Epoch("tags", 1, 2, 0.5, 0.8))
        raise RuntimeError
    assert sys.stderr.getvalue() == ""
