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
"""Seconds after which a process that should answer at once is given up."""

_START = "from roocontext.testing.processes import serve; serve()"


class Writer:
    """A process that opened a session and writes to it. Lines of JSON go both ways."""

    def __init__(self, job: str, factory: str, place: str, session: str) -> None:
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 - a text
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a module of ours
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        # Not as arguments: a place may be a URL with a password, and anyone can list processes.
        if self.asked(job=job, factory=factory, place=place, session=session) is None:
            self.close()
            raise Lost("another process could not open the store: its error is on stderr")

    def asked(self, **facts: Any) -> Any:
        """Send the process something, and read one answer."""
        self.ask(**facts)
        return self.heard()

    def ask(self, **facts: Any) -> None:
        """Send the process something; one that is gone has no answer."""
        with suppress(BrokenPipeError):
            _tell(self._to, facts)

    def heard(self) -> Any:
        """The next that the process sent; None if it is gone."""
        line = self._from.readline()
        return json.loads(line) if line.endswith("\n") else None

    def kill(self) -> None:
        """Kill it with SIGKILL, wherever it is."""
        self._process.kill()

    def rest(self) -> Iterator[Any]:
        """All that it had sent before it ended. Returns when the process is gone."""
        while (heard := self.heard()) is not None:
            yield heard

    def close(self) -> None:
        """Hang up, which ends the process."""
        with suppress(BrokenPipeError):
            self._to.close()
        self._from.close()
        self._process.wait()


def name_of(factory: Callable[..., Any]) -> str | None:
    """How another process imports a factory; None if it cannot."""
    module = getattr(factory, "__module__", None)
    name = getattr(factory, "__qualname__", "<")
    if module in (None, "__main__") or module not in sys.modules or "<" in name:
        return None
    return f"{module}:{name}"


def write_until_killed(store: SessionStore, asked: IO[str], answers: IO[str]) -> None:
    """Append one numbered message after the other, and acknowledge each, until killed."""
    asked.readline()
    for number in count():
        store.append(Append(numbered_message(number)))
        _tell(answers, {"acknowledged": number})


def race(store: SessionStore, asked: IO[str], answers: IO[str]) -> None:
    """Append at a moment on the version that is given, and answer whether that was accepted."""
    for line in asked:
        new = json.loads(line)
        store.view()  # as a writer does that names a version
        _tell(answers, {"ready": True})
        at = json.loads(asked.readline())["at"]
        while time.time() < at:
            pass  # awake, so that both begin within microseconds
        try:
            receipt = store.append(Append(says(new["text"]), expected=new["expected"]))
        except Exception as error:  # noqa: BLE001 - any error is a refusal
            _tell(answers, {"refused": type(error).__name__})
        else:
            _tell(answers, {"version": receipt.version})


JOBS = {"write": write_until_killed, "race": race}


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


def serve() -> None:
    """Do the job that the first line on stdin names; the answers go to what was stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the store prints is no answer
    signal.alarm(PATIENCE)
    asked = json.loads(sys.stdin.readline())
    store = load(asked["factory"])(asked["place"])
    store.open(asked["session"])
    try:
        _tell(answers, {"opened": True})
        JOBS[asked["job"]](store, sys.stdin, answers)
    except BrokenPipeError:  # the parent hung up
        os._exit(0)
    store.close()


def _tell(lines: IO[str], facts: dict[str, Any]) -> None:
    lines.write(json.dumps(facts) + "\n")
    lines.flush()
