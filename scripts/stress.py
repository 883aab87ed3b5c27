"""Use trained pipelines as servers do: many threads on one, threads that come and go, endless sentences.

    python scripts/stress.py --train TREEBANK --brackets TREES [--sentences 500] [--keep DIR] [--kind NAME]
    python scripts/stress.py PIPELINE ... --text FILE

With --train one small pipeline of every kind (see kinds.py) is trained on the first sentences of a treebank,
those for constituents on bracketed trees, and used on all text of the treebank; otherwise trained pipelines
on the lines of a text. Each in a process of its own is asked for

    wrong       results of --threads threads with --texts texts each that are not those of one thread, while
                they run and after; hurried: with threads that take turns a million times a second
    one by one  memory that --short-lived threads, one after the other, leave behind after the first tenth
    long        a sentence of --length words: CPU time and memory of its parse, whether its numbers are finite
    documents   memory that --documents documents in a loop leave behind after the first tenth: one in ten
                by itself, the others as a stream

--words cuts texts and documents, not the long sentence, to so many words; --only does some of the above.

Memory is in megabytes. The exit status is 1 if a result was wrong, or a sentence without finite numbers.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import random
import resource
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from time import process_time
from typing import Any

import numpy
import spacy
import srsly
from pipeline_rivals import note
from spacy.attrs import DEP, HEAD, LEMMA, MORPH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc
from wasabi import msg

from fuzz import numbers
from kinds import KINDS, Data, train
from spacy_spectral.base.files import output_path

_STEP = 1000
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
    if any(found.get("wrong") or found.get("wrong, hurried") for _, found in rows):
        sys.exit(1)
    if not all(found.get("finite", True) for _, found in rows):
        sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pipelines", type=Path, nargs="*", help="trained pipelines")
    parser.add_argument("--text", type=Path, help="one text a line")
    parser.add_argument("--train", type=Path, help="a treebank: CoNLL-U or .spacy")
    parser.add_argument("--brackets", type=Path, help="bracketed trees, for constituents")
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--sentences", type=int, default=500, help="how many of it are trained on")
    parser.add_argument(
        "--keep", type=output_path, help="keep trained pipelines here, use those found"
    )
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--short-lived", type=int, default=200)
    parser.add_argument("--length", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--words", type=int, help="of texts and documents; all if not given")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    given = bool(options.pipelines) and options.text is not None
    if (options.train is not None and options.brackets is not None) == given:
        parser.error("give --train TREEBANK and --brackets TREES, or pipelines and --text")
    return options


def apart(function: Any, *arguments: Any) -> Any:
    """What a function returns in a process of its own, with memory of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def train_all(options: argparse.Namespace, directory: Path) -> tuple[Path, list[Path]]:
    """RETURNS (Tuple[Path, List[Path]]): The text of the treebank, and pipelines trained on its beginning."""
    directory.mkdir(parents=True, exist_ok=True)
    data = Data(directory, options.train, options.brackets, options.sentences)
    text = directory / "texts.txt"
    text.write_text("\n".join(data.texts()), encoding="utf8")
    for name in options.kind:
        if not (directory / name).exists():
            note(f"Training {name}")
            apart(train_one, name, data)
    return text, [directory / name for name in options.kind]


def train_one(name: str, data: Data) -> None:
    train(KINDS[name], data).to_disk(data.directory / name)


def measure(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    note(f"Using {path.name}")
    lines = [line.split() for line in options.text.read_text().splitlines() if line.strip()]
    texts = [" ".join(words[: options.words]) for words in lines]
    nlp = spacy.load(path)
    result: dict[str, Any] = {}
    for part in options.only:
        result |= PARTS[part](nlp, texts, [word for words in lines for word in words], options)
    return result


def of_threads(
    nlp: Language, texts: list[str], words: list[str], options: argparse.Namespace
) -> dict[str, int]:
    texts = list(islice(cycle(texts), options.texts))
    one = spacy.load(nlp.path)
    expected = {text: described(one, text) for text in set(texts)}
    result = {"wrong": wrong(nlp, texts, expected, options.threads)}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    result["wrong, hurried"] = wrong(nlp, texts, expected, options.threads)
    sys.setswitchinterval(interval)
    return result


def of_short_lives(
    nlp: Language, texts: list[str], words: list[str], options: argparse.Namespace
) -> dict[str, int]:
    long = " ".join(words[:300])
    return {"one by one": left_behind(lambda: in_thread(nlp, long), options.short_lived)}


def of_documents(
    nlp: Language, texts: list[str], words: list[str], options: argparse.Namespace
) -> dict[str, int]:
    stream = cycle(texts)
    steps = -(-options.documents // _STEP)
    return {"documents": left_behind(lambda: in_loop(nlp, stream), steps)}


def described(nlp: Language, text: str) -> bytes:
    doc = nlp(text)
    own = doc.to_array([TAG, POS, MORPH, LEMMA, HEAD, DEP, SENT_START])
    values = [[token.text for token in doc], own, list(doc.user_data.items())]
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


def in_loop(nlp: Language, texts: Iterator[str]) -> None:
    """Some documents, both ways."""
    for text in islice(texts, _STEP // 10):
        nlp(text)
    for _ in nlp.pipe(islice(texts, _STEP - _STEP // 10)):
        pass


def left_behind(work: Any, times: int) -> int:
    """RETURNS (int): By how much memory grows while something is done again and again."""
    for _ in range(times // 10):
        work()
    before = resident()
    for _ in range(times // 10, times):
        work()
    return resident() - before


def endless(
    nlp: Language, texts: list[str], words: list[str], options: argparse.Namespace
) -> dict[str, Any]:
    """A sentence that does not end, so that nothing can be parsed as a whole."""
    length = options.length
    words = list(islice(cycle(words), length))
    doc = Doc(nlp.vocab, words=words, sent_starts=[True] + [False] * (length - 1))
    before, began = resident(), process_time()
    doc = nlp(doc)
    seconds = process_time() - began
    known = [value for _, value in numbers(doc) if value is not None]
    finite = bool(numpy.isfinite(known).all())
    if "spectral_parser" in nlp.pipe_names:
        finite = finite and sum(token.head.i == token.i for token in doc) == 1
    return {"long s": f"{seconds:.1f}", "long MB": peak() - before, "finite": finite}


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 2**20


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


PARTS = {
    "threads": of_threads,
    "short-lived": of_short_lives,
    "documents": of_documents,
    "long": endless,
}


if __name__ == "__main__":
    main()
