"""Measure pipelines from raw text: tokens, sentences, tags, lemmas, trees, training time, speed.

    python scripts/benchmark_raw.py TRAIN DEV [--lang tr] [--vectors DIR] [--lemmas FILE]
        [--accurate] [--text FILE] [--minutes 8] [--udpipe-parser OPTIONS]

Ours is configs/pipeline.cfg, once more with the rule tokenizer of spaCy and its sentencizer in front of
the same tagger, lemmatizer and parser; with --accurate configs/accurate.cfg, too. spaCy's own is tok2vec,
senter, tagger, morphologizer, trainable_lemmatizer and parser as `spacy init config` gives them, on its
rule tokenizer, trained on documents of 10 sentences: its best checkpoint on DEV within --minutes. UDPipe
1 takes part if ufal.udpipe is installed; if its usual number of iterations does not fit into --minutes,
it gets about as many as do, one at least; --udpipe-parser gives its parser further options. Everyone has
one thread. All measures are those of the CoNLL 2018 shared task (udtools), with universal labels, but for
those on gold tokens, which are of all tokens, with full labels; times are CPU seconds. With --text the
parts of ours are timed on running text. --json FILE keeps the figures, --keep DIR the trained models, and
uses those that are there already.
"""

# ruff: noqa: I001
import benchmark_pipeline as pipeline  # first: one thread for everyone

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import spacy
from arguments import SYSTEMS, parser_with, settings_of
import srsly
import pipeline_rivals as rivals
from pipeline_rivals import note, train_in_steps, trained
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training.initialize import init_nlp
from spacy.training.loop import create_evaluation_callback
from wasabi import msg

from spacy_spectral.base.files import write_atomically
from spacy_spectral.raw import MEASURES, RawTreebank, read_raw, score_raw
from spacy_spectral.pipeline.lemmatizer import SpectralLemmatizer
from spacy_spectral.pipeline.parser import SpectralParser
from spacy_spectral.pipeline.senter import SpectralSenter
from spacy_spectral.pipeline.tagger import SpectralTagger
from spacy_spectral.pipeline.tokenizer import SpectralTokenizer
from spacy_spectral.pipeline.words import with_words
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.documents import treebank_files
from spacy_spectral.treebank.write import write_doc

