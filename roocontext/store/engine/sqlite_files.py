"""SQLite: connecting to a file, or to a database in memory."""

import os
import sqlite3
import stat
from pathlib import Path
from typing import TypeVar

from roocontext.errors import StoreNotFound, StoreUnavailable
from roocontext.store.engine.driver_errors import driver_errors, raise_ours, translated

AConnection = TypeVar("AConnection", bound=sqlite3.Connection)

_OWN_CACHE = "cache=private"
"""Even if the process shares them by default: stores in memory would be the same one, and a reader
would wait for a writer."""


def connect(path: Path, *, mode: str, synchronous: str, patience_s: float) -> sqlite3.Connection:
    """A new connection to a file."""
    uri = f"{path.as_uri()}?mode={mode}&{_OWN_CACHE}"
    try:
        return _connect(uri, synchronous, patience_s, sqlite3.Connection)
    except driver_errors() as error:
        raise_ours(error, sent=False, path=path)


class _Kept(sqlite3.Connection):
    """The connection of a database in memory, which lasts as long as the database.

    The pool closes and rolls back connections that are returned: this one ignores both.
    """

    def close(self) -> None:
        """Leave it open."""

    def rollback(self) -> None:
        """Leave it to the operation that has begun."""


class Memory:
    """A database in memory: all connections to it are the same one."""

    def __init__(self) -> None:
        self._only: sqlite3.Connection | None = None

    def connect(self, *, mode: str, synchronous: str, patience_s: float) -> sqlite3.Connection:  # noqa: ARG002 - as of a file
        """The connection."""
        if self._only is None:
            with translated():
                self._only = _connect(f"file::memory:?{_OWN_CACHE}", synchronous, patience_s, _Kept)
        return self._only

    def close(self) -> None:
        """End the database."""
        if self._only is not None:
            sqlite3.Connection.close(self._only)


def resolved(name: str) -> Path:
    """The file itself, whatever links lead to it."""
    path = Path(os.path.realpath(name))
    # What is still a link is in a loop, which `Path.resolve` refuses before Python 3.13 alone.
    # Not `Path.is_symlink`, which raises if a name is too long.
    if any(map(os.path.islink, (path, *path.parents))):
        raise StoreNotFound(f"{name!r} is a broken link.", advice="Name a file.")
    return path


def create_private(path: Path) -> None:
    """Make a new file that only its owner can read; SQLite gives its log the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR))
    except FileExistsError:
        return
    except (FileNotFoundError, NotADirectoryError):
        raise StoreNotFound(
            f"The folder {str(path.parent)!r} for {path.name!r} does not exist.",
            advice="Create the folder first.",
        ) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{str(path)!r} cannot be created: {error.strerror}.",
            advice="Name a file in a folder that you can write to.",
        ) from None


def check_is_file(path: Path) -> None:
    """Raise the error that says why a path names no file."""
    name = repr(str(path))
    try:
        mode = path.stat().st_mode
    except PermissionError:
        raise StoreUnavailable(
            f"{name} is in a folder that you may not enter.",
            advice="Ask its owner for the right to enter it.",
        ) from None
    except OSError:
        if path.parent.is_dir():
            raise StoreNotFound(f"There is no file {name}.") from None
        raise StoreNotFound(
            f"There is no file {name}, and its folder does not exist either.",
            advice="Create the folder first, or name an existing file.",
        ) from None
    if stat.S_ISDIR(mode):
        raise StoreNotFound(f"{name} is a folder.", advice="Name a file in it.")
    if not stat.S_ISREG(mode):
        raise StoreNotFound(f"{name} is not a regular file.", advice="Name a file.")


def refuse_foreign(path: Path, *, read_only: bool) -> None:
    """Refuse to read a file of another user's, except to root.

    A connection that may not write leaves SQLite's `-wal` and `-shm` next to the file. They would
    belong to this user and lock the owner out; those of root get the file's owner.
    """
    if not hasattr(os, "geteuid"):  # Windows has no owners of this kind
        return
    owner, user = path.stat().st_uid, os.geteuid()
    if user not in (0, owner) and (read_only or not os.access(path, os.W_OK)):
        raise StoreUnavailable(
            f"{str(path)!r} belongs to another user, and reading it could lock its owner out.",
            advice="Let its owner or root read it, or read a copy: `roocontext backup` makes one.",
        )


def _connect(
    uri: str, synchronous: str, patience_s: float, factory: type[AConnection]
) -> AConnection:
    pragmas = (
        f"busy_timeout = {patience_s * 1_000:.0f}",
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
        factory=factory,
    )
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()
    except BaseException:
        connection.close()
        raise
    return connection
