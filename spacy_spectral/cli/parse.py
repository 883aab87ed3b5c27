"""`spacy spectral parse`: texts in, parsed files out."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._app import output_option, reported, spectral_cli

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from ..treebank.texts import Source, TextPart

FORMATS = {"conllu": ".conllu", "spacy": ".spacy", "brackets": ".ptb"}
# one document at a time: memory zones of a vocabulary can't be nested, and Dask's workers have threads
_parsing = Lock()
_loaded: dict[str, Any] = {}


@spectral_cli.command("parse")
def parse_cli(
    model: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Text, .jsonl, CoNLL-U (all of them perhaps .gz), bracketed trees, or directories"
        ),
    ],
    output: Annotated[
        Path | None,
        output_option("--output", "-o", help="Directory to write to; printed if there is none"),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", "-f", help="What to write: conllu, spacy or brackets")
    ] = "conllu",
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line of a text is a document of its own")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", "-j", help="Processes", min=1)] = 1,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="Address of a Dask scheduler, or 'local'")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Parse again what is parsed already")
    ] = False,
) -> None:
    """Parse texts of any size, in constant memory. A text is one document.

    A file becomes one of the same name; a large one becomes several, with numbers. What was finished when the
    command is started again is not parsed again. CoNLL-U keeps its tokens, sentences and comments, and is
    tagged and parsed anew.
    """
    from wasabi import msg

    from ..base.distribute import open_workers
    from ..base.errors import Errors
    from ..base.serialize import write_atomically
    from ._pipelines import load_pipeline

    with reported():
        if format_ not in FORMATS:
            raise ValueError(Errors.S705.format(value=format_, choices=", ".join(FORMATS)))
        if output is None and format_ == "spacy":
            raise ValueError(Errors.S610)
        jobs = find_jobs(files, output, FORMATS[format_])
        # workers may stand in other directories
        name = str(Path(model).absolute()) if Path(model).exists() else model
        nlp = _loaded[name] = load_pipeline(model)
        if output is not None:
            from .parse_record import open_record

            open_record(nlp, output, jobs, overwrite=overwrite, format=format_, lines=lines)
        total = Total()
        with (
            _bar(jobs) as bar,
            open_workers(workers=workers, scheduler=scheduler) as pool,
        ):
            parts = _parts(jobs, total, bar.update, lines=lines, skip=output is not None)
            work = partial(parse_part, name, format_=format_)
            for work_item, (data, counts) in pool.stream(work, parts):
                if output is None:
                    print(data.decode("utf8"), end="", flush=True)
                else:
                    write_atomically(work_item.target, data)
                total.add(counts)
                bar.update(work_item.size)
    if output is not None:
        msg.good(f"{total}: {output}")


@dataclass
class Job:
    """A file to be parsed, and where its parse goes: the ending is put behind the number of the part."""

    path: Path
    target: Path
    suffix: str

    def target_of(self, part: "TextPart") -> Path:
        """RETURNS (Path): Where the parse of a part goes."""
        number = "" if part.is_whole else f"-{part.number:05}"
        return self.target.with_name(f"{self.target.name}{number}{self.suffix}")


@dataclass
class WorkItem:
    """A part of a file on its way to a worker."""

    path: str
    target: Path
    part: "TextPart"

    @property
    def size(self) -> int:
        return self.part.size


@dataclass
class Total:
    """What was parsed."""

    docs: int = 0
    sents: int = 0
    words: int = 0
    finished: int = 0

    def add(self, counts: tuple[int, int, int]) -> None:
        """counts (Tuple[int, int, int]): Documents, sentences and words more."""
        self.docs += counts[0]
        self.sents += counts[1]
        self.words += counts[2]

    def __str__(self) -> str:
        numbers = (self.words, "word"), (self.sents, "sentence"), (self.docs, "document")
        words, sents, docs = (f"{n:,} {noun}{'s' * (n != 1)}" for n, noun in numbers)
        before = f"; {self.finished:,} finished before" if self.finished else ""
        return f"Parsed {words} in {sents} of {docs}{before}"


def find_jobs(files: Iterable[Path], output: Path | None, suffix: str) -> list[Job]:
    """Find what is to be parsed.

    files (Iterable[Path]): Files, and directories that are searched with their subdirectories.
    output (Optional[Path]): The directory to write to; None if nothing is written.
    suffix (str): How the names of parsed files end.
    RETURNS (List[Job]): The files, and what they become.
    """
    from ..base.errors import Errors
    from ..treebank.texts import stem

    jobs = []
    directory = output or Path()
    for given in files:
        if given.is_dir():
            found = sorted(path for path in given.rglob("*") if _is_text(path.relative_to(given)))
            found = [path for path in found if path.is_file()]
            if not found:
                raise ValueError(Errors.S611.format(path=given))
            jobs += [
                Job(p, directory / p.relative_to(given).parent / stem(p), suffix) for p in found
            ]
        elif given.is_file():
            jobs.append(Job(given, directory / stem(given), suffix))
        else:
            raise ValueError(Errors.S201.format(path=given))
    if output is None:
        return jobs
    sources = {job.path.resolve() for job in jobs}
    taken: dict[Path, Path] = {}
    for job in jobs:
        whole = job.target.with_name(job.target.name + suffix)
        if whole.resolve() in sources:
            raise ValueError(Errors.S612.format(path=job.path))
        if whole in taken:
            raise ValueError(Errors.S613.format(one=taken[whole], other=job.path, target=whole))
        taken[whole] = job.path
    return jobs


def _is_text(path: Path) -> bool:
    return not any(part.startswith(".") for part in path.parts)


def _parts(
    jobs: Iterable[Job], total: Total, report: Callable[[int], Any], *, lines: bool, skip: bool
) -> Iterator[WorkItem]:
    """The parts of files that are not finished."""
    from ..treebank.texts import read_parts

    for job in jobs:
        for part in read_parts(job.path, lines=lines):
            target = job.target_of(part)
            if skip and target.exists():
                total.finished += 1
                report(part.size)
            else:
                yield WorkItem(str(job.path), target, part)


def parse_part(model: str, item: WorkItem, *, format_: str) -> tuple[bytes, tuple[int, int, int]]:
    """Parse some documents of a file; workers do this.

    model (str): The pipeline.
    item (WorkItem): The documents.
    format_ (str): One of `FORMATS`.
    RETURNS (Tuple[bytes, Tuple[int, int, int]]): The parsed file, and how many documents, sentences and words
        it has.
    """
    from ..base.errors import Errors

    nlp = _pipeline(model)
    sources = item.part.sources
    try:
        with _parsing, nlp.memory_zone():
            return _written(list(_parsed(nlp, sources)), sources, format_, model)
    except ValueError as error:
        if not sources:
            raise
        reason = Errors.S614.format(
            path=item.path, first=sources[0].name, last=sources[-1].name, reason=error
        )
        raise ValueError(reason) from error


def _pipeline(model: str) -> "Language":
    """The pipeline, loaded once in each process."""
    from spacy.util import load_model

    with _parsing:
        if model not in _loaded:
            _loaded[model] = load_model(model)
        return _loaded[model]


def _parsed(nlp: "Language", sources: list["Source"]) -> Iterator["Doc"]:
    from ._pipelines import superseded

    given = any(source.sentences for source in sources)
    names = superseded(nlp, gold_tags=False) if given else []
    with nlp.select_pipes(disable=names) if names else nullcontext():
        yield from nlp.pipe(_doc(nlp, source) for source in sources)


def _doc(nlp: "Language", source: "Source") -> "Doc":
    from spacy.tokens import Doc

    from ..readers import copy_words
    from ..treebank.documents import MULTIWORD, sentences_to_doc
    from ..treebank.multiword import as_tokens

    if source.tokens:
        return Doc(nlp.vocab, words=source.tokens)
    if not source.sentences:
        return nlp.make_doc(source.text)
    gold = sentences_to_doc([as_tokens(s) for s in source.sentences], nlp.vocab)
    doc = copy_words(gold, ["sents"])
    if MULTIWORD in gold.spans:
        doc.spans[MULTIWORD] = [doc[span.start : span.end] for span in gold.spans[MULTIWORD]]
    return doc


def _written(
    docs: list["Doc"], sources: list["Source"], format_: str, model: str
) -> tuple[bytes, tuple[int, int, int]]:
    from spacy.tokens import DocBin

    from ..treebank.write import write_doc

    sents = [s for doc in docs for s in (doc.sents if doc.has_annotation("SENT_START") else [doc])]
    words = [sum(not word.is_space for word in sent) for sent in sents]
    counts = len(docs), sum(n > 0 for n in words), sum(words)
    if format_ == "spacy":
        return DocBin(docs=docs, store_user_data=True).to_bytes(), counts
    if format_ == "brackets":
        return _brackets(docs, model).encode(), counts
    texts = []
    for doc, source in zip(docs, sources, strict=True):
        comments = [sentence.comments for sentence in source.sentences]
        texts.append(write_doc(doc, name=source.name, comments=comments if any(comments) else ()))
    return "".join(texts).encode("utf8", errors="replace"), counts


def _brackets(docs: list["Doc"], model: str) -> str:
    from ..base.errors import Errors
    from ..pipeline.constituents import stored_trees, to_tree
    from ..treebank.brackets import write_tree

    lines = []
    for doc in docs:
        for tree in stored_trees(doc):
            found = to_tree(tree.parsed, [doc[i].text for i in tree.tokens], root=True)
            if found is not None:
                lines.append(f"{write_tree(found)}\n")
    if not lines and any(not word.is_space for doc in docs for word in doc):
        raise ValueError(Errors.S708.format(model=model))
    return "".join(lines)


def _bar(jobs: list[Job]) -> Any:
    from tqdm import tqdm

    total = sum(job.path.stat().st_size for job in jobs)
    return tqdm(
        total=total, desc="Parsing", unit="B", unit_scale=True, disable=not sys.stderr.isatty()
    )
