"""`spacy spectral parse`: texts in, parsed files out."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy
import srsly
import typer
from spacy.attrs import DEP, HEAD
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.util import load_model
from tqdm import tqdm
from wasabi import msg

from ..base.errors import Errors, SpectralError, require_choice
from ..base.text_files import STDIN, is_stream
from ._app import Pipeline, known_tags, load_pipeline, output_option, reported, spectral_cli

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..treebank.texts import Source, TextPart
    from .parse_record import Record

FORMATS = {
    "conllu": ".conllu",
    "spacy": ".spacy",
    "brackets": ".ptb",
    "penn": ".mrg",
    "json": ".jsonl",
    "table": ".tsv",
}
# Formats that arcs can be left out of.
_PARTIAL = ("conllu", "json", "table")
# one document at a time: memory zones of a vocabulary can't be nested, and Dask's workers have threads
_parsing = Lock()


@spectral_cli.command("parse")
def parse_cli(
    model: Pipeline,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Text, .jsonl, CoNLL-U, bracketed trees (.gz, too), directories; - is standard input"
        ),
    ],
    output: Annotated[
        Path | None,
        output_option(
            "--output", "-o", help="Directory to write to; printed if there is none", first=None
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", "-f", help=f"What to write: {', '.join(FORMATS)}")
    ] = "conllu",
    probs: Annotated[
        bool,
        typer.Option("--probs", help="With probabilities of arcs and the likeliest other arcs"),
    ] = False,
    min_prob: Annotated[
        float,
        typer.Option("--min-prob", help="Leave out arcs that are less likely", min=0.0, max=1.0),
    ] = 0.0,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep tags, lemmas and arcs of CoNLL-U, add what is missing"),
    ] = False,
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
    tagged and parsed anew; with --keep it keeps all annotation that it has, and gets what is missing.

    brackets and penn write constituents, a tree a line; penn has the words of the Penn Treebank (-LRB-).
    json writes a document a line, table a word a line, both with the probabilities that the pipeline stores.
    """
    with reported(), interruptible(output is not None, overwrite):
        require_choice(Errors.S705, format_, FORMATS)
        if output is None and format_ == "spacy":
            raise SpectralError(Errors.S610)
        if min_prob and format_ not in _PARTIAL:
            raise SpectralError(Errors.S623.format(format=format_))
        way = Way(format_, probs=probs, min_prob=min_prob, keep=keep)
        total = parse_files(
            model,
            files,
            output,
            way,
            lines=lines,
            workers=workers,
            scheduler=scheduler,
            overwrite=overwrite,
        )
    if output is not None:
        msg.good(f"{total}: {output}")


def parse_files(
    model: str,
    files: Iterable[Path],
    output: Path | None,
    way: "Way",
    *,
    lines: bool = False,
    workers: int = 1,
    scheduler: str | None = None,
    overwrite: bool = False,
) -> "Total":
    """Parse files into a directory, or print what is found. What is there already is not parsed again."""
    from ..base.distribute import open_workers
    from .parse_record import Record, fingerprint

    record = Record(output) if output is not None else None
    jobs = find_jobs(files, record, FORMATS[way.format])
    _require_apart(jobs, lines)
    # workers may stand in other directories
    name = str(Path(model).absolute()) if Path(model).exists() else model
    nlp = load_pipeline(name, load=partial(pipeline_for, way=way))
    if way.format == "conllu" and _has_constituents_only(nlp):
        raise SpectralError(Errors.S620.format(model=model))
    if record is not None:
        known = {"pipeline": fingerprint(nlp), "format": way.format, "lines": lines}
        # what is as it always was is not told, for records of earlier versions
        record.begin(jobs, known | way.changed(), overwrite=overwrite)
    total = Total()
    with (
        _bar(jobs) as bar,
        open_workers(workers=workers, scheduler=scheduler) as pool,
    ):
        parts = _parts(jobs, record, total, bar.update, lines=lines)
        work = partial(parse_part, name, way=way)
        for work_item, (data, counts) in pool.stream(work, parts):
            if record is None:
                text = data.decode("utf8")
                if total.docs and way.format == "table":
                    text = text.partition("\n")[2]  # one header is enough
                print(text, end="", flush=True)
            elif not work_item.job.has_changed():
                record.write(work_item, data)
            total.add(counts)
            bar.update(work_item.size)
    if changed := [str(job.path) for job in jobs if job.has_changed()]:
        raise SpectralError(Errors.S621.format(paths=", ".join(changed)))
    return total


