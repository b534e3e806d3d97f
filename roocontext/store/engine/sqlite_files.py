"""SQLite: connecting to a file without leaving files behind that lock its owner out."""

import os
import sqlite3
import stat
import time
import weakref
from dataclasses import dataclass
from pathlib import Path

from roocontext.errors import StoreNotFound, StoreReadOnly, StoreUnavailable
from roocontext.store.engine import files, processes
from roocontext.store.engine.driver_errors import raise_ours, translated
from roocontext.store.engine.holds import Queue

BUSY_TIMEOUT_S = 30

_CLOSING_S = 0.02
_TRIES = 3


class Connection(sqlite3.Connection):
    """A connection. `at_rest` is the state that its file had, if it is read without locks."""

    at_rest: files.FileState | None = None


def is_idle(connection: sqlite3.Connection) -> bool:
    """Whether a connection is open and in no transaction."""
    try:
        return not connection.in_transaction
    except sqlite3.ProgrammingError:  # it is closed
        return False


@dataclass(frozen=True, slots=True)
class File:
    """An SQLite file, and how to connect to it."""

    path: Path
    synchronous: str
    read_only: bool

    def connect(self) -> Connection:
        """A new connection; refused if the file was in use when this process was forked."""
        processes.refuse_inherited(self.path)
        # A writer creates the log itself; only for a reader can it be gone.
        writes = not self.read_only and files.is_writable(self.path)
        tries = 1 if writes else _TRIES
        while True:
            tries -= 1
            try:
                return self._connect(writes=writes)
            except sqlite3.Error as error:
                if not tries or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN:
                    why = files.obstacle(self.path, read_only=self.read_only)
                    raise_ours(error, sent=False, path=self.path, why=why)
            time.sleep(
                _CLOSING_S
            )  # a writer that closes removes the log that was about to be opened

    def _connect(self, *, writes: bool) -> Connection:
        state, way = None, "mode=rw"
        if not writes and not files.leaves_nothing(self.path):
            state = files.at_rest(self.path)
            way = "mode=ro&readonly_shm=1" if state is None else "immutable=1"
        uri = f"{self.path.as_uri()}?{way}"
        connection = _connect(uri, self.synchronous, query_only=not writes)
        connection.at_rest = state
        return connection

    def is_alive(self, connection: Connection) -> bool:
        """Whether a connection still reads the file as it is."""
        return connection.at_rest is None or connection.at_rest == files.at_rest(self.path)

    def check_read(self, connection: Connection) -> None:
        """Raise if the file changed while it was read without locks."""
        if connection.at_rest is not None and connection.at_rest != files.state_of(self.path):
            raise StoreUnavailable(
                f"{str(self.path)!r} was changed while it was read.",
                advice="What was read is not returned: read it again.",
            )

    def explained(self, error: StoreUnavailable) -> StoreUnavailable:
        """The error with its cause, if that shows from outside the file."""
        is_refused = isinstance(error, StoreReadOnly) and not self.read_only
        why = files.obstacle(self.path, read_only=False) if is_refused else None
        if why is None:
            return error
        return StoreReadOnly(why.fact, **{**error.facts, "advice": why.advice})


class Memory:
    """A database in memory. It ends with its one connection, so that is never closed early."""

    def __init__(self, synchronous: str) -> None:
        self._synchronous = synchronous
        self._only: Connection | None = None

    def connect(self) -> Connection:
        """The connection."""
        # Kept: with its last connection, SQLite drops a database in memory.
        if self._only is None:
            with translated():
                self._only = _connect("file::memory:", self._synchronous, query_only=False)
        return self._only


# By process too: in a forked child, the parent's threads would never leave their queue.
_queues: "weakref.WeakValueDictionary[tuple[int, Path], Queue]" = weakref.WeakValueDictionary()


def queue_of(path: Path) -> Queue:
    """What the writers of this process queue in: SQLite's own waiting sleeps, and is not fair."""
    return _queues.setdefault((os.getpid(), path), Queue())


def resolved(name: str) -> Path:
    """The file itself, whatever links lead to it."""
    try:
        return Path(name).resolve()
    except (OSError, RuntimeError):
        raise StoreNotFound(
            f"{name!r} is a link that leads nowhere.", advice="Name a file."
        ) from None


def create_private(path: Path) -> None:
    """Make a new file that only its owner can read; SQLite gives its log the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR))
    except FileExistsError:
        return
    except (FileNotFoundError, NotADirectoryError):
        raise StoreNotFound(
            f"There is no folder {str(path.parent)!r}, which {path.name!r} is to be in.",
            advice="Make the folder first.",
        ) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{str(path)!r} cannot be made: {error.strerror}.",
            advice="Name a file in a folder that you may write.",
        ) from None


def check_is_file(path: Path) -> None:
    """Raise the error that says why a path names no file."""
    name = repr(str(path))
    match files.status_of(path).kind:
        case "file":
            return
        case "folder":
            raise StoreNotFound(f"{name} is a folder.", advice="Name a file in it.")
        case "neither":
            raise StoreNotFound(f"{name} is not a file.", advice="Name a file.")
        case "hidden":
            raise StoreUnavailable(
                f"{name} is behind a folder that you may not enter.",
                advice="Ask its owner for the right to enter it.",
            )
    if files.status_of(path.parent).kind == "folder":
        raise StoreNotFound(f"There is no file {name}.")
    raise StoreNotFound(
        f"There is no file {name}, and no folder that it could be in.",
        advice="Make the folder first, or name a file that is there.",
    )


def _connect(uri: str, synchronous: str, *, query_only: bool) -> Connection:
    pragmas = (
        *(["query_only = ON"] if query_only else []),
        f"busy_timeout = {BUSY_TIMEOUT_S * 1000}",
        f"synchronous = {synchronous}",
        # Otherwise INSERT OR REPLACE would delete a row without asking the trigger that protects
        # the log.
        "recursive_triggers = ON",
        # Deleted content is overwritten with zeros; otherwise a purge would leave it in free pages.
        "secure_delete = ON",
        "schema_version",  # nothing is opened before something is read
    )
    connection = sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        # sqlite3 keeps 128 by default, and a statement that fell out is parsed again.
        cached_statements=256,
        factory=Connection,
    )
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()
    except BaseException:
        connection.close()
        raise
    return connection
