"""Plans of statements: what a store sends to the driver, and how the database would run it.

Each statement is caught as the driver gets it, with its parameters, while a store works on a long
session among many short ones.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

from roocontext.log.counting import BYTES

LONG = 6_000
SESSIONS = 1_500
SHORT = 8

Params = Any
PLANNED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


class Caught(NamedTuple):
    """A statement as it was given to the driver."""

    operation: str
    text: str
    params: Params


class Catcher:
    """Keeps the statements of the operation that is going on."""

    def __init__(self) -> None:
        self.operation: str | None = None
        self.caught: list[Caught] = []

    def catch(self, text: str, params: Params) -> None:
        """Keep a statement; commands that begin and end transactions have no plan."""
        if self.operation and text.startswith(PLANNED):
            self.caught.append(Caught(self.operation, text, params))

    def of(self, operation: str) -> list[Caught]:
        return [caught for caught in self.caught if caught.operation == operation]

    def each_text(self) -> Collection[Caught]:
        """Each statement once, as it was first run."""
        return {caught.text: caught for caught in reversed(self.caught)}.values()

    def watch_sqlite(self, patch: pytest.MonkeyPatch) -> None:
        """Catch the statements of every connection to a file that is opened from now on."""
        catcher, connect = self, sqlite3.connect

        def recording(*args: Any, factory: type[sqlite3.Connection], **options: Any) -> Any:
            class RecordingCursor(sqlite3.Cursor):
                def execute(self, text: str, *params: Any) -> sqlite3.Cursor:
                    catcher.catch(text, *params or ((),))
                    return super().execute(text, *params)

            class Recording(factory):
                def cursor(self, kind: type[sqlite3.Cursor] = RecordingCursor) -> sqlite3.Cursor:
                    return super().cursor(kind)

            return connect(*args, factory=Recording, **options)

        patch.setattr(sqlite3, "connect", recording)

    def watch_postgres(self, patch: pytest.MonkeyPatch) -> None:
        """Catch the statements of every connection to a server."""
        catcher, execute = self, psycopg.RawCursor.execute

        def recording(self: Any, text: Any, params: Any = None, **options: Any) -> Any:
            catcher.catch(str(text), params)
            return execute(self, text, params, **options)

        patch.setattr(psycopg.RawCursor, "execute", recording)


ENTRY = """session_id, seq, kind, format, role, recorded_at, message_id, size, messages_total,
    bytes_total, latest_happened, salt, content_digest, hash, content"""
SESSION = """session_id, created_at, updated_at, updated_minute, listed_at, listed_minute, last_seq,
    last_hash, head_seq, messages, bytes, latest_recorded, recorded_back, latest_happened,
    happened_at, unindexed, parent, owner"""
SPAN = "session_id, lo, hi, position"
OPEN_END = (1 << 62) - 1


def _fill(
    series: str, blob: str, text: str, terms: str, run: Callable[[str], Any], owner: str = "NULL"
) -> None:
    """One long session and many short ones, past the library: their hashes do not matter here.

    `owner` is the owner of the short session `n`, in SQL. All messages are indexed. Of a thousand
    one has the word that is searched for, and of two thousand one is too large for the index.
    """
    for sessions, last, name, session in (
        (1, LONG, "'long'", "'long'"),
        (SESSIONS, SHORT, "'s' || n", f"'s' || ((n - 1) / {SHORT} + 1)"),
    ):
        every_entry = series.format(last=sessions * last)
        every_session = series.format(last=sessions)
        seq = f"((n - 1) % {last}) + 1"
        run(
            f"INSERT INTO entries ({ENTRY}) SELECT {session}, {seq}, 'message', 'anthropic',"
            f" 'user', n, 'm' || ({seq}), 202, {seq}, 202 * ({seq}), n, {blob}, {blob},"
            f" {blob}, {text}"
            f" FROM {every_entry}"
        )
        run(
            f"INSERT INTO sessions ({SESSION}) SELECT {name}, n, n, n / 60000, n, n / 60000,"
            f" {last}, {blob}, {last}, {last}, 202 * {last}, {last}, 0, {last}, n,"
            f" FALSE, 'p' || (n / 10), {owner}"
            f" FROM {every_session}"
        )
        run(
            f"INSERT INTO spans ({SPAN}) SELECT {name}, 1, {OPEN_END}, 4294967296"
            f" FROM {every_session}"
        )
        run(
            "INSERT INTO counts (session_id, variant, counter, seq, tokens, exact)"
            f" SELECT {session}, '', 'other', {seq}, 7, TRUE"
            f" FROM {every_entry}"
        )
        words = terms.format("CASE WHEN n % 1000 = 7 THEN 'hello' ELSE 'word' || n END")
        run(
            "INSERT INTO search_rows (session_id, seq, recorded_at, happened_at, terms)"
            f" SELECT {session}, {seq}, n, n, CASE WHEN n % 2000 <> 9 THEN {words} END"
            f" FROM {every_entry}"
        )
    # What it costs was counted before its newest messages came, or each operation would count all.
    run(
        "INSERT INTO counts (session_id, variant, counter, seq, tokens, exact)"
        f" SELECT 'long', '', '{BYTES.name}', n, 202, TRUE FROM {series.format(last=LONG - 200)}"
    )
    run(
        "INSERT INTO facts (session_id, key, value)"
        """ SELECT 's' || n, '"user"', '"u' || (n % 100) || '"' FROM """
        + series.format(last=SESSIONS)
    )
    run("INSERT INTO search_marks (session_id, seq) SELECT session_id, last_seq FROM sessions")
    # Of other sessions only: what is cached of the long one has to be its fold.
    run(
        "INSERT INTO clearings (session_id, seq, block, cleared_by, placeholder)"
        f" SELECT 's' || n, 1, 0, 2, 'gone' FROM {series.format(last=SESSIONS)}"
    )


fill_sqlite = partial(
    _fill,
    "(WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t"
    " WHERE n < {last}) SELECT n FROM t)",
    "zeroblob(32)",
    "'\"' || hex(zeroblob(100)) || '\"'",
    "({})",
)
fill_postgres = partial(
    _fill,
    "generate_series(1, {last}) AS n",
    "decode(repeat('00', 32), 'hex')",
    "'\"' || repeat('0', 200) || '\"'",
    "to_tsvector('simple', {})",
)


def explain(admin: psycopg.Connection, text: str, params: Params) -> dict[str, Any]:
    admin.execute(f"PREPARE planned AS {text}")
    try:
        given = ", ".join(sql.Literal(value).as_string(None) for value in params or ())
        call = f"planned({given})" if given else "planned"
        row = admin.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {call}").fetchone()
    finally:
        admin.execute("DEALLOCATE planned")
    assert row is not None
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    plan: dict[str, Any] = found[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)
