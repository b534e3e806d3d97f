"""The log, the caches of its fold, the checks and triggers that guard it, the views, the search.

The triggers, the views, the index of the search and PostgreSQL's functions are in the `.sql` files
of this folder.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.exc import DBAPIError

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

logger = logging.getLogger("roocontext.migrations")

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

JOINED_BLOCKS = {
    "sqlite": "group_concat(c.block, ',')",
    "postgresql": "string_agg(c.block::text, ',')",
}

STORAGE = {
    sa.BigInteger: "integer",
    sa.Integer: "integer",
    sa.Boolean: "integer",
    sa.Text: "text",
    sa.LargeBinary: "blob",
}

# NULL passes every check: each rule is about columns that are NOT NULL, or tests for NULL itself.
SESSIONS_RULES = {
    "head": "last_seq >= 0 AND head_seq BETWEEN 0 AND last_seq AND length(last_hash) = 32",
    "totals": """messages >= 0 AND bytes >= 0
        AND rewound_messages BETWEEN 0 AND messages AND rewound_bytes BETWEEN 0 AND bytes""",
    "times": "recorded_back >= 0",
    "parent": "parent <> session_id",
    "archived": """(archived_at IS NULL) = (archive IS NULL)
        AND (archived_at IS NULL OR purged_at IS NULL)""",
    "purged": "(purged_at IS NULL) = (receipt IS NULL)",
}
ENTRIES_RULES = {
    # Before 1 is no entry, and nothing would prove it: the chain begins with entry 1.
    "seq": "seq >= 1",
    # A CASE, so that a message, which most rows are, is compared with one word.
    "kind": """CASE kind
        WHEN 'message' THEN role IS NOT NULL AND note IS NULL AND details IS NULL
        WHEN 'note' THEN role IS NULL AND note IS NOT NULL AND details IS NULL
        ELSE details IS NOT NULL AND note IS NULL AND CASE
            WHEN kind IN ('summary', 'marker', 'companion') THEN role IS NOT NULL
            ELSE kind IN ('covering', 'clearing', 'rewind', 'uncovering') AND role IS NULL
        END
    END""",
    "format": "(format IS NULL) = (role IS NULL)",
    "digests": """length(hash) = 32
        AND (content_digest IS NULL) = (content IS NULL)
        AND (content_digest IS NULL OR length(content_digest) = 32)""",
    "totals": "size >= 0 AND messages_total >= 0 AND bytes_total >= 0",
    "extra": "extra IS NULL OR (role IS NOT NULL AND salt IS NOT NULL)",
    "asked": "asked_at IS NULL OR (role IS NOT NULL AND asked_at BETWEEN 0 AND seq - 1)",
    "answers": """(answers_seq IS NULL) = (answers_block IS NULL) AND (answers_seq IS NULL OR (
        role IS NOT NULL AND answers_seq BETWEEN 1 AND seq - 1 AND answers_block >= 0))""",
}
SPANS_RULES = {"range": "lo >= 1 AND hi >= lo AND position >= 0"}
CLEARINGS_RULES = {
    "block": "seq >= 1 AND block >= 0 AND cleared_by > seq",
    "parts": "(head IS NULL AND tail IS NULL) OR (head >= 0 AND tail >= 0)",
}
SEARCH_MARKS_RULES = {"seq": "seq >= 0"}
TURNS_RULES = {"lease": "lease > 0"}
COUNTS_RULES = {"tokens": "seq >= 1 AND tokens >= 0"}
WRITTEN_BY_APPENDS = {"sessions": SESSIONS_RULES, "entries": ENTRIES_RULES}


def upgrade() -> None:
    """Create everything."""
    _oldest_release()
    _tables()
    _indexes()
    _checks_by_functions()
    _append()
    _triggers()
    _views()
    _search()


def _oldest_release() -> None:
    """Let the schema's row name the oldest release that may use it.

    A later migration that an older release cannot work with updates it.
    """
    op.execute(
        "ALTER TABLE roocontext_version ADD COLUMN oldest_release text NOT NULL DEFAULT '0.1.0'"
    )


def _tables() -> None:
    _table(
        "sessions",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_minute", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("listed_at", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("listed_minute", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("changed_minute", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("last_hash", sa.LargeBinary, nullable=False),
        sa.Column("head_seq", sa.BigInteger, nullable=False),
        sa.Column("messages", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("rewound_messages", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("rewound_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("latest_recorded", sa.BigInteger),
        sa.Column("recorded_back", sa.BigInteger, nullable=False),
        sa.Column("latest_happened", sa.BigInteger),
        sa.Column("happened_at", sa.BigInteger),
        sa.Column("unindexed", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("title", TEXT),
        sa.Column("metadata", TEXT),
        sa.Column("first_prompt", TEXT),
        sa.Column("parent", TEXT),
        sa.Column("owner", TEXT),
        sa.Column("archived_at", sa.BigInteger),
        sa.Column("archive", TEXT),
        sa.Column("first_hash", sa.LargeBinary),
        sa.Column("purged_at", sa.BigInteger),
        sa.Column("receipt", TEXT),
        sa.PrimaryKeyConstraint("session_id", name="sessions_pkey"),
        rules=SESSIONS_RULES,
    )
    _table(
        "entries",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("format", TEXT),
        sa.Column("role", TEXT),
        sa.Column("ts", sa.BigInteger),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.Column("message_id", TEXT),
        sa.Column("client_id", TEXT),
        sa.Column("model", TEXT),
        sa.Column("usage", TEXT),
        sa.Column("compaction_id", TEXT),
        sa.Column("note", TEXT),
        sa.Column("target", sa.BigInteger),
        sa.Column("asked_at", sa.BigInteger),
        sa.Column("answers_seq", sa.BigInteger),
        sa.Column("answers_block", sa.BigInteger),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("messages_total", sa.BigInteger, nullable=False),
        sa.Column("bytes_total", sa.BigInteger, nullable=False),
        sa.Column("latest_happened", sa.BigInteger),
        sa.Column("salt", sa.LargeBinary),
        sa.Column("content_digest", sa.LargeBinary),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("tools", TEXT),
        sa.Column("details", TEXT),
        sa.Column("extra", TEXT),
        sa.Column("content", TEXT),
        sa.PrimaryKeyConstraint("session_id", "seq", name="entries_pkey"),
        rules=ENTRIES_RULES,
    )
    _table(
        "spans",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("lo", sa.BigInteger, nullable=False),
        sa.Column("hi", sa.BigInteger, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("condense_parent", sa.BigInteger),
        sa.Column("truncation_parent", sa.BigInteger),
        sa.Column("rewound_by", sa.BigInteger),
        sa.Column("uncovered_by", sa.BigInteger),
        sa.PrimaryKeyConstraint("session_id", "lo", name="spans_pkey"),
        rules=SPANS_RULES,
    )
    _table(
        "clearings",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("cleared_by", sa.BigInteger, nullable=False),
        sa.Column("placeholder", TEXT, nullable=False),
        sa.Column("head", sa.BigInteger),
        sa.Column("tail", sa.BigInteger),
        sa.PrimaryKeyConstraint("session_id", "seq", "block", name="clearings_pkey"),
        rules=CLEARINGS_RULES,
    )
    _table(
        "counts",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("variant", TEXT, nullable=False),
        sa.Column("counter", TEXT, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("exact", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "variant", "counter", "seq", name="counts_pkey"),
        # Sums read ranges of this key: a row that lies in it is not looked up.
        sqlite_with_rowid=False,
        rules=COUNTS_RULES,
    )
    _table(
        "facts",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("value", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "key", name="facts_pkey"),
        # The index by value then holds the session's id too, and no row is looked up.
        sqlite_with_rowid=False,
        rules={},
    )
    _table(
        "search_marks",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="search_marks_pkey"),
        rules=SEARCH_MARKS_RULES,
    )
    _table(
        "turns",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("holder", TEXT, nullable=False),
        sa.Column("lease", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="turns_pkey"),
        rules=TURNS_RULES,
    )


def _table(
    name: str, *parts: sa.schema.SchemaItem, rules: Mapping[str, str], **options: Any
) -> None:
    """A table with its checks. What SQLite's own types do not refuse is a check there."""
    rules = dict(rules)
    if op.get_bind().dialect.name == "sqlite":
        columns = [part for part in parts if isinstance(part, sa.Column)]
        rules["types"] = " AND ".join(map(_typed, columns))
    checks = (sa.CheckConstraint(rule, name=f"{name}_{which}") for which, rule in rules.items())
    op.create_table(name, *parts, *checks, **options)


