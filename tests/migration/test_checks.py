"""Rows that the schema itself refuses, on every connection."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Boolean, LargeBinary, Text

from migration.conftest import Raw
from roocontext import Store
from roocontext.log.counting import BYTES
from roocontext.log.entries import Kind
from roocontext.store.engine.schema import (
    ALIKE,
    DISTRIBUTION,
    ERASURES,
    VERSION_TABLE,
    entries,
    metadata,
    search_rows,
)


@contextmanager
def _with_a_session(raw: Raw) -> Iterator[Raw]:
    with Store.open(raw.url) as store:
        chat = store.create("s", title="kept", metadata={"user": "ann"})
        chat.append("user", "hello", client_id="c")
        chat.tokens(BYTES)
        yield raw
        assert chat.verify().ok


@pytest.fixture
def log(stored: Raw) -> Iterator[Raw]:
    """A session with a row in most tables."""
    with _with_a_session(stored) as log:
        yield log


@pytest.fixture(scope="module")
def same_log(shared_stored: Raw) -> Iterator[Raw]:
    """The same for all tests that only try what is refused."""
    with _with_a_session(shared_stored) as log:
        yield log


def _insert(table: str, changes: dict[str, str]) -> str:
    """A statement that writes a row of the session anew, with some other values."""
    names = [column.name for column in metadata.tables[table].columns]
    changes = {"session_id": "'other'", **changes}
    if table == "entries":
        changes = {"client_id": "NULL", **changes}
    values = ", ".join(changes.get(name, name) for name in names)
    order = "ORDER BY seq DESC" if table in ("entries", "counts") else ""
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} {order} LIMIT 1"


REFUSED = {
    "a seq of 0": ("entries", {"seq": "0"}),
    "a seq below 0": ("entries", {"seq": "-1"}),
    "an unknown kind": ("entries", {"kind": "'memo'"}),
    "a message without a role": ("entries", {"role": "NULL"}),
    "a message without a format": ("entries", {"format": "NULL"}),
    "a message that is a note": ("entries", {"note": "'pin'"}),
    "a message with details": ("entries", {"details": "'{}'"}),
    "a note without its kind": ("entries", {"kind": "'note'", "role": "NULL", "format": "NULL"}),
    "a note with a role": ("entries", {"kind": "'note'", "note": "'pin'"}),
    "a summary without details": ("entries", {"kind": "'summary'"}),
    "a rewind with a role": ("entries", {"kind": "'rewind'", "details": "'{}'"}),
    "no content and a digest": ("entries", {"content": "NULL"}),
    "content and no digest": ("entries", {"content_digest": "NULL"}),
    "a short hash": ("entries", {"hash": "substr(hash, 2)"}),
    "a short digest": ("entries", {"content_digest": "substr(hash, 2)"}),
    "extra without a salt": ("entries", {"extra": "'1'", "salt": "NULL"}),
    "asked at itself": ("entries", {"asked_at": "seq"}),
    "asked before the log": ("entries", {"asked_at": "-1"}),
    "an answer to itself": ("entries", {"answers_seq": "seq", "answers_block": "0"}),
    "an answer to no entry": ("entries", {"answers_seq": "0", "answers_block": "0"}),
    "an answer to no block": ("entries", {"answers_seq": "1"}),
    "an answer to a block below 0": ("entries", {"answers_seq": "1", "answers_block": "-1"}),
    "a size below 0": ("entries", {"size": "-1"}),
    "a total below 0": ("entries", {"bytes_total": "-1"}),
    "a head after the last": ("sessions", {"head_seq": "99"}),
    "a last below 0": ("sessions", {"last_seq": "-1", "head_seq": "-1"}),
    "a receipt without a purge": ("sessions", {"receipt": "'{}'"}),
    "a session that is its own parent": ("sessions", {"parent": "'other'"}),
    "a span before the first": ("spans", {"lo": "0"}),
    "a span that ends before it begins": ("spans", {"hi": "0"}),
    "a count of no entry": ("counts", {"seq": "0"}),
    "a count below 0": ("counts", {"tokens": "-1"}),
}


@pytest.mark.parametrize(("table", "changes"), REFUSED.values(), ids=REFUSED)
def test_impossible_row_is_refused(same_log, table, changes):
    before = same_log.run(f"SELECT count(*) FROM {table}")
    assert "check" in same_log.refuses(_insert(table, changes)).lower()
    assert same_log.run(f"SELECT count(*) FROM {table}") == before


def test_possible_row_is_accepted(log):
    for table in ("sessions", "entries", "spans", "counts", "facts"):
        log.run(_insert(table, {}))


def test_each_kind_of_entry_has_its_columns(log):
    for kind in Kind:  # each in a session of its own, below the message that is copied
        changes = {"kind": f"'{kind}'", "session_id": f"'{kind}'", "seq": "1"}
        if kind not in ("message", "summary", "marker", "companion"):
            changes |= {"role": "NULL", "format": "NULL"}
        if kind == "note":
            changes["note"] = "'pin'"
        elif kind != "message":
            changes["details"] = "'{}'"
        log.run(_insert("entries", changes))


@pytest.mark.parametrize("stored", ["file"], indirect=True)
def test_sqlite_refuses_other_types_in_every_column(log):
    """A check sees what would be stored: of what can be made a column's type, it is made one."""
    log.run("INSERT INTO clearings VALUES ('s', 1, 0, 2, 'gone', 1, 1)")
    log.run("INSERT INTO search_marks VALUES ('s', 1)")
    log.run("INSERT INTO turns VALUES ('s', 'token', 'holder', 1, 1)")
    for table in [metadata.tables[name] for name in ALIKE]:
        for column in table.columns:
            for value in _others(column.type):
                refusal = log.refuses(_insert(table.name, {column.name: value}))
                assert "CHECK" in refusal, (column, value)
    log.run("DELETE FROM clearings")


