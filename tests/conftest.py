"""What several test files need."""

# ruff: noqa: E402
import gc
import os

# one thread a process: pytest-xdist runs one on every core. Read when numpy is loaded, in children, too.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import spacy
from hypothesis import settings
from spacy.training import Example

from kinds import KINDS, Data, train
from spacy_spectral.pipeline.constituents import gold_docs
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.sample.draw import write_sample

try:
    import fcntl
except ImportError:
    fcntl = None  # Windows

# Machines differ in speed: no test may fail for taking long.
settings.register_profile("unhurried", deadline=None, derandomize=True)
settings.load_profile("unhurried")


def pytest_collection_finish():
    """What has been imported stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    """A small sample treebank: the paths of its train, dev and test files."""
    return draw(tmp_path_factory.mktemp("sample"), train=400, dev=60, test=60)


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """A smaller one, for what takes long and is not about accuracy."""
    return draw(tmp_path_factory.mktemp("few"), train=120, dev=30, test=30)


def draw(directory, **sizes):
    write_sample(directory, seed=1, **sizes)
    return {split: directory / f"sample-{split}.conllu" for split in sizes}


@pytest.fixture(scope="session")
def examples(sample):
    """Reads the examples of a split, for a given pipeline."""
    return reader(sample)


@pytest.fixture(scope="session")
def few_examples(few):
    """Those of the smaller treebank."""
    return reader(few)


def reader(splits):
    def read(nlp, split="train", annotations=("tag", "pos", "sents")):
        return list(Corpus(splits[split], annotations=annotations, n_sents=1)(nlp))

    return read


@pytest.fixture(scope="session")
def trained(examples):
    """A pipeline with a trained spectral_parser. Tests must not change it."""
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_parser")
    nlp.initialize(lambda: examples(nlp))
    return nlp


@pytest.fixture(scope="session")
def brackets(sample):
    """The paths of the bracketed trees of the sample treebank."""
    return {split: path.with_suffix(".ptb") for split, path in sample.items()}


@pytest.fixture(scope="session")
def constituency(brackets):
    """A pipeline with a small, trained spectral_constituency. Tests must not change it."""
    nlp = spacy.blank("en")
    architecture = "spacy-spectral.ConstituencyProduct.v1"
    model = {"@architectures": architecture, "states": 4, "epochs": 1, "anchored_epochs": 1}
    nlp.add_pipe("spectral_constituency", config={"model": model})
    docs = list(gold_docs(brackets["train"], nlp.vocab, n_sents=5))
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc) for doc in docs])
    return nlp


@contextmanager
def alone(path):
    """One process at a time is here; others wait for it, but on Windows."""
    with path.open("a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def saved(sample, tmp_path_factory):
    """Where a trained pipeline of a kind of scripts/kinds.py is; processes of pytest-xdist share them."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    brackets = sample["train"].with_suffix(".ptb")
    data = Data(tmp_path_factory.mktemp("kinds"), sample["train"], brackets, 80, lang="xx")
    (root / "kinds").mkdir(exist_ok=True)

    def find(name):
        path = root / "kinds" / name
        if not path.exists():
            with alone(root / "kinds" / f"{name}.lock"):
                if not path.exists():
                    own = Path(tempfile.mkdtemp(dir=root)) / name
                    train(KINDS[name], data).to_disk(own)
                    try:
                        own.rename(path)
                    except OSError:  # another process was faster
                        assert path.exists()
        return path

    return find


@pytest.fixture(scope="session")
def shared():
    """The directory of real treebanks; tests that need it are skipped where there is none."""
    default = Path(__file__).parents[2] / "shared"
    path = Path(os.environ.get("SPACY_SPECTRAL_SHARED", default))
    if not path.is_dir():
        pytest.skip("no shared treebanks on this machine")
    return path