class Way(NamedTuple):
    """How texts are parsed and written."""

    format: str
    probs: bool = False
    min_prob: float = 0.0
    keep: bool = False

    def changed(self) -> dict[str, Any]:
        """The settings that are not the default."""
        return {k: v for k, v in self._asdict().items() if k != "format" and v}

    def overrides(self, nlp: Language) -> dict[str, Any]:
        """The settings of components that this takes."""
        from ..pipeline.parser import SpectralParser, store_with_alternatives

        found = store_with_alternatives(nlp) if self.probs else {}
        for name, pipe in nlp.components:
            settings = nlp.get_pipe_config(name)
            if self.keep and isinstance(pipe, SpectralParser):
                found[f"components.{name}.constrain"] = True
            if self.keep and "overwrite" in settings:
                found[f"components.{name}.overwrite"] = False
        return found


@dataclass
class Job:
    """A file to be parsed, and where its parse goes: the ending is put behind the number of the part."""

    path: Path
    target: Path
    suffix: str
    state: tuple[int, ...] | None = None

    @property
    def source(self) -> str:
        """Where the text is."""
        return STDIN if str(self.path) == STDIN else str(self.path.resolve())

    def find_state(self) -> tuple[int, ...] | None:
        """What changes when the file does; None for streams."""
        if is_stream(self.path):
            return None
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_size, status.st_mtime_ns, status.st_ino

    def has_changed(self) -> bool:
        """Whether the file is another than the one that was opened."""
        return self.state is not None and self.state != self.find_state()

    @property
    def whole(self) -> Path:
        """Where the parse goes if it is one file."""
        return self.target.with_name(self.target.name + self.suffix)

    def target_of(self, part: "TextPart") -> Path:
        """Where the parse of a part goes."""
        number = "" if part.is_whole else f"-{part.number:05}"
        return self.target.with_name(f"{self.target.name}{number}{self.suffix}")


@dataclass
class WorkItem:
    """A part of a file on its way to a worker."""

    job: Job
    target: Path
    part: "TextPart"

    @cached_property
    def digest(self) -> str:
        """What tells its texts from others."""
        from .parse_record import digest

        return digest(repr(self.part.sources).encode("utf8", "surrogatepass"))

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
        self.docs += counts[0]
        self.sents += counts[1]
        self.words += counts[2]

    def __str__(self) -> str:
        numbers = (self.words, "word"), (self.sents, "sentence"), (self.docs, "document")
        words, sents, docs = (f"{n:,} {noun}{'s' * (n != 1)}" for n, noun in numbers)
        before = f"; {self.finished:,} finished before" if self.finished else ""
        return f"Parsed {words} in {sents} of {docs}{before}"


def find_jobs(files: Iterable[Path], record: "Record | None", suffix: str) -> list[Job]:
    """Find what is to be parsed; what was written to the directory of the record is not."""
    from ..treebank.texts import stem

    jobs = []
    directory = record.directory if record is not None else Path()
    for given in files:
        if given.is_dir():
            found = sorted(path for path in given.rglob("*") if _is_text(path.relative_to(given)))
            # the record is read after the search: a file is recorded before it is written
            made, base = record.made() if record is not None else set(), given.resolve()
            found = [p for p in found if p.is_file() and base / p.relative_to(given) not in made]
            if not found:
                raise SpectralError(Errors.S611.format(path=given))
            jobs += [
                Job(p, directory / p.relative_to(given).parent / stem(p), suffix) for p in found
            ]
        elif given.is_file() or is_stream(given):
            jobs.append(Job(given, directory / stem(given), suffix))
        else:
            raise SpectralError(Errors.S201.format(path=given))
    if record is None:
        return jobs
    sources = {job.path.resolve() for job in jobs}
    taken: dict[Path, Path] = {}
    for job in jobs:
        if job.whole.resolve() in sources:
            raise SpectralError(Errors.S612.format(path=job.path))
        if job.whole in taken:
            raise SpectralError(
                Errors.S613.format(one=taken[job.whole], other=job.path, target=job.whole)
            )
        taken[job.whole] = job.path
    return jobs


def _is_text(path: Path) -> bool:
    return not any(part.startswith(".") for part in path.parts)


def _require_apart(jobs: Iterable[Job], lines: bool) -> None:
    """Find out whether a numbered part would have the name of another text's parse."""
    from ..treebank.texts import read_parts

    by_target = {job.target: job for job in jobs}
    for job in by_target.values():
        name, dash, number = job.target.name.rpartition("-")
        large = by_target.get(job.target.with_name(name)) if name and dash else None
        if large is None or not re.fullmatch("[0-9]{5,}", number) or is_stream(large.path):
            continue
        for part in islice(read_parts(large.path, lines=lines), int(number)):
            if (target := large.target_of(part)) == job.whole:
                raise SpectralError(
                    Errors.S613.format(one=large.path, other=job.path, target=target)
                )


