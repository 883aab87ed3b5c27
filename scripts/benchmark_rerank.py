"""Measure reranking: of forests and of lists, with and without log p of the latent tree model; time, speed.

    python scripts/benchmark_rerank.py TRAIN DEV [--vectors DIR] [--model NAME] [--beam] [--base DIR]
        [--only forests]

The base parser is that of configs/pipeline.cfg, with --model by another model; or with --beam spaCy's
`beam_parser` after our tagger. --base takes a pipeline that is trained already. DEV is held out from all
training: no epoch is chosen by it.
Scores are of all tokens, with full labels, inside gold sentences. Differences come with 95 % intervals of a
paired bootstrap over sentences. Seconds are CPU seconds of one thread.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
from pathlib import Path
from time import process_time
from typing import Any

import numpy
import spacy
import srsly
from arguments import parser_with
from pipeline_rivals import note, read
from rerank_measures import DevCandidates, counts, interval, reduction, sizes
from spacy import util
from spacy.language import Language
from spacy.training import Example
from spacy.training.initialize import init_nlp
from wasabi import msg

from spacy_spectral.base.files import write_atomically
from spacy_spectral.base.learnt import Learnt
from spacy_spectral.models.forestrank.architecture import ForestFold, ForestSettings
from spacy_spectral.models.rerank.architecture import Settings
from spacy_spectral.models.rerank.features import GROUPS, Fold
from spacy_spectral.pipeline.candidates import (
    CandidateSource,
    Plan,
    SpectralCandidates,
    candidate_source,
    listed,
    train_beam_parser,
)
from spacy_spectral.pipeline.reranker import find_vectors

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
# Models of the base parser.
NAMES = {
    "loglinear": "LogLinear.v1",
    "biaffine": "Biaffine.v2",
    "shag": "SHAG.v1",
    "refined": "Refined.v1",
}
_BY_NAME = {key: {"@architectures": f"spacy-spectral.{name}"} for key, name in NAMES.items()}
MODELS: dict[str, dict[str, Any]] = _BY_NAME | {
    "product": {
        "@architectures": "spacy-spectral.Product.v1",
        "experts": {name: _BY_NAME[name] for name in ("loglinear", "biaffine")},
    },
}
LIST_MODEL, FOREST_MODEL = "spacy-spectral.Reranker.v1", "spacy-spectral.ForestReranker.v1"
TIMED = (
    "base features + log p",
    "all",
    "forest, arcs >= 0.01",
)
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
    parser = parser_with(__doc__, "train", "dev", "--vectors", "--lang", "--json")
    parser.add_argument("--beam", action="store_true", help="rerank spaCy's beam_parser")
    parser.add_argument("--model", choices=sorted(MODELS), help="of the base; default: loglinear")
    parser.add_argument("--epochs", type=int, default=10, help="passes that train a beam_parser")
    parser.add_argument("--base", type=Path, help="a trained pipeline; it must not have seen DEV")
    parser.add_argument("-n", type=int, default=50, help="candidates of a sentence")
    parser.add_argument("--margin", type=float, default=6.0, help="see the component")
    parser.add_argument("--folds", type=int, default=ForestSettings.folds, help="of jack-knifing")
    parser.add_argument("--only", choices=("forests", "lists"), help="leave out the other")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of timing")
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
    if is_spectral:
        figures[NONE]["calibration"] = candidates.calibration(candidates.parses)
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
        figures[row]["calibration"] = candidates.calibration(parses)
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
        config = util.load_config(CONFIG, overrides=overrides)
        if options.model:
            config["components"]["spectral_parser"]["model"] = MODELS[options.model]
            given = config["initialize"]["components"]["spectral_parser"]
            if options.model in ("shag", "refined"):  # they know nothing of other words
                del given["clusters"]
            elif options.model != "loglinear":
                given["vectors"] = "${paths.vectors}"
        return init_nlp(config)
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
        plan = Plan(options.n, options.folds, options.epochs)
        return [], list(source.jackknife(train, nlp, plan, note))
    forests = list(source.held_out(train, nlp, folds=options.folds, report=note))
    in_lists = () if options.only == "forests" else forests
    return forests, [listed(fold, options.n) for fold in in_lists]


# Measuring.


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
                f"{100 * own['calibration']:.2f}" if "calibration" in own else "",
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
        "calibration",
        "training, s",
        "speed",
        "us/word",
    )
    print(
        f"{results['base']}: {results['candidates']:.1f} candidates a sentence, of which the oracle"
    )
    print("takes the best. Speed: words/s as a part of those without reranking, and what it adds.")
    print("Calibration: the error of the probabilities of heads, in points.")
    print(f"Training is beside jack-knifing, which takes {results['jackknife_seconds']:.0f} s.")
    msg.table(cells, header=header, divider=True, aligns=("l", *"r" * 9))
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
