"""Servers in a thread of the test, and requests to them."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import sleep
from typing import NamedTuple

from spacy_spectral.serve.http import listen, make_server


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self):
        return json.loads(self.body)


@contextmanager
def running(app) -> Iterator[int]:
    """Serve an application; gives its port."""
    opened = listen()
    server = make_server(app)
    thread = Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        sleep(0.01)
    try:
        yield opened.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        opened.close()
    assert not thread.is_alive()


def ask(port: int, method: str, path: str, body=None, headers=None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.read(), dict(response.getheaders()))
    finally:
        connection.close()


def talk(port: int, data: bytes, *, timeout: float = 30) -> bytes:
    """What a server says to bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer
