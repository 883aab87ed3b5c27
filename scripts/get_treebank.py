"""Put the splits of a UD treebank where the project wants them: train.conllu, dev.conllu, test.conllu."""

import argparse
import subprocess
import sys
from pathlib import Path

from wasabi import msg

from spacy_spectral.base.serialize import output_path, write_atomically


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", help="A local treebank; empty to fetch the project's asset")
    parser.add_argument("asset", type=Path, help="Where 'spacy project assets' puts the treebank")
    parser.add_argument("output", type=output_path, help="Where the splits go")
    options = parser.parse_args()
    source = Path(options.directory) if options.directory else options.asset
    if not options.directory and not source.exists():
        subprocess.run([sys.executable, "-m", "spacy", "project", "assets"], check=True)
    found = {
        split: sorted(source.glob(f"*-ud-{split}.conllu")) for split in ("train", "dev", "test")
    }
    # a treebank without a test set is tested on its development set
    found["test"] = found["test"] or found["dev"]
    for split, files in found.items():
        if len(files) != 1:
            msg.fail(
                f"{source} has {len(files) or 'no'} files *-ud-{split}.conllu, not one",
                "Set vars.treebank_dir to the directory of one UD treebank, or vars.treebank to the "
                "name of a repository of Universal Dependencies.",
                exits=1,
            )
        write_atomically(options.output / f"{split}.conllu", files[0].read_bytes())
        msg.good(f"{options.output / split}.conllu from {files[0]}")


if __name__ == "__main__":
    main()
