"""What all servers here have: limits on size and time, checks of hosts and origins, errors as JSON.

`application` makes one of routes, `listen` opens its port, `run` serves it until it is told to stop. A
request reaches a route when all of it is there: one that is too large or too slow is answered before. A
client that does not finish a request, or does not read an answer, loses the connection. No answer has a
traceback.
"""

import asyncio
import json
import logging
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from hmac import compare_digest
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..base.errors import Errors, SpectralError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_LOG = logging.getLogger(__name__)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    # drawings have styles of their own
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}
_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_ANY_PAGE = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type",
}
# What a connection may wait for: the head of a request, the next one, a client that reads its answer.
_HEAD_SECONDS, _KEEP_SECONDS, _READ_SECONDS = 10.0, 5, 30.0
_STOP_SECONDS = 10
_MOST_FIELDS = 100


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    body: int = 4 * 2**20  # bytes
    body_seconds: float = 30.0  # until the request is there
    memory: int = 256 * 2**20  # bytes of all requests that are being read or answered


def application(
    routes: Sequence[BaseRoute],
    *,
    limits: Limits | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    token: str = "",
    any_page: bool = False,
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
) -> ASGIApp:
    """Make an application of routes.

    A route refuses a request by starlette's HTTPException(status, message). A SpectralError is a bad request.
    hosts: What the server may be called in an address, so that no other page can have its name point here;
        None for any name.
    token: A secret that every path begins with; pages must use relative addresses.
    any_page: Whether pages of other servers may ask this one.
    lifespan: What is open while the application runs.
    """
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _answer_http_exception,
            SpectralError: _answer_spectral_error,
            Exception: _answer_failure,
        },
    )
    app.router.redirect_slashes = False  # it would tell an address without the token
    return Guard(app, limits or Limits(), hosts, token, any_page)


def error_response(status: int, message: str, headers: Any = None) -> Response:
    """An error as the client gets it."""
    return JSONResponse({"error": message}, status, headers)


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, error.detail, error.headers)


async def _answer_spectral_error(request: Request, error: Exception) -> Response:
    return error_response(400, str(error))


async def _answer_failure(request: Request, error: Exception) -> Response:
    return error_response(500, "The server failed; its log says more.")


