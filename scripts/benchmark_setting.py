"""Speed for accuracy: the log-linear parser over values of one of its settings, its pruner's threshold in
parsing if no other is named.

    python scripts/benchmark_setting.py TRAIN DEV [--vectors DIR] [--text FILE]
        [--setting parse_threshold] [--values 0.005 0.02]

For every value, configs/pipeline.cfg is trained with it. Times are CPU seconds of one thread: medians of
rounds in which all parsers take turns, on DEV or on the first lines of running text (--text).
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from arguments import parser_with
from benchmark_pipeline import in_own_process, percent, print_table, train_ours
from pipeline_rivals import SpacySystem, running_text, score

VALUES = [0.002, 0.005, 0.01, 0.02, 0.05]


def main() -> None:
    parser = parser_with(__doc__, "train", "dev", "--vectors", "--lang", "--symbol", "--text")
    parser.add_argument("--lines", type=int, default=2000, help="so many lines of it")
    parser.add_argument(
        "--setting", default="parse_threshold", help="of spacy-spectral.LogLinear.v1"
    )
    parser.add_argument("--values", type=json.loads, nargs="+", default=VALUES)
    parser.add_argument("--rounds", type=int, default=5, help="of timing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print_curve(run(options, Path(directory)), options.setting)


def run(options: argparse.Namespace, directory: Path) -> list[dict[str, Any]]:
    """RETURNS (List[Dict[str, Any]]): For every value its scores, seconds of training, arcs that are left
    to a token, and microseconds a token of the parser."""
    rows, systems = [], []
    for value in options.values:
        path = directory / str(value)
        setting = {f"components.spectral_parser.model.{options.setting}": value}
        figures = in_own_process(train_ours, options, path, setting)
        system = SpacySystem(path, options.dev)
        docs = system.whole(system.whole_input())
        rows.append(
            {"value": value, "seconds": figures["seconds"], "arcs": arcs_a_token(system)}
            | score(docs, system.examples)
        )
        systems.append(system)
    times: list[list[float]] = [[] for _ in systems]
    text = running_text(options.text, options.lang, n_lines=options.lines) if options.text else None
    for _ in range(options.rounds):
        for system, own in zip(systems, times, strict=True):
            docs = system.text_input(text) if text else system.whole_input()
            # all but the parser have done their work before it is timed
            docs = list(system.nlp.pipe(docs, disable=system.nlp.pipe_names[-1:]))
            n_tokens = sum(map(len, docs))
            started = process_time()
            system.parser_only(docs)
            own.append(1e6 * (process_time() - started) / n_tokens)
    for row, own in zip(rows, times, strict=True):
        row["microseconds"] = median(own)
    return rows


def arcs_a_token(system: SpacySystem) -> float:
    """RETURNS (float): How many arcs of a token the parser looks at, on average."""
    parser = system.nlp.get_pipe(system.nlp.pipe_names[-1])
    n_arcs = n_tokens = 0
    for doc in system.tagged:
        batch, parses = parser.parse([doc])
        for sentence in range(len(batch.tokens)):
            n_arcs += len(parses.arcs(sentence, min_prob=0.0).heads)
        n_tokens += len(batch.tokens.words)
    return n_arcs / n_tokens


def print_curve(rows: list[dict[str, Any]], setting: str) -> None:
    cells = [
        (
            json.dumps(row["value"]),
            f"{row['arcs']:.2f}",
            percent(row["uas"]),
            percent(row["las"]),
            f"{row['microseconds']:.1f}",
            f"{row['seconds']:,.0f}",
        )
        for row in rows
    ]
    header = (setting, "Arcs a token", "UAS", "LAS", "Parser, \N{MICRO SIGN}s a token")
    print_table(cells, (*header, "Training, CPU s"))


if __name__ == "__main__":
    main()
