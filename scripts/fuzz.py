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

# ruff: noqa: E402
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import faulthandler
import random
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import Any, NamedTuple

import numpy
import spacy
import srsly
from damages import Mutation, mutate, mutations, opened
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_spectral.readers import Corpus
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


class Data:
    """The sample treebank, and a place for files."""

    def __init__(self, directory: Path):
        self.directory = directory
        write_sample(directory, seed=1, train=120, dev=8, test=1)
        self.text = directory / "text.txt"
        docs = (eg.reference for eg in self.examples(spacy.blank("en"), "train"))
        self.text.write_text("\n".join(doc.text for doc in docs), encoding="utf8")

    def examples(self, nlp: Language, split: str) -> list:
        path = self.directory / f"sample-{split}.conllu"
        return list(Corpus(path, annotations=("tag", "pos", "sents"), n_sents=1)(nlp))

    def eigenwords(self) -> Path:
        """RETURNS (Path): A directory with eigenwords of the text."""
        from spacy_spectral.models.eigenwords.model import Eigenwords
        from spacy_spectral.models.eigenwords.statistics import count_files
        from spacy_spectral.models.eigenwords.vectors import make_pipeline, spacy_tokenizer

        path = self.directory / "eigenwords"
        if not path.exists():
            tokenize = spacy_tokenizer(spacy.blank("en"))
            counts = count_files([self.text], min_count=2, window=2, tokenize=tokenize)
            model = Eigenwords.estimate(counts, k=8, granularities=(4, 8))
            make_pipeline(model, meta={}).to_disk(path)
        return path


def component(
    data: Data,
    factory: str,
    *,
    before: Sequence[tuple[str, dict]] = (),
    initialize: dict | None = None,
    steps: int = 0,
    read_examples: Callable[[Data, Language, str], list] = Data.examples,
    **config: Any,
) -> list[Case]:
    """Train a component.

    data (Data): What to train it on.
    factory (str): Its factory.
    before (Sequence[Tuple[str, Dict]]): Factories and settings of components that it needs before it.
    initialize (Optional[Dict]): What its `initialize` takes.
    steps (int): How many updates it needs.
    read_examples (Callable): Gives the examples of a split.
    config: Its settings.
    RETURNS (List[Case]): Loading it from bytes and from a directory.
    """
    nlp = spacy.blank("en")
    for name, settings in (*before, (factory, config)):
        nlp.add_pipe(name, config=settings)
    examples = read_examples(data, nlp, "train")
    nlp.config["initialize"]["components"] = {factory: initialize or {}}
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(steps):
        nlp.update(examples[:50], sgd=optimizer)
    docs = []
    for eg in [*read_examples(data, nlp, "dev"), *read_examples(data, nlp, "test")]:
        doc = eg.predicted
        for name, _ in before:
            doc = nlp.get_pipe(name)(doc)
        docs.append(doc)
    pipe, directory = nlp.get_pipe(factory), data.directory / "component"

    def fresh() -> Any:
        return nlp.create_pipe(factory, name=factory, config=config)

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


def check(doc: Any) -> None:
    """Raise an ArithmeticError if a number on the document is not finite."""
    for token in doc:
        for name in ("head_prob", "dep_prob"):
            value = token._.get(name) if token.has_extension(name) else None
            if value is not None and not numpy.isfinite(value):
                raise ArithmeticError(f"{name} {value}")


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


def tokenizer(data: Data) -> list[Case]:
    """RETURNS (List[Case]): A tokenizer, from bytes and from a file."""
    from spacy_spectral.pipeline.tokenizer import SpectralTokenizer

    nlp, path = spacy.blank("en"), data.directory / "tokenizer"
    trained = SpectralTokenizer(nlp.vocab, epochs=1)
    trained.initialize(lambda: data.examples(nlp, "train"), nlp=nlp)

    def from_bytes(state: Any) -> Any:
        return SpectralTokenizer(nlp.vocab).from_bytes(state)

    def from_disk(state: Any) -> Any:
        path.write_bytes(state if isinstance(state, bytes) else repr(state).encode("utf8"))
        return SpectralTokenizer(nlp.vocab).from_disk(path)

    def use(loaded: Any) -> None:
        for text in ("She isn't here, Mr. Smith; 1.5 km.", "", " x\n\ny"):
            if loaded(text).text != text:
                raise ArithmeticError("another text")

    state = opened(trained.to_bytes())
    return [Case(state, from_bytes, use), Case(state, from_disk, use)]


