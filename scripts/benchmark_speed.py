"""How fast our trained pipelines are beside spaCy's own, and where the time goes.

    python scripts/benchmark_speed.py TRAIN DEV --text FILE --models DIR... [--vectors DIR] [--minutes 0]
        [--thresholds 0.01 0.02] [--most 10 5] [--point NAME=SPEED,LAS...] [--plot FILE.svg]
        [--lines 2000] [--rounds 5] [--json FILE]

spaCy's is the pipeline of benchmark_pipeline.py, tok2vec, tagger and parser, with the same vectors if there
are some, trained for --minutes: 0 is one step, which is enough for its speed. Everyone makes tags and trees
of the first lines of running text, cut into words and sentences beforehand, in turns and in one process, each
with the batch size that suits it best: words per CPU second, the median of the rounds, and how many times
spaCy's speed that is, the median of what the rounds give. LAS is on DEV, with gold words and sentences.

--thresholds and --most are of the pruner of log-linear parsers, in parsing: every pipeline is measured with
each of them, without being trained again, and the second table has only what the parser reads. --plot draws
LAS against speed; --names are what pipelines are called there. What is known from elsewhere, such as a spaCy
that was trained longer, is given by --point: times spaCy's speed, and LAS in percent.

A second table has microseconds a token of every component of ours, from raw text, and what the parser reads:
arcs that the pruner leaves to it, keys that it looks up in its table, and the sizes of the tables.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import tempfile
from collections import defaultdict
from itertools import islice, product
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import process_time
from typing import Any

import spacy
import srsly
from arguments import parser_with
from benchmark_pipeline import in_own_process, number, percent, print_table
from pipeline_picture import render
from pipeline_rivals import BATCH_SIZES, TIMED, Text, read, running_text, score, train_spacy
from spacy.language import Language
from spacy.tokens import Doc
from wasabi import msg

from spacy_spectral.base.files import output_path, require_writable, write_atomically
from spacy_spectral.base.learnt import Learnt
from spacy_spectral.models.loglinear.model import read_table
from spacy_spectral.models.loglinear.parser import LogLinearParser, encode_tokens
from spacy_spectral.pipeline.parser import SpectralParser

SPACY = "spaCy"
BATCH_SIZE = 256  # of the configs


def main() -> None:
    parser = parser_with(
        __doc__, "train", "dev", "--vectors", "--lang", "--text", "--minutes", "--quick", "--json"
    )
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="trained pipelines")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[None], help="of pruners")
    parser.add_argument(
        "--most", type=int, nargs="+", default=[None], help="arcs that pruners leave"
    )
    parser.add_argument("--names", nargs="+", help="of the pipelines, in their order")
    parser.add_argument("--point", type=point, action="append", default=[], help="in the picture")
    parser.add_argument("--plot", type=output_path, help="draw LAS against speed here (SVG)")
    parser.add_argument("--lines", type=int, default=2000, help="of running text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.set_defaults(minutes=0)
    options = parser.parse_args()
    if options.text is None:
        parser.error("--text is missing")
    if options.quick:
        options.lines, options.rounds = 20, 1
    options.fair_vectors = options.vectors is not None
    for output in (options.json, options.plot):
        if output is not None:
            require_writable(output)
    with tempfile.TemporaryDirectory() as directory:
        results = run(options, Path(directory))
    if options.json is not None:
        write_atomically(options.json, srsly.json_dumps(results, indent=2) + "\n")
    if options.plot is not None:
        points = {
            name: (own["words_s"], own["las"]) for name, own in results.items() if "las" in own
        }
        for name, ratio, las in options.point:
            points[name] = (ratio * results[SPACY]["words_s"], las)
        title = f"Tags and trees, {options.dev.name}"
        write_atomically(options.plot, render(points, title=title))
        msg.good(f"LAS against speed in {options.plot}")


def point(text: str) -> tuple[str, float, float]:
    name, _, numbers = text.partition("=")
    ratio, las = map(float, numbers.split(","))
    return name, ratio, las / 100


def run(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    in_own_process(train_spacy, options, directory / SPACY)
    pipelines = {SPACY: spacy.load(directory / SPACY)} | variants(options)
    text = running_text(options.text, options.lang, n_lines=options.lines)
    figures = in_turns(pipelines, text, rounds=options.rounds)
    for name, nlp in pipelines.items():
        if name != SPACY or options.minutes:
            examples = read(nlp, options.dev)
            docs = [eg.predicted.copy() for eg in examples]
            figures[name] |= score(tags_and_trees(nlp, docs), examples)
    print_table(
        [
            (
                name,
                percent(own.get("uas")),
                percent(own.get("las")),
                number(own["words_s"]),
                f"{own['ratio']:.2f}",
                f"{100 * own['system']:.1f}",
                f"{own['faults']:.0f}",
            )
            for name, own in figures.items()
        ],
        (
            "Tags and trees",
            "UAS",
            "LAS",
            "words/CPU s",
            "times spaCy",
            "% in the system",
            "page faults/1,000 words",
        ),
    )
    with options.text.open(encoding="utf8") as file:
        lines = [line.strip() for line in islice(file, options.lines)]
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    names = [name for name in pipelines if name != SPACY]
    for path in names:
        nlp = pipelines[path]
        parts = {}
        if options.thresholds == options.most == [None]:
            parts = by_component(nlp, [line for line in lines if line], rounds=options.rounds)
            figures[path]["microseconds"] = parts
        figures[path]["reads"] = reads = what_is_read(nlp, text)
        for what, value in (parts | reads).items():
            rows[what][path] = f"{value:.2f}"
    print_table(
        # not all have the same components, or a log-linear parser
        [(what, *(own.get(name, "-") for name in names)) for what, own in rows.items()],
        ("From raw text, \N{MICRO SIGN}s a token", *names),
    )
    return figures


def variants(options: argparse.Namespace) -> dict[str, Language]:
    """The pipelines by their names, with every threshold and number of arcs."""
    found = {}
    names = options.names or map(str, options.models)
    for name, path in zip(names, options.models, strict=True):
        for threshold, most in product(options.thresholds, options.most):
            nlp = spacy.load(path)
            changed = {"threshold": threshold, "most": most}
            changed = {key: value for key, value in changed.items() if value is not None}
            if changed:
                learnt = parser_of(nlp).grammar.with_pruner(**changed)
                parser_of(nlp).model.attrs["learnt"] = Learnt(type(learnt), learnt)
            found[", ".join([name, *(f"{k} {v:g}" for k, v in changed.items())])] = nlp
    return found


def parser_of(nlp: Language) -> SpectralParser:
    parser = nlp.get_pipe("spectral_parser")
    assert isinstance(parser, SpectralParser)
    return parser


def tags_and_trees(nlp: Language, docs: list[Doc], batch_size: int = BATCH_SIZE) -> list[Doc]:
    others = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory not in TIMED]
    return list(nlp.pipe(docs, batch_size=batch_size, disable=others))


def seconds_of(nlp: Language, text: Text, batch_size: int) -> float:
    return cost_of(nlp, text, batch_size)[0]


def cost_of(nlp: Language, text: Text, batch_size: int) -> tuple[float, float, int]:
    """CPU seconds, those of them in the system, and page faults."""
    docs = documents(nlp, text)
    before, started = getrusage(RUSAGE_SELF), process_time()
    tags_and_trees(nlp, docs, batch_size)
    seconds, after = process_time() - started, getrusage(RUSAGE_SELF)
    return seconds, after.ru_stime - before.ru_stime, after.ru_minflt - before.ru_minflt


def documents(nlp: Language, text: Text) -> list[Doc]:
    return [Doc(nlp.vocab, words=words, sent_starts=starts) for words, starts in text]


def in_turns(
    pipelines: dict[str, Language], text: Text, *, rounds: int
) -> dict[str, dict[str, Any]]:
    """Words per CPU second of everyone, and how many times spaCy's speed that is."""
    n_words = sum(len(words) for words, _ in text)
    seconds: dict[str, list[float]] = defaultdict(list)
    system: dict[str, list[float]] = defaultdict(list)
    faults: dict[str, list[float]] = defaultdict(list)
    sizes = {}
    for name, nlp in pipelines.items():
        # the first time is for caches
        trials = [(seconds_of(nlp, text[:512], size), size) for size in (BATCH_SIZE, *BATCH_SIZES)]
        sizes[name] = min(trials[1:])[1]
    for _ in range(rounds):
        for name, nlp in pipelines.items():
            own, in_system, n_faults = cost_of(nlp, text, sizes[name])
            seconds[name].append(own)
            system[name].append(in_system / own)
            faults[name].append(1000 * n_faults / n_words)
    return {
        name: {
            "words_s": n_words / median(own),
            "ratio": median(s / o for s, o in zip(seconds[SPACY], own, strict=True)),
            "system": median(system[name]),
            "faults": median(faults[name]),
        }
        for name, own in seconds.items()
    }


