"""Parsers for constituents side by side: labelled F1 as evalb counts it, training time, speed and size.

    python scripts/benchmark_constituency.py TRAIN.ptb DEV.ptb [--vectors DIR]
        [--rows product neural curve alone lengths] [--model DIR] [--sizes 500 2000] [--base DIR]
        [--berkeley JAR]

Input is raw words, and no sentence is left out. With --base, a trained pipeline, anchored rules look at the
arcs of its parser; its time is not counted. Times are CPU seconds of one thread: set OMP_NUM_THREADS=1 and
OPENBLAS_NUM_THREADS=1. Rows:

product   the product, and before it the model of spans, anchored rules, and the grammar on the forest
neural    the product with networks: each of its experts, every pair, and all, and all with one network
          (--networks) only; networks prune where they are there, else the model of spans. With --model they
          are those of a trained pipeline
curve     the same, F1 only, trained on some of the trees (--sizes), which are taken from all parts of TRAIN
alone     plain grammars (v=1 h=0, and v=2 h=1: labels with those of their parents, parts of phrases with the
          last child that joined them); grammars with states, for which the former prunes: all estimators,
          over numbers of states; on every fourth tree of DEV, since that is slow
lengths   time and memory against the length of sentences
berkeley  the Berkeley parser, with --berkeley: the path of its jar; it needs Java. Four rounds of splitting
          and merging; its time is that of its processes
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from time import process_time

import numpy
import spacy
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_spectral.models.constituency.architecture import ConstituencyRecipe, NeuralSpanRecipe
from spacy_spectral.models.constituency.evalb import Constituent, Counts, constituents, score_trees
from spacy_spectral.models.constituency.model import ConstituencyModel, Mixture
from spacy_spectral.models.constituency.neural import SpanNetwork
from spacy_spectral.models.constituency.tokens import Arcs
from spacy_spectral.models.constituency.trees import clean, head_child
from spacy_spectral.pipeline.training_data import find_clusters, find_word_vectors
from spacy_spectral.treebank.brackets import Tree, read_brackets, read_trees, write_tree

ROWS = ("product", "neural", "curve", "alone", "lengths")
ALONE = [("spectral", k) for k in (1, 4, 8, 16, 24)] + [
    ("cluster", 8),
    ("em", 8),
    ("spectral+em", 8),
]


class Gold:
    """The trees of a file, and their words as parsers take them."""

    def __init__(self, path, *, every=1):
        self.trees = [tree for tree in map(clean, read_trees(path)) if tree is not None][::every]
        leaves = [[leaf.word for leaf in tree.leaves()] for tree in self.trees]
        self.words = [word for own in leaves for word in own]
        self.starts = numpy.cumsum([0, *map(len, leaves)])
        self.arcs = None

    def score(self, model):
        """RETURNS (Tuple[Counts, float]): The counts, and words per CPU second."""
        start = process_time()
        parsed, _ = model.parse(self.words, self.starts, beside=self.arcs)
        seconds = process_time() - start
        return self.count(parsed), len(self.words) / seconds

    def count(self, parsed):
        """RETURNS (Counts): What is right. Labels of parsers on annotated trees lose what was added."""
        counts = Counts()
        for tree, own in zip(self.trees, parsed, strict=True):
            gold, tags = constituents(tree)
            found = [
                Constituent(node.label.split("^")[0], node.begin, node.end)
                for node in own.nodes
                if not node.label.startswith("@")
            ]
            counts.add(gold, found, tags, own.tags)
        return counts


def find_arcs(nlp, trees):
    """RETURNS (List[Arcs]): Of every tree that has words, by the tagger and the parser of a pipeline."""
    docs, arcs = [], []
    for tree in filter(None, map(clean, trees)):
        words = [leaf.word for leaf in tree.leaves()]
        docs.append(Doc(nlp.vocab, words=words, sent_starts=[i == 0 for i in range(len(words))]))
    with nlp.select_pipes(enable=["spectral_tagger", "spectral_parser"]):
        for doc in nlp.pipe(docs):
            heads = [0 if token.head == token else token.head.i + 1 for token in doc]
            arcs.append(Arcs(numpy.array(heads, dtype="int32"), [token.dep_ for token in doc]))
    return arcs


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


def report(message):
    if sys.stderr.isatty():
        print(message, file=sys.stderr)


def fit(recipe, trees, clusters, arcs=None):
    start = process_time()
    model = recipe.fit(trees, clusters=clusters, arcs=arcs, report=report)
    return model, process_time() - start


def product(trees, gold, clusters, states, arcs=None):
    arcs = None if arcs is None else Arcs.joined(arcs)
    model, seconds = fit(ConstituencyRecipe(states=states), trees, clusters, arcs)
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


def neural(trees, gold, options, resources):
    """The product with networks: a trained one (`--model`), or one that is trained here."""
    seconds = None
    if options.model is not None:
        nlp = spacy.load(options.model)
        model = nlp.get_pipe("spectral_constituency").learnt
        if model.uses_arcs:
            gold.arcs = Arcs.joined(find_arcs(nlp, gold.trees))
    else:
        arcs = resources["arcs"]
        model, seconds = fit_neural(trees, options, resources, arcs)
    head()
    for name, partial in experts(model):
        whole = (seconds, len(model.to_bytes())) if partial is model else ()
        show(name, *gold.score(partial), *whole)
    return model


def fit_neural(trees, options, resources, arcs):
    network = NeuralSpanRecipe(epochs=options.epochs, networks=options.networks)
    recipe = ConstituencyRecipe(states=options.states, neural=network)
    start = process_time()
    joined = None if arcs is None else Arcs.joined(arcs)
    model = recipe.fit(trees, **resources | {"arcs": joined}, report=report)
    return model, process_time() - start


def experts(model):
    """Parsers of some parts of a product with networks, none of them trained again: each expert alone, every
    pair, and the product itself; the product with the first of several networks. Without networks, the model
    of spans prunes."""
    spans = {"spans": model.spans}
    parts = {
        "anchored rules": {"anchored": model.anchored} | spans,
        "grammar": {"latent": model.latent},
        "networks": {"neural": model.neural},
    }
    # the grammar alone decides on the forest
    alone = Mixture(0.0, 1.0, 0.0, 1.0)
    yield "model of spans", ConstituencyModel(model.grammar, encoder=model.encoder, **spans)
    for n in (1, 2, 3):
        for names in combinations(parts, n):
            if n == 3:
                yield f"**{' x '.join(names)}**", model
                continue
            own = {key: part for name in names for key, part in parts[name].items()}
            mixture = alone if names == ("grammar",) else model.mixture
            own = own | spans if names == ("grammar",) else own
            yield (
                " x ".join(names),
                ConstituencyModel(model.grammar, encoder=model.encoder, mixture=mixture, **own),
            )
    if len(model.neural.members) > 1:
        every = {key: part for own in parts.values() for key, part in own.items()}
        settings = replace(model.neural.settings, networks=1)
        first = SpanNetwork(model.neural.lexicon, settings, model.neural.members[:1])
        shared = {"encoder": model.encoder, "mixture": model.mixture}
        yield (
            "the same with one network",
            ConstituencyModel(model.grammar, **shared | every | {"neural": first}),
        )


def curve(trees, gold, options, resources):
    """F1 by how many trees were learnt from, taken evenly from the whole file."""
    names, rows = [], []
    for n in options.sizes:
        chosen = numpy.linspace(0, len(trees) - 1, n).astype(int).tolist()
        arcs = resources["arcs"] and [resources["arcs"][i] for i in chosen]
        model, seconds = fit_neural([trees[i] for i in chosen], options, resources, arcs)
        scores = {name: gold.score(partial)[0].f1 for name, partial in experts(model)}
        names = list(scores)
        rows.append((n, [f"{100 * f1:.2f}" for f1 in scores.values()], seconds))
    print(f"| trees | {' | '.join(names)} | training, CPU s |")
    print(f"|---{'|---:' * (len(names) + 1)}|")
    for n, scores, seconds in rows:
        print(f"| {n:,} | {' | '.join(scores)} | {seconds:.0f} |", flush=True)


def annotated(tree, parent="ROOT"):
    """A tree as the grammar of v=2 h=1 sees it: constituents bear the label of their parent, and those of
    more than two children are binarised from their head outwards, by nodes that remember the last child.

    tree (Tree): A tree as `clean` gives it.
    RETURNS (Tree): A tree of the same words.
    """
    if tree.word:
        return tree
    children = [annotated(child, tree.label) for child in tree.children]
    label = f"{tree.label}^{parent}"
    if len(children) <= 2:
        return Tree(label, children)
    labels = [child.label for child in tree.children]
    at = head_child(tree.label, labels)
    made, n = children[at], 1
    for i in [*range(at + 1, len(children)), *range(at - 1, -1, -1)]:
        n += 1
        pair = [made, children[i]] if i > at else [children[i], made]
        side = ">" if i > at else "<"
        made = Tree(label if n == len(children) else f"@{label}{side}{labels[i]}", pair)
    return made


def alone(trees, gold):
    head()
    plain = ConstituencyRecipe(spans=False, estimator="spectral", states=1)
    marked = [annotated(tree) for tree in map(clean, trees) if tree is not None]
    model, seconds = fit(plain, marked, None)
    show("plain grammar, v=2 h=1", *gold.score(model), seconds, len(model.to_bytes()))
    for estimator, states in ALONE:
        recipe = ConstituencyRecipe(spans=False, estimator=estimator, states=states)
        model, seconds = fit(recipe, trees, None)
        name = "plain grammar, v=1 h=0" if states == 1 else f"{estimator}, {states} states"
        show(name, *gold.score(model), seconds, len(model.to_bytes()))


def berkeley(jar, trees, gold, cycles=4):
    """The Berkeley parser in processes of its own. Where it finds no tree, a flat one counts for it."""
    with tempfile.TemporaryDirectory() as directory:
        train, grammar, words, parsed = (
            str(Path(directory) / name) for name in ("train.ptb", "grammar", "words", "parsed")
        )
        cleaned = [tree for tree in map(clean, trees) if tree is not None]
        Path(train).write_text("".join(f"( {write_tree(tree)})\n" for tree in cleaned), "utf8")
        lines = (gold.words[a:b] for a, b in zip(gold.starts[:-1], gold.starts[1:], strict=True))
        escaped = {"(": "-LRB-", ")": "-RRB-"}
        Path(words).write_text(
            "".join(" ".join(escaped.get(w, w) for w in line) + "\n" for line in lines), "utf8"
        )
        start = _children_seconds()
        trainer = "edu.berkeley.nlp.PCFGLA.GrammarTrainer"
        options = ["-treebank", "SINGLEFILE", "-SMcycles", str(cycles)]
        _java("-cp", jar, trainer, "-path", train, "-out", grammar, *options)
        trained = _children_seconds()
        _java("-jar", jar, "-gr", grammar, "-inputFile", words, "-outputFile", parsed)
        done = _children_seconds()
        found = []
        for tree, line in zip(gold.trees, Path(parsed).read_text("utf8").splitlines(), strict=True):
            Path(words).write_text(line, "utf8")
            leaves = [Tree(leaf.label, word=leaf.word) for leaf in tree.leaves()]
            flat = Tree("ROOT", [Tree("X", leaves)])
            own = flat if line.strip() in ("", "(())", "( )") else next(read_brackets(words))
            found.append(own if len(list(own.leaves())) == len(leaves) else flat)
    counts = score_trees(gold.trees, found)
    head()
    name = f"Berkeley parser, {cycles} rounds"
    show(name, counts, len(gold.words) / max(done - trained, 1e-9), trained - start)


def _java(*arguments):
    command = ["java", "-Xmx4g", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


def _children_seconds():
    times = os.times()
    return times.children_user + times.children_system


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
    parser.add_argument("--epochs", type=int, default=20, help="of each network")
    parser.add_argument("--networks", type=int, default=2, help="how many of them")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--model", type=Path, help="a trained pipeline for the rows of 'neural'")
    parser.add_argument("--base", type=Path, help="a trained pipeline whose arcs count")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000], help="of the curve")
    parser.add_argument("--limit", type=int, default=None, help="train on the first trees only")
    parser.add_argument("--berkeley", type=Path, metavar="JAR", help="the Berkeley parser's jar")
    options = parser.parse_args()
    if options.berkeley is not None and not options.berkeley.is_file():
        parser.error(f"no such file: {options.berkeley}")
    clusters = vectors = None
    if options.vectors is not None:
        clusters = find_clusters(options.vectors, Vocab())
        vectors = find_word_vectors(options.vectors, Vocab())
    trees = [tree for tree in read_trees(options.train) if clean(tree)][: options.limit]
    gold, arcs, model = Gold(options.dev), None, None
    if options.base is not None:
        base = spacy.load(options.base)
        arcs, gold.arcs = find_arcs(base, trees), Arcs.joined(find_arcs(base, gold.trees))
    resources = {"clusters": clusters, "vectors": vectors, "arcs": arcs}
    if {"product", "lengths"} & set(options.rows):
        model = product(trees, gold, clusters, options.states, arcs)
    if "neural" in options.rows:
        print()
        model = neural(trees, gold, options, resources)
    if "curve" in options.rows:
        print()
        curve(trees, gold, options, resources)
    if "alone" in options.rows:
        print()
        alone(trees, Gold(options.dev, every=4))
    if options.berkeley is not None:
        print()
        berkeley(options.berkeley, trees, gold)
    if "lengths" in options.rows:
        print()
        lengths(model, gold)


if __name__ == "__main__":
    main()
