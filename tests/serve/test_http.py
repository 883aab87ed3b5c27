"""What all servers have: limits, checks, errors."""

import socket
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")
from starlette.responses import JSONResponse
from starlette.routing import Route

import spacy_spectral.serve
import spacy_spectral.serve.http as http
from servers import ask, running, talk
from spacy_spectral.base.errors import SpectralError
from spacy_spectral.serve.http import Limits, application, listen, read_form, read_json

FORM = {"content-type": "application/x-www-form-urlencoded"}
PARTS = {"content-type": "multipart/form-data; boundary=X"}


async def form(request):
    return JSONResponse(await read_form(request))


async def values(request):
    return JSONResponse(await read_json(request))


async def fail(request):
    raise RuntimeError("a secret")


async def complain(request):
    raise SpectralError("[S001] What is wrong.")


ROUTES = [
    Route("/form", form, methods=["GET", "POST"]),
    Route("/json", values, methods=["POST"]),
    Route("/fail", fail),
    Route("/complain", complain),
]
OPEN = []


@asynccontextmanager
async def lifespan(app):
    OPEN.append(True)
    yield
    OPEN.clear()


@pytest.fixture(scope="module")
def port():
    limits = Limits(body=1000, body_seconds=0.5)
    with running(application(ROUTES, limits=limits, lifespan=lifespan)) as found:
        assert OPEN
        yield found
    assert not OPEN  # closed when the server stops


@pytest.mark.parametrize(
    "body, headers, expected",
    [
        ("data=P%C5%99&x=1+2", FORM, {"data": "Př", "x": "1 2"}),
        ("data=Příliš&x=".encode(), FORM, {"data": "Příliš", "x": ""}),
        (
            b'--X\r\nContent-Disposition: form-data; name="data"; filename="a.txt"\r\n\r\nP\xc5\x99\r\n'
            b'--X\r\nContent-Disposition: form-data; name="x"\r\n\r\n\xc5\x99\r\n--X--\r\n',
            PARTS,
            {"data": "Př", "x": "ř"},
        ),
    ],
    ids=["encoded", "as it is", "multipart"],
)
def test_forms(port, body, headers, expected):
    assert ask(port, "POST", "/form?q=1", body, headers).json == {"q": "1"} | expected


@pytest.mark.parametrize(
    "method, path, body, headers, status",
    [
        ("GET", "/nowhere", None, None, 404),
        ("GET", "/form/", None, None, 404),
        ("DELETE", "/form", None, None, 405),
        ("POST", "/form", b"data=\xff", FORM, 400),
        ("GET", "/form?data=%ff", None, None, 400),
        ("POST", "/form", "&".join(["a="] * 200), FORM, 400),
        ("POST", "/form", b"--X\r\nnothing", PARTS, 400),
        ("POST", "/form", b"--X\r\n", {"content-type": "multipart/form-data"}, 400),
        ("POST", "/form", b"x", {"content-type": "text/plain"}, 415),
        ("POST", "/form", b"x" * 1001, FORM, 413),
        ("POST", "/json", b"[" * 1000, None, 400),
        ("POST", "/json", b"[]", None, 400),
        ("POST", "/json", b'{"a": NaN}', None, 400),
        ("POST", "/json", b'{"a": "\\ud800"}', None, 400),
        ("POST", "/json", b"\xff", None, 400),
        ("GET", "/form", None, {"host": "other.example"}, 421),
        ("GET", "/form", None, {"origin": "http://other.example"}, 403),
        ("GET", "/form", None, {"origin": "null"}, 403),
        ("POST", "/form", b"", {"sec-fetch-site": "cross-site"}, 403),
        ("GET", "/complain", None, None, 400),
        ("GET", "/fail", None, None, 500),
    ],
)
def test_what_is_wrong_is_said(port, method, path, body, headers, status):
    answer = ask(port, method, path, body, headers)
    assert answer.status == status
    assert answer.json.keys() == {"error"}
    assert not {b"Traceback", b"secret", b"starlette"} & set(answer.body.split())
    assert ask(port, "GET", "/form?a=1").json == {"a": "1"}


def test_own_pages_may_ask(port):
    for origin in (f"http://127.0.0.1:{port}", f"http://localhost:{port}"):
        host = origin.removeprefix("http://")
        headers = {"origin": origin, "host": host, "sec-fetch-site": "same-origin"}
        assert ask(port, "GET", "/form", None, headers).status == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert ask(port, "GET", "/form", None, link).status == 200


def test_addresses_need_the_token():
    with running(application(ROUTES, token="abc")) as port:
        assert ask(port, "GET", "/abc/form?a=1").json == {"a": "1"}
        for path in ("/form", "/abcd/form", "/ab/form", "/", "/ABC/form"):
            assert ask(port, "GET", path).status == 403


def test_bodies_without_a_length_have_limits(port):
    start = b"POST /json HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = talk(port, start + (b"200\r\n" + b"x" * 512 + b"\r\n") * 3 + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_slow_requests_are_answered(port):
    start = b"POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
    assert talk(port, start).startswith(b"HTTP/1.1 408 ")


def test_memory_of_all_requests_has_a_limit():
    with running(application(ROUTES, limits=Limits(body=1000, memory=500))) as port:
        assert ask(port, "POST", "/json", b"{}" + b" " * 600).status == 503
        assert ask(port, "POST", "/json", b"{}" + b" " * 400).status == 200
        assert ask(port, "POST", "/json", b"{}" + b" " * 400).status == 200


@pytest.mark.parametrize(
    "data",
    [b"", b"GET /form HTTP/1.1\r\nHost: loc", b"GET /form HTTP/1.1\r\nHost: localhost\r\n\r\nGET"],
)
def test_connections_are_not_kept_for_nothing(port, data, monkeypatch):
    monkeypatch.setattr(http, "_HEAD_SECONDS", 0.2)
    monkeypatch.setattr(http, "_KEEP_SECONDS", 0.2)
    try:
        answer = talk(port, data, timeout=10)
    except ConnectionResetError:
        answer = b""
    assert answer.startswith(b"HTTP/1.1 200 ") == (b"\r\n\r\n" in data)


def test_invalid_requests_are_refused(port):
    for data in (b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /form HTTP/1.1\r\n\r\n"):
        assert talk(port, data).startswith(b"HTTP/1.1 400 ")


def test_small_answers_do_not_wait():
    with listen() as opened, socket.create_connection(opened.getsockname()):
        connection, _ = opened.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_ports_that_are_taken():
    with listen() as opened:
        taken = opened.getsockname()[1]
        with pytest.raises(SpectralError, match="S650"):
            listen(port=taken)
    with pytest.raises(SpectralError, match="S650"):
        listen(port=70000)
    assert opened.family == socket.AF_INET


def test_what_is_missing_is_named(monkeypatch):
    spacy_spectral.serve.require_extra()
    monkeypatch.setattr(spacy_spectral.serve, "find_spec", lambda name: None)
    with pytest.raises(SpectralError, match=r"S651.*spacy-spectral\[serve\]"):
        spacy_spectral.serve.require_extra()