def by_component(nlp: Language, lines: list[str], *, rounds: int) -> dict[str, float]:
    """Microseconds a token, once all words have been met: the median of the rounds."""
    seconds: dict[str, list[float]] = defaultdict(list)
    n_tokens = 0
    for i in range(rounds + 1):
        found: dict[str, float] = defaultdict(float)
        n_tokens = 0
        for first in range(0, len(lines), BATCH_SIZE):
            started = process_time()
            docs = [nlp.make_doc(line) for line in lines[first : first + BATCH_SIZE]]
            found["tokenizer"] += process_time() - started
            for name, pipe in nlp.pipeline:
                started = process_time()
                docs = list(pipe.pipe(docs, batch_size=BATCH_SIZE))
                found[name] += process_time() - started
            n_tokens += sum(map(len, docs))
        if i:
            for name, value in found.items():
                seconds[name].append(value)
    parts = {name: 1e6 * median(own) / n_tokens for name, own in seconds.items()}
    return parts | {"all": sum(parts.values())}


def what_is_read(nlp: Language, text: Text) -> dict[str, float]:
    """Of a log-linear parser: by token, how many arcs are left to it and how many keys it looks up for these
    and for tokens; the sizes of its tables."""
    parser = parser_of(nlp)
    learnt = parser.grammar
    if not isinstance(learnt, LogLinearParser):
        return {}
    tagged = nlp.get_pipe("spectral_tagger").pipe(documents(nlp, text))
    tokens = parser.read(tagged).tokens
    model = learnt.model
    _, arcs = model.prepare(encode_tokens(model.encoder(), tokens, learnt.clusters))
    table = read_table(model.slots, model.entries, n_labels=len(model.labels))
    n_arcs = len(arcs.heads) / len(tokens.words)
    pairs, unaries = len(model.templates.pairs), len(model.templates.unaries)
    return {
        "arcs that the pruner leaves, a token": n_arcs,
        "keys of arcs and tokens, a token": n_arcs * pairs + unaries,
        "pruner, MB": model.pruner.weights.nbytes / 2**20,
        "bits of keys, MB": table.bits.nbytes / 2**20,
        "buckets of keys, MB": table.buckets.nbytes / 2**20,
        "rows of weights, MB": table.cells.nbytes / 2**20,
    }


if __name__ == "__main__":
    main()