def _others(type_: Any) -> tuple[str, ...]:
    if isinstance(type_, Text):
        return ("x'61'",)
    if isinstance(type_, LargeBinary):
        return ("7", "1.5", "hex(zeroblob(16))")
    return ("x'01'", "'one'", "1.5") if not isinstance(type_, Boolean) else ("x'01'", "'one'")


# What has to be reached when something is erased, and when sessions are distributed


def _columns(raw: Raw) -> dict[str, set[str]]:
    """Of each table its columns, asked of the database, so that no later migration is forgotten."""
    if raw.engine == "file":
        rows = raw.run(
            "SELECT m.name, c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c"
            # The index of the terms, which only SQLite has.
            " WHERE m.type = 'table' AND m.name NOT LIKE 'search_terms%'"
        )
    else:
        rows = raw.run(
            "SELECT table_name, column_name FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        )
    columns: dict[str, set[str]] = {}
    for table, column in rows:
        columns.setdefault(table, set()).add(column)
    return columns


def test_no_table_of_sessions_is_forgotten_by_erasing(stored):
    of_sessions = {name for name, columns in _columns(stored).items() if "session_id" in columns}
    assert of_sessions == {erasure.table.name for erasure in ERASURES} | {"sessions"}
    assert all(erasure.purge for erasure in ERASURES)


def test_every_table_is_distributed_by_its_session(stored):
    columns = _columns(stored)
    assert sorted(placed.table for placed in DISTRIBUTION) == sorted(columns)
    assert set(columns) - {VERSION_TABLE} == set(metadata.tables)
    assert columns["search_rows"] - {"id"} == set(search_rows.columns.keys())
    for table, column, colocated_with in DISTRIBUTION:
        assert column == ("session_id" if "session_id" in columns[table] else None)
        is_alone = column is None or table == "sessions"
        assert colocated_with == (None if is_alone else "sessions")


def test_redaction_reaches_every_table_that_it_names(stored):
    with Store.open(stored.url) as store:
        chat = store.create("s")
        chat.append("user", "hello")
        chat.tokens(BYTES)
        store.index()
        chat.redact(1)
        for erasure in ERASURES:
            if erasure.redaction:
                left = stored.run(f"SELECT seq FROM {erasure.table.name} WHERE seq = 1")
                assert left == ([(1,)] if erasure.table is entries else [])
        store.purge("s")
        for erasure in ERASURES:
            assert stored.run(f"SELECT count(*) FROM {erasure.table.name}") == [(0,)]


# The order of texts


@pytest.mark.parametrize("stored", ["postgres"], indirect=True)
def test_texts_compare_by_code_point(stored):
    """In a language's collation a range of names that begin alike misses some of them."""
    columns = stored.run(
        "SELECT attrelid::regclass || '.' || attname, collname FROM pg_attribute"
        " JOIN pg_collation AS l ON l.oid = attcollation"
        " JOIN pg_class AS c ON c.oid = attrelid WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'i') AND attnum > 0 AND c.relname NOT LIKE 'roocontext_version%'"
    )
    all_columns = [column for table in metadata.tables.values() for column in table.columns]
    ours = {f"{one.table}.{one.name}" for one in all_columns if isinstance(one.type, Text)}
    assert ours <= {name for name, _ in columns}
    assert {collation for _, collation in columns} == {"C"}, columns


def test_views_end_where_the_log_does(log):
    log.run(_insert("entries", {"session_id": "session_id", "seq": "4"}))
    for view in ("messages", "effective_history"):
        assert log.run(f"SELECT seq FROM {view}") == [(3,)]
    if log.engine == "file":
        log.run("DROP TRIGGER entries_delete")
    else:
        log.run("ALTER TABLE entries DISABLE TRIGGER USER")
    log.run("DELETE FROM entries WHERE seq = 4")


# PostgreSQL checks each append by functions

CHECKS = (
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'"
    " AND conrelid = '{}'::regclass ORDER BY 1"
)
REFUSE = (
    "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'no functions' USING ERRCODE = 'feature_not_supported'; END $$"
)
REFUSE_FUNCTIONS = (
    "CREATE EVENT TRIGGER no_functions ON ddl_command_start WHEN TAG IN ('CREATE FUNCTION')"
    " EXECUTE FUNCTION refuse()"
)


@pytest.mark.parametrize("stored", ["postgres"], indirect=True)
def test_append_is_checked_by_a_function(stored):
    """The server would parse the text of other checks anew in each append."""
    for table in ("sessions", "entries"):
        ((check,),) = stored.run(CHECKS.format(table))
        # Single columns, which a distributed engine can pass on; a whole row it cannot.
        assert check.startswith(f"CHECK (roocontext_{table}_rules("), table
        assert ".*" not in check, table


@pytest.mark.parametrize("raw", ["postgres"], indirect=True)
def test_server_that_refuses_functions_checks_by_itself(raw):
    raw.run(REFUSE)
    raw.run(REFUSE_FUNCTIONS)
    with Store.open(raw.url) as store:
        chat = store.create("s")
        chat.append("user", "hello")
        assert len(raw.run(CHECKS.format("entries"))) > 1
        for table, changes in REFUSED.values():
            if table in ("sessions", "entries"):
                assert "check" in raw.refuses(_insert(table, changes)).lower(), changes
        assert chat.verify().ok
