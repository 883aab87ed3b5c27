"""Which modules of the package a task goes through: how much a reader has to open to follow it.

    python scripts/walk.py

A small sample treebank is trained on and parsed. For every walk the table has the number of the package's
functions that were entered, and of their files; the files follow. Compiled functions are not seen; class
bodies, comprehensions and lambdas do not count.
"""

import one_thread  # noqa: F401

# isort: split
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import spacy
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config
from wasabi import msg, table

import spacy_spectral
from spacy_spectral.treebank.sample.draw import write_sample

PACKAGE = Path(spacy_spectral.__file__).parent
CONFIGS = Path(__file__).parents[1] / "configs"
TEXT = "The dog saw a man with a telescope. Emma laughs."


def trace(task: Callable[[], Any]) -> tuple[Any, list[tuple[str, str]]]:
    """RETURNS: What the task gives, and (file, function) in the order in which they were entered first."""
    entered: dict[tuple[str, str], None] = {}
    of_package: dict[str, str | None] = {}

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<"):
            return
        if code.co_filename not in of_package:
            path = Path(code.co_filename)
            inside = path.is_relative_to(PACKAGE)
            of_package[code.co_filename] = path.relative_to(PACKAGE).as_posix() if inside else None
        name = of_package[code.co_filename]
        # a class body runs once, when its module is imported
        if name is not None and "__module__" not in frame.f_locals and code.co_flags & 2:
            entered[name, code.co_qualname if sys.version_info >= (3, 11) else code.co_name] = None

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        result = task()
    finally:
        sys.setprofile(before)
    return result, list(entered)


def train_config(name: str, directory: Path) -> Any:
    """What `spacy train` does with a config, on the sample treebank in a directory."""
    paths = {
        f"paths.{split}": str(directory / f"sample-{split}.conllu") for split in ("train", "dev")
    }
    nlp = init_nlp(load_config(CONFIGS / name, overrides=paths, interpolate=False))
    output = directory / Path(name).stem
    output.mkdir()
    train(nlp, output, stdout=sys.stderr)
    return output / "model-best"


def walks(directory: Path) -> dict[str, list[tuple[str, str]]]:
    """The walks that docs/architecture.md describes."""
    write_sample(directory, seed=1, train=120, dev=30, test=30)
    found = {}
    _, found["spacy train configs/shag.cfg"] = trace(lambda: train_config("shag.cfg", directory))
    model, found["spacy train configs/pipeline.cfg"] = trace(
        lambda: train_config("pipeline.cfg", directory)
    )
    nlp = spacy.load(model)
    _, found["nlp(text), pipeline.cfg"] = trace(lambda: nlp(TEXT))
    return found


def n_files(entered: list[tuple[str, str]]) -> int:
    return len({file for file, _ in entered})


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = walks(Path(directory))
    rows = [(name, len(entered), n_files(entered)) for name, entered in found.items()]
    print(table(rows, header=("walk", "functions", "files"), aligns=("l", "r", "r"), divider=True))
    for name, entered in found.items():
        msg.divider(name)
        for file in dict.fromkeys(file for file, _ in entered):
            print(file, *(function for own, function in entered if own == file))


if __name__ == "__main__":
    main()
