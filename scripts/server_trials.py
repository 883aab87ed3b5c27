"""Try the servers hard: kill them, send them what is wrong, ask them for minutes.

    python scripts/server_trials.py kills TREEBANK [--kills 200]
    python scripts/server_trials.py fuzz MODEL TREEBANK [--requests 10000]
    python scripts/server_trials.py load MODEL TEXT [--clients 16] [--minutes 5]

kills: A client annotates sentences of a treebank, without a pipeline. The server is killed (SIGKILL) at
random moments, also while it starts, and started again on the same file. After each kill the file must be
valid, and have all sentences whose acceptance was answered, as they were accepted.

fuzz: Requests that are wrong in many ways are sent to `annotate` and to `serve`: each must get a 4xx (one in
which only a few letters were changed may still be right), no answer may have a traceback, and the annotated
file must stay as it is. Then a body of 1 GB, 1,000 open connections, and clients that send or read slowly:
the servers must still answer others.

load: Some clients ask `serve` at the same time. Every answer must be what nlp(text) gives. Printed are the
words a second, beside those of nlp.pipe, and the memory of the server, which must not grow.

The exit status is 1 if something is not as it must be. Only 127.0.0.1 is asked.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple
from urllib.parse import urlencode

from wasabi import msg

from spacy_spectral.serve import blocks
from spacy_spectral.serve.annotate import annotation_app, open_work
from spacy_spectral.serve.http import listen, run

TOKEN = "token"
_FORM = {"content-type": "application/x-www-form-urlencoded"}
_JSON = {"content-type": "application/json"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    trials = parser.add_subparsers(dest="trial", required=True)
    own = trials.add_parser("kills")
    own.add_argument("treebank", type=Path, help="CoNLL-U")
    own.add_argument("--kills", type=int, default=200)
    own = trials.add_parser("fuzz")
    own.add_argument("model")
    own.add_argument("treebank", type=Path, help="CoNLL-U")
    own.add_argument("--requests", type=int, default=10_000, help="to each of the two")
    own = trials.add_parser("load")
    own.add_argument("model")
    own.add_argument("text", type=Path, help="a passage a line")
    own.add_argument("--clients", type=int, default=16)
    own.add_argument("--minutes", type=float, default=5.0)
    own.add_argument("--texts", type=int, default=500, help="different ones")
    own.add_argument("--threads", type=int, default=2, help="of the server")
    for own in trials.choices.values():
        own.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    trial: Callable[[argparse.Namespace], tuple[dict[str, Any], bool]] = globals()[options.trial]
    result, is_good = trial(options)
    msg.table([tuple(map(str, result.values()))], header=tuple(result), divider=True)
    sys.exit(0 if is_good else 1)


# ---------------------------------------------------------------- kills


def kills(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    rng = random.Random(options.seed)
    text = options.treebank.read_bytes().decode("utf8")
    result = Counter(dict.fromkeys(("kills", "requests", "accepted", "lost", "invalid"), 0))
    with tempfile.TemporaryDirectory() as name:
        for number in range(10**6):
            source = Path(name, f"{number}.conllu")
            source.write_text("".join(blocks.split_blocks(text)[:40]), encoding="utf8")
            annotator = Annotator(source, rng)
            for _ in range(25):
                if result["kills"] == options.kills:
                    return dict(result), not result["lost"] and not result["invalid"]
                annotator.annotate_until_killed()
                annotator.check()
                result["kills"] += 1
                for key in ("requests", "accepted", "lost", "invalid"):
                    result[key] += annotator.counts.pop(key, 0)
    raise AssertionError


class Annotator:
    """A client that fixes and accepts sentences of a file, whatever happens to the server."""

    def __init__(self, source: Path, rng: random.Random) -> None:
        self.source = source
        self.output = source.with_name(f"{source.stem}.annotated.conllu")
        self.n = len(blocks.split_blocks(source.read_text(encoding="utf8")))
        self.rng = rng
        # what the server has said is accepted, and what it was asked to accept when it was killed: that is in
        # the journal or is not; if it is, the file has it when the server has started again
        self.known: dict[int, list[tuple[str, str]]] = {}
        self.asked: dict[int, list[list[tuple[str, str]]]] = {}
        self.counts: Counter[str] = Counter()

    def annotate_until_killed(self) -> None:
        opened = listen()
        port = opened.getsockname()[1]
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                run(annotation_app(open_work(self.source, every=0), TOKEN), opened)
                status = 0
            os._exit(status)
        opened.close()  # or a connection would wait for nobody
        killer = Timer(0.02 + self.rng.expovariate(1.5), os.kill, (child, signal.SIGKILL))
        killer.start()
        with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
            self.annotate(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        killer.join()
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise SystemExit("the server ended by itself")

    def annotate(self, connection: http.client.HTTPConnection) -> None:
        while True:
            id_ = self.rng.randrange(self.n)
            shown = self.ask(connection, "GET", f"view?sentence={id_}")["sentence"]
            for _ in range(self.rng.randrange(3)):
                # a sentence that is accepted is edited again
                word = self.rng.randrange(len(shown["words"])) + 1
                label = (
                    "root" if shown["words"][word - 1]["head"] == "0" else self.rng.choice("abc")
                )
                what = {"do": "label", "sentence": id_, "word": word, "value": label}
                shown = self.ask(connection, "POST", "act", what)["sentence"]
            if self.rng.random() < 0.2:
                what = {"do": "note", "sentence": id_, "value": str(self.rng.random())}
                self.ask(connection, "POST", "act", what)
            tree = [(word["head"], word["deprel"]) for word in shown["words"]]
            self.asked.setdefault(id_, []).append(tree)
            self.ask(connection, "POST", "act", {"do": "accept", "sentence": id_})
            self.known[id_] = self.asked.pop(id_)[-1]
            self.counts["accepted"] += 1

    def ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, what: Any = None
    ) -> dict[str, Any]:
        connection.request(
            method, f"/{TOKEN}/api/{path}", None if what is None else json.dumps(what), _JSON
        )
        answer = connection.getresponse()
        found = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {found}")
        self.counts["requests"] += 1
        return found

    def check(self) -> None:
        """The file is valid, and has all that was accepted."""
        if not self.output.exists():
            self.counts["lost"] += len(self.known)
            return
        found = blocks.split_blocks(self.output.read_bytes().decode("utf8"))
        self.counts["invalid"] += len(found) != self.n
        self.counts["invalid"] += sum(bool(blocks.read_block(block)[1]) for block in found)
        trees = [[(own["head"], own["deprel"]) for own in blocks.values(block)] for block in found]
        for id_, asked in self.asked.items():
            if trees[id_] in asked:
                self.known[id_] = trees[id_]
        for id_, tree in self.known.items():
            self.counts["lost"] += trees[id_] != tree


# ---------------------------------------------------------------- commands and requests


@contextmanager
def command(*arguments: Any) -> Iterator[tuple[subprocess.Popen, int, str]]:
    """Run a server; gives its process, its port, and what its paths begin with."""
    own = [sys.executable, "-m", "spacy", "spectral", *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(own, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if "http://127.0.0.1:" in line), "")
            if not line:
                log.seek(0)
                raise SystemExit(log.read())
            port, _, path = line.split("http://127.0.0.1:")[1].strip().partition("/")
            yield process, int(port), f"/{path}".rstrip("/")
        finally:
            process.terminate()
            process.communicate(timeout=60)
        log.seek(0)
        if "Traceback" in (told := log.read()):
            raise SystemExit(told)


class Request(NamedTuple):
    """What is sent. `may_be_right`: only a few letters of a right one were changed."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012
    may_be_right: bool = False
    raw: bytes | None = None


