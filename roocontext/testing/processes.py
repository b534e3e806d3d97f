"""The parent's side of the nursery: writers in processes of their own, which can be killed.

A nursery is one process that has imported the store's driver and forks for each writer, so that a
framework that takes seconds to import is imported once.

The process that forks for each writer.

It opens no store itself, because no connection survives a fork.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, TextIO

from roocontext.errors import InvalidOption
from roocontext.testing.protocol import Append, Lost, SessionStore, says

PATIENCE = 60
"""Seconds to wait for a process that should answer at once."""


START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from roocontext.testing.processes import serve_jobs
serve_jobs(sys.argv[2])
"""


class Writer:
    """A process that opened a session and writes to it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rw", encoding="ascii")
        hello = self.heard()
        if hello is None:
            self.close()
            raise Lost("another process could not open the store: its error is on stderr")
        self._pid: int = hello["pid"]

    def asked(self, **facts: Any) -> Any:
        """Send the process something, and read one answer."""
        self.ask(**facts)
        return self.heard()

    def ask(self, **facts: Any) -> None:
        """Send the process something."""
        self._lines.write(json.dumps(facts) + "\n")
        self._lines.flush()

    def heard(self) -> Any:
        """The next that the process sent; None if it is gone."""
        with suppress(ConnectionError):
            if (line := self._lines.readline()).endswith("\n"):
                return json.loads(line)
        return None

    def kill(self) -> None:
        """Kill it with SIGKILL, wherever it is."""
        os.kill(self._pid, signal.SIGKILL)

    def rest(self) -> Iterator[Any]:
        """All that it had sent before it ended. Returns when the process is gone."""
        while (heard := self.heard()) is not None:
            yield heard

    def close(self) -> None:
        """Hang up, which ends the process."""
        self._lines.close()
        self._connection.close()


class Nursery:
    """Starts writers. The process behind it imports each store's driver once."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nursery-")
        address = str(Path(self._folder.name) / "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        self._listener.settimeout(PATIENCE)
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a module of ours
            [sys.executable, "-c", START, json.dumps(_paths()), address],
            stdin=subprocess.PIPE,
            text=True,
        )

    def writer(self, job: str, factory: str, place: str, session: str) -> Writer:
        """A new process that opened the session."""
        assert self._process.stdin is not None
        asked = {"job": job, "factory": factory, "place": place, "session": session}
        self._process.stdin.write(json.dumps({**asked, "paths": _paths()}) + "\n")
        self._process.stdin.flush()
        connection, _ = self._listener.accept()
        connection.settimeout(PATIENCE)
        return Writer(connection)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._listener.close()
        self._folder.cleanup()


def nursery() -> Nursery:
    """The nursery of this process, which lives as long."""
    return _nursery_of(os.getpid())


@cache
def _nursery_of(_pid: int) -> Nursery:
    made = Nursery()
    atexit.register(made.close)
    return made


def _paths() -> list[str]:
    """Where this process imports from."""
    return [path or os.getcwd() for path in sys.path]  # noqa: PTH109 - a text among texts


def name_of(factory: Callable[..., Any]) -> str | None:
    """How another process imports a factory; None if it cannot."""
    module = getattr(factory, "__module__", None)
    name = getattr(factory, "__qualname__", "<")
    if module in (None, "__main__") or module not in sys.modules or "<" in name:
        return None
    return f"{module}:{name}"


def write_until_killed(store: SessionStore, lines: TextIO) -> None:
    """Append one numbered message after the other, and acknowledge each, until killed."""
    lines.readline()
    number = 0
    while True:
        store.append(Append(numbered_message(number)))
        _tell(lines, {"acknowledged": number})
        number += 1


def race(store: SessionStore, lines: TextIO) -> None:
    """Append at a moment on the version that is given, and answer whether that was accepted."""
    while line := lines.readline():
        asked = json.loads(line)
        store.view()  # as a writer does that names a version
        _tell(lines, {"ready": True})
        at = json.loads(lines.readline())["at"]
        while time.time() < at:
            pass  # awake, so that both begin within microseconds
        try:
            receipt = store.append(Append(says(asked["text"]), expected=asked["expected"]))
        except Exception as error:  # noqa: BLE001 - any error is a refusal
            _tell(lines, {"refused": type(error).__name__})
        else:
            _tell(lines, {"version": receipt.version})


JOBS: dict[str, Callable[[SessionStore, TextIO], None]] = {
    "write": write_until_killed,
    "race": race,
}


def numbered_message(number: int) -> Any:
    """The message with a number that a writer appends."""
    return says(f"{number}: " + "durable once it is acknowledged. " * 4)


def load(name: str) -> Any:
    """What a name like `package.module:factory` stands for."""
    module, colon, path = name.partition(":")
    if not colon:
        line = f"{name!r} names no factory. Write it as package.module:factory."
        raise InvalidOption(line, name="factory")
    return attrgetter(path)(import_module(module))


def _tell(lines: TextIO, facts: dict[str, Any]) -> None:
    lines.write(json.dumps(facts) + "\n")
    lines.flush()


def _child(asked: dict[str, str], address: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw", encoding="ascii") as lines:
            store = load(asked["factory"])(asked["place"])
            store.open(asked["session"])
            _tell(lines, {"pid": os.getpid()})
            JOBS[asked["job"]](store, lines)
            store.close()


def serve_jobs(address: str) -> None:
    """Fork for each job that stdin names."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes the children's exit codes
    for line in sys.stdin:
        asked = json.loads(line)
        sys.path[:] = asked.pop("paths")
        with suppress(Exception):  # the child shows it
            load(asked["factory"])
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                _child(asked, address)
            except BrokenPipeError:  # the parent hung up
                pass
            except Exception:  # noqa: BLE001 - shown, and never run on in the parent's loop
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                os._exit(0)
