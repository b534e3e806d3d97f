"""A proxy before PostgreSQL that is slow, or kills its client at one of its requests."""

import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from sqlalchemy import make_url

_PORT = 5432
PAUSE_S = 0.002
REPLY_S = 0.2
"""For how long a reply is waited for. A message inside a pipeline gets none."""


_CLIENTS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
_TERMINATE = b"X"
_BOUNDARIES = (b"S", b"Q", b"H", b"p", _TERMINATE)
"""The kinds after which a client may wait for a reply: sync, query, flush, password."""


@dataclass
class Wire:
    """Counts the requests that clients send. At request `fatal` the client is killed.

    A request is all messages up to one that asks for a reply. If `is_delivered` is set, the server
    gets that request first, and its reply is lost. If `slow` is, both sides get `slow` bytes at a
    time, with a pause after each piece.
    """

    url: str
    fatal: int | None = None
    is_delivered: bool = False
    slow: int | None = None
    requests: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def again(self, fatal: int | None = None, *, is_delivered: bool = False) -> None:
        """Count from the start."""
        self.requests, self.fatal, self.is_delivered = 0, fatal, is_delivered

    def carry(self, client: socket.socket, server: socket.socket) -> None:
        """Carry messages both ways until one side hangs up or the client is killed."""
        requests = _Requests()
        with client, server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for side in ready:
                    received = side.recv(1 << 20)
                    if not received:
                        return
                    if side is server:
                        self._send(client, received)
                        continue
                    for request, is_last in requests.complete(received):
                        if not is_last and self._is_fatal():
                            if self.is_delivered:
                                server.sendall(request)
                                select.select([server], [], [], REPLY_S)
                            os.kill(_peer(client), signal.SIGKILL)
                            return
                        self._send(server, request)

    def _send(self, side: socket.socket, data: bytes) -> None:
        size = self.slow or len(data)
        for at in range(0, len(data), size):
            side.sendall(data[at : at + size])
            if self.slow:
                time.sleep(PAUSE_S)

    def _is_fatal(self) -> bool:
        with self._lock:
            self.requests += 1
            return self.requests == self.fatal


class _Requests:
    """Puts what a client sends together again, however the system cut or joined it."""

    def __init__(self) -> None:
        self._bytes = self._request = b""
        self._type = 0  # the first message has no byte for its kind

    def complete(self, received: bytes) -> Iterator[tuple[bytes, bool]]:
        """The requests that are complete now, and whether each ends the connection."""
        self._bytes += received
        while len(self._bytes) >= (head := self._type + 4):
            size = self._type + int.from_bytes(self._bytes[self._type : head])
            if len(self._bytes) < size:
                return
            message, self._bytes = self._bytes[:size], self._bytes[size:]
            self._request += message
            if not self._type or message[:1] in _BOUNDARIES:
                is_last = bool(self._type) and message[:1] == _TERMINATE
                yield self._request, is_last
                self._request = b""
            self._type = 1


def _peer(client: socket.socket) -> int:
    size = struct.calcsize("3i")
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[0])


@contextmanager
def wire(url: str, folder: Path) -> Iterator[Wire]:
    """A proxy to the server of this URL, on a socket in this folder."""
    with psycopg.connect(url) as known:
        host, port = known.info.host, known.info.port
    path = folder / f".s.PGSQL.{_PORT}"
    there = make_url(url).set(host=None, port=None, query={"host": str(folder)})
    made = Wire(there.render_as_string(hide_password=False))

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # the listener is closed
                return
            threading.Thread(target=made.carry, args=(client, _server(host, port))).start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield made
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            path.unlink()


def wait_until_left(url: str) -> None:
    """Wait until the server has noticed that the clients of a database are gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(2_000):
            if connection.execute(_CLIENTS).fetchone() == (1,):
                return
            time.sleep(0.005)
    raise AssertionError("the server still works for a client that is gone")


def _server(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server
