"""Writers in processes of their own, which can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import count
from operator import attrgetter
from typing import IO, Any

from roocontext.errors import InvalidOption
from roocontext.testing.protocol import Append, Lost, SessionStore, says

PATIENCE = 60
"""Seconds to wait for an answer that should come at once."""

_START = "from roocontext.testing.processes import serve; serve()"


class Writer:
    """A process that opened a session and writes to it. Both sides send lines of JSON."""

    def __init__(self, job: str, factory: str, place: str, session: str) -> None:
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 - a text
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and this module
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        # Not as arguments: a place may be a URL with a password, and anyone can list processes.
        if self.ask(job=job, factory=factory, place=place, session=session) is None:
            self.close()
            raise Lost("another process could not open the store: its error is on stderr")

    def ask(self, **facts: Any) -> Any:
        """Send a request, and read one answer."""
        self.send(**facts)
        return self.receive()

    def send(self, **facts: Any) -> None:
        """Send a request. A process that has ended does not get it."""
        with suppress(BrokenPipeError):
            _send(self._requests, facts)

    def receive(self) -> Any:
        """The next answer; None if the process has ended."""
        line = self._answers.readline()
        return json.loads(line) if line.endswith("\n") else None

    def kill(self) -> None:
        """Kill the process with SIGKILL, whatever it is doing."""
        self._process.kill()

    def receive_rest(self) -> Iterator[Any]:
        """All answers until the process has ended."""
        while (answer := self.receive()) is not None:
            yield answer

    def close(self) -> None:
        """Close the pipes, which ends the process."""
        with suppress(BrokenPipeError):
            self._requests.close()
        self._answers.close()
        self._process.wait()


def name_of(factory: Callable[..., Any]) -> str | None:
    """The name by which another process imports a factory; None if it cannot."""
    module = getattr(factory, "__module__", None)
    name = getattr(factory, "__qualname__", "<")
    if module in (None, "__main__") or module not in sys.modules or "<" in name:
        return None
    return f"{module}:{name}"


def write_until_killed(store: SessionStore, requests: IO[str], answers: IO[str]) -> None:
    """Append numbered messages, and acknowledge each, until killed."""
    requests.readline()
    for number in count():
        store.append(Append(numbered_message(number)))
        _send(answers, {"acknowledged": number})


def race(store: SessionStore, requests: IO[str], answers: IO[str]) -> None:
    """Append at a moment on an expected version, and answer whether that was accepted."""
    for line in requests:
        new = json.loads(line)
        store.view()  # a writer reads the version that it expects
        _send(answers, {"ready": True})
        at = json.loads(requests.readline())["at"]
        while time.time() < at:
            pass  # without sleeping, so that both writers begin within microseconds
        try:
            receipt = store.append(Append(says(new["text"]), expected=new["expected"]))
        except Exception as error:  # noqa: BLE001 - any error is a refusal
            _send(answers, {"refused": type(error).__name__})
        else:
            _send(answers, {"version": receipt.version})


JOBS = {"write": write_until_killed, "race": race}


def numbered_message(number: int) -> Any:
    """The message with a number that a writer appends."""
    return says(f"{number}: " + "durable once it is acknowledged. " * 4)


def load(name: str) -> Any:
    """The object with a name like `package.module:factory`."""
    module, colon, path = name.partition(":")
    if not colon:
        line = f"{name!r} names no factory. Write it as package.module:factory."
        raise InvalidOption(line, name="factory")
    return attrgetter(path)(import_module(module))


def serve() -> None:
    """Do the job that the first line on stdin names. The answers go to the original stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the store may print, and this must not look like an answer
    signal.alarm(PATIENCE)
    request = json.loads(sys.stdin.readline())
    store = load(request["factory"])(request["place"])
    store.open(request["session"])
    try:
        _send(answers, {"opened": True})
        JOBS[request["job"]](store, sys.stdin, answers)
    except BrokenPipeError:  # the parent closed the pipes
        os._exit(0)
    store.close()


def _send(lines: IO[str], facts: dict[str, Any]) -> None:
    lines.write(json.dumps(facts) + "\n")
    lines.flush()
