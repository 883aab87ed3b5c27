"""Measure the whole pipeline beside spaCy's own and UDPipe 1: accuracy, training time, speed, size.

    python scripts/benchmark_pipeline.py TRAIN DEV [--lang tr] [--vectors DIR] [--text FILE] [--minutes 8]
        [--plot FILE.svg]

Ours is configs/pipeline.cfg, the accurate one configs/accurate.cfg. spaCy's is the CPU pipeline
tok2vec+tagger+parser of `spacy init config`, with the same word vectors, its checkpoint with the best LAS on
DEV within --minutes. UDPipe 1 takes part if ufal.udpipe is installed.
All get the same tokens and sentences and one thread, and what is measured is tags and trees: components for
tokens, sentences and lemmas take no part. Scores are of all tokens, with full labels. Times are CPU seconds,
so that a busy machine changes them little; speeds are medians of rounds in which all take turns, each with
the batch size that suits it best, on DEV and on the first lines of running text (--text).
--json FILE keeps the figures. --keep DIR keeps the trained models, and uses those that are there already:
others need not be trained again to measure a change of ours. --plot FILE draws LAS against speed.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import logging
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from itertools import cycle, islice
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import srsly
from arguments import SYSTEMS, parser_with, settings_of, small_networks
from pipeline_picture import render
from pipeline_rivals import (
    Curve,
    SpacySystem,
    Text,
    UDPipeSystem,
    evaluate,
    note,
    read,
    running_text,
    score,
    train_spacy,
    train_udpipe,
    trained,
)
from spacy import util
from spacy.tokens import Doc
from spacy.training.initialize import init_nlp
from wasabi import msg

from spacy_spectral.base.files import output_path, require_writable, write_atomically
from spacy_spectral.base.progress import progress_bar

CONFIGS = Path(__file__).parents[1] / "configs"
LENGTHS = (10, 20, 50, 100, 150, 200)
# rounds of timing, tokens of every length, lines of running text; in full and with --quick
EFFORT = {False: (5, 4000, 2000), True: (1, 400, 20)}
N_SHORT = 200  # sentences of DEV that are given one by one
# A part of ours, and the override of the config that takes it away.
PARTS: dict[str, dict[str, Any]] = {
    "clusters": {"paths.vectors": None},
    "second tag": {"components.spectral_parser.model.second_tag": False},
    "siblings": {"components.spectral_parser.model.siblings": False},
    "states": {"components.spectral_parser.model.n_states": 1},
    "labels by own window": {"components.spectral_parser.model.windows": False},
}


def main() -> None:
    options = parse_arguments()
    for output in (options.json, options.plot):
        if output is not None:
            require_writable(output)
    with tempfile.TemporaryDirectory() as directory:
        results = run(options, options.keep or Path(directory))
    if options.json:
        write_atomically(options.json, srsly.json_dumps(results, indent=2) + "\n")
    if options.plot:
        points = {
            name: (figures["whole_words_s"], figures["las"])
            for name, figures in results["systems"].items()
        }
        write_atomically(
            options.plot, render(points, title=f"Tags and trees of {options.dev.name}")
        )
        msg.good(f"LAS against speed in {options.plot}")


def parse_arguments() -> argparse.Namespace:
    parser = parser_with(__doc__, *SYSTEMS)
    parser.add_argument(
        "--fair-vectors",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="spaCy gets the vectors, too",
    )
    parser.add_argument("--no-accurate", action="store_true", help="leave out the accurate config")
    parser.add_argument("--no-ablation", action="store_true", help="leave out the ablation")
    parser.add_argument("--plot", type=output_path, help="draw LAS against speed here (SVG)")
    options = parser.parse_args()
    options.fair_vectors = options.fair_vectors and options.vectors is not None
    return options


def run(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Train everyone, each in a process of its own, then measure them side by side in this one."""
    trainers: dict[str, Callable] = {"ours": train_ours}
    if not options.no_accurate:
        trainers["accurate"] = train_accurate
    trainers["spaCy"] = train_spacy
    systems: dict[str, type] = dict.fromkeys(trainers, SpacySystem)
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
            figures[name] = kept(train, options, directory / name, limit=limit)
        except TimeoutError:
            msg.warn(f"{name} was not trained within {options.minutes:g} minutes")
    loaded = {name: systems[name](directory / name, options.dev) for name in figures}
    rounds, n_tokens, n_lines = EFFORT[options.quick]
    text = running_text(options.text, options.lang, n_lines=n_lines) if options.text else None
    measure(loaded, figures, text, rounds=rounds)
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
    if figures["spaCy"]["limited"]:
        msg.warn(f"spaCy was stopped after {options.minutes:g} minutes: it may not have converged")
    results["lengths"] = time_lengths(loaded["ours"], rounds=rounds, n_tokens=n_tokens)
    print_lengths(results["lengths"])
    if not options.no_ablation:
        note("Ablation")
        results["ablation"] = in_own_process(ablate, options)
        print_ablation(results["ablation"], figures["ours"])
    return results


