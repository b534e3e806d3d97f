"""The tables. Every key begins with the session's id; nothing crosses sessions.

Triggers and views belong to the migrations, which own the schema; this is what statements are
built from. `content` stands last, so that what does not want it does not read it.
"""

from functools import cache

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

REVISION = "0001"
"""The newest migration: what this version works with."""

VERSION_TABLE = "roocontext_version"

# Compared by code point on both engines: the same order everywhere, whatever the locale.
SESSION_ID = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData()

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", SESSION_ID, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("last_hash", LargeBinary, nullable=False),
    Column("head_seq", BigInteger, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("latest_recorded", BigInteger, nullable=False),
    Column("recorded_back", BigInteger, nullable=False),
    Column("latest_own", BigInteger, nullable=False),
    Column("own_back", BigInteger, nullable=False),
    Column("title", Text),
    Column("metadata", Text),
    Column("purged_at", BigInteger),
    Column("receipt", Text),
    PrimaryKeyConstraint("session_id", name="sessions_pkey"),
)

entries = Table(
    "entries",
    metadata,
    Column("session_id", SESSION_ID, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("format", Text),
    Column("role", Text),
    Column("ts", BigInteger),
    Column("recorded_at", BigInteger, nullable=False),
    Column("message_id", Text),
    Column("client_id", Text),
    Column("model", Text),
    Column("usage", Text),
    Column("compaction_id", Text),
    Column("note", Text),
    Column("target", BigInteger),
    Column("size", BigInteger, nullable=False),
    Column("messages_total", BigInteger, nullable=False),
    Column("bytes_total", BigInteger, nullable=False),
    Column("salt", LargeBinary),
    Column("content_digest", LargeBinary),
    Column("hash", LargeBinary, nullable=False),
    Column("tools", Text),
    Column("details", Text),
    Column("content", Text),
    PrimaryKeyConstraint("session_id", "seq", name="entries_pkey"),
)

spans = Table(
    "spans",
    metadata,
    Column("session_id", SESSION_ID, nullable=False),
    Column("lo", BigInteger, nullable=False),
    Column("hi", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("condense_parent", BigInteger),
    Column("truncation_parent", BigInteger),
    Column("rewound_by", BigInteger),
    PrimaryKeyConstraint("session_id", "lo", name="spans_pkey"),
)
VISIBLE = "condense_parent IS NULL AND truncation_parent IS NULL AND rewound_by IS NULL"

clearings = Table(
    "clearings",
    metadata,
    Column("session_id", SESSION_ID, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("block", Integer, nullable=False),
    Column("cleared_by", BigInteger, nullable=False),
    Column("placeholder", Text, nullable=False),
    PrimaryKeyConstraint("session_id", "seq", "block", name="clearings_pkey"),
)

counts = Table(
    "counts",
    metadata,
    Column("session_id", SESSION_ID, nullable=False),
    Column("counter", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("exact", Boolean, nullable=False),
    PrimaryKeyConstraint("session_id", "counter", "seq", name="counts_pkey"),
)

# Predicates are null tests and literals: bound parameters would defeat anything else.
_PARTIAL = (
    ("entries_client_id", entries, ("session_id", "client_id"), "client_id IS NOT NULL"),
    ("entries_message_id", entries, ("session_id", "message_id", "seq"), "message_id IS NOT NULL"),
    ("entries_ts", entries, ("session_id", "ts", "seq"), "ts IS NOT NULL"),
    ("entries_control", entries, ("session_id", "seq"), "details IS NOT NULL"),
    ("entries_notes", entries, ("session_id", "note", "target", "seq"), "note IS NOT NULL"),
    # Two sessions that share an entry share all before it: the first one tells them apart.
    ("entries_first", entries, ("hash",), "seq = 1"),
    ("spans_visible", spans, ("session_id", "position"), VISIBLE),
)
_UNIQUE = frozenset({"entries_client_id"})


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
    return metadata