class Guard:
    """An application behind checks: what comes through has the right host, origin, token, size and time."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        hosts: Collection[str] | None,
        token: str,
        any_page: bool,
    ) -> None:
        self.app = app
        self.limits = limits
        self.hosts = None if hosts is None else {host.lower() for host in hosts}
        self.prefix = f"/{token}" if token else ""
        self.headers = _HEADERS | (_ANY_PAGE if any_page else {})
        self.any_page = any_page
        self.held = 0  # bytes of requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        assert scope["type"] == "http"  # `run` knows nothing else

        async def send_safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        held: list[int] = []
        try:
            self._check(scope)
            body = await self._read(scope, receive, held)
            if self.any_page and scope["method"] == "OPTIONS":
                await Response(status_code=204)(scope, receive, send_safe)
                return
            await self.app(self._inside(scope), _replay(body, receive), send_safe)
        except HTTPException as error:
            await _refuse(scope, receive, send_safe, error)
        except ConnectionError:
            pass  # nobody waits for an answer
        except Exception:
            # the client has its answer: `_answer_failure`
            _LOG.exception("An answer failed: %s %s", scope["method"], scope["path"])
        finally:
            self.held -= sum(held)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        name, colon, port = host.rpartition(":")
        name = name if colon and port.isdigit() else host
        if len(headers.getlist("host")) != 1 or not name:
            raise HTTPException(400, "A request needs one header Host.")
        if self.hosts is not None and name not in self.hosts:
            raise HTTPException(421, "This server does not have that name.")
        if not self.any_page:
            self._check_page(scope, headers, host)
        if self.prefix:
            path = scope["path"].encode("utf8", "replace") + b"/"
            own = self.prefix.encode() + b"/"
            if not compare_digest(path[: len(own)], own):
                raise HTTPException(
                    403, "The address has no valid token: copy it from the terminal."
                )

    def _check_page(self, scope: Scope, headers: Headers, host: str) -> None:
        """Refuse what a page of another server asks."""
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            raise HTTPException(403, "Pages of other servers may not ask this one.")
        # browsers say so, too, where they send no origin; following a link is allowed
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not (
            scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        ):
            raise HTTPException(403, "Pages of other servers may not ask this one.")

    def _inside(self, scope: Scope) -> Scope:
        """The request as the application sees it: without the token."""
        if not self.prefix:
            return scope
        path = scope["path"][len(self.prefix) :] or "/"
        return {**scope, "path": path, "raw_path": path.encode("utf8", "replace")}

    async def _read(self, scope: Scope, receive: Receive, held: list[int]) -> bytes:
        """The body of a request, all of it."""
        length = Headers(scope=scope).get("content-length", "0")
        too_large = HTTPException(413, f"A request may have {self.limits.body:,} bytes.")
        if not length.isdigit() or len(length) > 18 or int(length) > self.limits.body:
            raise too_large
        body = bytearray()

        async def read() -> None:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError
                data = message.get("body", b"")
                body.extend(data)
                held.append(len(data))
                self.held += len(data)
                if len(body) > self.limits.body:
                    raise too_large
                if self.held > self.limits.memory:
                    raise HTTPException(503, "The server is busy.", {"retry-after": "5"})
                if not message.get("more_body", False):
                    return

        try:
            await asyncio.wait_for(read(), self.limits.body_seconds)
        except asyncio.TimeoutError:
            raise HTTPException(408, "The request did not arrive in time.") from None
        return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give a body that has been read to an application."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


async def _refuse(scope: Scope, receive: Receive, send: Send, error: HTTPException) -> None:
    """Answer at once, then read on for a while: a client that sends sees the answer only then."""
    headers = {"connection": "close", **(error.headers or {})}
    answer = error_response(error.status_code, error.detail, headers)
    await send(
        {"type": "http.response.start", "status": error.status_code, "headers": answer.raw_headers}
    )
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})

    async def read_on() -> None:
        more = error.status_code != 408
        while more:
            message = await receive()
            more = message["type"] == "http.request" and message.get("more_body", False)

    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(read_on(), 5.0)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def page_response(name: str) -> Response:
    """A file of the pages that servers show."""
    kind = _KINDS.get(Path(name).suffix)
    if kind is None:
        raise HTTPException(404, "There is no such page.")
    return Response(page_file(name), media_type=kind)


def page_file(name: str) -> bytes:
    """The bytes of one of these files."""
    file = resources.files(__package__).joinpath("page", name)
    if "/" in name or not file.is_file():
        raise HTTPException(404, "There is no such page.")
    return file.read_bytes()


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a request: of its query, and of its body, form-encoded or multipart (files, too)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    fields = _decoded(request.scope["query_string"])
    if kind == "multipart/form-data":
        parser = MultiPartParser(
            request.headers,
            _stream(await request.body()),
            max_files=_MOST_FIELDS,
            max_fields=_MOST_FIELDS,
            max_part_size=2**62,  # the body has a limit
        )
        try:
            form = await parser.parse()
            if not (await request.body()).rstrip().endswith(b"--"):
                raise ValueError("the end is missing")
        except (MultiPartException, ValueError, KeyError, LookupError) as error:
            raise HTTPException(400, "The multipart form can't be read.") from error
        try:
            for name, value in form.multi_items():
                fields[name] = _utf8(await value.read()) if isinstance(value, UploadFile) else value
        finally:
            await form.close()
    elif kind == "application/x-www-form-urlencoded":
        fields |= _decoded(await request.body())
    elif await request.body():
        raise HTTPException(
            415, "Send a form: application/x-www-form-urlencoded or multipart/form-data."
        )
    return fields


async def _stream(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _decoded(encoded: bytes) -> dict[str, str]:
    # curl sends letters as they are
    try:
        pairs = parse_qsl(
            _utf8(encoded), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise HTTPException(400, "The form can't be read; is it UTF-8?") from error
    return dict(pairs)


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf8")
    except UnicodeDecodeError as error:
        raise HTTPException(400, "The text is not UTF-8.") from error


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object that is the body of a request."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        text = _utf8(await request.body())
        value = json.loads(text, parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode("utf8")  # half a character can be escaped
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "The body is no JSON.") from error
    if not isinstance(value, dict):
        raise HTTPException(400, "The body is no JSON object.")
    return value


class Connection(H11Protocol):
    """A connection that waits neither for requests nor for readers without end."""

    _waiting: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self.loop.call_later(_READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.loop.call_later(_READ_SECONDS, self.transport.abort)  # what is left unread, too

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_writing()
        self._cancel_waiting()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_waiting()
        elif self._waiting is None:
            seconds = _HEAD_SECONDS + (_KEEP_SECONDS if self.cycle is not None else 0)
            self._waiting = self.loop.call_later(seconds, self.transport.abort)

    def _cancel_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _cancel_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None


def listen(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Open a port; 0 for one that is free."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.create_server((host, port), family=family, backlog=2048)
        # or the second part of an answer waits for 40 ms; connections have what their port has
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened
    except (OSError, OverflowError) as error:
        raise SpectralError(Errors.S650.format(host=host, port=port, reason=error)) from error


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Make what serves an application: `run(sockets=[...])`, until its `should_exit` is true."""
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    return uvicorn.Server(config)


def run(app: ASGIApp, opened: socket.socket) -> None:
    """Serve an application until Ctrl-C or SIGTERM; what has been asked is answered before."""
    _allow_files()
    # the client is told that a form can't be read
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    with suppress(KeyboardInterrupt):
        make_server(app).run(sockets=[opened])


def _allow_files() -> None:
    """Raise the number of open files, and so of connections, to what the system allows."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or soft < hard):
            wanted = min(hard, 65536) if hard != resource.RLIM_INFINITY else 65536
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