def kept(
    train: Callable, options: argparse.Namespace, path: Path, *, limit: float | None
) -> dict[str, Any]:
    """Train a model, unless it is there already with its figures."""
    file = path.with_name(f"{path.name}.json")
    asked = {
        name: str(getattr(options, name))
        for name in ("train", "dev", "vectors", "fair_vectors", "lang", "minutes", "quick")
    }
    if options.symbol != "TAG":
        asked["symbol"] = options.symbol
    for name in ("lemmas", "udpipe_parser"):
        if vars(options).get(name):
            asked[name] = str(vars(options)[name])
    if file.exists():
        found = srsly.read_json(file)
        if found["asked"] != asked:
            msg.fail(
                f"{file} is of another run", f"Delete it, or ask for {found['asked']}", exits=1
            )
        return found["figures"]
    path.parent.mkdir(parents=True, exist_ok=True)
    require_writable(file)
    figures = in_own_process(train, options, path, limit=limit)
    write_atomically(file, srsly.json_dumps({"asked": asked, "figures": figures}, indent=2) + "\n")
    return figures


def in_own_process(
    function: Callable, *arguments: Any, limit: float | None = None
) -> dict[str, Any]:
    """Peak memory is of a process: everyone starts from nothing."""
    with get_context("spawn").Pool(1) as pool:
        result = pool.apply_async(_with_plain_errors, (function, *arguments)).get(limit)
        pool.close()
        pool.join()
        return result


def _with_plain_errors(function: Callable, *arguments: Any) -> dict[str, Any]:
    """Errors of configs cannot be pickled: the pool would wait for ever."""
    try:
        return function(*arguments)
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from None


def seconds_to(curve: Curve, las: float) -> float | None:
    return next((seconds for seconds, reached in curve if reached >= las), None)


# Training: functions that write a model, and tell what it took and how LAS on dev rose with time.


class EpochLog(logging.Handler):
    """Notes when the parser reports its LAS on dev: after every epoch, and of what is written in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.started = process_time()
        self.curve: Curve = []

    def emit(self, record: logging.LogRecord) -> None:
        if found := re.search(r"dev .*LAS ([\d.]+)%", record.getMessage()):
            self.curve.append((process_time() - self.started, float(found[1]) / 100))
        note(f"  {process_time() - self.started:6.0f} s  {record.getMessage()}")


def train_accurate(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    quick = small_networks(CONFIGS / "accurate.cfg") if options.quick else {}
    return train_ours(options, path, quick, config="accurate.cfg")


def train_ours(
    options: argparse.Namespace,
    path: Path | None,
    overrides: dict[str, Any] | None = None,
    *,
    config: str = "pipeline.cfg",
) -> dict[str, Any]:
    loaded = util.load_config(CONFIGS / config, overrides=settings_of(options) | (overrides or {}))
    log = EpochLog()
    util.logger.handlers = [log]
    util.logger.setLevel(logging.INFO)
    nlp = init_nlp(loaded)
    seconds = process_time() - log.started
    if path is None:
        return evaluate(nlp, read(nlp, options.dev)) | {"seconds": seconds}
    nlp.to_disk(path)
    return trained(log.curve, seconds, path)


def ablate(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Train ours without one part at a time."""
    results = {}
    for part, overrides in progress_bar("ablation")(PARTS.items()):
        if part == "clusters" and not options.vectors:
            continue
        results[part] = train_ours(options, None, overrides)
        if options.quick:
            break
    return results


