"""The tables. Every key begins with the session's id; nothing crosses sessions.

Checks, triggers and views belong to the migrations, which own the schema; statements are
built from this. `content` is the last column, so that reading the others does not read it.
"""

from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    func,
    literal_column,
    select,
    text,
    true,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement, FromClause

REVISION = "0001"
"""The newest migration: what this version works with."""
RELEASE = "0.1.0"
"""This release. The schema's row names the oldest one that may use it."""

VERSION_TABLE = "roocontext_version"
OWNER_POLICY = "roocontext_owner"
"""The policy of row-level security that shows a transaction the sessions of its owner."""
ADMINISTRATOR = "roocontext_administrator"
"""The policy of row-level security that shows a role all sessions."""

# Compared by code point on both engines. A language's collation ignores punctuation, so that a
# range of names that begin alike would miss some of them.
TEXT = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData()

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", TEXT, nullable=False),
    # Times are whole milliseconds since 1970 in UTC: the engines' own time types differ in
    # precision and time zone.
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_minute", BigInteger, nullable=False, server_default="0"),
    # The earlier of `happened_at` and `updated_at`, which lists are ordered by (0040).
    Column("listed_at", BigInteger, nullable=False, server_default="0"),
    Column("listed_minute", BigInteger, nullable=False, server_default="0"),
    # When its log was last written, in minutes of the engine's clock: the change feed reads the
    # sessions from a minute on (0070).
    Column("changed_minute", BigInteger, nullable=False, server_default="0"),
    Column("last_seq", BigInteger, nullable=False),
    Column("last_hash", LargeBinary, nullable=False),
    Column("head_seq", BigInteger, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    # Kept, because the spans that rewinds took back grow in number with every rewind. Sums of the
    # visible ones are made when they are asked for.
    Column("rewound_messages", BigInteger, nullable=False, server_default="0"),
    Column("rewound_bytes", BigInteger, nullable=False, server_default="0"),
    # While `recorded_back` is 0, no time of recording went back, and one is found by bisection
    # (0026).
    Column("latest_recorded", BigInteger),
    Column("recorded_back", BigInteger, nullable=False),
    # The first is that of the last entry; the second is the session's own time, and NULL as long
    # as its creation is.
    Column("latest_happened", BigInteger),
    Column("happened_at", BigInteger),
    # Whether entries were written since the index of the search was last brought up to date.
    Column("unindexed", Boolean, nullable=False, server_default=true()),
    Column("title", TEXT),
    Column("metadata", TEXT),
    Column("first_prompt", TEXT),
    Column("parent", TEXT),
    # Whose session it is; NULL if the store that created it had no owner (0073).
    Column("owner", TEXT),
    # Set while the entries are in an archive: when, where, and the hash of the first of them, by
    # which forks of each other are found (0081).
    Column("archived_at", BigInteger),
    Column("archive", TEXT),
    Column("first_hash", LargeBinary),
    Column("purged_at", BigInteger),
    Column("receipt", TEXT),
    PrimaryKeyConstraint("session_id", name="sessions_pkey"),
)

