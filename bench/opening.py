"""Opening a store that exists, in a process that has opened one before."""

import sqlite3
from pathlib import Path

from bench.data import grow
from bench.report import Line
from bench.sites import SqliteSite
from bench.sizes import Sizes
from bench.timing import Step, alternate
from roocontext import Store

_PRAGMAS = (
    "busy_timeout = 30000",
    "synchronous = FULL",
    "recursive_triggers = ON",
    "secure_delete = ON",
)


def opening(site: SqliteSite, sizes: Sizes) -> Line:
    """Open, read a session and close, against a raw connection that does the same."""
    path = site.path("opened")
    with Store.open(path) as store:
        chat = grow(store.create(), 1)
    times = alternate(
        [
            Step("raw", lambda _: _raw(path, chat.id)),
            Step("store", lambda _: _store(path, chat.id)),
        ],
        rounds=sizes.reads,
        batch=5,
    )
    return Line(
        "sqlite.open",
        "SQLite: open an existing store, read a session, close",
        "a raw connection, the same pragmas and one read",
        times["store"],
        times["raw"],
        4.0,
    )


def _raw(path: Path, session: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("SELECT content FROM entries WHERE session_id = ?", (session,)).fetchall()
    connection.close()


def _store(path: Path, session: str) -> None:
    with Store.open(path) as store:
        store.session(session).view()
