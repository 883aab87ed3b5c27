"""Measure reranking: accuracy with and without log p of the latent tree model, training time, speed.

    python scripts/benchmark_rerank.py TRAIN DEV [--vectors DIR] [--beam] [--base DIR] [--json FILE]

The base parser is that of configs/pipeline.cfg, or with --beam spaCy's `beam_parser` after our tagger;
--base takes a pipeline that is trained already. DEV is held out from all training: no epoch is chosen by it.
Scores are of all tokens, with full labels, inside gold sentences. Differences come with 95 % intervals of a
paired bootstrap over sentences. Seconds are CPU seconds of one thread.
"""

# ruff: noqa: E402
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
from pathlib import Path
from time import process_time
from typing import Any

import numpy
import spacy
import srsly
from pipeline_rivals import note, read
from spacy import util
from spacy.language import Language
from spacy.training import Example
from spacy.training.initialize import init_nlp
from wasabi import msg

from spacy_spectral.base.learnt import Learnt
from spacy_spectral.base.serialize import write_atomically
from spacy_spectral.models.rerank.features import GROUPS
from spacy_spectral.models.rerank.model import Reranker
from spacy_spectral.models.rerank.training import Settings
from spacy_spectral.pipeline.candidates import train_beam_parser
from spacy_spectral.pipeline.reranker import find_vectors
from spacy_spectral.scorers import count

CONFIG = Path(__file__).parents[1] / "configs" / "pipeline.cfg"
# The first row of a difference is what the second is compared with.
ROWS: dict[str, dict[str, Any]] = {
    "base scores": {"features": ["base"]},
    "base scores + log p": {"features": ["base", "logp"]},
    "base features": {"features": ["base", "pos"]},
    "base features + log p": {"features": ["base", "pos", "logp"]},
    "all but log p": {"features": [group for group in GROUPS if group != "logp"]},
    "all": {"features": list(GROUPS)},
    "all, perceptron": {"features": list(GROUPS), "learner": "perceptron"},
}
NONE, ORACLE = "no reranking", "oracle"
TIMED = ("base features + log p", "all")
PAIRS = (
    ("base scores", "base scores + log p"),
    ("base features", "base features + log p"),
    ("all but log p", "all"),
)