def send(port: int, request: Request) -> tuple[int, bytes]:
    """RETURNS (Tuple[int, bytes]): The status, 0 without an answer, and the answer."""
    try:
        if request.raw is not None:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(request.raw)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while part := connection.recv(65536):
                    answer += part
            return (int(answer.split(b" ", 2)[1]) if answer else 0), answer
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request(request.method, request.path, request.body or None, request.headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
    except (ConnectionError, http.client.BadStatusLine):
        return 0, b""


# ---------------------------------------------------------------- fuzz

_VALUES: list[Any] = [
    None,
    -1,
    10**9,
    1e308,
    True,
    "",
    "x" * 3000,
    "\0",
    "\ud800",
    [],
    {},
    [[]],
    2**70,
    "a\tb",
    "../x",
]


def wrong_headers(rng: random.Random, request: Request) -> Request:
    own = rng.choice(
        [
            {"host": "other.example"},
            {"host": ""},
            {"origin": "http://other.example"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
            {"content-length": "-1"},
            {"content-length": "9" * 30},
            {"content-length": "17000000"},
            {"content-length": "x"},
        ]
    )
    return request._replace(headers=request.headers | own)


def wrong_way(rng: random.Random, request: Request) -> Request:
    if rng.random() < 0.5:
        known = ("DELETE", "PUT", "PATCH", "TRACE", "OPTIONS", "X" * rng.randrange(1, 40))
        return request._replace(method=rng.choice(known))
    odd = ("/..", "/%00", "//", "/%ff", "/" + "x" * 3000, "/x/y/z", "%2e%2e/", "/index.html/..")
    return request._replace(path=f"{request.path.partition('?')[0]}{rng.choice(odd)}")


def garbage(rng: random.Random, request: Request) -> Request:
    """No HTTP, or half of it."""
    lines = f"{request.method} {request.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    kind = rng.randrange(4)
    if kind == 0:
        data = rng.randbytes(rng.randrange(1, 300)) + b"\r\n\r\n"
    elif kind == 1:
        at = rng.randrange(4, lines.index(b"HTTP"))
        data = lines[:at] + bytes([rng.choice([0, 7, 10, 13, 127])]) + lines[at:]
    elif kind == 2:
        data = lines.replace(b"HTTP/1.1", rng.choice([b"HTTP/9.9", b"", b"FTP/1.1", b"HTTP"]))
    else:
        more = rng.choice(
            [b"x" * 100_000, b"Transfer-Encoding: x", b": x", b"Host: b", b"a b: c", b"\xff\x00:"]
        )
        data = lines[:-2] + more + b"\r\n\r\n"
    return request._replace(raw=data, may_be_right=kind != 2)


def wrong_body(rng: random.Random, request: Request) -> Request:
    """JSON and forms that are none."""
    kind = rng.randrange(6)
    body = request.body
    if kind == 0 and body:
        body = body[: rng.randrange(len(body))]
        return request._replace(body=body or b"{", may_be_right=request.headers == _FORM)
    if kind == 1:
        at = rng.randrange(len(body) + 1)
        return request._replace(
            body=body[:at] + rng.choice([b"\xff", b"\xc3", b"\xed\xa0\x80"]) + body[at:]
        )
    if kind == 2:
        body = rng.choice([b"[", b'{"a":', b'["']) * rng.randrange(1, 20_000)
        return request._replace(body=body, headers=_JSON)
    if kind == 3:
        return request._replace(body=b'{"do": NaN, "text": Infinity}', headers=_JSON)
    if kind == 4:
        parts = {
            "content-type": f"multipart/form-data; boundary={rng.choice(['', 'X', 'X' * 300])}"
        }
        body = rng.choice(
            [
                b"--X",
                b"--X\r\nContent-Disposition: form-data\r\n\r\na\r\n--X--",
                b"",
                rng.randbytes(99),
            ]
        )
        return request._replace(body=body, headers=parts)
    return request._replace(body=b"&".join(b"a=%d" % i for i in range(300)), headers=_FORM)


def wrong_letters(rng: random.Random, request: Request) -> Request:
    body = bytearray(request.body)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(body) + 1)
        body[at : at + rng.randrange(3)] = bytes(
            rng.choices(b'{}[]":,\t\n\\0123456789-_=&%#abc<>/ \xff', k=rng.randrange(3))
        )
    return request._replace(body=bytes(body), may_be_right=True)


def wrong_values(rng: random.Random, request: Request) -> Request:
    """A JSON object in which some values are of another kind."""
    try:
        found = json.loads(request.body)
    except ValueError:
        return wrong_body(rng, request)
    for name in rng.sample(sorted(found), rng.randrange(1, len(found) + 1)):
        found[name] = rng.choice(_VALUES)
    return request._replace(body=json.dumps(found).encode(), may_be_right=True)


_QUERIES = (
    *("view?sentence=99999999", "view?sentence=%ff", "view?step=1e9", "trees", "trees?sentence=-3"),
    *("choices", "choices?sentence=0&word=0", "choices?sentence=0&word=10000"),
)


def annotate_requests(rng: random.Random, path: str) -> Request:
    """A request to `annotate` that can't be right: its sentence is not there."""
    known = ("head", "label", "value", "release", "tree", "split_token", "join_tokens", "split_sentence",
             "join_sentences", "note", "accept", "skip", "order")  # fmt: skip
    if rng.random() < 0.3:
        query = rng.choice(_QUERIES)
        return Request("GET", f"{path}/api/{query}")
    what = {
        "do": rng.choice(known),
        "sentence": rng.choice([10**15, -(10**15)]),
        **{
            name: rng.choice([1, "x"]) for name in ("word", "head", "value", "name", "at", "number")
        },
    }
    return Request("POST", f"{path}/api/act", json.dumps(what).encode(), _JSON)


def serve_requests(rng: random.Random, xmi: str) -> Request:
    """A right request to `serve`."""
    kind = rng.randrange(4)
    if kind == 0:
        asked = {"text": "A dog barked.", "nbest": 2, "labelled": True, "draw": True}
        return Request("POST", "/parse", json.dumps(asked).encode(), _JSON)
    if kind == 1:
        rows = "".join(f"{i}\t{word}" + "\t_" * 8 + "\n" for i, word in enumerate(("A", "dog"), 1))
        fields = {"data": rows + "\n", "tagger": "", "parser": "", "output": "conllu"}
        return Request("POST", "/process", urlencode(fields).encode(), _FORM)
    if kind == 2:
        fields = {"data": "A dog", "tokenizer": rng.choice(["", "ranges"])}
        return Request("GET", f"/process?{urlencode(fields)}")
    asked = {
        "metadata": {
            "layer": "de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS",
            "feature": "PosValue",
        },
        "document": {"xmi": xmi},
        "typeSystem": "<a/>",
    }
    return Request("POST", "/model/predict", json.dumps(asked).encode(), _JSON)


XMI = (
    '<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" '
    'xmlns:t="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore" xmi:version="2.0">'
    '<t:Sentence xmi:id="2" sofa="1" begin="0" end="5"/><t:Token xmi:id="3" sofa="1" begin="0" end="1"/>'
    '<t:Token xmi:id="4" sofa="1" begin="2" end="5"/><cas:Sofa xmi:id="1" sofaString="A dog"/>'
    '<cas:View sofa="1" members="2 3 4"/></xmi:XMI>'
)


def send_wrong(
    port: int, make: Callable[[random.Random], Request], n: int, seed: int
) -> Counter[str]:
    """Send wrong requests. RETURNS (Counter[str]): What came of them."""
    result: Counter[str] = Counter()
    for number in range(n):
        rng = random.Random(f"{seed} {number}")
        change = rng.choice(
            [wrong_headers, wrong_way, garbage, wrong_body, wrong_letters, wrong_values]
        )
        request = change(rng, make(rng))
        status, answer = send(port, request)
        if b"Traceback" in answer or b"site-packages" in answer:
            outcome = "traceback"
        elif 400 <= status < 500:
            outcome = "4xx"
        elif 200 <= status < 300 and request.may_be_right:
            outcome = "still right"
        elif status == 0 and not is_http(request):
            outcome = "no answer"  # or the connection was closed before the client had read it
        else:
            outcome = "bad"
            print(f"{status} to {change.__name__}: {str(request)[:500]}", file=sys.stderr)
        result[outcome] += 1
    return result


def is_http(request: Request) -> bool:
    """Whether a server can tell where a request ends."""
    length = request.headers.get("content-length", "0")
    return request.raw is None and length.isdigit() and len(length) < 20


def unchanged(output: Path) -> list[bytes]:
    return [output.read_bytes(), output.with_name(output.name + ".journal").read_bytes()]


def fuzz(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    total: Counter[str] = Counter()
    is_good = True
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "in.conllu")
        text = options.treebank.read_bytes().decode("utf8")
        source.write_text("".join(blocks.split_blocks(text)[:20]), encoding="utf8")
        output = source.with_name("in.annotated.conllu")
        annotate = ("annotate", source, "--model", options.model, "--every", 0, "--no-browser")
        with command(*annotate) as (process, port, path):
            before = unchanged(output)

            def wrong(rng: random.Random) -> Request:
                return annotate_requests(rng, path)

            total += send_wrong(port, wrong, options.requests, options.seed)
            is_good &= endure(process, port, f"{path}/api/view", f"{path}/api/act")
            is_good &= unchanged(output) == before
        with command("serve", f"model={options.model}", "--port", 0) as (process, port, _):
            total += send_wrong(
                port, lambda rng: serve_requests(rng, XMI), options.requests, options.seed
            )
            is_good &= endure(process, port, "/models", "/parse")
    result = {"requests": total.total()} | dict(sorted(total.items()))
    return result | {"endured": is_good}, is_good and not total["bad"] + total["traceback"]


def memory(process: subprocess.Popen) -> float:
    """RETURNS (float): Megabytes of a process."""
    import resource  # not on Windows, where tests import this module

    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def cpu_seconds(process: subprocess.Popen) -> float:
    """RETURNS (float): What a process has taken of processors, in steps of 1 / SC_CLK_TCK."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def endure(process: subprocess.Popen, port: int, path: str, post: str) -> bool:
    """Whether a server still answers while it is asked too much, and takes no memory for it."""
    import resource

    before = memory(process)
    answers = [answers_soon(port, path)]
    for length in ("Content-Length: 1073741824", "Transfer-Encoding: chunked"):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(
                f"POST {post} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode()
            )
            with suppress(ConnectionError):
                for _ in range(1024):
                    data = b"x" * 2**20
                    connection.sendall(
                        b"100000\r\n" + data + b"\r\n" if "chunked" in length else data
                    )
            with suppress(ConnectionError):
                answers.append(b" 413 " in connection.recv(100)[:20])
        answers.append(answers_soon(port, path))
    head = f"POST {post} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n".encode()
    asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(1000)]
    for i, connection in enumerate(opened):
        # nothing, half of a head, half of a body, and many questions whose answers nobody reads
        with suppress(ConnectionError):
            connection.sendall([b"", head[:20], head + b"{", asked * 20][i % 4])
    for _ in range(5):
        answers.append(answers_soon(port, path))
        for connection in opened[2::4]:  # a letter now and then
            with suppress(OSError):
                connection.sendall(b" ")
        time.sleep(0.5)
    for connection in opened:
        connection.close()
    answers.append(answers_soon(port, path))
    grown = memory(process) - before
    print(f"Memory after 1 GB twice and 1,000 connections: {grown:+.0f} MB", file=sys.stderr)
    return all(answers) and grown < 200


def answers_soon(port: int, path: str) -> bool:
    began = time.monotonic()
    status, _ = send(port, Request("GET", path))
    return status == 200 and time.monotonic() - began < 10


# ---------------------------------------------------------------- load


def load(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    from spacy import util

    from spacy_spectral.treebank.write import write_doc

    lines = [line.strip() for line in options.text.read_text("utf8").splitlines()]
    texts = list(islice(filter(None, lines), options.texts))
    nlp = util.load_model(options.model)
    expected = {text: write_doc(nlp(text)) for text in texts}
    words = {
        text: sum(line[:1].isdigit() for line in own.splitlines()) for text, own in expected.items()
    }
    began, cpu = time.monotonic(), time.process_time()
    for _ in nlp.pipe(texts):
        pass
    alone = sum(words.values()) / (time.monotonic() - began)
    alone_cpu = sum(words.values()) / (time.process_time() - cpu)
    memories: list[float] = []
    counts: Counter[str] = Counter()
    threads = ("--threads", options.threads)
    with command("serve", options.model, "--port", 0, *threads) as (process, port, _):
        end = time.monotonic() + 60 * options.minutes

        def ask(seed: int) -> None:
            own = random.Random(options.seed + seed).sample(texts, len(texts))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            for text in cycle(own):
                if time.monotonic() > end:
                    return
                fields = {"data": text, "tokenizer": "", "tagger": "", "parser": ""}
                connection.request("POST", "/process", urlencode(fields), _FORM)
                answer = connection.getresponse()
                data = answer.read()
                if answer.status != 200:
                    counts["errors"] += 1
                elif json.loads(data)["result"] != expected[text]:
                    counts["different"] += 1
                counts["requests"] += 1
                counts["words"] += words[text]

        began, served_cpu = time.monotonic(), cpu_seconds(process)
        with ThreadPoolExecutor(options.clients) as pool:
            futures = [pool.submit(ask, i) for i in range(options.clients)]
            while time.monotonic() < end:
                time.sleep(min(5, max(end - time.monotonic(), 0.1)))
                memories.append(memory(process))
            for future in futures:
                future.result()
        seconds, served_cpu = time.monotonic() - began, cpu_seconds(process) - served_cpu
    # what grows goes on growing: the second half against the end of the first
    half = len(memories) // 2
    grown = max(memories[half:]) - max(memories[: half + 1])
    result = {
        "requests": counts["requests"],
        "errors": counts["errors"],
        "different": counts["different"],
        "words/s": f"{counts['words'] / seconds:,.0f}",
        "words/CPU s": f"{counts['words'] / served_cpu:,.0f}",
        "nlp.pipe, words/s": f"{alone:,.0f}",
        "nlp.pipe, words/CPU s": f"{alone_cpu:,.0f}",
        "MB": f"{memories[-1]:.0f}",
        "MB grown in the second half": f"{grown:+.1f}",
    }
    return result, not counts["errors"] + counts["different"] and grown < 20


if __name__ == "__main__":
    main()
