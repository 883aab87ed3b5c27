"""How many files a reader opens to follow training and parsing: no more than docs/architecture.md says."""

import re
from pathlib import Path

import pytest

from walk import n_files, walks

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return walks(tmp_path_factory.mktemp("walks"))


@pytest.mark.parametrize("walk", ["spacy train configs/shag.cfg", "nlp(text), pipeline.cfg"])
def test_walks_are_as_short_as_the_page_says(found, walk):
    said = re.search(rf"`{re.escape(walk)}`: (\d+) files", PAGE.read_text(encoding="utf8"))
    assert said is not None
    files = sorted({file for file, _ in found[walk]})
    assert 10 < n_files(found[walk]) <= int(said[1]), files
