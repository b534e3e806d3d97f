"""Forks of the process: a store on an SQLite file cannot be used in the child.

SQLite keeps one table of its locks in each process. A child inherits the table but not the locks,
so its connections to a file that the parent had open would hold none. Such a file is refused in
the child until that executes a new program. See decision 0022.
"""

import ctypes
import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from roocontext.errors import StoreForked


class Identity(NamedTuple):
    """The identity of a file, independent of its name."""

    device: int
    inode: int


def identity(path: Path) -> Identity | None:
    """The device and inode of a path; None if there is no file, or it cannot be examined."""
    try:
        status = path.stat()
    except OSError:
        return None
    return Identity(status.st_dev, status.st_ino)


class Forkable(Protocol):
    """An owner of connections that a child process inherits."""

    def begin_anew(self) -> Iterable[Identity]:
        """In the child: forget the connections without closing them, and name their files."""
        ...


class Inherited:
    """Replaces a connection of the parent process, and refuses every use."""

    def __getattr__(self, _name: str) -> Any:
        return self

    def __call__(self, *_args: Any, **_options: Any) -> NoReturn:
        """Refuse the call."""
        raise StoreForked("The operation began in the process that this one was forked from.")


_watched: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_refused: set[Identity] = set()
_process = os.getpid()


def watch(forkable: Forkable) -> None:
    """Let it begin anew in each forked child, as long as it exists."""
    _watched.add(forkable)


def notice() -> None:
    """Begin anew if this is a child whose hook did not run: a C extension may fork past Python."""
    if _process != os.getpid():
        _after_in_child()


def refuse_inherited(path: Path) -> None:
    """Refuse a file that was open when this process, or one above it, was forked."""
    if _refused and identity(path) in _refused:
        raise StoreForked(f"{str(path)!r} was open in a store when this process was forked.")


def keep_open(connection: Any) -> None:
    """Never close a connection of the parent's, not even when this process ends.

    Closing would take locks, write the file or end the parent's session on the server.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _after_in_child() -> None:
    global _process  # noqa: PLW0603 - there is one process
    for forkable in tuple(_watched):
        _refused.update(forkable.begin_anew())
    _process = os.getpid()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(after_in_child=_after_in_child)
