"""Measure the head-automata parser: accuracy, learning time and speed.

    python scripts/benchmark_shag.py TRAIN DEV [--symbol upos] [--quick] [--plot FILE.png] [--json FILE]
    python scripts/benchmark_shag.py --sample

Prints the tables of Luque et al. (2012), section 5: accuracies of all estimators and lexical models, the
curve over the number of states, learning times; then cost against sentence length and words per second
beside spaCy's own parser. Gold tags, all tokens, unlabelled attachment.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy
import spacy
import srsly
from arguments import parser_with
from spacy.tokens import Doc
from spacy.training import Example
from wasabi import msg

from spacy_spectral.base.files import output_path, write_atomically
from spacy_spectral.base.progress import progress_bar
from spacy_spectral.models.shag.estimate import (
    EstimatorSettings,
    SequenceSet,
    estimate,
    modifier_sequences,
)
from spacy_spectral.models.shag.grammar import Grammar, GrammarSettings
from spacy_spectral.pipeline.documents import TokenReader, training_treebank
from spacy_spectral.readers import copy_words
from spacy_spectral.treebank.documents import read_docs
from spacy_spectral.treebank.sample.draw import write_sample
from spacy_spectral.treebank.sample.grammar import true_model
from spacy_spectral.trees.pseudoprojective import projective_tree
from spacy_spectral.trees.sentences import MISSING, Tree

ATTRIBUTES = {"xpos": "TAG", "upos": "POS"}
ESTIMATORS = ("det", "det+f", "spectral", "em")
LEXICAL = ("LEX", "LEX+F", "LEX+FCP")
Cells = list[tuple[Any, ...]]


def main() -> None:
    options = parse_arguments()
    results: dict[str, Any] = {}
    if options.sample:
        with tempfile.TemporaryDirectory() as directory:
            train, dev, test = write_sample(directory)[::2]
            results = run(train, {"dev": dev, "test": test}, options)
    else:
        results = run(options.train, {"dev": options.dev}, options)
    if options.json:
        write_atomically(options.json, srsly.json_dumps(results, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = parser_with(__doc__, "train", "dev", "--sample", "--json", is_optional=True)
    parser.add_argument("--symbol", choices=ATTRIBUTES, default="xpos", help="what automata see")
    parser.add_argument("--states", type=int, default=EstimatorSettings.states)
    parser.add_argument("--quick", action="store_true", help="accuracies only, no curve, no times")
    parser.add_argument(
        "--plot", type=output_path, help="draw the curve over states (needs matplotlib)"
    )
    options = parser.parse_args()
    if not options.sample and not (options.train and options.dev):
        parser.error("give TRAIN and DEV, or --sample")
    return options


def run(train_path: Path, test_paths: dict[str, Path], options) -> dict[str, Any]:
    """Print all tables and collect their figures."""
    vocab = spacy.blank("xx").vocab
    symbol = ATTRIBUTES[options.symbol]
    try:
        train_docs = list(read_docs(train_path, vocab, n_sents=10))
        test_docs = {name: list(read_docs(p, vocab, n_sents=10)) for name, p in test_paths.items()}
        train = to_trees(train_docs, symbol)
        tests = {name: to_trees(docs, symbol) for name, docs in test_docs.items()}
    except ValueError as error:
        msg.fail(str(error), exits=1)
    words = {name: sum(map(len, trees)) for name, trees in {"train": train, **tests}.items()}
    msg.info(", ".join(f"{name}: {count:,} words" for name, count in words.items()))
    results: dict[str, Any] = {"words": words}
    for name, trees in tests.items():
        results[f"accuracy {name}"] = accuracy_table(train, trees, name, options)
    first = next(iter(tests.values()))
    if options.quick:
        return results
    results["states"] = states_table(train, first, options.plot)
    results["learning"] = learning_table(train, options.states)
    results["length"] = length_table(train, first, options.states)
    results["speed"] = speed_table(
        train_docs, next(iter(test_docs.values())), symbol, options.states
    )
    return results


def to_trees(docs: Sequence[Doc], symbol: str) -> list[Tree]:
    reader = TokenReader([symbol], name="benchmark")
    return training_treebank([Example(doc, doc) for doc in docs], docs, reader).trees()


def settings(estimator: str, states: int, **options: Any) -> GrammarSettings:
    automata = EstimatorSettings(estimator=estimator, states=states)
    return GrammarSettings(automata=automata, **options)


def without_lengths(grammar: Grammar) -> Grammar:
    automata = (grammar.automata, grammar.fallback, grammar.frequency)
    return Grammar(
        grammar.settings, grammar.symbols, *automata, None, grammar.lexical, grammar.labels
    )


def attachment(grammar: Grammar, trees: Sequence[Tree]) -> float:
    """UAS in percent: all tokens whose head is annotated."""
    right = total = 0
    for tree in trees:
        heads = grammar.posterior(grammar.symbols.encode(tree.symbols), tree.words).heads
        known = tree.heads != MISSING
        right += int((heads == tree.heads)[known].sum())
        total += int(known.sum())
    return 100 * right / max(total, 1)


def show(title: str, header: Iterable[str], rows: Cells) -> Cells:
    msg.divider(title)
    formatted = [[f"{x:.2f}" if isinstance(x, float) else str(x) for x in row] for row in rows]
    header = tuple(header)
    msg.table(formatted, header=header, divider=True, aligns=["l"] + ["r"] * (len(header) - 1))
    return [list(row) for row in rows]


def accuracy_table(train: list[Tree], trees: list[Tree], part: str, options) -> Cells:
    """Table 1 of the paper, with and without the length factor."""
    models = [(name.upper(), settings(name, options.states)) for name in ESTIMATORS]
    models += [(name, settings("det", 1, lexical=name, only_lexical=True)) for name in LEXICAL]
    models += [
        (f"{name} x SPECTRAL", settings("spectral", options.states, lexical=name))
        for name in LEXICAL
    ]
    rows: Cells = []
    for name, own in progress_bar("Accuracy")(models):
        grammar = Grammar.fit(train, own)
        rows.append((name, attachment(without_lengths(grammar), trees), attachment(grammar, trees)))
    if options.sample:
        ceiling = Grammar.from_automata(*true_model())
        rows.append(("Ceiling: the true grammar", attachment(ceiling, trees), ""))
    return show(f"UAS on {part}, {options.states} states", ("", "plain", "with lengths"), rows)


def states_table(train: list[Tree], trees: list[Tree], plot: Path | None) -> Cells:
    """Accuracy over the number of states."""
    rows: Cells = []
    for states in progress_bar("States")((2, 4, 6, 8, 12, 16)):
        scores = [
            attachment(without_lengths(Grammar.fit(train, settings(name, states))), trees)
            for name in ("spectral", "em")
        ]
        rows.append((states, *scores))
    if plot is not None:
        draw_curve(rows, plot)
    return show("UAS over the number of states", ("States", "SPECTRAL", "EM"), rows)


def draw_curve(rows: Cells, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        msg.warn("No plot without matplotlib: pip install 'spacy-spectral[viz]'")
        return
    figure = Figure(figsize=(6, 4), layout="tight")
    axes = figure.subplots()
    states, spectral, em = zip(*rows, strict=True)
    axes.plot(states, spectral, "o-", label="SPECTRAL")
    axes.plot(states, em, "s--", label="EM")
    axes.set_xlabel("Number of states")
    axes.set_ylabel("Unlabelled attachment score (%)")
    axes.set_xticks(states)
    axes.legend()
    figure.savefig(path, dpi=150)
    msg.good(f"Curve in {path}")


def one_by_one(sequences: SequenceSet) -> SequenceSet:
    """Equal sequences again and again, each with the count 1."""
    single = [symbols for symbols, count in sequences for _ in range(round(count))]
    offsets = numpy.cumsum([0, *map(len, single)])
    return SequenceSet(
        numpy.concatenate([[], *single]).astype("int32"), offsets, numpy.ones(len(single))
    )


def learning_table(train: list[Tree], states: int) -> Cells:
    """Seconds to learn the automata of all heads."""
    trees = [projective_tree(tree) for tree in train]
    symbols = Grammar.fit(train, settings("det", 1)).symbols
    ids = [symbols.encode(tree.symbols) for tree in trees]
    heads = [tree.heads for tree in trees]
    start = perf_counter()
    together = modifier_sequences(ids, heads, len(symbols))
    rows: Cells = [("Counting sequences", perf_counter() - start)]
    single = [[one_by_one(sequences) for sequences in pair] for pair in together]
    runs = (
        ("SPECTRAL", "spectral", together),
        ("EM, sequence by sequence", "em", single),
        ("EM, equal sequences together", "em", together),
    )
    for name, estimator, sequences in progress_bar("Learning")(runs):
        start = perf_counter()
        estimate(sequences, EstimatorSettings(estimator=estimator, states=states))
        rows.append((name, perf_counter() - start))
    return show(f"Learning time, {states} states", ("", "Seconds"), rows)


def length_table(train: list[Tree], trees: list[Tree], states: int) -> Cells:
    """Parse time of sentences of any length, made of symbols drawn from the treebank."""
    grammar = Grammar.fit(train, settings("spectral", states))
    pool = grammar.symbols.encode([symbol for tree in trees for symbol in tree.symbols])
    rng = numpy.random.default_rng(0)
    rows: Cells = []
    for n in progress_bar("Length")((10, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200)):
        repetitions = max(3, 2000 // n**2 * 10)
        sentences = [rng.choice(pool, n) for _ in range(repetitions)]
        start = perf_counter()
        for sentence in sentences:
            grammar.posterior(sentence, ["x"] * n).heads  # noqa: B018
        seconds = (perf_counter() - start) / repetitions
        rows.append((n, 1e3 * seconds, 1e9 * seconds / n**3))
    return show("Time against length", ("Tokens", "ms", "ns per tokens^3"), rows)


def speed_table(train: list[Doc], test: list[Doc], symbol: str, states: int) -> Cells:
    """Words per second of our component and of spaCy's parser, same documents, same process."""
    rows: Cells = []
    for factory in progress_bar("Speed")(("spectral_parser", "parser")):
        nlp = spacy.blank("xx", vocab=test[0].vocab)
        if factory == "parser":
            component = nlp.add_pipe(factory)
            examples = [Example(copy_words(doc, ()), doc) for doc in train[:100]]
            optimizer = nlp.initialize(lambda examples=examples: examples)
            # how good it is makes no difference to how fast it is
            for begin in range(0, 100, 10):
                nlp.update(examples[begin : begin + 10], sgd=optimizer)
        else:
            config = {
                "symbol": [symbol],
                "model": {"@architectures": "spacy-spectral.SHAG.v1", "states": states},
            }
            component = nlp.add_pipe(factory, config=config)
            examples = [Example(copy_words(doc, ("sents", "tag", "pos")), doc) for doc in train]
            nlp.initialize(lambda examples=examples: examples)
        seconds = min(pipe_seconds(component, test) for _ in range(3))
        rows.append((factory, sum(map(len, test)) / seconds))
    rows = [(name, round(speed), speed / rows[-1][1]) for name, speed in rows]
    return show("Parsing, one thread", ("", "Words/s", "Ratio"), rows)


def pipe_seconds(component: Any, docs: list[Doc]) -> float:
    copies = [copy_words(doc, ("sents", "tag", "pos")) for doc in docs]
    start = perf_counter()
    for _ in component.pipe(copies, batch_size=256):
        pass
    return perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