entries = Table(
    "entries",
    metadata,
    Column("session_id", TEXT, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", TEXT, nullable=False),
    Column("format", TEXT),
    Column("role", TEXT),
    Column("ts", BigInteger),
    Column("recorded_at", BigInteger, nullable=False),
    Column("message_id", TEXT),
    Column("client_id", TEXT),
    Column("model", TEXT),
    Column("usage", TEXT),
    Column("compaction_id", TEXT),
    Column("note", TEXT),
    Column("target", BigInteger),
    Column("asked_at", BigInteger),
    Column("answers_seq", BigInteger),
    Column("answers_block", BigInteger),
    Column("size", BigInteger, nullable=False),
    # Running totals: what a range holds is the difference of two rows, whatever its length.
    Column("messages_total", BigInteger, nullable=False),
    Column("bytes_total", BigInteger, nullable=False),
    # The latest time at which a message or control row happened so far: in order, whatever the
    # times are, so that a moment is found by bisection (0040).
    Column("latest_happened", BigInteger),
    Column("salt", LargeBinary),
    Column("content_digest", LargeBinary),
    Column("hash", LargeBinary, nullable=False),
    # The ids of calls and results, apart from the content and outside of the digest (0013).
    Column("tools", TEXT),
    Column("details", TEXT),
    Column("extra", TEXT),
    Column("content", TEXT),
    PrimaryKeyConstraint("session_id", "seq", name="entries_pkey"),
)

spans = Table(
    "spans",
    metadata,
    Column("session_id", TEXT, nullable=False),
    Column("lo", BigInteger, nullable=False),
    Column("hi", BigInteger, nullable=False),
    # The place in the view of row `lo`; an inserted row has one between those of two others (0025).
    Column("position", BigInteger, nullable=False),
    Column("condense_parent", BigInteger),
    Column("truncation_parent", BigInteger),
    Column("rewound_by", BigInteger),
    Column("uncovered_by", BigInteger),
    PrimaryKeyConstraint("session_id", "lo", name="spans_pkey"),
)
VISIBLE = (
    "condense_parent IS NULL AND truncation_parent IS NULL AND rewound_by IS NULL"
    " AND uncovered_by IS NULL"
)

clearings = Table(
    "clearings",
    metadata,
    Column("session_id", TEXT, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("block", Integer, nullable=False),
    # The clearing's seq, so that taking it back finds its rows.
    Column("cleared_by", BigInteger, nullable=False),
    Column("placeholder", TEXT, nullable=False),
    # How many characters of the output stay; NULL if none does.
    Column("head", BigInteger),
    Column("tail", BigInteger),
    PrimaryKeyConstraint("session_id", "seq", "block", name="clearings_pkey"),
)

counts = Table(
    "counts",
    metadata,
    Column("session_id", TEXT, nullable=False),
    # What was counted: empty for a message as it was written (0016).
    Column("variant", TEXT, nullable=False),
    Column("counter", TEXT, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("exact", Boolean, nullable=False),
    PrimaryKeyConstraint("session_id", "variant", "counter", "seq", name="counts_pkey"),
    # A count is small and always found by its key, so the table is its own index. `entries` is not:
    # a row of 1 KiB overflows the pages of such a table, and the file was three times as large.
    sqlite_with_rowid=False,
)

# `key` and `value` as `facts.indexed` makes them.
facts = Table(
    "facts",
    metadata,
    Column("session_id", TEXT, nullable=False),
    Column("key", TEXT, nullable=False),
    Column("value", TEXT, nullable=False),
    PrimaryKeyConstraint("session_id", "key", name="facts_pkey"),
    sqlite_with_rowid=False,
)

# Up to which entry each session is indexed. Not a column of `sessions`, whose row appends update.
search_marks = Table(
    "search_marks",
    metadata,
    Column("session_id", TEXT, nullable=False),
    Column("seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("session_id", name="search_marks_pkey"),
)

# Who works on a session now. It is no part of its log.
turns = Table(
    "turns",
    metadata,
    Column("session_id", TEXT, nullable=False),
    Column("token", TEXT, nullable=False),
    Column("holder", TEXT, nullable=False),
    # Milliseconds, as the times of the other tables.
    Column("lease", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("session_id", name="turns_pkey"),
)

# The engines' full text search is not the same: the terms are a tsvector on PostgreSQL, and SQLite
# also has an `id` and a virtual table that triggers keep (0035).
search_rows = Table(
    "search_rows",
    metadata,
    Column("session_id", TEXT, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("happened_at", BigInteger, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("terms"),
)

ALIKE = frozenset(metadata.tables) - {search_rows.name}
"""The tables that have the same columns and indexes on both engines."""

HAPPENED = func.coalesce(entries.c.ts, entries.c.recorded_at)
"""When an entry happened, as `log.times.happened` says."""
SESSION_HAPPENED = func.coalesce(sessions.c.happened_at, sessions.c.created_at)
"""When a session happened: at its creation, until it has a message."""


IS_HELD = and_(sessions.c.purged_at.is_(None), sessions.c.archived_at.is_(None))
"""The sessions whose entries are here: they were neither purged nor archived."""


class RecordingMinute(ColumnElement[int]):
    """The minute in which something is recorded, by the clock of the database.

    A server's clock says when the transaction began. On SQLite it is the host's, and never earlier
    than a minute that the file holds, whatever happens to the clock.
    """

    type = BigInteger()
    inherit_cache = True


@compiles(RecordingMinute)
def _minute_of_server(*_: Any, **__: Any) -> str:
    return "CAST(floor(date_part('epoch', now()) / 60) AS bigint)"


@compiles(RecordingMinute, "sqlite")
def _minute_of_file(*_: Any, **__: Any) -> str:
    return _minute_on_sqlite("'now'")


class FollowedMinute(RecordingMinute):
    """The minute from which a reader reads on: what it does not see yet gets no earlier one.

    On SQLite a write that is not committed yet has the minute in which it began. A reader waits for
    those of the last three minutes.
    """

    inherit_cache = True


@compiles(FollowedMinute, "sqlite")
def _minute_of_writers(*_: Any, **__: Any) -> str:
    return _minute_on_sqlite("'now', '-3 minutes'")


def _minute_on_sqlite(time: str) -> str:
    # The limit leaves out what is not a number: one damaged row must not stop every write.
    return (
        f"max(CAST(strftime('%s', {time}) AS INTEGER) / 60, coalesce((SELECT changed_minute FROM"  # noqa: S608
        " sessions WHERE changed_minute < 1e12 ORDER BY changed_minute DESC LIMIT 1), 0))"
    )


class EngineTime(ColumnElement[int]):
    """The time in milliseconds, by the server's clock; on SQLite the host's: the parameter `now`.

    On a server it is the time of the statement or, in an UPDATE, that of the transaction.
    """

    type = BigInteger()
    inherit_cache = True


@compiles(EngineTime)
def _time_of_server(_: Any, compiler: Any, **__: Any) -> str:
    # A distributed engine refuses a change that asks for the time of the statement.
    clock = "now()" if compiler.isupdate else "clock_timestamp()"
    return f"CAST(floor(date_part('epoch', {clock}) * 1000) AS bigint)"


@compiles(EngineTime, "sqlite")
def _time_of_host(_: Any, compiler: Any, **options: Any) -> str:
    return str(compiler.process(bindparam("now", type_=BigInteger), **options))


def of_session(table: FromClause) -> ColumnElement[bool]:
    """The condition that a row is of the session. A statement has it for each of its tables."""
    return table.c.session_id == bindparam("session_id")


def log_rows(*names: str) -> Select[Any]:
    """Make the statement for these columns of the session's entries. It has no order yet."""
    return select(*(entries.c[name] for name in names)).where(of_session(entries))


_SEQ = bindparam("seq", type_=BigInteger)
AT_SEQ = entries.c.seq == _SEQ
"""The entry `seq`."""
IN_RANGE = entries.c.seq.between(bindparam("lo"), bindparam("hi"))
"""The entries from `lo` to `hi`."""
_FIRST = literal_column("1", BigInteger)
UP_TO_SEQ = entries.c.seq.between(_FIRST, bindparam("seq"))
"""The entries of a log up to `seq`. Every read of a log has a bound at both ends: a row outside is
none of its entries, whatever it says, and no chain proves it."""
LAST = select(sessions.c.last_seq).where(of_session(sessions)).correlate(None).scalar_subquery()
"""The last seq of the log."""
IN_LOG = entries.c.seq.between(_FIRST, LAST)
"""All entries of the log, for statements that do not know its last seq."""
AFTER_SEQ = and_(entries.c.seq > bindparam("seq"), entries.c.seq <= LAST)
"""The entries after `seq`. With two lower bounds SQLite would start at the first entry."""


def newest_control(*names: str) -> Select[Any]:
    """Make the statement for these columns of the session's newest control row."""
    rows = log_rows(*names).where(entries.c.details.is_not(None), IN_LOG)
    return rows.order_by(entries.c.seq.desc()).limit(1)


def span_around(*columns: ColumnElement[Any], seq: ColumnElement[int] = _SEQ) -> Select[Any]:
    """Make the statement for these columns of the span that holds an entry."""
    rows = select(*columns).where(of_session(spans), spans.c.lo <= seq)
    return rows.order_by(spans.c.lo.desc()).limit(1)


class Erasure(NamedTuple):
    """Why a purge deletes a table's rows, and why a redaction deletes or changes them."""

    table: Table
    purge: str
    redaction: str | None = None


ERASURES = (
    Erasure(entries, "it holds the content", "the content is replaced by its skeleton"),
    Erasure(counts, "a count reveals a message's length", "a count reveals the content's length"),
    Erasure(clearings, "it names the messages that held outputs of tools"),
    Erasure(spans, "it shows what was condensed and rewound"),
    Erasure(facts, "it quotes the metadata"),
    Erasure(search_rows, "it holds the words of messages", "it holds the words of the content"),
    Erasure(turns, "it names who works on the session"),
    Erasure(search_marks, "it shows how far the session was indexed"),
)
"""Every table whose rows are about a session, except `sessions`, where a purge leaves its receipt.

A table with a `session_id` is either here or reaches no purge; a table that is derived from what a
message says also names what a redaction does to it.
"""


class Distribution(NamedTuple):
    """How a distributed engine stores a table.

    The rows of a table with a `column` are spread by it, next to the rows of `colocated_with` that
    have the same value. Each node holds a copy of a table without one.
    """

    table: str
    column: str | None = None
    colocated_with: str | None = None


DISTRIBUTION = (
    Distribution(sessions.name, "session_id"),
    *(Distribution(erasure.table.name, "session_id", sessions.name) for erasure in ERASURES),
    Distribution(VERSION_TABLE),
)
"""Every table of the schema. All rows of a session are on one node, so that a statement that names
the session for each of its tables runs there alone."""

_OWNED_AND_THERE = "owner IS NOT NULL AND purged_at IS NULL"
_OWNED_UNINDEXED = ("owner", "unindexed", "session_id")
# Predicates are null tests and literals: bound parameters would defeat anything else.
_PARTIAL = (
    ("entries_client_id", entries, ("session_id", "client_id"), "client_id IS NOT NULL"),
    ("entries_message_id", entries, ("session_id", "message_id", "seq"), "message_id IS NOT NULL"),
    ("entries_ts", entries, ("session_id", "ts", "seq"), "ts IS NOT NULL"),
    ("entries_answers", entries, ("session_id", "answers_seq", "seq"), "answers_seq IS NOT NULL"),
    ("entries_control", entries, ("session_id", "seq"), "details IS NOT NULL"),
    ("entries_notes", entries, ("session_id", "note", "target", "seq"), "note IS NOT NULL"),
    # By the minute, which most appends leave as it is: an index of `updated_at` would be written
    # by each, and would end HOT updates on PostgreSQL.
    ("sessions_listed", sessions, ("listed_minute",), "purged_at IS NULL"),
    ("sessions_updated", sessions, ("updated_minute",), "purged_at IS NULL"),
    # Appends leave this one alone too, except the first after the session was indexed.
    ("sessions_unindexed", sessions, ("unindexed", "session_id"), "unindexed = TRUE"),
    ("sessions_parent", sessions, ("parent",), "parent IS NOT NULL"),
    # The same lists for a store that has an owner, each of which begins with it.
    ("sessions_owner", sessions, ("owner", "session_id"), "owner IS NOT NULL"),
    ("sessions_owner_changed", sessions, ("owner", "changed_minute"), "owner IS NOT NULL"),
    *(
        (f"sessions_owner_{name}", sessions, ("owner", f"{name}_minute"), _OWNED_AND_THERE)
        for name in ("listed", "updated")
    ),
    (
        "sessions_owner_unindexed",
        sessions,
        _OWNED_UNINDEXED,
        "owner IS NOT NULL AND unindexed = TRUE",
    ),
    ("sessions_archived", sessions, ("first_hash",), "archived_at IS NOT NULL"),
    # Two sessions that share an entry share all before it: the first one is enough to find them.
    ("entries_first", entries, ("hash",), "seq = 1"),
    ("spans_visible", spans, ("session_id", "position"), VISIBLE),
)
_UNIQUE = frozenset({"entries_client_id"})
_WHOLE = (
    ("facts_value", facts, ("key", "value")),
    ("sessions_changed", sessions, ("changed_minute",)),
)


@cache
def with_indexes() -> MetaData:
    """The tables with their indexes. Apart, because an index loads its engines' dialects."""
    for name, table, columns, predicate in _PARTIAL:
        Index(
            name,
            *(table.c[column] for column in columns),
            unique=name in _UNIQUE,
            sqlite_where=text(predicate),
            postgresql_where=text(predicate),
        )
    for name, table, columns in _WHOLE:
        Index(name, *(table.c[column] for column in columns))
    return metadata
