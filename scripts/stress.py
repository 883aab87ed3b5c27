"""Use trained pipelines as servers do: many threads on one, threads that come and go, endless sentences.

    python scripts/stress.py --train TREEBANK [--sentences 500] [--keep DIR]
    python scripts/stress.py PIPELINE ... --text FILE

With --train one small pipeline of every kind is trained on the first sentences of a treebank and used on all
its text; otherwise trained pipelines on the lines of a text. Each in a process of its own is asked for

    wrong       results of --threads threads with --texts texts each that are not those of one thread, while
                they run and after; hurried: with threads that take turns a million times a second
    one by one  memory that --short-lived threads, one after the other, leave behind after the first tenth
    long        a sentence of --length words: CPU time and memory of its parse, whether its numbers are finite
    documents   memory that --documents documents in a loop leave behind after the first tenth

Memory is in megabytes. The exit status is 1 if a result was wrong, or a sentence without finite numbers.
"""

# ruff: noqa: E402
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import random
import resource
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from math import isfinite
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from time import process_time
from typing import Any

import spacy
import srsly
from pipeline_rivals import note
from spacy.attrs import DEP, HEAD, MORPH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from wasabi import msg

from spacy_spectral.models.eigenwords.model import Eigenwords
from spacy_spectral.models.eigenwords.statistics import count_files
from spacy_spectral.models.eigenwords.vectors import make_pipeline
from spacy_spectral.treebank.documents import read_docs

TOK2VEC = {"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": 64}
TOK2VEC |= {"depth": 2, "embed_size": 2000, "window_size": 1, "maxout_pieces": 3}
TOK2VEC |= {"subword_features": True}
LOGLINEAR = {"model": {"@architectures": "spacy-spectral.LogLinear.v1"}}
BIAFFINE = {"model": {"@architectures": "spacy-spectral.Biaffine.v1", "tok2vec": TOK2VEC}}
# The components of a small pipeline of every kind.
KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "tagger": {"spectral_tagger": {}},
    "SHAG": {"spectral_tagger": {}, "spectral_parser": {}},
    "LogLinear": {"spectral_tagger": {}, "spectral_parser": LOGLINEAR},
    "Biaffine": {"spectral_parser": BIAFFINE},
    "reranker": {
        "spectral_tagger": {},
        "spectral_parser": LOGLINEAR,
        "spectral_reranker": {"store": ["parses"], "n": 10},
    },
    "eigenwords": {"spectral_tagger": {}, "spectral_parser": LOGLINEAR, "eigenwords": {}},
}
COLUMNS = ("wrong", "wrong, hurried", "one by one", "long s", "long MB", "finite", "documents")


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as directory:
        if options.train is not None:
            directory = options.keep or Path(directory)
            options.text, options.pipelines = train_all(options, Path(directory))
        rows = [(path.name, apart(measure, path, options)) for path in options.pipelines]
    shown = [[name, *(found.get(column, "-") for column in COLUMNS)] for name, found in rows]
    msg.table(shown, header=["pipeline", *COLUMNS], divider=True, aligns=["l"] + 7 * ["r"])
    if any(found["wrong"] or found["wrong, hurried"] or not found["finite"] for _, found in rows):
        sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pipelines", type=Path, nargs="*", help="trained pipelines")
    parser.add_argument("--text", type=Path, help="one text a line")
    parser.add_argument("--train", type=Path, help="a treebank: CoNLL-U or .spacy")
    parser.add_argument("--sentences", type=int, default=500, help="how many of it are trained on")
    parser.add_argument("--keep", type=Path, help="keep trained pipelines here, use those found")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--short-lived", type=int, default=200)
    parser.add_argument("--length", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100_000)
    options = parser.parse_args()
    given = bool(options.pipelines) and options.text is not None
    if (options.train is not None) == given:
        parser.error("give --train TREEBANK, or pipelines and --text")
    return options


