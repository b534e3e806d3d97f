"""A proxy before PostgreSQL that is slow, or kills its client at one of the messages it sends."""

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


@dataclass
class Wire:
    """Counts what clients send. At message `fatal` the client is killed.

    If `is_delivered` is set, the server gets that message first, and its reply is lost. If `slow`
    is, both sides get `slow` bytes at a time, with a pause after each piece.
    """

    url: str
    fatal: int | None = None
    is_delivered: bool = False
    slow: int | None = None
    messages: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def again(self, fatal: int | None = None, *, is_delivered: bool = False) -> None:
        """Count from the start."""
        self.messages, self.fatal, self.is_delivered = 0, fatal, is_delivered

    def carry(self, client: socket.socket, server: socket.socket) -> None:
        """Carry messages both ways until one side hangs up or the client is killed."""
        with client, server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for side in ready:
                    message = side.recv(self.slow or 1 << 20)
                    if not message:
                        return
                    if self.slow:
                        time.sleep(PAUSE_S)
                    if side is server:
                        client.sendall(message)
                    elif self._is_fatal():
                        if self.is_delivered:
                            server.sendall(message)
                            select.select([server], [], [], REPLY_S)
                        os.kill(_peer(client), signal.SIGKILL)
                        return
                    else:
                        server.sendall(message)

    def _is_fatal(self) -> bool:
        with self._lock:
            self.messages += 1
            return self.messages == self.fatal


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


def _server(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server
