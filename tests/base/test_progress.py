"""Progress on a terminal."""

import io
import re

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
    assert lines[2:] == [""]