# Measuring.


def measure(
    systems: dict[str, Any],
    figures: dict[str, dict[str, Any]],
    text: Text | None,
    *,
    rounds: int,
) -> None:
    """Add scores and words per second: the median of some rounds, everyone in turn."""
    speeds: dict[tuple[str, str], list[float]] = defaultdict(list)

    def timed(name: str, key: str, n_words: int, work: Callable, docs: list) -> list:
        started = process_time()
        done = work(docs)
        speeds[name, key].append(n_words / (process_time() - started))
        return done

    for _ in progress_bar("speed")(range(rounds)):
        for name, system in systems.items():
            n_words = sum(len(eg.reference) for eg in system.examples)
            docs = timed(name, "whole_words_s", n_words, system.whole, system.whole_input())
            timed(name, "parser_words_s", n_words, system.parser_only, system.parser_input())
            short = system.whole_input()[:N_SHORT]
            timed(name, "calls_s", len(short), system.one_by_one, short)
            if text:
                n_words = sum(len(words) for words, _ in text)
                timed(name, "text_words_s", n_words, system.whole, system.text_input(text))
            figures[name] |= score(system.documents(docs), system.examples)
    for (name, key), found in speeds.items():
        figures[name][key] = median(found)


def time_lengths(system: SpacySystem, *, rounds: int, n_tokens: int) -> dict[str, float]:
    """RETURNS (Dict[str, float]): Seconds per sentence of our pipeline by its number of tokens."""
    seconds = {}
    words = [token.text for eg in system.examples for token in eg.reference]
    for length in LENGTHS:
        stream = cycle(words)
        sentences = [list(islice(stream, length)) for _ in range(max(n_tokens // length, 1))]
        times = []
        for _ in range(rounds):
            docs = [
                Doc(system.nlp.vocab, words=sentence, sent_starts=[True] + [False] * (length - 1))
                for sentence in sentences
            ]
            started = process_time()
            system.whole(docs)
            times.append((process_time() - started) / len(docs))
        seconds[str(length)] = min(times)
    return seconds


# Printing.


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def milliseconds(per_second: float | None) -> str:
    return "-" if per_second is None else f"{1e3 / per_second:.2f}"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def print_systems(figures: dict[str, dict[str, Any]], passes: dict[str, Any]) -> None:
    rows = {
        "Tags": ("tag", percent),
        "UPOS": ("pos", percent),
        "UAS": ("uas", percent),
        "LAS": ("las", percent),
        "Training, CPU s": ("seconds", number),
        "Best checkpoint after, CPU s": ("best_seconds", number),
        "Whole pipeline, words/CPU s": ("whole_words_s", number),
        "Parser alone, words/CPU s": ("parser_words_s", number),
        "Whole pipeline on running text, words/CPU s": ("text_words_s", number),
        "One sentence a call, CPU ms": ("calls_s", milliseconds),
        "On disk, MB": ("size_mb", number),
        "Peak memory in training, MB": ("peak_mb", number),
    }
    cells = [
        (title, *(show(system.get(key)) for system in figures.values()))
        for title, (key, show) in rows.items()
    ]
    for title, key in (
        ("Ours passes its LAS after, CPU s", "ours_seconds"),
        ("It passes our LAS after, CPU s", "its_seconds"),
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
    print_table(cells, ("Ours", "Tags", "UAS", "LAS", "Training, CPU s"))


def print_table(cells: list[tuple], header: tuple) -> None:
    msg.table(cells, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))


if __name__ == "__main__":
    main()