def apart(function: Any, *arguments: Any) -> Any:
    """What a function returns in a process of its own, with memory of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def train_all(options: argparse.Namespace, directory: Path) -> tuple[Path, list[Path]]:
    """RETURNS (Tuple[Path, List[Path]]): The text of the treebank, and pipelines trained on its beginning."""
    text = directory / "text.txt"
    directory.mkdir(parents=True, exist_ok=True)
    docs = read_docs(options.train, spacy.blank("en").vocab)
    text.write_text("".join(" ".join(t.text for t in doc) + "\n" for doc in docs))
    for name in KINDS:
        if not (directory / name).exists():
            note(f"Training {name}")
            apart(train, name, options, directory)
    return text, [directory / name for name in KINDS]


def train(name: str, options: argparse.Namespace, directory: Path) -> None:
    nlp = spacy.blank("en")
    if name == "eigenwords":
        counts = count_files([directory / "text.txt"], min_count=2)
        nlp = make_pipeline(Eigenwords.estimate(counts, k=20), lang="en", meta={})
    nlp.add_pipe("sentencizer")
    docs = list(islice(read_docs(options.train, nlp.vocab), options.sentences))
    examples = [Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in docs]
    for factory, config in KINDS[name].items():
        pipe = nlp.add_pipe(factory, config=config)
        if hasattr(pipe, "initialize"):
            pipe.initialize(lambda: examples, nlp=nlp)
            for _ in range(5 if name == "Biaffine" else 0):
                for i in range(0, len(examples), 32):
                    pipe.update(examples[i : i + 32], sgd=nlp.create_optimizer(), drop=0.1)
    nlp.to_disk(directory / name)


def measure(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    note(f"Using {path.name}")
    lines = [line.strip() for line in options.text.read_text().splitlines() if line.strip()]
    texts = list(islice(cycle(lines), options.texts))
    one = spacy.load(path)
    expected = {text: described(one, text) for text in set(texts)}
    nlp = spacy.load(path)
    result: dict[str, Any] = {"wrong": wrong(nlp, texts, expected, options.threads)}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    result["wrong, hurried"] = wrong(nlp, texts, expected, options.threads)
    sys.setswitchinterval(interval)
    del one, expected
    long = " ".join(islice((word for line in cycle(lines) for word in line.split()), 300))
    result["one by one"] = left_behind(lambda: in_thread(nlp, long), options.short_lived)
    stream = cycle(lines)
    result["documents"] = left_behind(lambda: nlp(next(stream)), options.documents)
    return result | endless(nlp, lines, options.length)


def described(nlp: Language, text: str) -> bytes:
    doc = nlp(text)
    values = [doc.to_array([TAG, POS, MORPH, HEAD, DEP, SENT_START]), list(doc.user_data.items())]
    if "eigenwords" in nlp.pipe_names:
        values.append([doc.similarity(doc[:2]), [list(t._.eigenword_cluster) for t in doc[:3]]])
    return srsly.msgpack_dumps(values)


def wrong(nlp: Language, texts: list[str], expected: dict[str, bytes], threads: int) -> int:
    """RETURNS (int): How many results of threads, and of one thread afterwards, are not as expected."""

    def work(seed: int) -> int:
        own = random.Random(seed).sample(texts, len(texts))
        return sum(attempt(nlp, text) != expected[text] for text in own)

    with ThreadPoolExecutor(threads) as pool:
        during = sum(pool.map(work, range(threads)))
    return during + work(threads)


def attempt(nlp: Language, text: str) -> bytes | None:
    try:
        return described(nlp, text)
    except Exception:
        return None


def in_thread(nlp: Language, text: str) -> None:
    thread = Thread(target=nlp, args=(text,))
    thread.start()
    thread.join()


def left_behind(work: Any, times: int) -> int:
    """RETURNS (int): By how much memory grows while something is done again and again."""
    for _ in range(times // 10):
        work()
    before = resident()
    for _ in range(times // 10, times):
        work()
    return resident() - before


def endless(nlp: Language, lines: list[str], length: int) -> dict[str, Any]:
    """A sentence that does not end, so that nothing can be parsed as a whole."""
    words = list(islice((word for line in cycle(lines) for word in line.split()), length))
    doc = Doc(nlp.vocab, words=words, sent_starts=[True] + [False] * (length - 1))
    before, began = resident(), process_time()
    doc = nlp(doc)
    seconds = process_time() - began
    finite = all(sum(t._.tag_probs.values()) <= 1.001 for t in doc if t.has_extension("tag_probs"))
    if "spectral_parser" in nlp.pipe_names:
        probs = [token._.head_prob for token in doc]
        logs = [sentence._.parse_logprob for sentence in doc.sents]
        finite = finite and all(value is not None and isfinite(value) for value in logs)
        finite = finite and all(value is None or 0 <= value <= 1.001 for value in probs)
        finite = finite and sum(token.head.i == token.i for token in doc) == 1
    return {"long s": f"{seconds:.1f}", "long MB": peak() - before, "finite": finite}


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 2**20


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