def _typed(column: "sa.Column[Any]") -> str:
    """What a check sees is what will be stored: '5' is an integer in an integer column by then."""
    kind = STORAGE[type(column.type)]
    if column.nullable:
        return f"typeof({column.name}) IN ('{kind}', 'null')"
    return f"typeof({column.name}) = '{kind}'"


def _indexes() -> None:
    _partial("entries_client_id", "entries", "session_id, client_id", "client_id", unique=True)
    _partial("entries_message_id", "entries", "session_id, message_id, seq", "message_id")
    _partial("entries_ts", "entries", "session_id, ts, seq", "ts")
    _partial("entries_answers", "entries", "session_id, answers_seq, seq", "answers_seq")
    _partial("entries_control", "entries", "session_id, seq", "details")
    _partial("entries_notes", "entries", "session_id, note, target, seq", "note")
    _partial("sessions_parent", "sessions", "parent", "parent")
    _partial("sessions_owner", "sessions", "owner, session_id", "owner")
    _partial("sessions_owner_changed", "sessions", "owner, changed_minute", "owner")
    _partial("sessions_archived", "sessions", "first_hash", "archived_at")
    op.execute("CREATE INDEX facts_value ON facts (key, value)")
    op.execute("CREATE INDEX sessions_changed ON sessions (changed_minute)")
    for time in ("listed", "updated"):
        columns = f"({time}_minute) WHERE purged_at IS NULL"
        op.execute(f"CREATE INDEX sessions_{time} ON sessions {columns}")
        columns = f"(owner, {time}_minute) WHERE owner IS NOT NULL AND purged_at IS NULL"
        op.execute(f"CREATE INDEX sessions_owner_{time} ON sessions {columns}")
    op.execute(
        "CREATE INDEX sessions_unindexed ON sessions (unindexed, session_id) WHERE unindexed = TRUE"
    )
    op.execute(
        "CREATE INDEX sessions_owner_unindexed ON sessions (owner, unindexed, session_id)"
        " WHERE owner IS NOT NULL AND unindexed = TRUE"
    )
    op.execute("CREATE INDEX entries_first ON entries (hash) WHERE seq = 1")
    op.execute(
        "CREATE INDEX spans_visible ON spans (session_id, position) WHERE condense_parent IS NULL"
        " AND truncation_parent IS NULL AND rewound_by IS NULL AND uncovered_by IS NULL"
    )
    if op.get_bind().dialect.name == "postgresql":
        # Each append updates its session's row: room on the page keeps that update off the index.
        op.execute("ALTER TABLE sessions SET (fillfactor = 50)")
        # A message of 2 to 4 kB stays in its row: moved out, the table takes 11 % more.
        op.execute("ALTER TABLE entries SET (toast_tuple_target = 4080)")


