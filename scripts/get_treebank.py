"""Put the splits of a UD treebank where the project wants them: train.conllu, dev.conllu, test.conllu."""

import argparse
import shutil
import subprocess
from pathlib import Path

from wasabi import msg

from spacy_spectral.base.files import output_path, write_atomically
from spacy_spectral.raw import udeval

_REPOSITORIES = "https://github.com/UniversalDependencies"
_REMEDY = (
    "Set vars.treebank to the name of a repository of Universal Dependencies, e.g. UD_English-EWT, or "
    "vars.treebank_dir to the directory of one UD treebank."
)


def fetch(name: str, directory: Path) -> None:
    """Clone the repository of a treebank, without its history.

    name (str): The treebank.
    directory (Path): Where it goes. It is there as a whole or not at all.
    """
    part = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    url = f"{_REPOSITORIES}/{name}"
    msg.info(f"Fetching {url}")
    command = ["git", "clone", "--quiet", "--depth", "1", "--branch", "master", url, str(part)]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        msg.fail(f"Can't fetch the treebank {name}: {error}", _REMEDY, exits=1)
    part.rename(directory)


def splits_of(source: Path) -> dict[str, Path]:
    """Find the files of a treebank, or say what is wrong with its directory and end.

    RETURNS: The files by split. The test set is the development set if there is no other.
    """
    found = {split: sorted(source.glob(f"*-{split}.conllu")) for split in ("train", "dev", "test")}
    if found["dev"] and not found["test"]:
        msg.warn(f"{source} has no test set: it will be scored on its development set")
        found["test"] = found["dev"]
    for split, files in found.items():
        if len(files) != 1:
            has = f"{source} has {len(files) or 'no'} files *-{split}.conllu, not one"
            msg.fail(has, _REMEDY, exits=1)
    return {split: files[0] for split, files in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", help="A local treebank; empty to fetch one")
    parser.add_argument("treebank", help="The name of the treebank to fetch")
    parser.add_argument("output", type=output_path, help="Where the splits go")
    options = parser.parse_args()
    try:
        # what is missing for the scores should not show after the training
        udeval()
    except ValueError as error:
        msg.fail(str(error), exits=1)
    source = Path(options.directory or Path("assets") / options.treebank)
    if not options.directory and not source.exists():
        fetch(options.treebank, source)
    for split, path in splits_of(source).items():
        write_atomically(options.output / f"{split}.conllu", path.read_bytes())
        msg.good(f"{options.output / split}.conllu from {path}")


if __name__ == "__main__":
    main()
