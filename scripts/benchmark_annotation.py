"""How much work annotation is: with and without parsing anew after each fix, in three orders; and how fast.

    python scripts/benchmark_annotation.py TREEBANK [--model MODEL] [--only PART...] [--json FILE]

TREEBANK is a directory with ...train.conllu and ...dev.conllu. A simulated annotator looks at a sentence from
left to right, and corrects the first word whose head or label is wrong, one of them at a time, until the tree
is the gold tree. Tags are those of the pipeline; words and sentences are given.

    corrections  of the first --sentences of the development set, which the pipeline (--model) has not learnt
                 from: (a) in the parser's output, (b) when the rest is parsed anew around each correction
    learning     (c) from nothing: a sample of --pool sentences of the training set. After every --every
                 accepted ones a pipeline is trained on all of them. For each order, corrections a sentence,
                 and LAS on --dev sentences of the development set
    latency      from a correction to the answer that is drawn, through HTTP, for sentences of up to --words
                 words

Times are of one process of the server, on a machine that does nothing else if figures are to be compared.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import http.client
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from wasabi import msg

from server_trials import command, cpu_seconds
from spacy_spectral.base.files import output_path, write_atomically
from spacy_spectral.base.progress import progress_bar
from spacy_spectral.serve import blocks
from spacy_spectral.serve.engine import Analysis, Engine, expected_errors
from spacy_spectral.serve.learner import train

PARTS = ("corrections", "latency", "learning")
ORDERS = ("random", "document", "errors")


class Gold(NamedTuple):
    """A sentence of a treebank: its block, its words, and its right arcs as they are written."""

    block: str
    words: list[str]
    spaces: list[bool]
    arcs: list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("treebank", type=Path, help="a directory")
    parser.add_argument("--model", help="a pipeline that was trained on the treebank")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--sentences", type=int, default=1000, help="to count corrections of")
    parser.add_argument("--pool", type=int, default=1000, help="to annotate from nothing")
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=ORDERS)
    parser.add_argument("--every", type=int, default=20, help="train after so many")
    parser.add_argument("--first", type=int, default=5, help="train first after so many")
    parser.add_argument("--curve", type=int, default=100, help="LAS after so many")
    parser.add_argument("--dev", type=int, default=500, help="sentences for LAS")
    parser.add_argument("--fixes", type=int, default=300, help="to time")
    parser.add_argument("--words", type=int, default=60, help="of the longest sentence to time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=output_path, help="write all figures here")
    options = parser.parse_args()
    if options.model is None and set(options.only) != {"learning"}:
        parser.error("corrections and latency need --model")
    result = run(options)
    if options.json is not None:
        write_atomically(options.json, json.dumps(result, indent=2) + "\n")
    report(result)


def run(options: argparse.Namespace) -> dict[str, Any]:
    dev = list(read(options.treebank, "dev"))
    result: dict[str, Any] = {}
    if "corrections" in options.only:
        result["corrections"] = count_corrections(options, dev)
    if "latency" in options.only:
        result["latency"] = measure_latency(options, dev)
    if "learning" in options.only:
        # a sample of the file, in its order
        train_ = list(read(options.treebank, "train"))
        places = sorted(shuffled(range(len(train_)), options.seed)[: options.pool])
        pool = [train_[i] for i in places]
        own = shuffled(dev, options.seed)[: options.dev]
        result["learning"] = {order: learn(options, order, pool, own) for order in options.orders}
    return result


def read(treebank: Path, split: str) -> Iterator[Gold]:
    (path,) = treebank.glob(f"*{split}.conllu")
    for block in blocks.split_blocks(path.read_bytes().decode("utf8")):
        sentence, _ = blocks.read_block(block)
        arcs = [(own["head"], own["deprel"]) for own in blocks.values(block)]
        yield Gold(block, sentence.words, sentence.spaces, arcs)


def shuffled(items: Any, seed: int) -> list[Any]:
    items = list(items)
    random.Random(seed).shuffle(items)
    return items


def free(gold: Gold) -> list[dict[str, str]]:
    return [dict.fromkeys(blocks.COLUMNS, "_") for _ in gold.words]


def analyse(engine: Engine, gold: Gold) -> Analysis:
    return engine.analyse(gold.words, gold.spaces, free(gold))


def arcs_of(found: Analysis) -> list[tuple[str, str]]:
    return [(own["head"], own["deprel"]) for own in found.words]


# ---------------------------------------------------------------- the annotator


def post_edit(found: Sequence[tuple[str, str]], gold: Gold) -> int:
    """How many corrections a tree takes that nothing else changes: of heads, and of labels."""
    pairs = list(zip(found, gold.arcs, strict=True))
    # the label of a new root is known, and so is that of a word that was one
    labels = sum(a[1] != b[1] and b[0] != "0" for a, b in pairs)
    return sum(a[0] != b[0] for a, b in pairs) + labels


def next_fix(found: Analysis, gold: Gold) -> tuple[int, dict[str, str]] | None:
    """The first word that is wrong, from 0, and what is fixed of it; None if the tree is right."""
    for i, (own, right) in enumerate(zip(arcs_of(found), gold.arcs, strict=True)):
        if own[0] != right[0]:
            return i, {"head": right[0], "deprel": "_"}
        if own[1] != right[1]:
            return i, {"head": right[0], "deprel": right[1]}
    return None


def correct(engine: Engine, gold: Gold) -> int:
    """How many corrections a sentence takes when it is parsed anew after each."""
    fixed = free(gold)
    for count in range(3 * len(fixed) + 1):
        fix = next_fix(engine.analyse(gold.words, gold.spaces, fixed), gold)
        if fix is None:
            return count
        fixed[fix[0]] |= fix[1]
    raise AssertionError(gold.block)


def count_corrections(options: argparse.Namespace, dev: list[Gold]) -> dict[str, Any]:
    engine = Engine.load(options.model, number=0, told="")
    rows = []
    own = dev[: options.sentences]
    for gold in progress_bar("Correcting")(own):
        found = arcs_of(analyse(engine, gold))
        right = sum(a == b for a, b in zip(found, gold.arcs, strict=True))
        rows.append((post_edit(found, gold), correct(engine, gold), len(found), right))
    once, again, words, right = map(sum, zip(*rows, strict=True))
    return {
        "sentences": len(rows),
        "words": words,
        "las": right / words,
        "right": sum(row[0] == 0 for row in rows) / len(rows),
        "post-editing": once / len(rows),
        "parsing anew": again / len(rows),
        "fewer": 1 - again / once,
    }


def learn(
    options: argparse.Namespace, order: str, pool: list[Gold], dev: list[Gold]
) -> dict[str, Any]:
    """Annotate all of a pool, from nothing."""
    engine, left, accepted = Engine(), list(pool), list[Gold]()
    counts: list[int] = []
    curve: list[tuple[int, float]] = []
    # sentences of a file come in its order, where nothing else is known
    if order == "random":
        left = shuffled(left, options.seed + 1)
    known, began = 0, time.process_time()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "accepted.conllu")
        for _ in progress_bar(order)(pool):
            gold = left.pop(0)
            counts.append(correct(engine, gold))
            accepted.append(gold)
            wanted = options.every if engine.nlp is not None else options.first
            if len(accepted) - known < wanted and left:
                continue
            known = len(accepted)
            path.write_text("".join(own.block for own in accepted), encoding="utf8")
            engine = Engine(train(path, lang="en"))
            if order == "errors":
                scores = [doubt(engine, own) for own in left]
                left = [left[i] for i in sorted(range(len(left)), key=lambda i: -scores[i])]
            if known >= (len(curve) + 1) * options.curve or not left:
                curve.append((known, las(engine, dev)))
    return {
        "corrections": sum(counts) / len(counts),
        "curve": curve,
        "by hundred": [float(numpy.mean(counts[i : i + 100])) for i in range(0, len(counts), 100)],
        "seconds": time.process_time() - began,
    }


def doubt(engine: Engine, gold: Gold) -> float:
    found = analyse(engine, gold)
    pairs = zip(found.head_probs, found.label_probs, strict=True)
    return expected_errors([head * label for head, label in pairs])


def las(engine: Engine, dev: list[Gold]) -> float:
    pairs = [
        pair for gold in dev for pair in zip(arcs_of(analyse(engine, gold)), gold.arcs, strict=True)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


# ---------------------------------------------------------------- latency


def measure_latency(options: argparse.Namespace, dev: list[Gold]) -> dict[str, Any]:
    """Correct sentences through the server of the page, and take the time of every answer."""
    own = [gold for gold in shuffled(dev, options.seed) if len(gold.words) <= options.words]
    own = own[: options.fixes]
    times: list[float] = []
    lengths: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "in.conllu")
        empty = dict.fromkeys(blocks.COLUMNS, "_")
        source.write_text(
            "".join(
                blocks.with_values(g.block, {i + 1: empty for i in range(len(g.words))})
                for g in own
            ),
            encoding="utf8",
        )
        arguments = ("annotate", source, "--model", options.model, "--every", 0, "--no-browser")
        with command(*arguments) as (process, port, path):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

            def ask(method: str, what: str, body: Any = None) -> dict[str, Any]:
                data = None if body is None else json.dumps(body)
                connection.request(method, f"{path}/api/{what}", data)
                return json.loads(connection.getresponse().read())

            # the sentences are put in order meanwhile, in another process
            while ask("GET", "view")["panel"]["learning"]:
                time.sleep(0.5)
            cpu = 0.0
            for id_, gold in enumerate(own):
                shown = ask("GET", f"view?sentence={id_}")["sentence"]
                for word, (own_arc, right) in enumerate(
                    zip(shown["words"], gold.arcs, strict=True), 1
                ):
                    if own_arc["head"] != right[0]:
                        what = {"do": "head", "sentence": id_, "word": word, "head": int(right[0])}
                        before, began = cpu_seconds(process), time.perf_counter()
                        answer = ask("POST", "act", what)
                        times.append(time.perf_counter() - began)
                        cpu += cpu_seconds(process) - before
                        assert answer["sentence"]["words"][word - 1]["head"] == right[0]
                        lengths.append(len(gold.words))
                        break
    return {
        "fixes": len(times),
        "words": float(numpy.mean(lengths)),
        "median": float(numpy.median(times)),
        "95 %": float(numpy.quantile(times, 0.95)),
        "most": max(times),
        "cpu": cpu / len(times),
    }


# ---------------------------------------------------------------- printing


def report(result: dict[str, Any]) -> None:
    if own := result.get("corrections"):
        header = ("Sentences", "LAS", "Right as they are", "Post-editing", "Parsing anew", "Fewer")
        row = (
            f"{own['sentences']:,}",
            *(f"{100 * own[name]:.1f} %" for name in ("las", "right")),
            *(f"{own[name]:.2f}" for name in ("post-editing", "parsing anew")),
            f"{100 * own['fewer']:.1f} %",
        )
        print("Corrections a sentence")
        msg.table([row], header=header, divider=True)
    if own := result.get("latency"):
        header = ("Fixes", "Words a sentence", "Median", "95 %", "Most", "CPU of the server")
        row = (
            str(own["fixes"]),
            f"{own['words']:.1f}",
            *(f"{1000 * own[name]:.0f} ms" for name in ("median", "95 %", "most", "cpu")),
        )
        print("From a fix to the sentence that is drawn")
        msg.table([row], header=header, divider=True)
    if own := result.get("learning"):
        orders = list(own)
        print("From nothing: corrections a sentence, and LAS after so many accepted sentences")
        rows: list[tuple[str, ...]] = [
            ("corrections", *(f"{own[order]['corrections']:.2f}" for order in orders))
        ]
        for i, (n, _) in enumerate(own[orders[0]]["curve"]):
            rows.append(
                (f"LAS, {n}", *(f"{100 * own[order]['curve'][i][1]:.2f}" for order in orders))
            )
        for i in range(len(own[orders[0]]["by hundred"])):
            told = f"corrections, {100 * i + 1} to {100 * i + 100}"
            rows.append((told, *(f"{own[order]['by hundred'][i]:.2f}" for order in orders)))
        rows.append(("CPU s", *(f"{own[order]['seconds']:.0f}" for order in orders)))
        msg.table(rows, header=("", *orders), divider=True)


if __name__ == "__main__":
    main()
