"""Pipelines behind HTTP: what `spacy spectral serve` runs.

    /               a page on which a visitor parses a sentence
    /parse          JSON in, JSON out: trees, probabilities, the n best, constituents
    /models, /process              the protocol of UDPipe's web service, see `udpipe`
    /{id}/predict, /{id}/train     INCEpTION's external recommenders, see `inception`
    /health, /openapi.json

Requests are parsed by a few threads; what one may cost is limited. Nothing that was sent is kept.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from math import exp, isfinite
from typing import Any

from spacy.tokens import Doc
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..base.errors import Errors, SpectralError
from ..pipeline.annotations import parse_confidence, parse_logprob
from ..pipeline.constituents import stored_trees, to_tree
from ..pipeline.table import to_table
from ..pipeline.words import end_char, keep_offsets, start_char, with_words
from ..treebank.brackets import write_tree
from ..viz.arcs import STYLE, arcs_html
from ..viz.constituents import tree_svg
from ..viz.markup import html_page
from ..viz.parses import tree_words
from . import blocks, inception, udpipe
from .http import LOOPBACK, Limits, application, page_file, page_response, read_form, read_json
from .models import PARSER, TAGGER, Model, Models

_MOST_NBEST, _MOST_WAITING = 50, 128
_MOST_DRAWN = 300  # words of a sentence; a drawing takes the square of its length
_LIMITS = Limits(body=16 * 2**20)
_FILES = {"parse.js": "parse.js", "favicon.ico": "icon.svg"}
_FIELDS = {
    "text": str,
    "sentences": list,
    "model": str,
    "nbest": int,
    "labelled": bool,
    "draw": bool,
}


@dataclass(frozen=True)
class Bounds:
    """What a request may cost."""

    characters: int = 100_000
    seconds: float = 60.0


class Workers:
    """The threads that parse."""

    def __init__(self, threads: int, bounds: Bounds) -> None:
        self.bounds = bounds
        self._most = threads + _MOST_WAITING
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="parse")
        self._asked = 0

    async def run(self, model: Model, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of a model in a thread. A thread that takes too long is not waited for, but has
        its place until it ends."""
        if self._asked >= self._most:
            raise HTTPException(503, Errors.S687, {"retry-after": "5"})

        def call() -> Any:
            with model.working():
                return function(model, *arguments)

        self._asked += 1
        future = self._pool.submit(call)
        loop = asyncio.get_running_loop()

        def end(_: object) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(self._end)

        future.add_done_callback(end)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.bounds.seconds)
        except asyncio.TimeoutError:
            message = Errors.S686.format(seconds=self.bounds.seconds)
            raise HTTPException(503, message, {"retry-after": "5"}) from None

    def _end(self) -> None:
        self._asked -= 1

    def close(self) -> None:
        """Begin nothing any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def require_short(self, text: str) -> None:
        """Refuse a text that is too long."""
        if len(text) > self.bounds.characters:
            message = Errors.S680.format(most=self.bounds.characters, found=len(text))
            raise HTTPException(413, message)


def service_app(
    models: Models, *, threads: int = 1, public: bool = False, bounds: Bounds | None = None
) -> ASGIApp:
    """Make the application; see `http.application`.

    threads: How many requests are parsed at the same time.
    public: Whether it may have any name, and pages of other servers may ask it.
    """
    workers = Workers(threads, bounds or Bounds())

    async def process(request: Request) -> Response:
        fields = await read_form(request)
        model = models.find(fields.get("model", ""))
        workers.require_short(fields.get("data", ""))
        return JSONResponse(await workers.run(model, udpipe.process, fields))

    async def list_models(request: Request) -> Response:
        found = {name: model.abilities for name, model in models.by_name.items()}
        return JSONResponse({"models": found, "default_model": models.default.name})

    async def parse(request: Request) -> Response:
        asked = _asked(await read_json(request))
        model = models.find(asked.get("model", ""))
        workers.require_short(
            asked.get("text", " ".join(map(" ".join, asked.get("sentences", ()))))
        )
        return JSONResponse(await workers.run(model, answer, asked))

    async def predict(request: Request) -> Response:
        model = models.find(request.path_params["id"])
        asked = await read_json(request)
        return JSONResponse(await workers.run(model, inception.predict, asked))

    async def train(request: Request) -> Response:
        models.find(request.path_params["id"])
        raise HTTPException(405, Errors.S685)

    async def health(request: Request) -> Response:
        return JSONResponse(
            {"status": "ok", "version": version("spacy-spectral"), "models": list(models.by_name)}
        )

    async def describe(request: Request) -> Response:
        return JSONResponse(description())

    async def page(request: Request) -> Response:
        name = request.path_params.get("name")
        if name:
            return page_response(_FILES.get(name, ""))
        return HTMLResponse(page_html())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        workers.close()

    routes = [
        Route("/", page, methods=["GET"]),
        Route("/models", list_models, methods=["GET"]),
        Route("/process", process, methods=["GET", "POST"]),
        Route("/parse", parse, methods=["POST"]),
        Route("/health", health, methods=["GET"]),
        Route("/openapi.json", describe, methods=["GET"]),
        Route("/{id}/predict", predict, methods=["POST"]),
        Route("/{id}/train", train, methods=["POST"]),
        Route("/{name}", page, methods=["GET"]),
    ]
    return application(
        routes,
        limits=_LIMITS,
        hosts=None if public else LOOPBACK,
        any_page=public,
        lifespan=lifespan,
    )


def description() -> dict[str, Any]:
    """The interface, as OpenAPI describes it."""
    found = json.loads(page_file("openapi.json"))
    return found | {"info": found["info"] | {"version": version("spacy-spectral")}}


def _asked(request: dict[str, Any]) -> dict[str, Any]:
    """What /parse is asked, checked."""
    for name, value in request.items():
        if name not in _FIELDS:
            told = f"'{name[:100]}'"
            raise SpectralError(
                Errors.S678.format(name="a field", value=told, allowed=", ".join(_FIELDS))
            )
        kind = _FIELDS[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            told = {str: "text", list: "a list", int: "a whole number", bool: "true, false"}[kind]
            raise SpectralError(Errors.S678.format(name=name, value=_short(value), allowed=told))
    if ("text" in request) == ("sentences" in request):
        raise SpectralError(Errors.S679.format(name="text' or 'sentences"))
    for words in request.get("sentences", ()):
        if not isinstance(words, list) or not all(isinstance(w, str) and w.strip() for w in words):
            told = "lists of words"
            raise SpectralError(
                Errors.S678.format(name="sentences", value=_short(words), allowed=told)
            )
    n = request.get("nbest", 0)
    if not 0 <= n <= _MOST_NBEST:
        told = f"0 to {_MOST_NBEST}"
        raise SpectralError(Errors.S678.format(name="nbest", value=_short(n), allowed=told))
    return request


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:100]


def answer(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The parse of a text, or of words, with probabilities."""
    if "text" in asked:
        doc = model.nlp(asked["text"])
    else:
        found = udpipe.words_to_blocks(asked["sentences"])
        sentences = [blocks.read_block(block)[0] for block in found]
        doc = model.run(udpipe.bare_doc(model, sentences, keep_tags=False), [TAGGER, PARSER])
    words = with_words(doc)
    if words is not doc:
        keep_offsets(words)
    rows = to_table(words)
    n_best: list[Any] = []
    if asked.get("nbest") and model.parser is not None and rows:
        n_best = model.parser.nbest(words, asked["nbest"], labelled=asked.get("labelled", False))
    shown = [token for token in words if not token.is_space]
    by_sentence: dict[int, list[dict[str, Any]]] = {}
    for row, token in zip(rows, shown, strict=True):
        row |= {"start": start_char(token), "end": end_char(token)}
        by_sentence.setdefault(row.pop("sent"), []).append(row)

    def draws(sentence: list[Any]) -> bool:
        return asked.get("draw", False) and len(sentence) <= _MOST_DRAWN

    spans = list(words.sents) if words.has_annotation("SENT_START") else [words[:]]
    result = []
    for place, (number, own) in enumerate(by_sentence.items()):
        span = spans[number - 1]
        sentence = {
            "text": doc.text[own[0]["start"] : own[-1]["end"]],
            "tokens": own,
            "confidence": parse_confidence(span),
            "logprob": _number(parse_logprob(span)),
        }
        if n_best:
            ids = {token.i: i for i, token in enumerate((t for t in span if not t.is_space), 1)}
            sentence["nbest"] = [_ranked(parse, ids) for parse in n_best[place]]
        sentence["constituents"] = [
            _tree(words, tree, draw=draws(own))
            for tree in stored_trees(words)
            if span.start <= tree.tokens[0] and tree.tokens[-1] < span.end
        ]
        if draws(own):
            sentence["drawing"] = arcs_html(tree_words(span))
        result.append(sentence)
    return {
        "model": model.name,
        "text": doc.text,
        "confidence": parse_confidence(words),
        "sentences": result,
    }


