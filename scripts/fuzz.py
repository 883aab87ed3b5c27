"""Damage the files of trained components in every way: nothing worse than a clear error may come out.

    python scripts/fuzz.py [--minutes N] [--count N] [--component NAME ...] [--seed N]

Small pipelines are trained on the sample treebank. Everything that a component saves is opened, down to the
last field of models inside of models; one field is changed (its value, order, type, shape; missing, None,
NaN, huge), all is packed again with the right checksums, and loaded by `from_bytes` or `from_disk` into a new
component, which then annotates some sentences. So are bytes and files that were changed as they are. All of
it happens in processes with a limit of memory (1 GB more than the trained pipeline takes) and of time.

Counts by outcome are printed for each component:

    refused     a ValueError with a code when it was loaded
    loaded      it was loaded, and annotated the sentences
    untrained   it says that nothing was learnt, as the file does
    and what must not be: other errors when loading, errors or NaN later, too much memory, hangs, crashes

The exit status is 1 if there was one of these; they are printed.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import faulthandler
import os
import random
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import Any, NamedTuple

import numpy
import spacy
import srsly
from spacy.tokens import Doc

from damages import Mutation, mutate, mutations, opened
from kinds import KINDS, TOKENIZER, Data, Kind, bare, train
from spacy_spectral.pipeline.constituents import stored_trees
from spacy_spectral.treebank.documents import read_docs
from spacy_spectral.treebank.sample.draw import write_sample

GOOD = ("refused", "loaded", "untrained")
MEMORY = 1 << 30
CPU_SECONDS = 30
_UNTRAINED = ("[S115]", "[S603]")


class Case(NamedTuple):
    """One way to load a component.

    state (Any): What it saves, opened.
    load (Callable[[Any], Any]): Loads it, from what was damaged and closed.
    use (Callable[[Any], None]): Does with it what it is for; raises ArithmeticError for numbers that are not
        finite.
    """

    state: Any
    load: Callable[[Any], Any]
    use: Callable[[Any], None]


def sample_data(directory: Path) -> Data:
    """RETURNS (Data): The sample treebank."""
    write_sample(directory, seed=1, train=120, dev=8, test=1)
    train, brackets = directory / "sample-train.conllu", directory / "sample-train.ptb"
    return Data(directory, train, brackets, 120)


def cases(name: str, data: Data) -> list[Case]:
    """RETURNS (List[Case]): The ways to load what a pipeline of a kind is about."""
    kind = KINDS[name]
    if kind.is_tokenizer:
        return tokenizer(kind, data)
    return eigenwords(data) if kind.has_vectors else component(kind, data)


def component(kind: Kind, data: Data) -> list[Case]:
    """RETURNS (List[Case]): The last component of a pipeline, from bytes and from a directory."""
    nlp = train(kind, data)
    docs = []
    for gold in read_docs(data.directory / "sample-dev.conllu", nlp.vocab):
        doc = bare(gold)
        for _, pipe in nlp.pipeline[:-1]:
            doc = pipe(doc)
        docs.append(doc)
    pipe, directory = nlp.get_pipe(kind.last), data.directory / "component"

    def fresh() -> Any:
        return nlp.create_pipe(kind.last, name=kind.last, config=kind.components[kind.last])

    def from_bytes(state: Any) -> Any:
        return fresh().from_bytes(state, exclude=["vocab"])

    def from_disk(state: Any) -> Any:
        write(directory, state)
        return fresh().from_disk(directory, exclude=["vocab"])

    def use(loaded: Any) -> None:
        for doc in docs:
            check(loaded(doc.copy()))

    pipe.to_disk(directory, exclude=["vocab"])
    saved = opened(pipe.to_bytes(exclude=["vocab"]))
    return [Case(saved, from_bytes, use), Case(opened(read(directory)), from_disk, use)]


def check(doc: Doc) -> None:
    """Raise an ArithmeticError if a number on the document is not finite."""
    for name, value in numbers(doc):
        if value is not None and not numpy.isfinite(value):
            raise ArithmeticError(f"{name} {value}")


def numbers(doc: Doc) -> Iterator[tuple[str, float | None]]:
    """YIELDS (Tuple[str, Optional[float]]): All that components keep on a document."""
    for token in doc:
        for name in ("head_prob", "dep_prob", "subtag_prob", "sent_start_prob"):
            yield name, token._.get(name) if token.has_extension(name) else None
        if token.has_extension("tag_probs"):
            yield "tag_probs", sum(token._.tag_probs.values())
    for span in doc.sents:
        if span.has_extension("parse_logprob"):
            yield "parse_logprob", span._.parse_logprob
        for parse in (span._.parses if span.has_extension("parses") else None) or ():
            yield "parses", parse.score + parse.probability + parse.tree.logprob
    for tree in stored_trees(doc):
        for parsed in (tree.parsed, *tree.nbest):
            # a tree outside of the forest has no log-probability
            yield "constituents", sum(node.prob for node in parsed.nodes)


def read(directory: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(directory)): p.read_bytes()
        for p in sorted(directory.rglob("*"))
        if p.is_file()
    }


def write(directory: Path, files: dict[str, Any]) -> None:
    rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else repr(content).encode("utf8"))


def eigenwords(data: Data) -> list[Case]:
    """RETURNS (List[Case]): The vocabulary of a directory with eigenwords, and its lookup tables alone."""
    from spacy_spectral.models.eigenwords.clusters import WordClusters, clusters_from_bytes
    from spacy_spectral.models.eigenwords.vectors import (
        nearest_words,
        read_vocab,
        word_vectors,
        word_weights,
    )

    words = ["the", "old", "dogs", "saw", "Xyzzy", ",", "1234"]
    directory = data.directory / "damaged"

    def from_disk(state: Any) -> Any:
        write(directory / "vocab", state)
        return read_vocab(directory)

    def use(vocab: Any) -> None:
        found = (word_vectors(vocab, words), word_weights(vocab, words))
        nearest_words(vocab, "the")
        if not all(numpy.isfinite(values).all() for values in found):
            raise ArithmeticError("vectors")
        if vocab.lookups.has_table(WordClusters.words_table):
            WordClusters.from_lookups(vocab.lookups).ids(words)

    def use_clusters(clusters: Any) -> None:
        if clusters is not None:
            clusters.ids(words)

    files = opened(read(data.eigenwords() / "vocab"))
    return [
        Case(files, from_disk, use),
        Case(files["lookups.bin"], clusters_from_bytes, use_clusters),
    ]


def tokenizer(kind: Kind, data: Data) -> list[Case]:
    """RETURNS (List[Case]): A tokenizer, from bytes and from a file."""
    trained, path = train(kind, data).tokenizer, data.directory / "tokenizer"
    trained.add_special_case("gimme", [{"ORTH": "gim", "NORM": "give"}, {"ORTH": "me"}])

    def fresh() -> Any:
        return spacy.blank("en", config={"nlp": {"tokenizer": TOKENIZER}}).tokenizer

    def from_bytes(state: Any) -> Any:
        return fresh().from_bytes(state)

    def from_disk(state: Any) -> Any:
        path.write_bytes(state if isinstance(state, bytes) else repr(state).encode("utf8"))
        return fresh().from_disk(path)

    def use(loaded: Any) -> None:
        for text in ("She isn't here, Mr. Smith; gimme 1.5 km.", "", " x\n\ny"):
            if loaded(text).text != text:
                raise ArithmeticError("another text")

    state = opened(trained.to_bytes())
    return [Case(state, from_bytes, use), Case(state, from_disk, use)]


class Result(NamedTuple):
    mutation: str
    outcome: str
    message: str


def attempt(case: Case, mutation: Mutation, rng: random.Random) -> tuple[str, str]:
    """RETURNS (Tuple[str, str]): What came of it, and the message of an error."""
    try:
        state = mutate(case.state, mutation, rng)
    except (ValueError, TypeError, OverflowError, IndexError, NotImplementedError, MemoryError):
        return "no mutation", ""  # msgpack can't write it
    stage = "loading"
    try:
        loaded = case.load(state)
        stage = "use"
        case.use(loaded)
    except Exception as error:
        message, cause = f"{type(error).__name__}: {error}"[:300], error
        while cause is not None and not isinstance(cause, MemoryError):
            cause = cause.__cause__
        if cause is not None:
            return "too much memory", message
        if isinstance(error, ValueError) and str(error).startswith(_UNTRAINED):
            return "untrained", message
        if isinstance(error, ValueError) and str(error).startswith("[S") and stage == "loading":
            return "refused", message
        return f"error when {stage}", message
    return "loaded", ""


def run(
    cases: Sequence[Case],
    *,
    seed: int,
    count: int | None = None,
    seconds: float | None = None,
    fields: Sequence[str] = (),
) -> list[Result]:
    """Try mutations of all cases, in an order that the seed decides.

    count (Optional[int]), seconds (Optional[float]): When to stop.
    fields (Sequence[str]): Try those of the fields with these names alone, each once.
    RETURNS (List[Result]): What came of each.
    """
    todo = [(case, mutation) for case in cases for mutation in mutations(case.state)]
    if fields:
        todo = [own for own in todo if own[1].path and not set(fields).isdisjoint(own[1].path)]
        count = len(todo)
    random.Random(seed).shuffle(todo)
    limit = len(todo) * 1000 if count is None else count
    end, results, at = monotonic() + (seconds or 1e9), [], 0
    while at < limit and monotonic() < end:
        done, died = _work(todo, at, limit, seed, end)
        results += [Result(str(todo[(at + i) % len(todo)][1]), *own) for i, own in enumerate(done)]
        at += len(done)
        if died is not None:
            results.append(Result(str(todo[at % len(todo)][1]), died, ""))
            at += 1
    return results


def _work(
    todo: list, at: int, limit: int, seed: int, end: float
) -> tuple[list[tuple[str, str]], str | None]:
    """Some mutations in a process of their own.

    RETURNS (Tuple[List, Optional[str]]): What came of them, and how the process died of the next.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            _limit()
            with os.fdopen(writer, "w") as out:
                for i in range(at, min(limit, at + 200)):
                    if monotonic() > end:
                        break
                    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
                    own = attempt(*todo[i % len(todo)], random.Random(seed * 1_000_003 + i))
                    out.write(srsly.json_dumps(own) + "\n")
                    out.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as lines:
        done = [tuple(srsly.json_loads(line)) for line in lines]
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return done, f"exit {os.WEXITSTATUS(status)}" if status else None
    name = signal.Signals(os.WTERMSIG(status)).name
    return done, "hang" if name == "SIGVTALRM" else f"crash ({name})"


def _limit() -> None:
    import resource  # not on Windows, where other scripts and tests import this module

    faulthandler.disable()
    warnings.simplefilter("ignore")
    numpy.seterr(all="ignore")
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="for all components together")
    parser.add_argument("--count", type=int, help="mutations of each component at most")
    parser.add_argument("--component", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    end, bad = monotonic() + 60 * options.minutes, 0
    with tempfile.TemporaryDirectory() as directory:
        for i, name in enumerate(options.component):
            own = cases(name, sample_data(Path(directory) / name))
            seconds = max(end - monotonic(), 1.0) / (len(options.component) - i)
            results = run(own, seed=options.seed, count=options.count, seconds=seconds)
            results = [result for result in results if result.outcome != "no mutation"]
            counts = Counter(result.outcome for result in results)
            print(
                f"{name}: {len(results)} mutations;",
                ", ".join(f"{n} {o}" for o, n in counts.most_common()),
            )
            wrong = [result for result in results if result.outcome not in GOOD]
            for result in wrong[:20]:
                print(f"    {result.outcome}: {result.mutation}: {result.message}")
            bad += len(wrong)
            sys.stdout.flush()
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
