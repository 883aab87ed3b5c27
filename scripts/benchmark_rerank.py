"""Measure reranking: of forests and of lists, with and without log p of the latent tree model; time, speed.

    python scripts/benchmark_rerank.py TRAIN DEV [--vectors DIR] [--beam] [--base DIR] [--only forests]

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
from spacy_spectral.forest.convert import from_arcs
from spacy_spectral.forest.eliminate import MAX_CELLS, Plan
from spacy_spectral.models.forestrank._chart import forest_of_arcs
from spacy_spectral.models.forestrank.forests import Forests, forests_of, nearest_trees
from spacy_spectral.models.forestrank.training import ForestFold, ForestSettings
from spacy_spectral.models.rerank.features import GROUPS
from spacy_spectral.models.rerank.interface import Fold
from spacy_spectral.models.rerank.model import Reranker
from spacy_spectral.models.rerank.training import Settings
from spacy_spectral.pipeline.candidates import (
    CandidateSource,
    SpectralCandidates,
    candidate_source,
    k_best,
    train_beam_parser,
)
from spacy_spectral.pipeline.reranker import find_vectors
from spacy_spectral.scorers import count
from spacy_spectral.trees.inventory import plain, projective_trees
from spacy_spectral.trees.sentences import Treebank

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
NONE, ORACLE = "no reranking", "oracle of the list"
FORESTS: dict[str, dict[str, Any]] = {
    "forest, arcs >= 0.05": {"threshold": 0.05},
    "forest, arcs >= 0.02": {"threshold": 0.02},
    "forest, arcs >= 0.01": {"threshold": 0.01},
}
LIST_MODEL, FOREST_MODEL = "spacy-spectral.Reranker.v1", "spacy-spectral.ForestReranker.v1"
TIMED = ("base features + log p", "all", "forest, arcs >= 0.01")
THRESHOLDS = (0.3, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
# Elimination of head variables is looked at where it is thinkable.
WIDTHS = (0.3, 0.1, 0.05, 0.02)
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
    parser.add_argument("--folds", type=int, default=ForestSettings.folds, help="of jack-knifing")
    parser.add_argument("--only", choices=("forests", "lists"), help="leave out the other")
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
    train, dev = read(nlp, options.train), read(nlp, options.dev)
    source = candidate_source(nlp.get_pipe(base), base, None, name="benchmark")
    is_spectral = isinstance(source, SpectralCandidates)
    started = process_time()
    held_out, folds = jackknifed(source, train, nlp, options)
    fold_seconds = process_time() - started
    note(f"jack-knifing: {fold_seconds:.0f} s")
    right = {NONE: counts(nlp, dev)}
    figures: dict[str, dict[str, Any]] = {NONE: {} if options.base else {"seconds": base_seconds}}
    vectors = find_vectors(options.vectors)
    candidates = DevCandidates(nlp, source, dev, options.n, options.margin)
    lists = ROWS if options.only != "forests" else {}
    for row, own_settings in lists.items():
        note(row)
        started = process_time()
        learnt = Settings(**own_settings).fit(
            folds, margin=options.margin, vectors=vectors, report=note
        )
        figures[row] = {"seconds": process_time() - started}
        right[row] = candidates.counts(candidates.choose(learnt))
        if row in TIMED:
            figures[row]["speed"] = speed(nlp, dev, options, base, learnt, LIST_MODEL)
    right[ORACLE], figures[ORACLE] = candidates.counts(candidates.best()), {}
    for row, own_settings in FORESTS.items() if is_spectral and options.only != "lists" else ():
        note(row)
        started = process_time()
        clusters = getattr(source.parser.grammar, "clusters", None)
        learnt = ForestSettings(**own_settings).fit(held_out, clusters=clusters, report=note)
        figures[row] = {"seconds": process_time() - started}
        parses = learnt.parse(candidates.batch.tokens, candidates.parses, candidates.labels)
        right[row] = candidates.count_trees(parses.heads, parses.labels)
        if row in TIMED:
            figures[row]["speed"] = speed(nlp, dev, options, base, learnt, FOREST_MODEL)
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
        "jackknife_seconds": fold_seconds,
        "candidates": float(numpy.mean([*map(len, candidates.found)])),
        "rows": figures,
        "forests": sizes(candidates) if is_spectral and options.only != "lists" else [],
        "log_p": [
            {"without": a, "with": b}
            | {
                key: {"gain": interval(right[a], right[b], i), "error": reduction(right, a, b, i)}
                for i, key in ((1, "uas"), (2, "las"))
            }
            for a, b in PAIRS
            if b in right
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


# Jack-knifing: one set of copies for all rows.


def jackknifed(
    source: CandidateSource, train: list[Example], nlp: Language, options: argparse.Namespace
) -> tuple[list[ForestFold], list[Fold]]:
    """RETURNS (Tuple[List[ForestFold], List[Fold]]): For forests and for lists."""
    if not isinstance(source, SpectralCandidates):
        given = {"n": options.n, "folds": options.folds, "epochs": options.epochs}
        return [], list(source.jackknife(train, nlp, **given, report=note))
    parts = list(source.held_out(train, nlp, folds=options.folds, report=note))
    forests = [ForestFold(own.held_out, own.parses, own.names) for own in parts]
    folds = []
    for own in parts if options.only != "forests" else ():
        names = list(map(plain, own.names))
        found = [k_best(own.parses, s, options.n, names) for s in range(len(own.held_out.tokens))]
        folds.append(Fold(own.train, own.held_out, found))
    return forests, folds


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

    def __init__(
        self, nlp: Language, source: CandidateSource, dev: list[Example], n: int, margin: float
    ):
        self.margin = margin
        self.docs = list(nlp.pipe(eg.predicted.copy() for eg in dev))
        self.batch, self.found = source(self.docs, n)
        if isinstance(source, SpectralCandidates):
            _, self.parses, self.labels = source.parses(self.docs)
        offsets, bounds = self.batch.offsets, self.batch.tokens.bounds()
        first = self.batch.places[self.batch.tokens.starts[:-1]]
        self.doc_of = numpy.searchsorted(offsets, first, side="right") - 1
        self.tokens = [len(eg.reference) for eg in dev]
        self.right, self.gold = [], []
        for (begin, end), own, i in zip(bounds, self.found, self.doc_of.tolist(), strict=True):
            places = (self.batch.places[begin:end] - offsets[i]).tolist()
            position = {place: at for at, place in enumerate(places, start=1)}
            gold = [dev[i].reference[place] for place in places]
            heads = [0 if t.head.i == t.i else position.get(t.head.i, -1) for t in gold]
            self.gold.append((numpy.array(heads), [t.dep_ for t in gold]))
            self.right.append(own.correct(*self.gold[-1]))

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
        return self._counts(
            [[own[i] for own in both] for both, i in zip(self.right, chosen, strict=True)]
        )

    def count_trees(self, heads: numpy.ndarray, labels: numpy.ndarray) -> numpy.ndarray:
        """RETURNS (ndarray): The same for given trees."""
        names = numpy.array([plain(name).lower() for name in self.labels])
        rows = []
        for (begin, end), (gold, deps) in zip(self.batch.tokens.bounds(), self.gold, strict=True):
            head = heads[begin:end] == gold
            label = names[labels[begin:end]] == numpy.array([dep.lower() for dep in deps])
            rows.append([head.sum(), (head & label).sum()])
        return self._counts(rows)

    def _counts(self, found: list) -> numpy.ndarray:
        rows = numpy.array(found)
        result = numpy.zeros((len(self.tokens), 3), dtype="int64")
        result[:, 0] = self.tokens
        numpy.add.at(result[:, 1:], self.doc_of, rows)
        return result


def speed(
    nlp: Language,
    dev: list[Example],
    options: argparse.Namespace,
    base: str,
    learnt: Any,
    model: str,
) -> list[float]:
    """RETURNS (List[float]): Words per second with reranking, as a part of those without; and the
    microseconds a word that it adds."""
    config = {"base": base, "n": options.n, "margin": options.margin}
    reranker = nlp.add_pipe(
        "spectral_reranker", config=config | {"model": {"@architectures": model}}
    )
    reranker.model.attrs["learnt"] = Learnt(type(learnt), learnt)
    best: dict[tuple[str, ...], float] = {}
    for _ in range(options.rounds):
        for disable in ((), ("spectral_reranker",)):
            docs = [eg.predicted.copy() for eg in dev]
            started = process_time()
            for _doc in nlp.pipe(docs, disable=disable):
                pass
            seconds = process_time() - started
            best[disable] = min(seconds, best.get(disable, seconds))
    nlp.remove_pipe("spectral_reranker")
    added = best[()] - best["spectral_reranker",]
    words = sum(len(eg.predicted) for eg in dev)
    return [best["spectral_reranker",] / best[()], 1e6 * added / words]


def sizes(candidates: DevCandidates) -> list[dict[str, Any]]:
    """Forests over thresholds: arcs, what the best tree could be, how many trees, widths."""
    tokens = candidates.batch.tokens
    heads = numpy.concatenate([own for own, _ in candidates.gold]).astype("int32")
    labels = [dep for _, deps in candidates.gold for dep in deps]
    heads, labels = projective_trees(Treebank(tokens, heads, labels))
    result = []
    for threshold in THRESHOLDS:
        limits = numpy.full(len(tokens), threshold)
        forests = forests_of(candidates.parses, tokens.starts, candidates.labels, limits)
        target = nearest_trees(forests, heads, labels)
        known = target >= 0
        arcs = target + numpy.repeat(forests.arc_starts[:-1], numpy.diff(forests.starts))
        found = forests.heads[arcs[known]] == heads[known]
        names = numpy.array([forests.names[i] for i in forests.labels[arcs[known]]])
        both = found & (names == numpy.array(labels)[known])
        trees, widths, tables = [], [], []
        for s in range(len(forests)):
            own = forests.arcs(s)
            n = int(forests.starts[s + 1] - forests.starts[s])
            if n == 0 or own.start == own.stop:
                continue
            # trees with labels, from arcs without: each counts as often as it has labels
            both_ends = numpy.stack([forests.modifiers[own], forests.heads[own]])
            pairs, labels_of = numpy.unique(both_ends, axis=1, return_counts=True)
            mods, governors = numpy.ascontiguousarray(pairs)
            packed = forest_of_arcs(n, governors, mods)
            if packed is not None:
                graph, parts = packed
                logs = numpy.log(labels_of)[parts[:, 3]]
                trees.append(graph.expectations(numpy.where(parts[:, 0] < 3, logs, 0.0))[0])
            if threshold in WIDTHS:
                try:
                    plan = from_arcs(n, governors, mods, numpy.zeros(len(mods))).forest.plan()
                except ValueError:  # a no-good alone is too large
                    plan = Plan((), (), 0, MAX_CELLS + 1)
                widths.append(plan.width)
                tables.append(plan.largest)
        result.append(
            {
                "threshold": threshold,
                "arcs": _pairs(forests) / len(heads),
                "labelled": len(forests.heads) / len(heads),
                "uas": float(found.sum() / len(heads)),
                "las": float(both.sum() / len(heads)),
                "trees": numpy.exp(numpy.percentile(trees, [50, 90, 99])).tolist(),
                "width": numpy.percentile(widths, [50, 90, 99, 100]).tolist() if widths else [],
                "table": numpy.percentile(tables, [90, 99, 100]).tolist() if tables else [],
            }
        )
    return result


def _pairs(forests: Forests) -> int:
    """How many arcs there are without labels."""
    new = (numpy.diff(forests.modifiers, prepend=-1) != 0) | (
        numpy.diff(forests.heads, prepend=-1) != 0
    )
    new[forests.arc_starts[:-1][numpy.diff(forests.arc_starts) > 0]] = True
    return int(new.sum())


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
                "{:.2f}".format(own["speed"][0]) if "speed" in own else "",
                "{:.0f}".format(own["speed"][1]) if "speed" in own else "",
            )
        )
    header = (
        "",
        "UAS",
        "LAS",
        "complete",
        "UAS gain",
        "LAS gain",
        "training, s",
        "speed",
        "us/word",
    )
    print(
        f"{results['base']}: {results['candidates']:.1f} candidates a sentence, of which the oracle"
    )
    print("takes the best. Speed: words/s as a part of those without reranking, and what it adds.")
    print(f"Training is beside jack-knifing, which takes {results['jackknife_seconds']:.0f} s.")
    msg.table(cells, header=header, divider=True, aligns=("l", *"r" * 8))
    if results["forests"]:
        rows = [
            (
                f"{own['threshold']:g}",
                f"{own['arcs']:.2f}",
                f"{own['labelled']:.2f}",
                f"{100 * own['uas']:.2f}",
                f"{100 * own['las']:.2f}",
                " / ".join(f"{value:.2g}" for value in own["trees"]),
                " / ".join(f"{value:.0f}" for value in own["width"]),
                " / ".join(f"{value:.2g}" for value in own["table"]),
            )
            for own in results["forests"]
        ]
        header = ("arcs >=", "a token", "labelled", "UAS", "LAS", "trees", "width", "largest table")
        print(
            "Forests: oracles; trees 50, 90, 99 %; widths 50, 90, 99, 100 %; tables 90, 99, 100 %."
        )
        msg.table(rows, header=header, divider=True, aligns=tuple("r" * 8))
    for own in results["log_p"]:
        told = [
            f"{key.upper()} {gain(own[key]['gain'])}, error {-own[key]['error']:+.2%}"
            for key in ("uas", "las")
        ]
        print(f"{own['without']} -> {own['with']}: {'; '.join(told)}")


if __name__ == "__main__":
    main()
