"""A real server over a store, on a loopback port of its own, and a client that sends anything."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from roocontext import Store
from roocontext.web.app import create_app
from roocontext.web.safety import ServerSettings
from roocontext.web.serving import Server, listen

TOKEN = "t" * 40

APPENDS = """
import sys
from roocontext import Store
with Store.open(sys.argv[1], durability="normal") as store:
    chat = store.session(sys.argv[2])
    for number in range(int(sys.argv[3])):
        chat.append("user", f"message {number}")
"""
"""A program that appends so many messages to a session of a store."""


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def urn(self) -> str:
        """The type of the problem, without what all types begin with."""
        return self.json["type"].removeprefix("urn:roocontext:")

    @property
    def etag(self) -> str:
        return self.headers["etag"]


class WebClient:
    """Sends requests to a server on this machine, with its token unless told otherwise."""

    def __init__(self, port: int, token: str | None = TOKEN) -> None:
        self.port, self.token = port, token
        self.host = f"127.0.0.1:{port}"

    def raw(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str | Sequence[str]] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send these headers only, and Host and Content-Length unless they are among them.

        A header with several values is sent several times.
        """
        given = {name.lower(): value for name, value in (headers or {}).items()}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)) as connection:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, values in {"host": self.host, **given}.items():
                for value in [values] if isinstance(values, str) else values:
                    connection.putheader(name, value)
            if body is not None and "content-length" not in given:
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read())

    def ask(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        body: bytes | None = None,
        **headers: str | Sequence[str],
    ) -> Answer:
        """Send a document, or bytes, with the token. `if_match` is the header If-Match."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            named.setdefault("authorization", f"Bearer {self.token}")
        if document is not None:
            body = json.dumps(document).encode()
        if body is not None:
            named.setdefault("content-type", "application/json")
        return self.raw(method, path, named, body)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, document: Any = None, **headers: str) -> Answer:
        return self.ask("POST", path, {} if document is None else document, **headers)


def session_path(session_id: str, rest: str = "") -> str:
    """The path of a session in the API."""
    return f"/api/v1/sessions/{quote(session_id, safe='')}{rest}"


@contextmanager
def serving(store: Store, **options: Any) -> Iterator[WebClient]:
    """Serve a store, and yield a client of it."""
    listener, _ = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    settings = ServerSettings(**{"port": port, "token": TOKEN, **options})
    ready = threading.Event()
    server = Server(create_app(store, settings), ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    assert ready.wait(30)
    try:
        yield WebClient(port)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
