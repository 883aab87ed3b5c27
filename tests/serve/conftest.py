"""A small pipeline, and sentences of the sample treebank, to be annotated."""

import json

import pytest
from spacy import util

from spacy_spectral.serve import blocks
from spacy_spectral.serve.learner import Learner, run_job, train


@pytest.fixture(scope="session")
def learnt(few, tmp_path_factory):
    """The directory of a trained pipeline."""
    path = tmp_path_factory.mktemp("learnt") / "model"
    train(few["train"], lang="xx").to_disk(path)  # English's rules for tokens take time to load
    return path


@pytest.fixture
def works_here(monkeypatch):
    """Learners do their jobs in this process, as another takes a second to begin."""

    def work(self, job):
        run_job(json.loads(job.read_text(encoding="utf8")))
        return ""

    monkeypatch.setattr(Learner, "_work", work)


@pytest.fixture(scope="session")
def served(learnt, tmp_path_factory):
    """The directory of a pipeline from raw text."""
    nlp = util.load_model(learnt)
    nlp.add_pipe("sentencizer", first=True)
    path = tmp_path_factory.mktemp("served") / "model"
    nlp.to_disk(path)
    return path


@pytest.fixture(scope="session")
def gold(few):
    """Blocks of gold sentences that the pipeline has not seen."""
    return blocks.split_blocks(few["dev"].read_text(encoding="utf8"))


@pytest.fixture(scope="session")
def bare(gold):
    """The same without annotation."""
    empty = dict.fromkeys(blocks.COLUMNS, "_")
    return [
        blocks.with_values(block, {i + 1: empty for i in range(len(blocks.values(block)))})
        for block in gold
    ]