def _parts(
    jobs: Iterable[Job],
    record: "Record | None",
    total: Total,
    report: Callable[[int], Any],
    *,
    lines: bool,
) -> Iterator[WorkItem]:
    """The parts of files that are not finished."""
    from ..treebank.texts import read_parts

    for job in jobs:
        job.state = job.find_state()
        targets: set[Path] = set()
        for part in read_parts(job.path, lines=lines):
            item = WorkItem(job, job.target_of(part), part)
            if record is not None:
                if not targets:
                    parts = record.files_of(job) - {job.whole}
                    record.keep_only(job, {job.whole} if part.is_whole else parts)
                targets.add(item.target)
                if record.is_finished(item):
                    total.finished += 1
                    report(part.size)
                    continue
            yield item
        if record is not None:
            record.keep_only(job, targets)


def _has_constituents_only(nlp: Language) -> bool:
    """Whether a pipeline has trees, and nothing that there are columns for in CoNLL-U."""
    from ..pipeline.constituency import SpectralConstituency

    columns = {f"token.{name}" for name in ("lemma", "pos", "tag", "morph", "head", "dep")}
    has_trees = False
    for name, pipe in nlp.pipeline:
        assigned = nlp.get_pipe_meta(name).assigns
        if isinstance(pipe, SpectralConstituency):
            has_trees = True
            if pipe.set_tags:
                return False
        # a component that does not say what it assigns may assign anything
        elif not assigned or columns & set(assigned):
            return False
    return has_trees


