"""Train and parse as other processors do: which models have the same bytes, which parses are the same?

    python scripts/processors.py [TREEBANK BRACKETS] [--sentences N] [--kind NAME ...] [--processor NAME ...]

OpenBLAS takes the kernels of another x86-64 processor when it is told so (OPENBLAS_CORETYPE), and so do
numpy's functions (NPY_DISABLE_CPU_FEATURES). Every processor gets a process of its own, which trains a small
pipeline of every kind. It parses with that, and with the pipeline that this machine has trained. Printed
are, in comparison with this machine:

    bytes      whether the trained component is the same to the last bit
    trees      how many tokens are annotated differently by the pipeline that was trained there
    loaded     the same for the pipeline that was trained here
    numbers    the largest difference of a probability of the pipeline that was trained here

Without a treebank it is the sample.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import fix_random_seed
from wasabi import table

from fuzz import numbers, sample_data
from kinds import KINDS, Data, Kind, bare, train
from spacy_spectral.pipeline.constituents import stored_trees
from spacy_spectral.treebank.documents import read_docs

_NO_AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
# What each processor sets. The first is this machine as it is.
PROCESSORS: dict[str, dict[str, str]] = {
    "this machine": {},
    **{
        name: {"OPENBLAS_CORETYPE": name}
        for name in ("Haswell", "Zen", "SkylakeX", "Sandybridge", "Nehalem", "Prescott")
    },
    "no AVX-512": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": _NO_AVX512},
}
_N_PARSED = 100


def annotate(nlp: Language, kind: Kind, data: Data) -> list[Doc]:
    """RETURNS (List[Doc]): The last sentences of the treebank, annotated."""
    docs = list(read_docs(data.treebank, nlp.vocab, n_sents=kind.n_sents))[-_N_PARSED:]
    if kind.is_tokenizer or kind.n_sents > 1:
        return list(nlp.pipe([doc.text for doc in docs]))
    return list(nlp.pipe(map(bare, docs)))


def described(doc: Doc) -> Iterator[Any]:
    """YIELDS (Any): What was chosen for every token, then for the document."""
    for token in doc:
        yield [token.text, token.head.i, token.dep_, token.tag_, token.pos_, str(token.morph),
               token.lemma_, token.is_sent_start]  # fmt: skip
    for tree in stored_trees(doc):
        yield [[node.label, node.begin, node.end] for node in tree.parsed.nodes]


def found_by(nlp: Language, kind: Kind, data: Data) -> dict[str, Any]:
    """RETURNS (Dict[str, Any]): All choices and all numbers of annotated sentences, as JSON has them."""
    docs = annotate(nlp, kind, data)
    values = [
        value for doc in docs if doc.has_annotation("SENT_START") for _, value in numbers(doc)
    ]
    return {
        "choices": [choice for doc in docs for choice in described(doc)],
        "numbers": [value for value in values if value is not None],
    }


def learnt(kind: Kind, pipe: Any, data: Data) -> bytes:
    """RETURNS (bytes): What a pipeline has learnt; of eigenwords, vectors that are found here."""
    if not kind.has_vectors:
        return pipe.to_bytes(exclude=["vocab"])
    with tempfile.TemporaryDirectory() as name:
        own = Data(Path(name), data.treebank, data.brackets, data.sentences)
        return spacy.load(own.eigenwords()).vocab.vectors.data.tobytes()


def learn(names: list[str], data: Data, models: Path) -> dict[str, Any]:
    """Train pipelines, and parse with them and with those in a directory; save there what is missing.

    RETURNS (Dict[str, Any]): Of every kind the digest of what was learnt, and what both pipelines found.
    """
    result = {}
    for name in names:
        kind, saved = KINDS[name], models / name
        fix_random_seed(0)
        nlp = train(kind, data)
        pipe: Any = nlp.tokenizer if kind.is_tokenizer else nlp.get_pipe(kind.last)
        if not saved.exists():
            nlp.to_disk(saved)
        result[name] = {
            "bytes": sha256(learnt(kind, pipe, data)).hexdigest(),
            "trained": found_by(nlp, kind, data),
            "loaded": found_by(spacy.load(saved), kind, data),
        }
    return result


def differences(one: dict[str, Any], other: dict[str, Any]) -> str:
    """RETURNS (str): In how many choices two pipelines differ."""
    pairs = list(zip(one["choices"], other["choices"], strict=False))
    differ = sum(a != b for a, b in pairs) + abs(len(one["choices"]) - len(other["choices"]))
    return f"{differ} of {len(pairs):,}" if differ else "the same"


def largest(one: dict[str, Any], other: dict[str, Any]) -> str:
    """RETURNS (str): The largest difference of two pipelines' numbers."""
    pairs = list(zip(one["numbers"], other["numbers"], strict=False))
    most = max((abs(a - b) for a, b in pairs), default=0.0)
    return f"{most:.1e}" if most else "the same"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("treebank", type=Path, nargs="?", help="CoNLL-U")
    parser.add_argument("brackets", type=Path, nargs="?", help="bracketed trees")
    parser.add_argument("--sentences", type=int, default=200, help="how many are trained on")
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument(
        "--processor", nargs="+", choices=list(PROCESSORS), default=list(PROCESSORS)
    )
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if (options.treebank is None) != (options.brackets is None):
        parser.error("name both, a treebank and a file of bracketed trees, or none")
    with tempfile.TemporaryDirectory() as name:
        # all processors have the same data, the eigenwords of the first among them
        directory = Path(name) if options.worker is None else options.worker.parent
        data = sample_data(directory)
        if options.treebank is not None:
            data.treebank, data.brackets = options.treebank, options.brackets
        data.sentences = options.sentences
        if options.worker is not None:
            json.dump(learn(options.kind, data, options.worker), sys.stdout)
            return
        models = directory / "models"
        models.mkdir()
        print_table(options.kind, options.processor, models)


def print_table(kinds: list[str], processors: list[str], models: Path) -> None:
    """Run every processor, and print how it differs from the first."""
    found = {}
    for processor in dict.fromkeys(["this machine", *processors]):
        command = [sys.executable, *sys.argv, "--worker", str(models)]
        ran = subprocess.run(
            command, env=os.environ | PROCESSORS[processor], stdout=subprocess.PIPE, check=True
        )
        found[processor] = json.loads(ran.stdout)
    first = found.pop("this machine")
    header = ("processor", "kind", "bytes", "trees", "loaded", "numbers")
    rows = [
        (
            processor,
            kind,
            "the same" if own[kind]["bytes"] == first[kind]["bytes"] else "differ",
            differences(first[kind]["trained"], own[kind]["trained"]),
            differences(first[kind]["loaded"], own[kind]["loaded"]),
            largest(first[kind]["loaded"], own[kind]["loaded"]),
        )
        for processor, own in found.items()
        for kind in kinds
    ]
    print(table(rows, header=header, divider=True))


if __name__ == "__main__":
    main()
