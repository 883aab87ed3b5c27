"""Measure refinement: parsers by sub-tags, and word classes found in bare trees.

    python scripts/benchmark_refine.py TRAIN DEV [--symbol upos] [--seeds 3] [--predicted] [--classes]
    python scripts/benchmark_refine.py TRAIN DEV --rows --multiply MODEL
    python scripts/benchmark_refine.py TRAIN --choose [--symbol upos]
    python scripts/benchmark_refine.py --sample

Prints the tables of Finkel, Grenager & Manning (2007): attachment of a parser by sub-tags for every way to
find them (gold tags, all tokens; `--predicted`: with tags by a tagger, jack-knifed in training), and with
`--classes` how word classes that are found without tags agree with gold tags. `--multiply` multiplies the
log-linear parser of a trained pipeline with the grammar. `--choose` compares settings on a fifth of TRAIN
that is held out: defaults are chosen by it, DEV is not looked at. Times are CPU seconds.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy
import spacy
import srsly
from arguments import parser_with
from numpy.typing import NDArray
from spacy.training import Example
from wasabi import msg

from spacy_spectral.base.files import write_atomically
from spacy_spectral.models.product.estimate import fit_weights
from spacy_spectral.models.product.parser import ProductParser
from spacy_spectral.models.refine.architecture import RefinedRecipe
from spacy_spectral.models.refine.infinite import CHILDREN, infinite_labelling
from spacy_spectral.models.refine.spectral import spectral_labelling
from spacy_spectral.models.refine.split_merge import SplitMerge
from spacy_spectral.models.refine.statistics import Labelling, Trees
from spacy_spectral.pipeline.documents import TokenReader, training_treebank
from spacy_spectral.pipeline.training_data import annotated_by
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.documents import read_docs
from spacy_spectral.treebank.sample.draw import write_sample
from spacy_spectral.trees.calibration import calibrated
from spacy_spectral.trees.pseudoprojective import projective_trees
from spacy_spectral.trees.sentences import Treebank

ATTRIBUTES = {"xpos": "TAG", "upos": "POS"}
PARSERS: dict[str, dict[str, Any]] = {
    "no sub-tags": {"labelling": "none"},
    "spectral, 100": {"labelling": "spectral", "states": 100},
    "spectral, 200": {"labelling": "spectral", "states": 200},
    "spectral, 300": {"labelling": "spectral", "states": 300},
    "split-merge, 1 cycle": {"labelling": "split-merge", "cycles": 1, "states": 300},
    "split-merge, 2 cycles": {"labelling": "split-merge", "cycles": 2, "states": 300},
    "split-merge, 3 cycles": {"labelling": "split-merge", "cycles": 3, "states": 300},
    "infinite, independent": {"labelling": "infinite", "children": "independent"},
    "infinite, Markov": {"labelling": "infinite", "children": "markov"},
}

CHOICES: dict[str, dict[str, Any]] = {
    f"spectral, {states}, {dimensions} dimensions": {
        "labelling": "spectral", "states": states, "dimensions": dimensions,
    }
    for states, dimensions in (
        (100, 4), (150, 4), (200, 2), (200, 3), (200, 4), (200, 6), (200, 8), (300, 4), (300, 6),
    )
} | {
    f"infinite, {children}": {"labelling": "infinite", "children": children}
    for children in ("independent", "markov")
}  # fmt: skip
BLOCK = 50  # sentences that are held out together: neighbours are alike


def main() -> None:
    options = parse_arguments()
    if options.sample:
        with tempfile.TemporaryDirectory() as directory:
            train, dev, _ = write_sample(directory)[::2]
            results = run(train, dev, options)
    else:
        results = run(options.train, options.dev, options)
    if options.json:
        write_atomically(options.json, srsly.json_dumps(results, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = parser_with(__doc__, "train", "dev", "--sample", "--json", is_optional=True)
    parser.add_argument("--symbol", choices=ATTRIBUTES, default="xpos", help="what tags are")
    parser.add_argument("--seeds", type=int, default=1, help="over how many seeds to average")
    parser.add_argument("--rows", nargs="*", choices=PARSERS, help="these rows only")
    parser.add_argument("--predicted", action="store_true", help="with tags by a tagger, too")
    parser.add_argument("--classes", action="store_true", help="word classes, too")
    parser.add_argument("--choose", action="store_true", help="settings, on a part of TRAIN")
    parser.add_argument("--multiply", type=Path, help="a trained pipeline to multiply with")
    parser.add_argument("--sentences", type=int, default=3500, help="to find classes in")
    parser.add_argument("--sweeps", type=int, default=100, help="of the samplers of classes")
    options = parser.parse_args()
    if not options.sample and not (options.train and (options.dev or options.choose)):
        parser.error("give TRAIN and DEV, TRAIN and --choose, or --sample")
    return options


def run(train_path: Path, dev_path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Print all tables and collect their figures."""
    symbol = ATTRIBUTES[options.symbol]
    try:
        train = to_treebank(train_path, symbol)
        held_out = (numpy.arange(len(train.tokens)) // BLOCK) % 5 == 4
        dev = train.select(held_out) if options.choose else to_treebank(dev_path, symbol)
    except ValueError as error:
        msg.fail(str(error), exits=1)
    if options.choose:
        train = train.select(~held_out)
    msg.info(f"train: {len(train.heads):,} words, dev: {len(dev.heads):,} words")
    if options.choose:
        return {"choice": parser_table(train, dev, CHOICES, options.seeds)}
    rows = {name: PARSERS[name] for name in (PARSERS if options.rows is None else options.rows)}
    results: dict[str, Any] = {}
    if rows:
        results["parsers"] = parser_table(train, dev, rows, options.seeds)
    if options.predicted:
        results["predicted"] = predicted_table(train_path, dev_path, options)
    if options.multiply:
        results["product"] = product_table(train_path, dev_path, options)
    if options.classes:
        chosen = numpy.arange(len(train.tokens)) < options.sentences
        results["classes"] = class_table(train.select(chosen), options.sweeps, options.seeds)
    return results


def to_treebank(path: Path, symbol: str) -> Treebank:
    docs = list(read_docs(path, spacy.blank("xx").vocab))
    return training_treebank(
        [Example(doc, doc) for doc in docs], docs, TokenReader([symbol], name="benchmark")
    )


def attachment(names: Sequence[str], parses: Any, gold: Treebank) -> tuple[float, float]:
    """RETURNS (Tuple[float, float]): UAS and LAS over all tokens, in percent."""
    heads = parses.heads == gold.heads
    labels = numpy.array(names, dtype=object)[parses.labels] == numpy.array(gold.labels)
    return 100 * float(heads.mean()), 100 * float((heads & labels).mean())


def parser_table(
    train: Treebank, dev: Treebank, parsers: dict[str, dict[str, Any]], n_seeds: int
) -> dict[str, list[dict[str, float]]]:
    """Accuracy, states, time and speed for every way to find sub-tags."""
    results: dict[str, list[dict[str, float]]] = {}
    rows = []
    for name, settings in parsers.items():
        seeds = 1 if settings["labelling"] == "none" else n_seeds
        runs = [one_parser(train, dev, settings, seed) for seed in range(seeds)]
        results[name] = runs
        mean = {key: float(numpy.mean([own[key] for own in runs])) for key in runs[0]}
        spread = "" if seeds == 1 else f" ± {numpy.std([own['uas'] for own in runs]):.2f}"
        rows.append(
            (
                name, f"{mean['states']:.0f}", f"{mean['uas']:.2f}{spread}", f"{mean['las']:.2f}",
                f"{mean['train']:.1f}", f"{mean['speed']:,.0f}",
            )
        )  # fmt: skip
    header = ("sub-tags", "states", "UAS", "LAS", "CPU s to learn", "words / CPU s")
    msg.table(rows, header=header, divider=True, aligns=("l", "r", "r", "r", "r", "r"))
    return results


def one_parser(
    train: Treebank, dev: Treebank, settings: dict[str, Any], seed: int
) -> dict[str, float]:
    begin = process_time()
    grammar = RefinedRecipe(seed=seed, **settings).fit(train, report=lambda message: None)
    learnt = process_time()
    parses = grammar.parse(dev.tokens)
    parsed = process_time()
    uas, las = attachment(grammar.label_names, parses, dev)
    return {
        "states": grammar.fine.tag_states.n_states,
        "uas": uas,
        "las": las,
        "train": learnt - begin,
        "speed": len(dev.heads) / (parsed - learnt),
    }


def predicted_table(
    train_path: Path, dev_path: Path, options: argparse.Namespace
) -> dict[str, float]:
    """The pipeline of configs/refined.cfg without its refiner: tags by a tagger, jack-knifed in training."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("spectral_tagger")
    model = {"@architectures": "spacy-spectral.Refined.v1"}
    symbol = ATTRIBUTES[options.symbol]
    config = {"model": model, "jackknife": "spectral_tagger", "symbol": symbol}
    nlp.add_pipe("spectral_parser", config=config)
    train = list(Corpus(train_path, annotations=["sents"], n_sents=1)(nlp))
    nlp.initialize(lambda: train)
    dev = list(Corpus(dev_path, annotations=["sents"], n_sents=1)(nlp))
    scores = nlp.evaluate(dev)
    result = {
        "uas": 100 * scores["dep_uas"],
        "las": 100 * scores["dep_las"],
        "tags": 100 * scores["tag_acc" if symbol == "TAG" else "pos_acc"],
    }
    row = ("spectral, 200, predicted tags", *(f"{value:.2f}" for value in result.values()))
    msg.table([row], header=("sub-tags", "UAS", "LAS", "tags right"), divider=True, aligns="lrrr")
    return result


def product_table(
    train_path: Path, dev_path: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """A trained pipeline's log-linear parser alone, and multiplied with a grammar of the same training data
    and tags. Weights are learnt on one half of the development set and used on the other."""
    nlp = spacy.load(options.multiply)
    # learnt before, of the same data
    base = nlp.get_pipe("spectral_parser")
    tagger = "spectral_tagger"
    config = {
        "model": {"@architectures": "spacy-spectral.Refined.v1"},
        "symbol": ATTRIBUTES[options.symbol],
        "jackknife": tagger,
    }
    refined = nlp.add_pipe("spectral_parser", name="refined", config=config)
    begin = process_time()
    train = list(Corpus(train_path, annotations=["sents"], n_sents=1)(nlp))
    refined.initialize(lambda: train, nlp=nlp)
    msg.info(f"learnt in {process_time() - begin:.1f} CPU s, most of them to jack-knife the tagger")
    examples = list(Corpus(dev_path, annotations=["sents"], n_sents=1)(nlp))
    docs = list(annotated_by([tagger], examples, nlp, parser="benchmark"))
    dev = training_treebank(examples, docs, base.read)
    experts = {"loglinear": base.grammar, "refined": refined.grammar}
    temperature = base.grammar.temperature
    halves = numpy.arange(len(dev.tokens)) // BLOCK % 2 == 0
    equal = ProductParser(experts, {"loglinear": 0.8, "refined": 0.2}, temperature=temperature)
    parts = [dev.select(half) for half in (halves, ~halves)]
    learnt = [
        calibrated(fit_weights(equal, part, equal.scorers(part.tokens)), part) for part in parts
    ]
    results: list[dict[str, Any]] = []

    def measure(name: str, parts: list[tuple[Any, Treebank]]) -> None:
        begin = process_time()
        parses = [(parser.label_names, parser.parse(part.tokens), part) for parser, part in parts]
        time = process_time() - begin
        scores = [attachment(*own) for own in parses]
        sizes = [len(part.heads) for _, part in parts]
        uas, las = numpy.average(scores, axis=0, weights=sizes).tolist()
        results.append({"name": name, "uas": uas, "las": las, "speed": sum(sizes) / time})

    measure("log-linear", [(base.grammar, dev)])
    measure("refined, spectral, 200", [(refined.grammar, dev)])
    for weight in (0.05, 0.1, 0.2):
        fixed = {"loglinear": 1.0, "refined": weight}
        measure(
            f"log-linear x refined^{weight}",
            [(ProductParser(experts, fixed, temperature=temperature), dev)],
        )
    names = [f"{p.weights['refined'] / p.weights['loglinear']:.2f}" for p in learnt]
    measure(
        f"the same, learnt ({', '.join(names)})",
        [(learnt[0], parts[1]), (learnt[1], parts[0])],
    )
    rows = [
        (own["name"], f"{own['uas']:.2f}", f"{own['las']:.2f}", f"{own['speed']:,.0f}")
        for own in results
    ]
    header = ("predicted tags", "UAS", "LAS", "words / CPU s")
    msg.table(rows, header=header, divider=True, aligns=("l", "r", "r", "r"))
    return results


def class_table(train: Treebank, sweeps: int, n_seeds: int) -> dict[str, list[dict[str, float]]]:
    """Word classes found in bare trees, against gold tags."""
    heads, _ = projective_trees(train)
    tags = numpy.unique(numpy.array(train.tokens.symbols, dtype=object), return_inverse=True)[1]
    bare = numpy.zeros(len(heads), dtype="int32")
    trees = Trees(train.tokens.starts, train.tokens.words, bare, heads)
    finders: dict[str, Callable[[int], Labelling]] = {
        f"infinite, {children}": lambda seed, children=children: infinite_labelling(
            trees, 1, children=children, sweeps=sweeps, rho=0.01, most_states=150, seed=seed
        )
        for children in CHILDREN
    }
    finders["EM, 16 states"] = lambda seed: em_classes(trees, 4, seed)
    finders["spectral clusters, 64"] = lambda seed: spectral_labelling(
        trees, 1, states=64, most=64, seed=seed
    )
    results: dict[str, list[dict[str, float]]] = {}
    rows = []
    for name, find in finders.items():
        runs = []
        for seed in range(n_seeds):
            begin = process_time()
            states = find(seed).states
            runs.append({**agreement(states, tags), "time": process_time() - begin})
        results[name] = runs
        mean = {key: float(numpy.mean([own[key] for own in runs])) for key in runs[0]}
        rows.append(
            (
                name, f"{mean['classes']:.0f}", f"{100 * mean['many_to_one']:.1f}",
                f"{100 * mean['one_to_one']:.1f}", f"{mean['information']:.2f}",
                f"{mean['v']:.3f}", f"{100 * mean['f1']:.1f}", f"{mean['time']:.0f}",
            )
        )  # fmt: skip
    header = ("classes by", "found", "many-to-1", "1-to-1", "MI (nats)", "V", "F1", "CPU s")
    msg.table(rows, header=header, divider=True, aligns=("l", *"rrrrrrr"))
    return results


def em_classes(trees: Trees, splits: int, seed: int) -> Labelling:
    """EM with a fixed number of states: all are split, again and again, none is merged."""
    model = SplitMerge(trees, 1, most_states=2**splits, seed=seed)
    for _ in range(splits):
        model.split()
        for _ in range(10):
            model.iterate()
    return model.labelling()


def agreement(classes: NDArray, tags: NDArray) -> dict[str, float]:
    """How classes agree with tags: many-to-one and one-to-one accuracy, mutual information, V-measure, and F1
    (every tag with its best class, weighted by its size)."""
    from scipy.optimize import linear_sum_assignment

    table = numpy.zeros((int(classes.max()) + 1, int(tags.max()) + 1))
    numpy.add.at(table, (classes, tags), 1)
    table = table[table.sum(axis=1) > 0]
    n = table.sum()
    by_class, by_tag = table.sum(axis=1) / n, table.sum(axis=0) / n
    joint = table / n
    with numpy.errstate(divide="ignore", invalid="ignore"):
        terms = joint * numpy.log(joint / numpy.outer(by_class, by_tag))
    information = float(numpy.nansum(terms))
    entropies = [-float((p[p > 0] * numpy.log(p[p > 0])).sum()) for p in (by_tag, by_class)]
    homogeneity, completeness = (information / h if h > 0 else 1.0 for h in entropies)
    rows, columns = linear_sum_assignment(-table)
    f1 = 2 * joint / (by_class[:, None] + by_tag)
    total = homogeneity + completeness
    return {
        "classes": len(table),
        "many_to_one": float(table.max(axis=1).sum() / n),
        "one_to_one": float(table[rows, columns].sum() / n),
        "information": information,
        "v": 2 * homogeneity * completeness / total if total else 0.0,
        "f1": float((f1.max(axis=0) * by_tag).sum()),
    }


if __name__ == "__main__":
    main()
