"""Parsers for constituents side by side: labelled F1 as evalb counts it, training time, speed and size.

    python scripts/benchmark_constituency.py TRAIN.ptb DEV.ptb [--vectors DIR] [--rows product alone lengths]

Input is raw words, and no sentence is left out. Times are CPU seconds of one thread: set OMP_NUM_THREADS=1
and OPENBLAS_NUM_THREADS=1. Rows:

product   the product, and before it the model of spans, anchored rules, and the grammar on the forest
alone     grammars pruned by the plain grammar: without states, all estimators, over numbers of states; on
          every fourth tree of DEV, since that is slow
lengths   time and memory against the length of sentences
"""

import argparse
import resource
import sys
from pathlib import Path
from time import process_time

import numpy

from spacy_spectral.models.constituency.evalb import Constituent, Counts, constituents
from spacy_spectral.models.constituency.mixture import Mixture
from spacy_spectral.models.constituency.model import ConstituencyModel
from spacy_spectral.models.constituency.training import ConstituencyRecipe
from spacy_spectral.models.constituency.trees import clean
from spacy_spectral.treebank.brackets import read_brackets

ROWS = ("product", "alone", "lengths")
ALONE = [("spectral", k) for k in (1, 4, 8, 16, 24)] + [
    ("cluster", 8),
    ("em", 8),
    ("spectral+em", 8),
]


class Gold:
    """The trees of a file, and their words as parsers take them."""

    def __init__(self, path, *, every=1):
        self.trees = [tree for tree in map(clean, read_brackets(path)) if tree is not None][::every]
        leaves = [[leaf.word for leaf in tree.leaves()] for tree in self.trees]
        self.words = [word for own in leaves for word in own]
        self.starts = numpy.cumsum([0, *map(len, leaves)])

    def score(self, model):
        """RETURNS (Tuple[Counts, float]): The counts, and words per CPU second."""
        start = process_time()
        parsed, _ = model.parse(self.words, self.starts)
        seconds = process_time() - start
        counts = Counts()
        for tree, own in zip(self.trees, parsed, strict=True):
            gold, tags = constituents(tree)
            found = [Constituent(node.label, node.begin, node.end) for node in own.nodes]
            counts.add(gold, found, tags, own.tags)
        return counts, len(self.words) / seconds


def show(name, counts, speed, seconds=None, size=None):
    training = "" if seconds is None else f"{seconds:.0f}"
    megabytes = "" if size is None else f"{size / 1e6:.1f} MB"
    print(
        f"| {name} | {100 * counts.f1:.2f} | {100 * counts.exact_match:.1f} "
        f"| {100 * counts.tag_accuracy:.2f} | {training} | {speed:,.0f} | {megabytes} |",
        flush=True,
    )


def head():
    print(
        "| | F1 | exact | tags | training, CPU s | words / CPU s | size |\n"
        "|---|---:|---:|---:|---:|---:|---:|"
    )


def fit(recipe, trees, clusters):
    def report(message):
        if sys.stderr.isatty():
            print(message, file=sys.stderr)

    start = process_time()
    model = recipe.fit(trees, clusters=clusters, report=report)
    return model, process_time() - start


def product(trees, gold, clusters, states):
    model, seconds = fit(ConstituencyRecipe(states=states), trees, clusters)
    parts = {"encoder": model.encoder, "spans": model.spans}
    head()
    for name, own in (
        ("model of spans", parts),
        ("anchored rules on its forest", parts | {"anchored": model.anchored}),
        (f"spectral grammar, {states} states, on its forest", parts | {"latent": model.latent}),
    ):
        # the grammar alone decides on the forest
        mixture = Mixture(0.0, 1.0, 0.0, 1.0)
        partial = ConstituencyModel(model.grammar, mixture=mixture, **own)
        show(name, *gold.score(partial))
    show("**their product**", *gold.score(model), seconds, len(model.to_bytes()))
    return model


def alone(trees, gold):
    head()
    for estimator, states in ALONE:
        recipe = ConstituencyRecipe(spans=False, estimator=estimator, states=states)
        model, seconds = fit(recipe, trees, None)
        name = "plain grammar" if states == 1 else f"{estimator}, {states} states"
        show(name, *gold.score(model), seconds, len(model.to_bytes()))


def lengths(model, gold):
    print("| words in a sentence | sentences | CPU ms a word | memory, MB |\n|---|---:|---:|---:|")
    sizes = numpy.diff(gold.starts)
    for low, high in ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, 100)):
        chosen = numpy.flatnonzero((sizes >= low) & (sizes <= high)).tolist()
        if chosen:
            sentences = [gold.words[gold.starts[i] : gold.starts[i + 1]] for i in chosen]
            _time(model, sentences, f"{low} to {high}")
    # one long sentence out of many
    for n in (200, 300, 1000, 10_000):
        _time(model, [(gold.words * (1 + n // len(gold.words)))[:n]], f"{n:,}")


def _time(model, sentences, name):
    words = [word for sentence in sentences for word in sentence]
    start = process_time()
    model.parse(words, numpy.cumsum([0, *map(len, sentences)]))
    seconds = process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(
        f"| {name} | {len(sentences)} | {1000 * seconds / len(words):.3f} | {memory:,.0f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--vectors", type=Path, help="a directory by 'spacy spectral eigenwords'")
    parser.add_argument("--states", type=int, default=24)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--limit", type=int, default=None, help="train on the first trees only")
    options = parser.parse_args()
    clusters = None
    if options.vectors is not None:
        from spacy_spectral.models.eigenwords.clusters import WordClusters

        clusters = WordClusters.from_disk(options.vectors)
    trees = list(read_brackets(options.train))[: options.limit]
    gold = Gold(options.dev)
    model = None
    if {"product", "lengths"} & set(options.rows):
        model = product(trees, gold, clusters, options.states)
    if "alone" in options.rows:
        print()
        alone(trees, Gold(options.dev, every=4))
    if "lengths" in options.rows:
        print()
        lengths(model, gold)


if __name__ == "__main__":
    main()