def bracketed(data: Data, nlp: Language, split: str) -> list:
    """RETURNS (List[Example]): Examples with constituents."""
    from spacy_spectral.pipeline.constituents import gold_docs

    examples = []
    for doc in gold_docs(data.directory / f"sample-{split}.ptb", nlp.vocab):
        starts = [token.is_sent_start for token in doc]
        words = Doc(nlp.vocab, words=[token.text for token in doc], sent_starts=starts)
        examples.append(Example(words, doc))
    return examples


def _parser(architecture: str, **settings: Any) -> dict[str, Any]:
    return {"model": {"@architectures": f"spacy-spectral.{architecture}.v1", **settings}}


_LOGLINEAR = _parser("LogLinear", epochs=1, n_states=3)
_CNN = {
    "@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": 8, "depth": 1,
    "embed_size": 100, "window_size": 1, "maxout_pieces": 2, "subword_features": True,
}  # fmt: skip
# A new component joins by one line: what trains it and gives its cases.
COMPONENTS: dict[str, Callable[[Data], list[Case]]] = {
    "tagger": lambda data: component(
        data, "spectral_tagger", initialize={"clusters": str(data.eigenwords())},
        model={"@architectures": "spacy-spectral.LinearTagger.v1", "epochs": 1},
    ),
    "SHAG": lambda data: component(data, "spectral_parser", **_parser("SHAG", states=4, lexical="LEX+FCP")),
    "LogLinear": lambda data: component(
        data, "spectral_parser", initialize={"clusters": str(data.eigenwords())}, **_LOGLINEAR
    ),
    "Biaffine": lambda data: component(
        data, "spectral_parser", steps=2,
        **_parser("Biaffine", tok2vec=_CNN, scan_size=4, scan_depth=1, arc_size=4, label_size=4),
    ),
    "reranker": lambda data: component(
        data, "spectral_reranker", before=[("spectral_parser", _LOGLINEAR)], n=5,
        **_parser("Reranker", folds=2, states=2, max_iterations=5, parser_epochs=1),
    ),
    "eigenwords": eigenwords,
    "refined": lambda data: component(
        data, "spectral_parser", **_parser("Refined", states=12, dimensions=2, cycles=1)
    ),
    "senter": lambda data: component(data, "spectral_senter"),
    "tokenizer": tokenizer,
    "constituency": lambda data: component(
        data, "spectral_constituency", read_examples=bracketed,
        **_parser("ConstituencyProduct", states=2, epochs=1, anchored_epochs=1),
    ),
}  # fmt: skip

# ---------------------------------------------------------------- runs


class Result(NamedTuple):
    mutation: str
    outcome: str
    message: str


def attempt(case: Case, mutation: Mutation, rng: random.Random) -> tuple[str, str]:
    """RETURNS (Tuple[str, str]): What came of it, and the message of an error."""
    try:
        state = mutate(case.state, mutation, rng)
    except (ValueError, TypeError, OverflowError, IndexError, NotImplementedError):
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
    cases: Sequence[Case], *, seed: int, count: int | None, seconds: float | None
) -> list[Result]:
    """Try mutations of all cases, in an order that the seed decides.

    count (Optional[int]), seconds (Optional[float]): When to stop.
    RETURNS (List[Result]): What came of each.
    """
    todo = [(case, mutation) for case in cases for mutation in mutations(case.state)]
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
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        done = [tuple(srsly.json_loads(line)) for line in lines]
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return done, None
    name = signal.Signals(os.WTERMSIG(status)).name
    return done, "hang" if name == "SIGVTALRM" else f"crash ({name})"


def _limit() -> None:
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
    parser.add_argument(
        "--component", nargs="+", choices=list(COMPONENTS), default=list(COMPONENTS)
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    end, bad = monotonic() + 60 * options.minutes, 0
    with tempfile.TemporaryDirectory() as directory:
        for i, name in enumerate(options.component):
            cases = COMPONENTS[name](Data(Path(directory) / name))
            seconds = max(end - monotonic(), 1.0) / (len(options.component) - i)
            results = run(cases, seed=options.seed, count=options.count, seconds=seconds)
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