def _ranked(parse: Any, ids: Mapping[int, int]) -> dict[str, Any]:
    heads = [
        0 if head == token else ids[head] for token, head in zip(ids, parse.heads, strict=True)
    ]
    log_prob = _number(parse.logprob)
    return {
        "logprob": log_prob,
        "prob": None if log_prob is None else min(exp(log_prob), 1.0),
        "heads": heads,
        "deps": parse.deps,
    }


def _tree(doc: Doc, tree: Any, *, draw: bool) -> dict[str, Any]:
    """Constituents of a sentence; places count words from 1."""
    words = [doc[i].text for i in tree.tokens]
    top = to_tree(tree.parsed, words)
    nodes = [
        {"label": node.label, "first": node.begin + 1, "last": node.end, "prob": _number(node.prob)}
        for node in tree.parsed.nodes
    ]
    found = {
        "brackets": write_tree(top) if top is not None else None,
        "logprob": _number(tree.parsed.log_prob),
        "nodes": nodes,
    }
    return found | ({"drawing": tree_svg(tree.parsed, words)} if draw else {})


def _number(value: float | None) -> float | None:
    """JSON has no infinities."""
    return value if value is not None and isfinite(value) else None


def page_html() -> str:
    """The page of the server."""
    body, style = (page_file(f"parse.{kind}").decode("utf8") for kind in ("html", "css"))
    return html_page("Parse", [body], style=STYLE + style)
