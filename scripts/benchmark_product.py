"""Ways to join two parsers, on held-out blocks of a treebank: which is best, and at which temperature.

    python scripts/benchmark_product.py TRAIN [--lang tr] [--vectors DIR] [--sentences 4000] [--stacked]

The experts are those of configs/accurate.cfg. They are trained on tags of a tagger that was trained on other
sentences, on blocks of TRAIN; every fifteenth block is held out. One half of what is held out teaches weights
and temperatures, all rows are measured on the other half: UAS and LAS over all tokens with full labels,
calibration error of heads and of labelled arcs. Trees are chosen at the temperature that a row names, without
one at that which makes probabilities true. With --stacked, a second stage over the forests of one expert
is trained, too, without and with the other expert's log-marginals: both are jack-knifed for that, by halves.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
from pathlib import Path
from typing import Any, cast

import numpy
from arguments import parser_with, settings_of, small_networks
from numpy.typing import NDArray
from pipeline_rivals import note
from spacy import util
from wasabi import msg

from spacy_spectral.models.forestrank.architecture import ForestFold, ForestSettings
from spacy_spectral.models.product.estimate import fit_weights
from spacy_spectral.models.product.parser import ProductParser
from spacy_spectral.pipeline.training_data import find_clusters, find_word_vectors
from spacy_spectral.trees._eisner import best_tree
from spacy_spectral.trees.calibration import Judged, Reliability, calibrated, judge
from spacy_spectral.trees.interface import ParserModel
from spacy_spectral.trees.pseudoprojective import plain
from spacy_spectral.trees.sentences import MISSING, Treebank

CONFIG = Path(__file__).parents[1] / "configs" / "accurate.cfg"
BLOCK, HELD_OUT = 50, 15


def main() -> None:
    parser = parser_with(__doc__, "train", "--vectors", "--lang", "--symbol")
    parser.add_argument(
        "--sentences", type=int, default=0, help="train on about so many; 0 for all"
    )
    parser.add_argument("--quick", action="store_true", help="a trial: small networks")
    parser.add_argument("--stacked", action="store_true", help="second stages, too")
    options = parser.parse_args()
    train, held_out, recipes, known = prepare(options)
    msg.info(f"{len(train.tokens):,} sentences to train on, {len(held_out.tokens):,} held out")
    experts: dict[str, ParserModel] = {}
    for name, recipe in recipes.items():
        experts[name] = recipe.fit(train, dev=None, report=note, **known)
    is_odd = (numpy.arange(len(held_out.tokens)) // 10) % 2 == 1
    measured = held_out.select(is_odd)
    rows = compare(experts, held_out.select(~is_odd), measured)
    if options.stacked:
        few = {"epochs": 1, "threshold": 0.05} if options.quick else {}
        settings = ForestSettings(folds=2, **few)
        rows |= stacked(experts["loglinear"], recipes, train, known, measured, settings)
    print_rows(rows)


def prepare(options: argparse.Namespace) -> tuple[Treebank, Treebank, dict[str, Any], dict]:
    """RETURNS (Tuple): Jack-knifed sentences to train on and held-out ones, how to train the experts, and
    what is known of words."""
    options.dev = options.train  # is not looked at
    settings = settings_of(options)
    quick = small_networks(CONFIG) if options.quick else {}
    config = util.load_config(CONFIG, overrides=settings | quick)
    vectors = settings["paths.vectors"]
    nlp = util.load_model_from_config(config, auto_fill=True)
    (corpus,) = util.resolve_dot_names(nlp.config.interpolate(), ["corpora.train"])
    examples = list(corpus(nlp))
    tagger, parser = (
        cast(Any, nlp.get_pipe("spectral_tagger")),
        cast(Any, nlp.get_pipe("spectral_parser")),
    )
    tagger.initialize(lambda: examples, nlp=nlp, clusters=vectors)
    treebank = parser.training_treebank(examples, nlp)
    block = numpy.arange(len(treebank.tokens)) // BLOCK
    inside = block % HELD_OUT == HELD_OUT // 2
    outside = ~inside
    if options.sentences:
        every = max(round(outside.sum() / options.sentences), 1)
        outside &= block % every == 0
    known = {
        "clusters": find_clusters(vectors, nlp.vocab),
        "vectors": find_word_vectors(vectors, nlp.vocab),
    }
    recipes = parser.model.attrs["recipe"].recipes
    return treebank.select(outside), treebank.select(inside), recipes, known


def compare(
    experts: dict[str, ParserModel], teaches: Treebank, measured: Treebank
) -> dict[str, Judged]:
    """RETURNS (Dict[str, Judged]): Every way to join the experts, on sentences that nothing was fitted to."""
    rows: dict[str, Judged] = {}

    def add(name: str, model: Any) -> None:
        rows[name] = judge(model.parse(measured.tokens), measured, model.label_names)

    own = {name: calibrated(expert, teaches) for name, expert in experts.items()}
    for name, expert in own.items():
        add(name, expert)
    rows["mixture of marginals"] = mixture(own, measured)
    equal = ProductParser(experts, dict.fromkeys(experts, 1 / len(experts)))
    learnt = fit_weights(equal, teaches, equal.scorers(teaches.tokens))
    shares = " : ".join(f"{weight:.2f}" for weight in learnt.weights.values())
    for title, product in (("1 : 1", equal), (shares, learnt)):
        for chosen_at in (0.5, 0.75, 1.0):
            fitted = calibrated(product, teaches, chosen_at=chosen_at)
            add(f"product {title}, at {chosen_at:g}", fitted)
    return rows


def stacked(
    base: ParserModel,
    recipes: dict[str, Any],
    train: Treebank,
    known: dict,
    measured: Treebank,
    settings: ForestSettings,
) -> dict[str, Judged]:
    """RETURNS (Dict[str, Judged]): Second stages on top of one expert."""
    is_odd = (numpy.arange(len(train.tokens)) // BLOCK) % 2 == 1
    folds = []
    for inside in (is_odd, ~is_odd):
        own, others = train.select(~inside), train.select(inside)
        copy = recipes["loglinear"].fit(own, dev=None, report=note, **known)
        folds.append(ForestFold(own, others, copy.parse(others.tokens), copy.label_names))
    rows = {}
    parses = base.parse(measured.tokens)
    for title, experts in (("alone", {}), ("on biaffine", {"biaffine": recipes["biaffine"]})):
        settings.experts = settings.recipes = experts
        stage = settings.fit(folds, clusters=known["clusters"], report=note)
        found = stage.parse(measured.tokens, parses, base.label_names)
        rows[f"second stage, {title}"] = judge(found, measured, base.label_names)
    return rows


def mixture(experts: dict[str, ParserModel], treebank: Treebank) -> Judged:
    """The mean of the experts' probabilities of labelled arcs, and the tree with the best product of arcs."""
    names = sorted({plain(name) for expert in experts.values() for name in expert.label_names})
    found = [(expert, expert.parse(treebank.tokens)) for expert in experts.values()]
    lower = numpy.array([name.lower() for name in names], dtype=object)
    columns: list[list[NDArray]] = [[], [], [], []]
    for s, (begin, end) in enumerate(treebank.tokens.bounds()):
        n = end - begin
        joint = numpy.zeros((n + 1, n + 1, len(names)))
        for expert, parses in found:
            arcs = parses.arcs(s, labelled=True)
            place = numpy.array([names.index(plain(name)) for name in expert.label_names])
            numpy.add.at(
                joint,
                (arcs.heads, arcs.modifiers, place[arcs.labels]),
                arcs.probs / len(found),
            )
        marginals = joint.sum(axis=2)
        tree, _ = best_tree(numpy.log(numpy.maximum(marginals, 1e-9)))
        at = tree, numpy.arange(1, n + 1)
        label = joint[at].argmax(axis=1)
        known = treebank.heads[begin:end] != MISSING
        right = tree == treebank.heads[begin:end]
        gold = numpy.array([name.lower() for name in treebank.labels[begin:end]], dtype=object)
        own = (marginals[at], right, joint[at].max(axis=1), right & (lower[label] == gold))
        for column, values in zip(columns, own, strict=True):
            column.append(values[known])
    return Judged(*map(numpy.concatenate, columns))


def print_rows(rows: dict[str, Judged]) -> None:
    def percent(value: float) -> str:
        return f"{100 * value:.2f}"

    cells = [
        (
            name,
            percent(row.uas),
            percent(row.las),
            percent(Reliability.of(row.heads, row.head_right).error),
            percent(Reliability.of(row.arcs, row.arc_right).error),
        )
        for name, row in rows.items()
    ]
    header = ("", "UAS", "LAS", "Error, heads", "Error, arcs")
    msg.table(cells, header=header, divider=True, aligns=("l", *"rrrr"))


if __name__ == "__main__":
    main()