@contextmanager
def interruptible(writes: bool, overwrite: bool) -> Iterator[None]:
    """Say how to go on after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        if writes:
            how = "without --overwrite " if overwrite else ""
            msg.warn(f"Stopped. The same command {how}goes on where it stopped.")
        raise typer.Exit(130) from None


def parse_part(model: str, item: WorkItem, *, way: Way) -> tuple[bytes, tuple[int, int, int]]:
    """Parse some documents of a file; workers do this. Gives the parsed file, and how many documents,
    sentences and words it has."""
    from ..pipeline.table import leave_out_unlikely
    from ..pipeline.words import with_words

    with _parsing:
        nlp = pipeline_for(model, way=way)
    sources = sources_for(nlp, item.part.sources)
    try:
        with _parsing, nlp.memory_zone():
            docs = list(parsed_docs(nlp, sources, keep=way.keep))
            if way.format == "conllu":
                docs = list(map(with_words, docs))
            if way.min_prob:
                for doc in docs:
                    leave_out_unlikely(doc, way.min_prob)
            return _written(docs, sources, way, model)
    except ValueError as error:
        if not sources:
            raise
        reason = Errors.S614.format(
            path=item.job.path, first=sources[0].name, last=sources[-1].name, reason=error
        )
        raise SpectralError(reason) from error


@lru_cache(maxsize=1)
def pipeline_for(model: str, way: Way) -> Language:
    """The pipeline, loaded once in each process."""
    nlp = load_model(model)
    overrides = way.overrides(nlp)
    return load_model(model, config=overrides) if overrides else nlp


def sources_for(nlp: Language, sources: list["Source"]) -> list["Source"]:
    """What is to be parsed, its sentences in words or, if the pipeline has learnt tokens, in tokens."""
    from ..pipeline.tokenizer import has_words
    from ..treebank.conllu import as_tokens

    if has_words(nlp):
        return sources
    own = ([as_tokens(sentence) for sentence in source.sentences] for source in sources)
    return [replace(source, sentences=s) for source, s in zip(sources, own, strict=True)]


def parsed_docs(nlp: Language, sources: list["Source"], *, keep: bool) -> Iterator[Doc]:
    """The documents of a file, parsed; `keep`: what is annotated already stays."""
    from ..pipeline.component import SecondStage
    from ..readers import superseded

    given = any(source.sentences for source in sources)
    names = superseded(nlp, gold_tags=False) if given else []
    if given and keep:
        # a second stage does not know of given heads
        names += [name for name, pipe in nlp.pipeline if isinstance(pipe, SecondStage)]
    known = known_tags(nlp) if keep else set()
    docs = (_doc(nlp, source, keep=known if keep else None) for source in sources)
    with nlp.select_pipes(disable=names) if names else nullcontext():
        if keep:
            for doc, arcs in nlp.pipe(((doc, _arcs(doc)) for doc in docs), as_tuples=True):
                _keep_arcs(doc, arcs)
                yield doc
        else:
            yield from nlp.pipe(docs)


def _doc(nlp: Language, source: "Source", *, keep: set[str] | None) -> Doc:
    """What the pipeline gets; if annotation is kept, the tags that it knows are told."""
    from ..pipeline.tagger import SpectralTagger
    from ..pipeline.tokenizer import EXPAND, has_words
    from ..pipeline.words import keep_offsets, merged
    from ..readers import copy_words
    from ..treebank.documents import sentences_to_doc

    if source.tokens:
        return Doc(nlp.vocab, words=source.tokens)
    if not source.sentences:
        return nlp.make_doc(source.text)
    gold = sentences_to_doc(source.sentences, nlp.vocab)
    if keep is None:
        doc = copy_words(gold, ["sents"])
        if has_words(nlp) and nlp.tokenizer.multiword != EXPAND:
            return merged(doc)
    else:
        doc = gold
        chooses = any(isinstance(pipe, SpectralTagger) for _, pipe in nlp.pipeline)
        tags = (tag for sentence in source.sentences for tag in sentence.xpos)
        # where there are features, words with a part of speech and without features have none
        is_whole = any(token.pos and token.morph for token in doc)
        for token in doc:
            # a part of speech stands for a tag that is not given; but not if tags are something else, or
            # the tagger chooses one that fits
            is_given = token.is_space or bool(next(tags))
            if not is_given and (chooses or token.tag_ not in keep):
                token.tag = 0
            if not token.morph and not (is_whole and token.pos and is_given):
                token.set_morph(None)
    if has_words(nlp):
        keep_offsets(doc)
    return doc


def _arcs(doc: Doc) -> "NDArray":
    """Heads, as how far away they are, and labels; the label is 0 if there is none."""
    return doc.to_array([HEAD, DEP]).reshape(-1, 2)


def _keep_arcs(doc: Doc, given: "NDArray") -> None:
    """Put given arcs back, with their labels. Where they cross, the parser can't look at them; its own arcs
    are left out then, unless all together are a tree."""
    from ..treebank.conllu import tree_problems
    from ..treebank.documents import set_sentence_starts

    is_given = given[:, 1] != 0
    arcs = numpy.where(is_given[:, None], given, _arcs(doc))
    if not is_given.any() or (arcs == _arcs(doc)).all():
        return
    starts = [1 if token.is_sent_start else -1 for token in doc]
    heads = numpy.arange(len(doc)) + arcs[:, 0].astype("int64")
    for sent in list(doc.sents):
        if tree_problems((heads[sent.start : sent.end] - sent.start).tolist()):
            arcs[[token.i for token in sent if not is_given[token.i]]] = 0
    doc.from_array([HEAD, DEP], arcs)
    set_sentence_starts(doc, numpy.array(starts))


def _written(
    docs: list[Doc], sources: list["Source"], way: Way, model: str
) -> tuple[bytes, tuple[int, int, int]]:

    from ..pipeline.table import arc_probs, to_json, write_rows
    from ..treebank.write import write_doc

    sents = [s for doc in docs for s in (doc.sents if doc.has_annotation("SENT_START") else [doc])]
    words = [sum(not word.is_space for word in sent) for sent in sents]
    counts = len(docs), sum(n > 0 for n in words), sum(words)
    if way.format == "spacy":
        return DocBin(docs=docs, store_user_data=True).to_bytes(), counts
    if way.format in ("brackets", "penn"):
        return _brackets(docs, model, penn=way.format == "penn").encode(), counts
    texts = []
    for doc, source in zip(docs, sources, strict=True):
        if way.format == "json":
            texts.append(srsly.json_dumps(to_json(doc, name=source.name)) + "\n")
        elif way.format == "table":
            texts.append(write_rows(doc, name=source.name))
        else:
            misc = arc_probs(doc) if way.probs else None
            own = source.sentences
            texts.append(write_doc(doc, name=source.name, given=own, enhanced=way.keep, misc=misc))
    if way.format == "table":
        texts.insert(0, write_rows(None))
    return "".join(texts).encode("utf8", errors="replace"), counts


def _brackets(docs: list[Doc], model: str, *, penn: bool) -> str:
    from ..pipeline.constituents import stored_trees, to_tree
    from ..treebank.brackets import write_tree

    lines = []
    for doc in docs:
        for tree in stored_trees(doc):
            found = to_tree(tree.parsed, [doc[i].text for i in tree.tokens], root=True)
            if found is not None:
                lines.append(f"{write_tree(found, penn=penn)}\n")
    if not lines and any(not word.is_space for doc in docs for word in doc):
        raise SpectralError(Errors.S708.format(model=model))
    return "".join(lines)


def _bar(jobs: list[Job]) -> Any:

    total = sum(state[0] for job in jobs if (state := job.find_state()))
    return tqdm(
        total=total, desc="Parsing", unit="B", unit_scale=True, disable=not sys.stderr.isatty()
    )
