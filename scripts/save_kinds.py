"""Save a small pipeline of every kind (see kinds.py), and what each makes of some texts, for later versions.

    python scripts/save_kinds.py tests/saved/VERSION.tar.xz

Run it before a release, and name the version in tests/pipeline/test_saved_before.py, which loads them
with the code of now. They are trained on three sentences of the sample treebank: 140 kB for 17 kinds.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import tempfile
from pathlib import Path
from shutil import make_archive
from typing import Any

import srsly
from spacy.tokens import Doc

from kinds import KINDS, Data, train
from spacy_spectral.pipeline.constituents import stored_trees
from spacy_spectral.treebank.sample.draw import write_sample

TRAINING = 3
EIGENWORDS = 12


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("archive", type=Path)
    archive = parser.parse_args().archive
    name = archive.name.removesuffix(".tar.xz")
    with tempfile.TemporaryDirectory() as directory:
        save(Path(directory) / name, Path(directory) / "work")
        make_archive(str(archive.parent / name), "xztar", directory, name)


def save(root: Path, work: Path) -> None:
    """Write a pipeline of every kind to a directory, and what they make of their own sentences."""
    root.mkdir()
    write_sample(work, seed=1, train=EIGENWORDS, dev=1, test=1)
    data = Data(work, work / "sample-train.conllu", work / "sample-train.ptb", TRAINING)
    texts = data.texts()[:TRAINING]
    parses = {}
    for kind, own in KINDS.items():
        nlp = train(own, data)
        nlp.to_disk(root / kind)
        parses[kind] = {text: described(nlp(text)) for text in [*texts, " ".join(texts)]}
    srsly.write_json(root / "parses.json", parses)


def described(doc: Doc) -> dict[str, list[Any]]:
    """RETURNS (Dict[str, List]): What a pipeline decides; no probabilities, which differ between machines."""
    return {
        "words": [token.text for token in doc],
        "starts": [token.i for token in doc if token.is_sent_start],
        "tags": [token.tag_ for token in doc],
        "morphs": [str(token.morph) for token in doc],
        "lemmas": [token.lemma_ for token in doc],
        "heads": [token.head.i for token in doc],
        "labels": [token.dep_ for token in doc],
        "nodes": [
            [n.label, n.begin, n.end] for tree in stored_trees(doc) for n in tree.parsed.nodes
        ],
    }


if __name__ == "__main__":
    main()
