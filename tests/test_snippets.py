"""Every Python snippet of README and docs/ runs, in the order of its page, on what the project makes."""

import re
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.cli.train import train

from kinds import Data

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): re.findall(
        r"^```python\n(.*?)^```", path.read_text("utf8"), flags=re.MULTILINE | re.DOTALL
    )
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
# what these pages call training/model-best is another pipeline
OTHER = {"docs/constituency.md": "constituency"}


@pytest.fixture(scope="module")
def workplace(few, saved, constituency, tmp_path_factory):
    """A directory with the files that snippets name."""
    root = tmp_path_factory.mktemp("workplace")
    (root / "assets").mkdir()
    shutil.copytree(few["train"].parent, root / "assets" / "sample")
    limits = {
        "paths.train": str(few["train"]),
        "paths.dev": str(few["dev"]),
        "corpora.train.limit": 60,
    }
    for name, config in (("training", "pipeline"), ("training/refine", "refined")):
        train(ROOT / "configs" / f"{config}.cfg", root / name, overrides=limits)
    shutil.copytree(root / "training/model-best", root / "training/pipeline/model-best")
    for name, kind in (("rerank", "forest reranker"), ("rerank_list", "reranker")):
        shutil.copytree(saved(kind), root / "training" / name / "model-best")
    path = root / "constituency" / "training" / "model-best"
    path.parent.mkdir(parents=True)
    constituency.to_disk(path)
    nlp = spacy.load(path)
    nlp.add_pipe("sentencizer", first=True)
    nlp.to_disk(path)
    Data(root, few["train"], few["train"].with_suffix(".ptb"), sentences=80).eigenwords()
    return root


@pytest.mark.parametrize("page", [page for page, found in PAGES.items() if found])
def test_snippets_run(page, workplace, monkeypatch):
    monkeypatch.chdir(workplace / OTHER.get(page, "."))
    names = {}
    for snippet in PAGES[page]:
        exec(compile(snippet, page, "exec"), names)
