"""Try the installed package: train a small pipeline of every kind (see kinds.py), save it, load it, use it.

    python scripts/smoke.py

It needs nothing but the package, and uses every kernel: what a wheel is tried with on each system.
"""

import tempfile
from pathlib import Path

import spacy
import srsly

import spacy_spectral
from save_kinds import described, save


def main() -> None:
    print(spacy_spectral.__file__)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "saved"
        save(root, Path(directory) / "work")
        for kind, texts in srsly.read_json(root / "parses.json").items():
            nlp = spacy.load(root / kind)
            for text, expected in texts.items():
                assert described(nlp(text)) == expected, (kind, text)
            print(f"{kind}: trained, saved, loaded")


if __name__ == "__main__":
    main()