def main() -> None:
    options = parse_arguments()
    results = run(options)
    if options.json:
        write_atomically(options.json, srsly.json_dumps(results, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("train", type=Path, help="CoNLL-U or .spacy, or a directory")
    parser.add_argument("dev", type=Path, help="CoNLL-U or .spacy, or a directory")
    parser.add_argument("--vectors", type=Path, help="made by 'spacy spectral eigenwords'")
    parser.add_argument("--beam", action="store_true", help="rerank spaCy's beam_parser")
    parser.add_argument("--epochs", type=int, default=10, help="passes that train a beam_parser")
    parser.add_argument("--base", type=Path, help="a trained pipeline; it must not have seen DEV")
    parser.add_argument("--lang", default="en", help="code of the language")
    parser.add_argument("-n", type=int, default=50, help="candidates of a sentence")
    parser.add_argument("--margin", type=float, default=6.0, help="see the component")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of timing")
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser.parse_args()


def run(options: argparse.Namespace) -> dict[str, Any]:
    started = process_time()
    nlp = spacy.load(options.base) if options.base else train_base(options)
    base_seconds = process_time() - started
    if not options.base:
        note(f"base parser: {base_seconds:.0f} s")
    base = "beam_parser" if options.beam else "spectral_parser"
    reranker = nlp.add_pipe(
        "spectral_reranker", config={"base": base, "n": options.n, "margin": options.margin}
    )
    train, dev = read(nlp, options.train), read(nlp, options.dev)
    started = process_time()
    folds = list(
        reranker.source.jackknife(
            train,
            nlp,
            n=options.n,
            folds=Settings.folds,
            epochs=options.epochs,
            report=note,
        )
    )
    fold_seconds = process_time() - started
    right = {NONE: counts(nlp, dev, disable=["spectral_reranker"])}
    figures: dict[str, dict[str, Any]] = {NONE: {} if options.base else {"seconds": base_seconds}}
    vectors = find_vectors(options.vectors)
    candidates = DevCandidates(nlp, dev, options.n, options.margin)
    for row, own_settings in ROWS.items():
        note(row)
        started = process_time()
        learnt = Settings(**own_settings).fit(
            folds, margin=options.margin, vectors=vectors, report=note
        )
        figures[row] = {"seconds": fold_seconds + process_time() - started}
        right[row] = candidates.counts(candidates.choose(learnt))
        if row in TIMED:
            reranker.model.attrs["learnt"] = Learnt(Reranker, learnt)
            figures[row]["speed"] = speed(nlp, dev, options.rounds)
    right[ORACLE], figures[ORACLE] = candidates.counts(candidates.best()), {}
    tokens = right[NONE][:, 0].sum()
    for row, own in right.items():
        figures[row] |= {
            "uas": own[:, 1].sum() / tokens,
            "las": own[:, 2].sum() / tokens,
            "complete": float((own[:, 2] == own[:, 0]).mean()),
            "uas_gain": interval(right[NONE], own, 1),
            "las_gain": interval(right[NONE], own, 2),
        }
    results = {
        "train": str(options.train),
        "dev": str(options.dev),
        "base": base,
        "candidates": float(numpy.mean([*map(len, candidates.found)])),
        "rows": figures,
        "log_p": [
            {"without": a, "with": b}
            | {
                key: {"gain": interval(right[a], right[b], i), "error": reduction(right, a, b, i)}
                for i, key in ((1, "uas"), (2, "las"))
            }
            for a, b in PAIRS
        ],
    }
    show(results)
    return results


# Base parsers, trained without a look at dev.


def train_base(options: argparse.Namespace) -> Language:
    overrides = {
        "paths.train": str(options.train),
        "paths.dev": str(options.dev),  # must be there; without dev_corpus nobody looks at it
        "paths.vectors": str(options.vectors) if options.vectors else None,
        "nlp.lang": options.lang,
        "initialize.components.spectral_parser.dev_corpus": None,
    }
    if not options.beam:
        return init_nlp(util.load_config(CONFIG, overrides=overrides))
    nlp = spacy.blank(options.lang)
    tagger = nlp.add_pipe("spectral_tagger")
    train = read(nlp, options.train)
    clusters = str(options.vectors) if options.vectors else None
    tagger.initialize(lambda: train, nlp=nlp, clusters=clusters)
    parser = nlp.add_pipe("beam_parser")
    examples = [Example(eg.predicted.copy(), eg.reference) for eg in train]
    train_beam_parser(parser, nlp, examples, epochs=options.epochs, report=note)
    return nlp


# Measuring.


def counts(nlp: Language, dev: list[Example], **options: Any) -> numpy.ndarray:
    """RETURNS (ndarray): [documents, 3], tokens, right heads and right labelled arcs."""
    docs = nlp.pipe((eg.predicted.copy() for eg in dev), **options)
    rows = []
    for doc, eg in zip(docs, dev, strict=True):
        own = count([Example(doc, eg.reference)])
        rows.append((own.tokens[0], own.heads[0], own.arcs[0]))
    return numpy.array(rows)


def interval(before: numpy.ndarray, after: numpy.ndarray, column: int) -> list[float]:
    """RETURNS (List[float]): The difference of scores and its 95 % interval."""
    rng = numpy.random.default_rng(0)
    tokens, gain = before[:, 0], after[:, column] - before[:, column]
    samples = rng.integers(0, len(gain), size=(5000, len(gain)))
    differences = gain[samples].sum(axis=1) / tokens[samples].sum(axis=1)
    return [gain.sum() / tokens.sum(), *numpy.percentile(differences, [2.5, 97.5]).tolist()]


def reduction(right: dict[str, numpy.ndarray], a: str, b: str, column: int) -> float:
    """RETURNS (float): By how much of itself the error becomes smaller."""
    wrong = right[a][:, 0].sum() - right[a][:, column].sum()
    return float((right[b][:, column].sum() - right[a][:, column].sum()) / wrong)


class DevCandidates:
    """The candidates of all sentences, and which of their arcs are right."""

    def __init__(self, nlp: Language, dev: list[Example], n: int, margin: float):
        self.margin = margin
        docs = list(nlp.pipe((eg.predicted.copy() for eg in dev), disable=["spectral_reranker"]))
        self.batch, self.found = nlp.get_pipe("spectral_reranker").source(docs, n)
        offsets, bounds = self.batch.offsets, self.batch.tokens.bounds()
        first = self.batch.places[self.batch.tokens.starts[:-1]]
        self.doc_of = numpy.searchsorted(offsets, first, side="right") - 1
        self.tokens = [len(eg.reference) for eg in dev]
        self.right = []
        for (begin, end), own, i in zip(bounds, self.found, self.doc_of.tolist(), strict=True):
            places = (self.batch.places[begin:end] - offsets[i]).tolist()
            position = {place: at for at, place in enumerate(places, start=1)}
            gold = [dev[i].reference[place] for place in places]
            heads = [0 if t.head.i == t.i else position.get(t.head.i, -1) for t in gold]
            self.right.append(own.correct(numpy.array(heads), [t.dep_ for t in gold]))

    def choose(self, learnt: Reranker) -> list[int]:
        """RETURNS (List[int]): What a reranker chooses in each sentence."""
        kept = [own.within(self.margin) for own in self.found]
        rankings = learnt.rank(self.batch.tokens, kept)
        return [int(own.scores.argmax()) for own in rankings]

    def best(self) -> list[int]:
        """RETURNS (List[int]): The best choice in each sentence, by LAS."""
        return [int(arcs.argmax()) for _, arcs in self.right]

    def counts(self, chosen: list[int]) -> numpy.ndarray:
        """RETURNS (ndarray): [documents, 3], tokens, right heads and right labelled arcs."""
        rows = numpy.array(
            [[own[i] for own in both] for both, i in zip(self.right, chosen, strict=True)]
        )
        result = numpy.zeros((len(self.tokens), 3), dtype="int64")
        result[:, 0] = self.tokens
        numpy.add.at(result[:, 1:], self.doc_of, rows)
        return result


def speed(nlp: Language, dev: list[Example], rounds: int) -> float:
    """RETURNS (float): Words per second with reranking, as a part of those without."""
    best = {}
    for _ in range(rounds):
        for disable in ((), ("spectral_reranker",)):
            docs = [eg.predicted.copy() for eg in dev]
            started = process_time()
            for _doc in nlp.pipe(docs, disable=disable):
                pass
            seconds = process_time() - started
            best[disable] = min(seconds, best.get(disable, seconds))
    return best["spectral_reranker",] / best[()]


# Printing.


def show(results: dict[str, Any]) -> None:
    def gain(values: list[float]) -> str:
        return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*(100 * value for value in values))

    cells = []
    for row, own in results["rows"].items():
        cells.append(
            (
                row,
                f"{100 * own['uas']:.2f}",
                f"{100 * own['las']:.2f}",
                f"{100 * own['complete']:.2f}",
                "" if row == NONE else gain(own["uas_gain"]),
                "" if row == NONE else gain(own["las_gain"]),
                f"{own['seconds']:.0f}" if "seconds" in own else "",
                f"{own['speed']:.2f}" if "speed" in own else "",
            )
        )
    header = ("", "UAS", "LAS", "complete", "UAS gain", "LAS gain", "training, s", "speed")
    print(
        f"{results['base']}: {results['candidates']:.1f} candidates a sentence, of which the oracle"
    )
    print("takes the best. Speed: words/s as a part of those without reranking.")
    msg.table(cells, header=header, divider=True, aligns=("l", *"r" * 7))
    for own in results["log_p"]:
        told = [
            f"{key.upper()} {gain(own[key]['gain'])}, error {-own[key]['error']:+.2%}"
            for key in ("uas", "las")
        ]
        print(f"{own['without']} -> {own['with']}: {'; '.join(told)}")


if __name__ == "__main__":
    main()
