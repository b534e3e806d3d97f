"""The tables. Every key begins with the session's id; nothing crosses sessions.

Triggers and views belong to the migrations, which own the schema; this is what statements are
built from. `content` stands last, so that what does not want it does not read it.
"""

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
    Column("details", Text),
    Column("content", Text),
    PrimaryKeyConstraint("session_id", "seq", name="entries_pkey"),
)

# Predicates of partial indexes are null tests: bound parameters would defeat anything else.
Index(
    "entries_client_id",
    entries.c.session_id,
    entries.c.client_id,
    unique=True,
    sqlite_where=text("client_id IS NOT NULL"),
    postgresql_where=text("client_id IS NOT NULL"),
)
Index(
    "entries_message_id",
    entries.c.session_id,
    entries.c.message_id,
    entries.c.seq,
    sqlite_where=text("message_id IS NOT NULL"),
    postgresql_where=text("message_id IS NOT NULL"),
)
Index(
    "entries_control",
    entries.c.session_id,
    entries.c.seq,
    sqlite_where=text("details IS NOT NULL"),
    postgresql_where=text("details IS NOT NULL"),
)
Index(
    "entries_notes",
    entries.c.session_id,
    entries.c.note,
    entries.c.target,
    entries.c.seq,
    sqlite_where=text("note IS NOT NULL"),
    postgresql_where=text("note IS NOT NULL"),
)
# Two sessions that share an entry share all before it: the first one tells them apart.
Index(
    "entries_first",
    entries.c.hash,
    sqlite_where=text("seq = 1"),
    postgresql_where=text("seq = 1"),
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
Index(
    "spans_visible",
    spans.c.session_id,
    spans.c.position,
    sqlite_where=text(VISIBLE),
    postgresql_where=text(VISIBLE),
)

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
