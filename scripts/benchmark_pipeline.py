"""Measure the whole pipeline beside spaCy's own and UDPipe 1: accuracy, training time, speed, size.

    python scripts/benchmark_pipeline.py TRAIN DEV [--lang tr] [--vectors DIR] [--minutes 8] [--json FILE]

Ours is configs/pipeline.cfg. spaCy's is the CPU pipeline tok2vec+tagger+parser of `spacy init config`, its
checkpoint with the best LAS on DEV within --minutes. UDPipe 1 takes part if ufal.udpipe is installed.
All get the same tokens and sentences and one thread. Scores are of all tokens, with full labels.
"""

# ruff: noqa: E402
import os

# one thread, for everyone: figures are per core. Read when numpy is loaded, in every process.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import logging
import re
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import cycle, islice
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import spacy
import srsly
from spacy import util
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.vocab import Vocab
from wasabi import msg

from spacy_spectral.progress import progress_bar
from spacy_spectral.readers import Corpus
from spacy_spectral.scorers import score_ud
from spacy_spectral.serialize import write_atomically

CONFIG = Path(__file__).parents[1] / "configs" / "pipeline.cfg"
LENGTHS = (10, 20, 50, 100, 150, 200)
TOKENS_PER_LENGTH = 4000
ROUNDS = 3
# A part of ours, and what takes it away: overrides of the config, columns that the parser's templates
# can't see, kinds of templates.
PARTS: dict[str, dict[str, Any]] = {
    "clusters": {"overrides": {"paths.vectors": None}},
    "second tag": {"columns": {"second"}},
    "siblings": {"templates": {"siblings": ""}},
    "states": {"overrides": {"components.spectral_parser.model.n_states": 1}},
    "labels by own window": {"templates": {"unaries": ""}},
}


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as directory:
        results = run(options, Path(directory))
    if options.json:
        write_atomically(options.json, srsly.json_dumps(results, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("train", type=Path, help="CoNLL-U or .spacy, or a directory")
    parser.add_argument("dev", type=Path, help="CoNLL-U or .spacy, or a directory")
    parser.add_argument("--vectors", type=Path, help="made by 'spacy spectral eigenwords'")
    parser.add_argument("--fair-vectors", action="store_true", help="spaCy gets the vectors too")
    parser.add_argument("--lang", default="en", help="code of the language")
    parser.add_argument("--minutes", type=float, default=60, help="limit of others' training")
    parser.add_argument("--quick", action="store_true", help="a trial: a few steps of everything")
    parser.add_argument("--no-udpipe", action="store_true", help="leave out UDPipe")
    parser.add_argument("--no-ablation", action="store_true", help="leave out the ablation")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    if options.fair_vectors and not options.vectors:
        parser.error("--fair-vectors needs --vectors")
    return options


def run(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Train everyone, each in a process of its own, then measure them side by side in this one."""
    trainers: dict[str, Callable] = {"ours": train_ours, "spaCy": train_spacy}
    systems: dict[str, type] = {"ours": SpacySystem, "spaCy": SpacySystem}
    if not options.no_udpipe and find_spec("ufal") and find_spec("ufal.udpipe"):
        trainers["UDPipe"], systems["UDPipe"] = train_udpipe, UDPipeSystem
    elif not options.no_udpipe:
        msg.info("UDPipe is left out: pip install ufal.udpipe")
    results: dict[str, Any] = {"train": str(options.train), "dev": str(options.dev)}
    figures = {}
    for name, train in trainers.items():
        note(f"Training {name}")
        # UDPipe can't be asked to stop early, so it has the time or takes no part
        limit = 60 * options.minutes if name == "UDPipe" else None
        try:
            figures[name] = in_own_process(train, options, directory / name, limit=limit)
        except TimeoutError:
            msg.warn(f"{name} was not trained within {options.minutes:g} minutes")
    loaded = {name: systems[name](directory / name, options.dev) for name in figures}
    measure(loaded, figures)
    results["systems"] = figures
    results["passes"] = {
        name: {
            "ours_seconds": seconds_to(figures["ours"]["curve"], figures[name]["las"]),
            "its_seconds": seconds_to(figures[name]["curve"], figures["ours"]["las"]),
        }
        for name in figures
        if name != "ours"
    }
    print_systems(figures, results["passes"])
    results["lengths"] = time_lengths(loaded["ours"])
    print_lengths(results["lengths"])
    if not options.no_ablation:
        note("Ablation")
        results["ablation"] = in_own_process(ablate, options)
        print_ablation(results["ablation"], figures["ours"])
    return results


def in_own_process(
    function: Callable, *arguments: Any, limit: float | None = None
) -> dict[str, Any]:
    """Peak memory is of a process: everyone starts from nothing."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply_async(function, arguments).get(limit)


def note(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def seconds_to(curve: list[tuple[float, float]], las: float) -> float | None:
    return next((seconds for seconds, reached in curve if reached >= las), None)


# Training: functions that write a model, and tell what it took and how LAS on dev rose with time.


def trained(curve: list[tuple[float, float]], seconds: float, path: Path) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {
        "seconds": seconds,
        "curve": curve,
        "peak_mb": peak / (2**20 if sys.platform == "darwin" else 2**10),
        "size_mb": sum(file.stat().st_size for file in files) / 2**20,
    }


class EpochLog(logging.Handler):
    """Notes when the parser reports an epoch, and its LAS on dev."""

    def __init__(self) -> None:
        super().__init__()
        self.started = perf_counter()
        self.curve: list[tuple[float, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if found := re.search(r"dev .*LAS ([\d.]+)%", record.getMessage()):
            self.curve.append((perf_counter() - self.started, float(found[1]) / 100))
            note(f"  {self.curve[-1][0]:6.0f} s  {record.getMessage()}")


def train_ours(
    options: argparse.Namespace, path: Path | None, overrides: dict[str, Any] | None = None
) -> dict[str, Any]:
    config = util.load_config(
        CONFIG,
        overrides={
            "paths.train": str(options.train),
            "paths.dev": str(options.dev),
            "paths.vectors": str(options.vectors) if options.vectors else None,
            "nlp.lang": options.lang,
        }
        | (overrides or {}),
    )
    log = EpochLog()
    util.logger.handlers = [log]
    util.logger.setLevel(logging.INFO)
    nlp = init_nlp(config)
    seconds = perf_counter() - log.started
    if path is None:
        return evaluate(nlp, read(nlp, options.dev)) | {"seconds": seconds}
    nlp.to_disk(path)
    return trained(log.curve, seconds, path)


def ablate(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Train ours without one part at a time."""
    from spacy_spectral.arcs.loglinear import estimate
    from spacy_spectral.arcs.loglinear.templates import compile_templates

    results = {}
    for part, removal in progress_bar("ablation")(PARTS.items()):
        if part == "clusters" and not options.vectors:
            continue
        hidden, templates = removal.get("columns", set()), removal.get("templates", {})
        # templates are no setting; this process ends with the ablation
        estimate.compile_templates = lambda missing, hidden=hidden, templates=templates: (
            compile_templates(missing | hidden, **templates)
        )
        results[part] = train_ours(options, None, removal.get("overrides"))
        if options.quick:
            break
    return results


def spacy_config(options: argparse.Namespace) -> Any:
    """What `spacy init config --optimize efficiency` gives, on our corpora."""
    from spacy.cli.init_config import init_config

    config = init_config(lang="xx", pipeline=["tagger", "parser"], optimize="efficiency")
    config["nlp"]["lang"] = options.lang
    config["nlp"]["tokenizer"] = {"@tokenizers": "spacy.Tokenizer.v1"}
    for split in ("train", "dev"):
        config["corpora"][split] = {
            "@readers": "spacy-spectral.Corpus.v1",
            "path": str(getattr(options, split)),
            "annotations": ["sents"],
        }
    # "!" marks negative annotation, unless told otherwise; treebanks have it as a tag
    config["components"]["tagger"]["neg_prefix"] = "\N{NOT SIGN}\N{NOT SIGN}"
    if options.fair_vectors:
        config["components"]["tok2vec"]["model"]["embed"]["include_static_vectors"] = True
        config["initialize"]["vectors"] = str(options.vectors)
    if options.quick:
        config["training"] |= {"max_steps": 20, "eval_frequency": 10}
    return config


def train_spacy(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    from spacy.schemas import ConfigSchemaTraining
    from spacy.training.loop import create_train_batches, train_while_improving

    started = perf_counter()
    util.logger.setLevel(logging.ERROR)
    nlp = init_nlp(spacy_config(options))
    settings = util.registry.resolve(
        nlp.config.interpolate()["training"], schema=ConfigSchemaTraining
    )
    train = Corpus(options.train, annotations=["sents"])
    dev = read(nlp, options.dev)

    def dev_score() -> tuple[float, dict[str, Any]]:
        scores = evaluate(nlp, dev)
        return scores["las"], scores

    curve: list[tuple[float, float]] = []
    best = 0.0
    for _, info, is_best in train_while_improving(
        nlp,
        settings["optimizer"],
        create_train_batches(nlp, train, settings["batcher"], settings["max_epochs"]),
        dev_score,
        exclude=[],
        **{
            name: settings[name]
            for name in (
                "dropout", "accumulate_gradient", "patience", "max_steps", "eval_frequency",
                "annotating_components", "before_update",
            )
        },
    ):  # fmt: skip
        seconds = perf_counter() - started
        if is_best is not None:
            curve.append((seconds, info["score"]))
            note(f"  {seconds:6.0f} s  step {info['step']}, dev LAS {info['score']:.2%}")
        if is_best:
            best = seconds
            with nlp.use_params(settings["optimizer"].averages):
                nlp.to_disk(path)
        if seconds > 60 * options.minutes:
            break
    return trained(curve, perf_counter() - started, path) | {"best_seconds": best}


def train_udpipe(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    from ufal import udpipe

    nlp = spacy.blank("xx")
    data = []
    for file in (options.train, options.dev):
        sentences = udpipe.Sentences()
        for eg in read(nlp, file):
            for sentence in udpipe_sentences(eg.reference, gold=True):
                sentences.append(sentence)
        data.append(sentences)
    if not sys.stderr.isatty():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its progress goes to stderr
    started = perf_counter()
    error = udpipe.ProcessingError()
    few = "iterations=1" if options.quick else udpipe.Trainer.DEFAULT
    model = udpipe.Trainer.train(
        "morphodita_parsito", data[0], data[1], udpipe.Trainer.NONE, few, few, error
    )
    if error.occurred():
        raise ValueError(f"UDPipe: {error.message}")
    path.write_bytes(model)
    return trained([], perf_counter() - started, path)


# What is measured: two kinds of systems with one face, `whole` and `parser_only` of prepared inputs.


class SpacySystem:
    """A pipeline of spaCy whose last component is the parser."""

    def __init__(self, path: Path, dev: Path):
        self.nlp = spacy.load(path)
        self.examples = read(self.nlp, dev)
        # taggers that a parser depends on have done their work; a tok2vec is part of the parser
        self.others = [name for name in self.nlp.pipe_names[:-1] if name != "tok2vec"]
        ours = "tok2vec" not in self.nlp.pipe_names
        docs = [eg.predicted.copy() for eg in self.examples]
        self.tagged = list(self.nlp.pipe(docs, disable=self.nlp.pipe_names[-1:])) if ours else docs

    def whole_input(self) -> list[Doc]:
        return [eg.predicted.copy() for eg in self.examples]

    def parser_input(self) -> list[Doc]:
        return [doc.copy() for doc in self.tagged]

    def whole(self, docs: list[Doc]) -> list[Doc]:
        return list(self.nlp.pipe(docs))

    def parser_only(self, docs: list[Doc]) -> list[Doc]:
        return list(self.nlp.pipe(docs, disable=self.others))


class UDPipeSystem:
    """A model of UDPipe 1."""

    def __init__(self, path: Path, dev: Path):
        from ufal.udpipe import Model

        self.model = Model.load(str(path))
        self.nlp = spacy.blank("xx")
        self.examples = read(self.nlp, dev)

    def whole_input(self) -> list[list[Any]]:
        return [list(udpipe_sentences(eg.reference)) for eg in self.examples]

    def parser_input(self) -> list[list[Any]]:
        return self._apply(self.whole_input(), self.model.tag)

    def whole(self, docs: list[list[Any]]) -> list[list[Any]]:
        return self._apply(docs, self.model.tag, self.model.parse)

    def parser_only(self, docs: list[list[Any]]) -> list[list[Any]]:
        return self._apply(docs, self.model.parse)

    def _apply(self, docs: list[list[Any]], *steps: Callable) -> list[list[Any]]:
        for doc in docs:
            for sentence in doc:
                for step in steps:
                    step(sentence, self.model.DEFAULT)
        return docs


def read(nlp: Language, path: Path) -> list[Example]:
    """Gold documents, and documents with their words and sentence boundaries."""
    return list(Corpus(path, annotations=["sents"])(nlp))


def udpipe_sentences(doc: Doc, *, gold: bool = False) -> Iterator[Any]:
    from ufal.udpipe import Sentence

    for sent in doc.sents:
        sentence = Sentence()
        for token in sent:
            word = sentence.addWord(token.text)
            if gold:
                word.upostag, word.xpostag = token.pos_, token.tag_
                word.feats, word.lemma = str(token.morph), token.lemma_
        if gold:
            for i, token in enumerate(sent, start=1):
                root = token.head == token
                head = 0 if root else token.head.i - sent.start + 1
                sentence.setHead(i, head, "root" if root else token.dep_)
        yield sentence


def udpipe_doc(sentences: list[Any], vocab: Vocab) -> Doc:
    words, heads = [], []
    for sentence in sentences:
        start = len(words) - 1
        for word in islice(sentence.words, 1, None):
            heads.append(start + (word.head or word.id))
            words.append(word)
    return Doc(
        vocab,
        words=[word.form for word in words],
        tags=[word.xpostag for word in words],
        pos=[word.upostag for word in words],
        heads=heads,
        deps=["ROOT" if word.head == 0 else word.deprel for word in words],
    )


# Measuring.


def evaluate(nlp: Language, examples: list[Example]) -> dict[str, float | None]:
    return score(list(nlp.pipe(eg.predicted.copy() for eg in examples)), examples)


def score(docs: list[Doc], examples: list[Example]) -> dict[str, float | None]:
    """RETURNS (Dict[str, Optional[float]]): "tag", "pos" (None without any), "uas", "las"."""
    pairs = [Example(doc, eg.reference) for doc, eg in zip(docs, examples, strict=True)]
    scores = score_ud(pairs)
    has_pos = any(doc.has_annotation("POS") for doc in docs)
    pos = Scorer.score_token_attr(pairs, "pos")["pos_acc"] if has_pos else None
    return {"tag": scores["tag_acc"], "pos": pos, "uas": scores["uas"], "las": scores["las"]}


def measure(systems: dict[str, Any], figures: dict[str, dict[str, Any]]) -> None:
    """Add scores and words per second: the best of some rounds, everyone in turn."""
    for _ in progress_bar("speed")(range(ROUNDS)):
        for name, system in systems.items():
            n_words = sum(len(eg.reference) for eg in system.examples)
            whole, parser = system.whole_input(), system.parser_input()
            started = perf_counter()
            docs = system.whole(whole)
            between = perf_counter()
            system.parser_only(parser)
            speeds = n_words / (between - started), n_words / (perf_counter() - between)
            for key, speed in zip(("whole_words_s", "parser_words_s"), speeds, strict=True):
                figures[name][key] = max(speed, figures[name].get(key, 0.0))
            if isinstance(system, UDPipeSystem):
                docs = [udpipe_doc(doc, system.nlp.vocab) for doc in docs]
            figures[name] |= score(docs, system.examples)


def time_lengths(system: SpacySystem) -> dict[str, float]:
    """RETURNS (Dict[str, float]): Seconds per sentence of our pipeline by its number of tokens."""
    seconds = {}
    words = [token.text for eg in system.examples for token in eg.reference]
    for length in LENGTHS:
        stream = cycle(words)
        sentences = [list(islice(stream, length)) for _ in range(TOKENS_PER_LENGTH // length)]
        times = []
        for _ in range(ROUNDS):
            docs = [
                Doc(system.nlp.vocab, words=sentence, sent_starts=[True] + [False] * (length - 1))
                for sentence in sentences
            ]
            started = perf_counter()
            system.whole(docs)
            times.append((perf_counter() - started) / len(docs))
        seconds[str(length)] = min(times)
    return seconds


# Printing.


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def print_systems(figures: dict[str, dict[str, Any]], passes: dict[str, Any]) -> None:
    rows = {
        "Tags": ("tag", percent),
        "UPOS": ("pos", percent),
        "UAS": ("uas", percent),
        "LAS": ("las", percent),
        "Training, s": ("seconds", number),
        "Best checkpoint after, s": ("best_seconds", number),
        "Whole pipeline, words/s": ("whole_words_s", number),
        "Parser alone, words/s": ("parser_words_s", number),
        "On disk, MB": ("size_mb", number),
        "Peak memory in training, MB": ("peak_mb", number),
    }
    cells = [
        (title, *(show(system.get(key)) for system in figures.values()))
        for title, (key, show) in rows.items()
    ]
    for title, key in (
        ("Ours passes its LAS after, s", "ours_seconds"),
        ("It passes our LAS after, s", "its_seconds"),
    ):
        cells.append((title, "", *(number(passes[name][key]) for name in passes)))
    print_table(cells, ("", *figures))


def print_lengths(seconds: dict[str, float]) -> None:
    cells = [
        (length, f"{1e3 * value:.2f}", f"{1e6 * value / int(length):.0f}")
        for length, value in seconds.items()
    ]
    print_table(cells, ("Tokens", "ms a sentence", "\N{MICRO SIGN}s a token"))


def print_ablation(without: dict[str, dict[str, Any]], ours: dict[str, Any]) -> None:
    cells = [
        (name, *(percent(row[key]) for key in ("tag", "uas", "las")), number(row["seconds"]))
        for name, row in ({"all": ours} | {f"- {k}": row for k, row in without.items()}).items()
    ]
    print_table(cells, ("Ours", "Tags", "UAS", "LAS", "Training, s"))


def print_table(cells: list[tuple], header: tuple) -> None:
    msg.table(cells, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))


if __name__ == "__main__":
    main()
