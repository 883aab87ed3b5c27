"""Pipelines that were saved by versions before load, and parse as they did: see scripts/save_kinds.py."""

import shutil
from pathlib import Path

import pytest
import spacy
import srsly

from kinds import KINDS
from save_kinds import described

SAVED = Path(__file__).parents[1] / "saved"
VERSIONS = ["0.1.0"]


@pytest.fixture(scope="module", params=VERSIONS)
def before(request, tmp_path_factory):
    """The directory of all that a version has saved."""
    directory = tmp_path_factory.mktemp("saved")
    shutil.unpack_archive(SAVED / f"{request.param}.tar.xz", directory)
    return directory / request.param


def test_no_kind_is_forgotten(before):
    assert srsly.read_json(before / "parses.json").keys() <= KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_parses_as_it_did(before, kind):
    expected = srsly.read_json(before / "parses.json")
    if kind not in expected:
        pytest.skip("a kind that is newer")
    nlp = spacy.load(before / kind)
    for text, own in expected[kind].items():
        assert described(nlp(text)) == own
