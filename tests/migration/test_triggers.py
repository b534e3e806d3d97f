"""The database itself refuses to change the log, on every connection."""

from collections.abc import Iterator

import pytest

from migration.conftest import Raw, Rows
from roocontext import Store
from roocontext.store.engine.schema import entries, sessions

REFUSALS = ("the log is append-only", "a session is purged, never deleted")
NO_PARENT = "the parent and the owner of a session never change"

OTHER_VALUES = {"BIGINT": "77", "TEXT": "'forged'"}


@pytest.fixture(scope="module")
def filled(shared_stored: Raw) -> Raw:
    """A session `s` with seven messages, one redacted, and a session `t`."""
    with Store.open(shared_stored.url) as store:
        chat = store.create("s", title="kept")
        for number in range(7):
            chat.append("user", f"message {number}", client_id=f"c{number}", message_id="m")
        chat.redact(4)
        store.create("t").append("user", "beside it")
    return shared_stored


@pytest.fixture
def log(filled: Raw) -> Iterator[Raw]:
    """The same sessions for every test: none of them can be changed."""
    before = _everything(filled)
    yield filled
    assert _everything(filled) == before
    with Store.open(filled.url) as store:
        assert store.session("s").verify().ok
        assert store.session("t").verify().ok


def test_no_column_can_be_updated(log):
    for column in entries.columns:
        for change in (_other_value(log, column.name), "NULL"):
            for where in ("session_id = 's' AND seq = 2", "seq = 4", "TRUE"):
                refusal = log.refuses(f"UPDATE entries SET {column.name} = {change} WHERE {where}")
                assert "append-only" in refusal


def test_no_entry_can_be_deleted(log):
    forged = "UPDATE entries SET content = 'forged', salt = NULL WHERE seq ="
    for statement in (
        *("DELETE FROM entries", "DELETE FROM entries WHERE session_id = 's' AND seq = 8"),
        *("DELETE FROM sessions", "DELETE FROM sessions WHERE session_id = 't'"),
        *(f"{forged} 2", f"{forged} 4", "UPDATE entries SET salt = NULL WHERE seq = 4"),
        "UPDATE entries SET content = 'again' WHERE seq = 4",
    ):
        assert any(refusal in log.refuses(statement) for refusal in REFUSALS), statement


def test_no_session_gets_another_parent(stored):
    with Store.open(stored.url) as store:
        store.create("s")
        store.create("t")
        store.create("u", parent="s")
    for change in (
        "UPDATE sessions SET parent = 't' WHERE session_id = 'u'",
        "UPDATE sessions SET parent = NULL WHERE session_id = 'u'",
        "UPDATE sessions SET parent = 's' WHERE session_id = 't'",
        "UPDATE sessions SET last_seq = last_seq, parent = 't' WHERE session_id = 'u'",
    ):
        assert NO_PARENT in stored.refuses(change)
    stored.run("UPDATE sessions SET parent = 's' WHERE session_id = 'u'")


UPSERTS = {
    "by key": ("(session_id, seq)", {}),
    "by client id": ("(session_id, client_id) WHERE client_id IS NOT NULL", {"seq": "99"}),
}


@pytest.mark.parametrize(("target", "changes"), UPSERTS.values(), ids=UPSERTS)
def test_no_entry_is_written_over(log, target, changes):
    insert = _copy("INSERT INTO", changes)
    assert "append-only" in log.refuses(f"{insert} ON CONFLICT {target} DO UPDATE SET role = 'x'")


REPLACEMENTS = {
    "by key": {"client_id": "NULL"},
    "by client id": {"seq": "99"},
    "by rowid": {"seq": "99", "client_id": "NULL"},
}


@pytest.mark.parametrize("shared_stored", ["file"], indirect=True)
@pytest.mark.parametrize("words", ["INSERT OR REPLACE INTO", "REPLACE INTO"])
@pytest.mark.parametrize("how", REPLACEMENTS)
def test_no_entry_is_replaced(log, words, how):
    """SQLite deletes the old row without asking the delete trigger, as it is set up by default."""
    assert log.run("PRAGMA recursive_triggers") == [(0,)]
    rowid = "rowid" if how == "by rowid" else None
    refusal = log.refuses(_copy(words, {**REPLACEMENTS[how], "content": "'forged'"}, rowid))
    assert "append-only" in refusal


@pytest.mark.parametrize("shared_stored", ["file"], indirect=True)
def test_no_session_is_replaced(log):
    names = [column.name for column in sessions.columns]
    others = ["'new'" if name == "session_id" else name for name in names]
    columns, values = ", ".join(names), ", ".join(others)
    for statement in (
        f"INSERT OR REPLACE INTO sessions SELECT {columns} FROM sessions",
        f"REPLACE INTO sessions (rowid, {columns}) SELECT rowid, {values} FROM sessions LIMIT 1",
    ):
        assert "purged, never deleted" in log.refuses(statement)


@pytest.mark.parametrize("shared_stored", ["file"], indirect=True)
@pytest.mark.parametrize("assignment", ["seq = 3", "rowid = 3", "rowid = 77", "client_id = 'c2'"])
def test_no_entry_moves_onto_another(log, assignment):
    assert "append-only" in log.refuses(f"UPDATE OR REPLACE entries SET {assignment} WHERE seq = 6")


MERGE = """MERGE INTO entries USING sessions ON entries.session_id = sessions.session_id
    WHEN MATCHED THEN"""


@pytest.mark.parametrize("shared_stored", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE entries",
        "TRUNCATE entries, sessions",
        "TRUNCATE sessions CASCADE",
        f"{MERGE} DELETE",
        f"{MERGE} UPDATE SET content = 'forged'",
        "WITH gone AS (DELETE FROM entries RETURNING *) SELECT count(*) FROM gone",
    ],
)
def test_triggers_on_a_server_cannot_be_bypassed(log, statement):
    assert any(refusal in log.refuses(statement) for refusal in REFUSALS)


def test_row_may_be_appended_by_anybody(stored):
    """The triggers keep what is there; that a row is not the library's, verify() tells."""
    with Store.open(stored.url) as store:
        chat = store.create("s")
        chat.append("user", "hello")
        stored.run(_copy("INSERT INTO", {"seq": "2"}, where="seq = 1"))
        assert chat.verify().seq == 2
        stored.run("UPDATE sessions SET last_seq = 2")
        assert chat.verify().seq == 2


def _other_value(log: Raw, column: str) -> str:
    kind = str(entries.columns[column].type)
    blob = "x'00'" if log.engine == "file" else "'\\x00'::bytea"
    return OTHER_VALUES.get(kind, blob)


def _copy(
    words: str, changes: dict[str, str], extra: str | None = None, *, where: str = "seq = 3"
) -> str:
    """A statement that writes one row of the log anew, with some other values."""
    names = [*([extra] if extra else []), *(column.name for column in entries.columns)]
    values = [changes.get(name, name) for name in names]
    return (
        f"{words} entries ({', '.join(names)}) SELECT {', '.join(values)} FROM entries"
        f" WHERE session_id = 's' AND {where}"
    )


def _everything(raw: Raw) -> list[Rows]:
    return [
        raw.run("SELECT * FROM entries ORDER BY session_id, seq"),
        raw.run("SELECT * FROM sessions ORDER BY session_id"),
    ]
