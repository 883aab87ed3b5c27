"""The server behind the annotation page: what `spacy spectral annotate` runs.

Everything the page does is a request to one of a few routes; all of them are below a random token. Sentences
are kept by `session`, what was done is on disk by `journal`, and `learner` trains while somebody annotates.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy import util
from spacy.language import Language
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..base.errors import Errors, SpectralError
from ..base.text_files import decoded_blocks
from ..pipeline.words import with_words
from ..treebank.conllu import TreebankError, scan_conllu
from ..treebank.documents import CONLLU_SUFFIXES
from ..treebank.texts import read_parts, stem
from ..treebank.write import write_doc
from . import blocks
from .engine import Engine, parser_of
from .http import Limits, application, page_response, read_json
from .journal import Journal
from .learner import Learner, require_whole
from .session import Session

_LIMITS = Limits(body=1 << 16)


class Work(NamedTuple):
    """An open file with what annotates it."""

    journal: Journal
    session: Session
    learner: Learner

    def close(self) -> None:
        """Stop learning, and give the file back."""
        self.learner.stop()
        self.journal.close()


def open_work(
    source: Path,
    output: Path | None = None,
    *,
    model: str | None = None,
    lang: str = "en",
    train: Path | None = None,
    every: int = 20,
    first: int = 5,
) -> Work:
    """Open a file to be annotated.

    source: Text or CoNLL-U.
    output: The CoNLL-U file to write; by default beside the input, `NAME.annotated.conllu`.
    model: A pipeline; by default it begins with nothing.
    lang: The language of a text, if there is no pipeline.
    train: Annotated sentences to learn from beside those that are accepted.
    every: After how many accepted sentences a pipeline is trained; 0 for never.
    first: After how many the first one is trained, if there is none at the beginning.
    """
    if not source.is_file():
        raise SpectralError(Errors.S201.format(path=source))
    if output is None:
        output = source.with_name(f"{stem(source)}.annotated.conllu")
    in_place = output.exists() and output.resolve() == source.resolve()
    more = "" if train is None else _annotated(train)
    nlp = None if model is None else util.load_model(model)
    if nlp is not None:
        parser_of(nlp)
        if every and more:
            require_whole(nlp)
    journal = Journal(output)
    digest = blake2b(source.read_bytes(), digest_size=16).hexdigest()
    # a journal that is there has all sentences
    begun = journal.path.exists()
    journal.open(digest, None if begun else _blocks(source, nlp, lang), in_place=in_place)
    try:
        engine = Engine()
        if model is not None:
            engine = Engine.load(model, number=0, told=f"the given model, {Path(model).name}")
        session = Session(journal, engine)
        # without its training data, a model would forget what it knows
        learns = model is None or bool(more)
        learner = Learner(
            session,
            output.with_name(output.name + ".models"),
            lang=lang if nlp is None else nlp.lang,
            model=model,
            more=more,
            every=every if learns else 0,
            first=first,
        )
        learner.begin()
    except BaseException:
        journal.close()
        raise
    return Work(journal, session, learner)


def _annotated(path: Path) -> str:
    for item in scan_conllu(path):
        if isinstance(item, TreebankError):
            raise item
    text = "".join(decoded_blocks(path, lambda n: None))
    return text.replace("\r\n", "\n").rstrip("\n") + "\n\n"


def _blocks(source: Path, nlp: Language | None, lang: str) -> list[str]:
    """The sentences of the input."""
    if source.suffix in CONLLU_SUFFIXES:
        for item in scan_conllu(source, trees=False):
            if isinstance(item, TreebankError):
                raise item
        found = blocks.split_blocks(source.read_bytes().decode("utf8"))
    else:
        found = blocks.split_blocks(_as_conllu(source, nlp, lang))
    if not found:
        raise SpectralError(Errors.S675.format(path=source))
    return found


def _as_conllu(source: Path, nlp: Language | None, lang: str) -> str:
    """The tokens and sentences of a text, by the pipeline or by rules."""
    if nlp is None:
        nlp = spacy.blank(lang)
    before = [
        name
        for name, pipe in nlp.pipeline
        if "token.is_sent_start" in nlp.get_pipe_meta(name).assigns
        and "token.dep" not in nlp.get_pipe_meta(name).assigns
    ]
    rules = None if before else spacy.blank(lang).add_pipe("sentencizer")
    texts = []
    for part in read_parts(source):
        for item in part.sources:
            doc = nlp.make_doc(item.text) if item.text else None
            if doc is None:
                continue
            for name, pipe in nlp.pipeline:
                if name in before:
                    doc = pipe(doc)
            if rules is not None:
                doc = rules(doc)
            texts.append(write_doc(with_words(doc), name=item.name))
    return "".join(texts)


def annotation_app(work: Work, token: str) -> ASGIApp:
    """Make the application; see `http.application`.

    token: What every address begins with.
    """
    session, learner = work.session, work.learner

    async def page(request: Request) -> Response:
        return page_response(request.path_params.get("name") or "index.html")

    async def view(request: Request) -> Response:
        wanted = _parameter(request, "sentence", None)
        step = _parameter(request, "step", 0)

        def find() -> dict[str, Any]:
            own = wanted if wanted is None or not step else session.neighbour(wanted, step or 0)
            return session.view(own)

        return JSONResponse(await run_in_threadpool(find))

    async def act(request: Request) -> Response:
        what = await read_json(request)
        answer = await run_in_threadpool(session.act, what)
        if what.get("do") == "accept":
            await run_in_threadpool(learner.consider)
        return JSONResponse(answer)

    async def choices(request: Request) -> Response:
        sentence, word = (_parameter(request, name, None) for name in ("sentence", "word"))
        if sentence is None or word is None:
            raise SpectralError(Errors.S674.format(name="sentence, word"))
        return JSONResponse(await run_in_threadpool(session.choices, sentence, word))

    async def trees(request: Request) -> Response:
        sentence = _parameter(request, "sentence", None)
        if sentence is None:
            raise SpectralError(Errors.S674.format(name="sentence"))
        return JSONResponse(await run_in_threadpool(session.best_trees, sentence))

    async def search(request: Request) -> Response:
        query = request.query_params.get("q", "")[:1000]
        return JSONResponse(await run_in_threadpool(session.search, query))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(work.close)

    routes = [
        Route("/", page, methods=["GET"]),
        Route("/api/view", view, methods=["GET"]),
        Route("/api/act", act, methods=["POST"]),
        Route("/api/choices", choices, methods=["GET"]),
        Route("/api/trees", trees, methods=["GET"]),
        Route("/api/search", search, methods=["GET"]),
        Route("/{name}", page, methods=["GET"]),
    ]
    return application(routes, limits=_LIMITS, token=token, lifespan=lifespan)


def _parameter(request: Request, name: str, default: int | None) -> int | None:
    """A whole number in the address."""
    value = request.query_params.get(name)
    if value is None:
        return default
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise SpectralError(Errors.S674.format(name=name))
    return int(value)