def _partial(name: str, table: str, columns: str, given: str, *, unique: bool = False) -> None:
    word = "UNIQUE INDEX" if unique else "INDEX"
    op.execute(f"CREATE {word} {name} ON {table} ({columns}) WHERE {given} IS NOT NULL")


def _checks_by_functions() -> None:
    """Let a function check what each append writes, on PostgreSQL.

    It parses the text of every check anew in each statement that writes, which took half of an
    append's time on the server. It parses the body of a function once for each connection. The
    functions take the columns that their rules name.
    """
    if op.get_bind().dialect.name == "sqlite":
        return
    statements = []
    for table, rules in WRITTEN_BY_APPENDS.items():
        rule = " AND ".join(f"({one})" for one in rules.values())
        words = set(re.findall(r"'\w+'|\w+", rule))
        columns = [
            column
            for column in sa.inspect(op.get_bind()).get_columns(table)
            if column["name"] in words
        ]
        names = ", ".join(column["name"] for column in columns)
        takes = ", ".join(f"{column['name']} {_type(column['type'])}" for column in columns)
        called = f"roocontext_{table}_rules"
        function = f"FUNCTION {called}({takes}) RETURNS boolean LANGUAGE plpgsql IMMUTABLE"
        dropped = ", ".join(f"DROP CONSTRAINT {table}_{which}" for which in rules)
        check = f"ADD CONSTRAINT {table}_rules CHECK ({called}({names}))"
        statements.append(f"CREATE {function} AS $$ BEGIN RETURN {rule}; END $$")
        statements.append(f"ALTER TABLE {table} {dropped}, {check}")
    _run_if_permitted(statements, "functions in checks")


def _type(type_: Any) -> str:
    return {"BIGINT": "bigint", "TEXT": "text", "BYTEA": "bytea"}[type(type_).__name__]


def _append() -> None:
    if op.get_bind().dialect.name == "postgresql":
        _run_if_permitted(_statements("append_postgresql"), "the function of an append")


def _triggers() -> None:
    statements = _statements(f"triggers_{op.get_bind().dialect.name}")
    _run_if_permitted(statements, "the append-only triggers")


def _run_if_permitted(statements: list[str], what: str) -> None:
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _run(connection, statements)
        return
    try:
        with connection.begin_nested():
            _run(connection, statements)
    except DBAPIError as refused:
        # Some clusters have no triggers, or no functions. The store works without them: the checks
        # stay as they were, and the hash chain still shows what was changed.
        code = getattr(refused.orig, "sqlstate", None)
        if code is None:
            raise
        logger.warning("This server refuses %s (%s).", what, code)


def _views() -> None:
    connection = op.get_bind()
    joined = JOINED_BLOCKS[connection.dialect.name]
    _run(connection, [one.replace("JOINED_BLOCKS", joined) for one in _statements("views")])


def _search() -> None:
    connection = op.get_bind()
    _run(connection, _statements(f"search_{connection.dialect.name}"))
    if connection.dialect.name == "postgresql":
        schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
        statements = [one.replace("OUR_SCHEMA", schema) for one in _statements("owners_postgresql")]
        _run_if_permitted(statements, "the search of an owner's messages")


def _statements(name: str) -> list[str]:
    """The statements of an SQL file of this revision. Blank lines separate them."""
    text = Path(__file__).with_name(f"{revision}_{name}.sql").read_text(encoding="utf-8")
    return text.split("\n\n")


def _run(connection: sa.Connection, statements: list[str]) -> None:
    for statement in statements:
        # Without parameters: psycopg would otherwise take a % of a statement for a placeholder.
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
