"""A copy of an SQLite database, made while others read and write it."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from roocontext.errors import InvalidOption, StoreUnavailable
from roocontext.store.engine.database import Database
from roocontext.store.engine.driver_errors import translated
from roocontext.store.engine.engines import EngineOptions, engine_of
from roocontext.store.proof.verify import Progress

_PAGES: Final = 1_000
"""The pages that are copied between two reports of the progress."""


def back_up(url: str, target: Path, progress: Progress) -> int:
    """Copy a database to a new file as it is at this moment, and return the bytes of the copy.

    Writers are not kept waiting. Only the file's owner can read the copy. If it cannot be finished,
    no file is left.
    """
    engine = engine_of(url, EngineOptions(read_only=True))
    if engine.server is not None:
        raise InvalidOption(
            "Only SQLite databases can be copied here. Use pg_dump for PostgreSQL.", name="url"
        )
    database = Database(engine)
    try:
        # One snapshot, so that SQLite does not start again when a writer commits in between.
        with database.read() as tx:
            _create(target)
            try:
                _copy(tx.connection, target, progress)
            except BaseException:
                with suppress(OSError):
                    target.unlink()
                raise
    finally:
        database.close()
    return target.stat().st_size


def _create(target: Path) -> None:
    """Make the file, which must not be there yet."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        line = f"{str(target)!r} exists, and a backup overwrites nothing."
        raise StoreUnavailable(line, advice="Name a new file.") from None
    except OSError as error:
        line = f"{str(target)!r} cannot be created: {error.strerror}."
        raise StoreUnavailable(
            line, advice="Name a file in a folder that you can write to."
        ) from None


def _copy(source: sqlite3.Connection, target: Path, progress: Progress) -> None:
    def report(_status: int, left: int, total: int) -> None:
        progress(total - left, total)

    source.execute("SELECT 1 FROM sqlite_master").close()  # the snapshot begins with a read
    with translated(), closing(sqlite3.connect(target)) as copy:
        source.backup(copy, pages=_PAGES, progress=report)