CONFIGS = Path(__file__).parents[1] / "configs"
RULES = {"@tokenizers": "spacy.Tokenizer.v1"}
# the parts that make tokens, sentences and lemmas
NEW_PARTS = ("tokenizer", "spectral_senter", "spectral_lemmatizer")
# passes over the data that UDPipe takes for tokenizer, tagger and parser if nobody asks for others
UDPIPE_ITERATIONS = {"tokenizer": 100, "tagger": 20, "parser": 10}
_UDPIPE_OPTION = {"tokenizer": "epochs", "tagger": "iterations", "parser": "iterations"}
# how the time is divided among them
_UDPIPE_SHARES = {"tokenizer": 0.125, "tagger": 0.375, "parser": 0.5}


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as directory:
        results = run(options, options.keep or Path(directory))
    if options.json:
        write_atomically(options.json, srsly.json_dumps(results, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = parser_with(__doc__, *SYSTEMS)
    parser.add_argument("--accurate", action="store_true", help="configs/accurate.cfg, too")
    parser.add_argument("--lemmas", type=Path, help="a lexicon for our lemmatizer")
    parser.add_argument(
        "--udpipe-parser", default="", help="options of UDPipe's parser, e.g. structured_interval=0"
    )
    parser.add_argument("--no-spacy", action="store_true", help="leave out spaCy's own pipeline")
    return parser.parse_args(namespace=argparse.Namespace(fair_vectors=False))


def run(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Train everyone, each in a process of its own, then measure them side by side in this one."""
    trainers: dict[str, Callable] = {"ours": partial(train_ours, CONFIGS / "pipeline.cfg")}
    if options.accurate:
        trainers["ours, accurate"] = partial(train_ours, CONFIGS / "accurate.cfg")
    if not options.no_spacy:
        trainers["spaCy"] = train_spacy
    if not options.no_udpipe and find_spec("ufal") and find_spec("ufal.udpipe"):
        trainers["UDPipe"] = train_udpipe
    elif not options.no_udpipe:
        msg.info("UDPipe is left out: pip install ufal.udpipe")
    figures: dict[str, Any] = {}
    for name, train in trainers.items():
        note(f"Training {name}")
        figures[name] = pipeline.kept(train, options, directory / name, limit=None)
    ours = SpacySystem(spacy.load(directory / "ours"))
    systems: dict[str, Any] = {"ours": ours, "ours, spaCy's tokens": with_rules(options, directory)}
    figures = {"ours": figures.pop("ours"), "ours, spaCy's tokens": {}} | figures
    for name in ("ours, accurate", "spaCy"):
        if name in figures:
            systems[name] = SpacySystem(spacy.load(directory / name))
    if "UDPipe" in figures:
        systems["UDPipe"] = UDPipeSystem(directory / "UDPipe")
    treebank = read_raw(ours.nlp.vocab, options.dev)
    measure(systems, figures, treebank, rounds=1 if options.quick else 3)
    for name in figures:
        if (directory / name).exists():  # the others have models of these
            figures[name] |= on_gold_tokens(directory / name, options.dev)
    print_systems(figures)
    for name in ("spaCy", "UDPipe"):
        if figures.get(name, {}).get("limited"):
            why = figures[name].get("options", "")
            limit = f"{name} was limited to about {options.minutes:g} minutes"
            msg.warn(f"{limit}: it may not have converged{why and f' ({why})'}")
    results = {"train": str(options.train), "dev": str(options.dev), "systems": figures}
    results["training"] = figures["ours"]["parts"]
    print_training(results["training"])
    if options.text:
        n_lines = 20 if options.quick else 5000
        results["parts"] = time_parts(ours.nlp, running_text(options.text, n_lines))
        print_parts(results["parts"])
    return results


# Training.


def train_ours(config_path: Path, options: argparse.Namespace, path: Path) -> dict[str, Any]:
    lemmas = str(options.lemmas) if options.lemmas else None
    settings = settings_of(options) | {"paths.lemmas": lemmas}
    config = util.load_config(config_path, overrides=settings)
    started = process_time()
    with clocked() as parts:
        nlp = init_nlp(config)
    seconds = process_time() - started
    nlp.to_disk(path)
    return trained([], seconds, path) | {"parts": dict(parts)}


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """Tells how many CPU seconds the parts of ours took to be trained."""
    parts: dict[str, float] = defaultdict(float)
    inner: list[float] = []  # what calls inside of those that are running took

    def clock(method: Callable, name: str | None) -> Callable:
        @wraps(method)
        def run(self: Any, *arguments: Any, **settings: Any) -> Any:
            started = process_time()
            inner.append(0.0)
            try:
                return method(self, *arguments, **settings)
            finally:
                seconds = process_time() - started
                parts[name or getattr(self, "name", "tokenizer")] += seconds - inner.pop()
                if inner:
                    inner[-1] += seconds

        return run

    kinds: tuple[Any, ...] = (
        SpectralTokenizer, SpectralSenter, SpectralTagger, SpectralLemmatizer, SpectralParser
    )  # fmt: skip
    methods = [(kind, "initialize", None) for kind in kinds]
    methods.append((SpectralTagger, "jackknife", "jack-knifed tags"))
    before = [getattr(kind, method) for kind, method, _ in methods]
    for kind, method, name in methods:
        setattr(kind, method, clock(getattr(kind, method), name))
    try:
        yield parts
    finally:
        for (kind, method, _), old in zip(methods, before, strict=True):
            setattr(kind, method, old)


def train_spacy(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    from spacy.cli.init_config import init_config

    names = ["senter", "tagger", "morphologizer", "trainable_lemmatizer", "parser"]
    config = init_config(lang="xx", pipeline=names, optimize="efficiency")
    config["nlp"] |= {"lang": options.lang, "tokenizer": RULES}
    # "!" marks negative annotation, unless told otherwise; treebanks have it as a tag
    config["components"]["tagger"]["neg_prefix"] = "\N{NOT SIGN}\N{NOT SIGN}"
    reader = {"@readers": "spacy-spectral.Corpus.v1", "annotations": [], "gold_tokens": False}
    for split, n_sents in (("train", 10), ("dev", 0)):
        path_of = {"path": str(getattr(options, split)), "n_sents": n_sents}
        config["corpora"][split] = reader | path_of
    if options.quick:
        config["training"] |= {"max_steps": 4, "eval_frequency": 2}
    train, dev = (
        Corpus(getattr(options, split), annotations=[], gold_tokens=False, n_sents=n_sents)
        for split, n_sents in (("train", 10), ("dev", 0))
    )

    def score_dev(nlp: Language, weights: Any) -> Callable:
        return create_evaluation_callback(nlp, dev, weights)

    return train_in_steps(config, train, score_dev, options, path)


def train_udpipe(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Train tokenizer, tagger and parser, each with its share of the time."""
    from ufal import udpipe

    train, dev = (udpipe_sentences(getattr(options, split)) for split in ("train", "dev"))
    if not sys.stderr.isatty():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its progress goes to stderr
    started = process_time()
    few, nothing = udpipe.Sentences(), udpipe.Sentences()
    for sentence in islice(train, 300):
        few.append(sentence)
    share = sum(len(s.words) for s in few) / sum(len(s.words) for s in train)

    def settings(passes: dict[str, int]) -> dict[str, str]:
        given = {part: f"{_UDPIPE_OPTION[part]}={n}" for part, n in passes.items()}
        further = ["hidden_layer=10"] if options.quick else []
        further += filter(None, [options.udpipe_parser])
        if "parser" in given:
            given["parser"] = ";".join([given["parser"], *further])
        return given

    def fit(data: Any, held_out: Any, passes: dict[str, int]) -> tuple[bytes, float]:
        error, begun, given = udpipe.ProcessingError(), process_time(), settings(passes)
        parts = [given.get(part, udpipe.Trainer.NONE) for part in UDPIPE_ITERATIONS]
        model = udpipe.Trainer.train("morphodita_parsito", data, held_out, *parts, error)
        if error.occurred():
            raise ValueError(f"UDPipe: {error.message}")
        return model, process_time() - begun

    passes = dict.fromkeys(UDPIPE_ITERATIONS, 1)
    if not options.quick:
        for part, usual in UDPIPE_ITERATIONS.items():
            each = fit(few, nothing, {part: 1})[1]
            # passes of the tokenizer do not depend on the size of the data
            each /= 1 if part == "tokenizer" else share
            limit = 60 * options.minutes * _UDPIPE_SHARES[part]
            passes[part] = max(1, min(usual, round(limit / each)))
    model, seconds = fit(train, dev, passes)
    path.write_bytes(model)
    return trained([], seconds, path) | {
        "limited": passes != UDPIPE_ITERATIONS,
        "options": "; ".join(f"{part} {given}" for part, given in settings(passes).items()),
        "probing_seconds": process_time() - started - seconds,
    }


def udpipe_sentences(path: Path) -> Any:
    from ufal import udpipe

    sentences, error = udpipe.Sentences(), udpipe.ProcessingError()
    for file in treebank_files(path):
        reader = udpipe.InputFormat.newConlluInputFormat()
        reader.setText(file.read_text("utf-8-sig"))
        sentence = udpipe.Sentence()
        while reader.nextSentence(sentence, error):
            sentences.append(sentence)
            sentence = udpipe.Sentence()
        if error.occurred():
            raise ValueError(f"UDPipe: {error.message}")
    return sentences


# Measuring: systems that make CoNLL-U of texts.


class SpacySystem:
    """A pipeline of spaCy."""

    def __init__(self, nlp: Language):
        self.nlp = nlp

    def parse(self, texts: list[str]) -> list[Doc]:
        return list(self.nlp.pipe(texts))

    def conllu(self, docs: list[Doc]) -> str:
        return "".join(write_doc(with_words(doc)) for doc in docs)


class UDPipeSystem:
    """A model of UDPipe 1."""

    def __init__(self, path: Path):
        from ufal import udpipe

        self.model = udpipe.Model.load(str(path))
        default = udpipe.Pipeline.DEFAULT
        self.pipeline = udpipe.Pipeline(self.model, "tokenize", default, default, "conllu")

    def parse(self, texts: list[str]) -> list[str]:
        return [self.pipeline.process(text) for text in texts]

    def conllu(self, docs: list[str]) -> str:
        return "".join(docs)


def with_rules(options: argparse.Namespace, directory: Path) -> SpacySystem:
    """Ours with the rule tokenizer of spaCy and its sentencizer."""
    nlp = spacy.load(directory / "ours", exclude=["spectral_senter"])
    config = {"nlp": {"tokenizer": RULES}}
    nlp.tokenizer = spacy.blank(options.lang, vocab=nlp.vocab, config=config).tokenizer
    nlp.add_pipe("sentencizer", first=True)
    return SpacySystem(nlp)


def measure(
    systems: dict[str, Any],
    figures: dict[str, dict[str, Any]],
    treebank: RawTreebank,
    *,
    rounds: int,
) -> None:
    """Add scores and words per second: the median of some rounds, everyone in turn."""
    n_words = sum(line[:1].isdigit() for line in treebank.gold.split("\n"))
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for i in range(rounds):
        for name, system in systems.items():
            started = process_time()
            docs = system.parse(treebank.texts)
            speeds[name].append(n_words / (process_time() - started))
            if i == 0:
                figures[name] |= score_raw(treebank, system.conllu(docs))
    for name, found in speeds.items():
        figures[name]["words_s"] = median(found)


def on_gold_tokens(path: Path, dev: Path) -> dict[str, float | None]:
    """RETURNS (Dict[str, Optional[float]]): Scores of a trained model that is given words and sentences."""
    kind = rivals.UDPipeSystem if path.is_file() else rivals.SpacySystem
    system = kind(path, dev)
    found = rivals.score(system.documents(system.whole(system.whole_input())), system.examples)
    return {f"gold_{name}": value for name, value in found.items()}


def running_text(path: Path, n_lines: int) -> list[str]:
    with path.open(encoding="utf8") as file:
        return [line.strip() for line in islice(file, n_lines) if line.strip()]


def time_parts(nlp: Language, texts: list[str]) -> dict[str, float]:
    """RETURNS (Dict[str, float]): Microseconds a token of every part of a pipeline, on words that it has met
    before; "Doc" is what spaCy takes to make documents of tokens that are known."""
    rounds: list[dict[str, float]] = []
    for _ in range(4):
        rounds.append(dict(_time_parts(nlp, texts)))
    # the first one met the words
    return {name: 1e6 * median(row[name] for row in rounds[1:]) for name in rounds[0]}


def _time_parts(nlp: Language, texts: list[str]) -> Iterator[tuple[str, float]]:
    started = process_time()
    docs = list(nlp.tokenizer.pipe(texts))
    n = sum(map(len, docs))
    yield "tokenizer", (process_time() - started) / n
    given = [([t.text for t in doc], [bool(t.whitespace_) for t in doc]) for doc in docs]
    started = process_time()
    for words, spaces in given:
        Doc(nlp.vocab, words=words, spaces=spaces)
    yield "Doc", (process_time() - started) / n
    for name, pipe in nlp.pipeline:
        started = process_time()
        docs = list(pipe.pipe(docs, batch_size=nlp.batch_size))
        yield name, (process_time() - started) / n


# Printing.


def print_systems(figures: dict[str, dict[str, Any]]) -> None:
    rows: dict[str, tuple[str, Callable]] = {
        name: (name.lower(), pipeline.percent) for name in MEASURES
    }
    rows |= {
        f"{name}, gold tokens": (f"gold_{key}", pipeline.percent)
        for name, key in (("UPOS", "pos"), ("UAS", "uas"), ("LAS", "las"))
    }
    rows |= {
        "Training, CPU s": ("seconds", pipeline.number),
        "Words / CPU s": ("words_s", pipeline.number),
        "On disk, MB": ("size_mb", pipeline.number),
    }
    cells = [
        (title, *(show(system.get(key)) for system in figures.values()))
        for title, (key, show) in rows.items()
    ]
    pipeline.print_table(cells, ("From raw text", *figures))


def print_training(parts: dict[str, float]) -> None:
    cells = [(name, f"{seconds:.1f}") for name, seconds in parts.items()]
    together = sum(parts.get(name, 0.0) for name in NEW_PARTS)
    cells.append(("tokens, sentences, lemmas", f"{together:.1f}"))
    pipeline.print_table(cells, ("Part of ours", "Training, CPU s"))


def print_parts(parts: dict[str, float]) -> None:
    cells = [(name, f"{value:.2f}") for name, value in parts.items()]
    together = sum(parts.get(name, 0.0) for name in NEW_PARTS)
    cells.append(("tokens, sentences, lemmas", f"{together:.2f}"))
    pipeline.print_table(cells, ("Part of ours", "\N{MICRO SIGN}s a token"))


if __name__ == "__main__":
    main()
