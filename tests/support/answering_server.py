"""Servers on loopback, of which one says in a subclass what it answers to each POST."""

import json
import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class LoopbackServer:
    """A server in a thread; use it as a context manager. What `_stack` holds is closed before it.

    The handler finds it as `server.of`.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._handler = handler
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._http = LoopbackHttp(("127.0.0.1", 0), self._handler)
        self._http.of = self
        thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        thread.start()
        self._stack.callback(self._http.server_close)
        self._stack.callback(thread.join, 30)
        self._stack.callback(self._http.shutdown)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"


class LoopbackHttp(ThreadingHTTPServer):
    of: LoopbackServer


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        assert isinstance(self.server, LoopbackHttp)
        answering = self.server.of
        assert isinstance(answering, AnsweringServer)
        answering.requests += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, answer = answering.answer(self.path, body)
        is_stream = isinstance(answer, str)
        packed = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        self.close_connection = True
        self.send_response(status)
        for name, value in (
            ("content-type", "text/event-stream" if is_stream else "application/json"),
            ("content-length", str(len(packed))),
            ("request-id", f"req_{answering.requests}"),
            ("connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(packed)

    def log_message(self, *_args: Any) -> None:
        """Keep quiet."""


class AnsweringServer(LoopbackServer, ABC):
    """The server whose subclass answers."""

    def __init__(self) -> None:
        super().__init__(_Exchange)
        self.requests = 0

    @abstractmethod
    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any] | str]:
        """The status of the answer to a request, and its body or the events of a stream."""
