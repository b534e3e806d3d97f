"""The process that forks for each writer.

It opens no store itself, because no connection survives a fork.
"""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from typing import Any, TextIO

from roocontext.errors import InvalidOption
from roocontext.testing.messages import says
from roocontext.testing.protocol import Append, SessionStore


def write(store: SessionStore, lines: TextIO) -> None:
    """Append one numbered message after the other, and acknowledge each, until killed."""
    lines.readline()
    number = 0
    while True:
        store.append(Append(numbered(number)))
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


JOBS: dict[str, Callable[[SessionStore, TextIO], None]] = {"write": write, "race": race}


def numbered(number: int) -> Any:
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


def main(address: str) -> None:
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
