"""What a fork does to open stores: connections to an SQLite file do not survive it.

SQLite keeps one table of its locks in each process. A child inherits the table but not the locks,
so its connections would hold none. Therefore connections are closed before a fork and opened again
after it. A file that could not be closed is refused in the child. See decision 0022.
"""

import ctypes
import os
import threading
import time
import weakref
from pathlib import Path
from typing import Any, NoReturn, Protocol

from roocontext.errors import StoreForked
from roocontext.store.engine import files

PATIENCE_S = 5
"""How long a fork waits for operations of other threads to end."""

_POLL_S = 0.001
_LONGEST_S = 4 * PATIENCE_S
"""A fork that takes longer was interrupted, and nobody waits for it any more."""


class Forkable(Protocol):
    """What a database does around a fork."""

    path: Path | None

    def is_busy(self, thread: int) -> bool:
        """Whether a thread other than this one uses a connection that a fork would harm."""
        ...

    def let_go(self) -> None:
        """Close the connections that no operation uses, if a fork would harm them."""
        ...

    def is_held(self) -> bool:
        """Whether there still are such connections."""
        ...

    def begin_anew(self) -> None:
        """In the child: forget the parent's connections without closing them."""
        ...


class Inherited:
    """Replaces a connection of the parent process, and refuses every use."""

    def __getattr__(self, _name: str) -> Any:
        return self

    def __call__(self, *_args: Any, **_options: Any) -> NoReturn:
        """Refuse the call."""
        raise StoreForked("The operation began in the process that this one was forked from.")


forking: dict[int, float] = {}
"""The threads that are forking now, and since when."""

_databases: "weakref.WeakValueDictionary[int, Forkable]" = weakref.WeakValueDictionary()
_refused: set[files.Identity] = set()
_process = os.getpid()


def watch(database: Forkable) -> None:
    """Handle this database at each fork, as long as it exists."""
    _databases[id(database)] = database


def notice() -> None:
    """Begin anew if this is a child whose hook did not run, or was interrupted."""
    if _process != os.getpid():
        _after_in_child()


def refuse_inherited(path: Path) -> None:
    """Refuse a file that was in use when this process, or one above it, was forked."""
    if _refused and files.identity(path) in _refused:
        raise StoreForked(f"{str(path)!r} was in use when this process was forked.")


def wait(thread: int) -> None:
    """Wait until no other thread is forking."""
    while must_wait(thread):
        time.sleep(_POLL_S)


def must_wait(thread: int) -> bool:
    """Whether another thread is forking."""
    newest = time.monotonic() - _LONGEST_S
    # `list`, because another thread may add itself meanwhile.
    return any(since > newest for one, since in list(forking.items()) if one != thread)


def keep_open(connection: Any) -> None:
    """Never close a connection of the parent's, not even when this process ends.

    Closing would take locks, write the file or end the parent's session on the server.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _watched() -> list[Forkable]:
    found = (reference() for reference in _databases.valuerefs())
    return [database for database in found if database is not None]


def _is_first(thread: int) -> bool:
    newest = time.monotonic() - _LONGEST_S
    return next((one for one, since in list(forking.items()) if since > newest), thread) == thread


def _before() -> None:
    thread = threading.get_ident()
    forking.pop(thread, None)
    forking[thread] = time.monotonic()
    # One at a time: another thread that closes its connections meanwhile would be inside SQLite,
    # and would leave a locked mutex to this one's child.
    while not _is_first(thread):
        time.sleep(_POLL_S)
    # From now on: the wait for other forks does not count against this one's patience.
    begun = forking[thread] = time.monotonic()
    while any(database.is_busy(thread) for database in _watched()):
        if time.monotonic() - begun > PATIENCE_S:
            # The fork cannot be refused. The child will find the connection open and refuse the
            # file.
            break
        time.sleep(_POLL_S)
    for database in _watched():
        database.let_go()


def _after_in_parent() -> None:
    forking.pop(threading.get_ident(), None)


def _after_in_child() -> None:
    global _process  # noqa: PLW0603 - there is one process
    watched = _watched()
    on_files = [(each, each.path) for each in watched if each.path is not None]
    if on_files:
        # A descriptor is also left by an unfinished cursor, or by another library.
        still_open = files.open_files()
        for each, path in on_files:
            identity = files.identity(path)
            if identity is not None and (each.is_held() or identity in still_open):
                _refused.add(identity)
    for database in watched:
        database.begin_anew()
    forking.clear()
    _process = os.getpid()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
