"""The floors: the least that any program could do, written against the drivers themselves."""

import json
import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

import psycopg

from roocontext.log.chain import Sealed, content_digest, entry_digest, link

Row = tuple[Any, ...]

PRAGMAS = (
    "busy_timeout = 30000",
    "synchronous = {synchronous}",
    "recursive_triggers = ON",
    "secure_delete = ON",
)
"""What the store sets on each connection."""


class SqliteFloor:
    """Raw sqlite3 on a file: a table with an integer key only, and a twin of `entries`."""

    holder = "?"

    def __init__(self, path: str, *, synchronous: str = "FULL", threads: bool = False) -> None:
        self.connection = sqlite3.connect(
            path, isolation_level=None, timeout=60, check_same_thread=not threads
        )
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(f"PRAGMA synchronous = {synchronous}")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS plain (number INTEGER PRIMARY KEY, content TEXT)"
        )

    def append(self, text: str) -> None:
        """One durable commit of encoded bytes."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO plain (content) VALUES (?)", (text,))
        self.connection.execute("COMMIT")

    def twin(self, source: "SqliteFloor") -> None:
        """A table with the columns and indexes of the store's entries, and no trigger."""
        made = source.rows(
            "SELECT sql FROM sqlite_master WHERE tbl_name = 'entries'"
            " AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC"
        )
        for (sql,) in made:
            self.connection.execute(sql)

    def insert(self, sql: str, rows: Sequence[Row]) -> None:
        """Many rows in one durable commit."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(sql, rows)
        self.connection.execute("COMMIT")

    def change(self, sql: str, params: Row) -> None:
        """One statement in one durable commit."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(sql, params)
        self.connection.execute("COMMIT")

    def rows(self, sql: str, params: Row = ()) -> list[Row]:
        """All rows of a query."""
        return self.connection.execute(sql, params).fetchall()

    def close(self) -> None:
        """Disconnect."""
        self.connection.close()


class SqliteWork:
    """All the durable work of an append, written straight in sqlite3.

    It has the store's own tables, indexes, triggers, digests and counters, because it writes to a
    session of a store's file; and it writes a message without a client id, and nothing else.
    """

    _HEAD = (
        "SELECT last_seq, last_hash, messages, bytes, latest_recorded, recorded_back,"
        " latest_happened, happened_at FROM sessions WHERE session_id = ?"
    )
    _ENTRY = (
        "INSERT INTO entries (session_id, seq, kind, format, role, recorded_at, size,"
        " messages_total, bytes_total, latest_happened, salt, content_digest, hash, content)"
        " VALUES (?, ?, 'message', 'anthropic', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    _MOVE = (
        "UPDATE sessions SET last_seq = ?, last_hash = ?, head_seq = ?, messages = ?, bytes = ?,"
        " updated_at = ?, latest_recorded = ?, recorded_back = ?, latest_happened = ?,"
        " happened_at = ?, listed_at = ? WHERE session_id = ?"
    )

    def __init__(self, path: str, session_id: str, *, synchronous: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma.format(synchronous=synchronous)}")
        self._session_id = session_id

    def append(self, role: str, content: Any) -> None:
        """One commit of a message."""
        text = json.dumps(content, separators=(",", ":"))
        run, now, size = self._connection.execute, time.time_ns() // 1_000_000, len(text)
        salt = os.urandom(16)
        digest = content_digest(salt, text)
        sealed = Sealed(
            kind="message",
            format="anthropic",
            role=role,
            ts=None,
            recorded_at=now,
            message_id=None,
            client_id=None,
            model=None,
            usage=None,
            compaction_id=None,
            note=None,
            target=None,
            asked_at=None,
            answers_seq=None,
            answers_block=None,
            details=None,
            size=size,
        )
        own = entry_digest(sealed, digest)
        run("BEGIN IMMEDIATE")
        seq, previous, messages, total, *times = run(self._HEAD, (self._session_id,)).fetchone()
        recorded, back, latest, own_time = [now if time is None else time for time in times]
        latest, own_time = max(latest, now), max(own_time, now)
        seq, messages, total, following = seq + 1, messages + 1, total + size, link(previous, own)
        run(
            self._ENTRY,
            (
                self._session_id,
                seq,
                role,
                now,
                size,
                messages,
                total,
                latest,
                salt,
                digest,
                following,
                text,
            ),
        )
        back += now < recorded
        times = (max(recorded, now), back, latest, own_time, min(own_time, now))
        run(self._MOVE, (seq, following, seq, messages, total, now, *times, self._session_id))
        run("COMMIT")

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


class PostgresFloor:
    """Raw psycopg on a database: the same tables."""

    holder = "%s"

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url)
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS plain"
            " (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, content text)"
        )
        self.connection.commit()

    def append(self, text: str) -> None:
        """One durable commit of encoded bytes."""
        self.connection.execute("INSERT INTO plain (content) VALUES (%s)", (text,))
        self.connection.commit()

    def twin(self, source: "PostgresFloor") -> None:
        """A table with the columns and indexes of the store's entries, and no trigger.

        It is named like the store's own and needs a database of its own.
        """
        columns = source.rows(
            "SELECT string_agg(format('%I %s %s', attname, format_type(atttypid, atttypmod),"
            " CASE WHEN attnotnull THEN 'NOT NULL' END), ', ' ORDER BY attnum)"
            " FROM pg_attribute WHERE attrelid = 'entries'::regclass AND attnum > 0"
        )
        indexes = source.rows(
            "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'entries'::regclass"
        )
        for sql in (f"CREATE TABLE entries ({columns[0][0]})", *(row[0] for row in indexes)):
            self.connection.execute(sql)
        self.connection.commit()

    def insert(self, sql: str, rows: Sequence[Row]) -> None:
        """Many rows in one durable commit."""
        with self.connection.cursor() as cursor:
            cursor.executemany(sql, rows)
        self.connection.commit()

    def change(self, sql: str, params: Row) -> None:
        """One statement in one durable commit."""
        self.connection.execute(sql, params)
        self.connection.commit()

    def rows(self, sql: str, params: Row = ()) -> list[Row]:
        """All rows of a query, and the end of its transaction."""
        rows = self.connection.execute(sql, params or None).fetchall()
        self.connection.commit()
        return rows

    def close(self) -> None:
        """Disconnect."""
        self.connection.close()
