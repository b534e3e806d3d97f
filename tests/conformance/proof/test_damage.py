"""Damage anywhere in a database is a typed error or does no harm, and `verify` names the entry."""

import inspect
import sqlite3
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from roocontext import Plan, Session, Store
from roocontext.errors import HistoryCorrupt, RooContextError
from roocontext.log.counting import BYTES
from roocontext.log.times import Times
from roocontext.store.engine.schema import metadata
from roocontext.store.internals import SessionInternals
from support.damage import CALLS, REDACTED, REDACTION_ROW, SECRET, Damage, build, damages
from support.dialogue import fill, work

UNPROVED = {
    *("created_at", "updated_at", "changed_minute", "unindexed", "parent", "owner"),
    *("tokens", "exact", "counter"),
}
"""Numbers and names that nothing but the cell itself holds."""

SAMPLES = {"file": 12, "postgres": 4}
"""How many damages `make test` tries on each engine, of some thousands."""
KNOWN = (
    Damage("entries", "recorded_at", "'one'", "seq = 4"),
    Damage("entries", "ts", "9e999", "seq = 8"),
    Damage("entries", "messages_total", "9e999", "seq = 3"),
    Damage("entries", "bytes_total", "-9e999", "seq = 3"),
    Damage("counts", "tokens", "9e999", "seq = 3"),
    Damage("entries", "ts", "'one'", "seq = 3"),
    Damage("entries", "ts", "x'00ff'", "seq = 12"),
    Damage("entries", "details", "NULL", "seq = 14"),
    Damage("entries", "answers_seq", "0", "seq = 3"),
    Damage("entries", "answers_seq", "0", "seq = 4"),
    Damage("sessions", "purged_at", "7", "true"),
)
"""Values that are no integers, where a statement sums them or takes the maximum of them; others of
no type of the column; answers to no entry; a purge without a receipt."""
KEPT = (
    *("listed_at", "listed_minute", "updated_minute", "unindexed"),
    *("rewound_messages", "rewound_bytes", *Times._fields),
)


@pytest.fixture(params=["file", "postgres"])
def bare(request, opened):
    """A store without triggers and checks."""
    with opened(request.param, "sync") as lab:
        lab.drop_guards()
        yield lab


def test_every_operation_is_tried():
    """A method that is added has to be tried on damaged sessions too."""
    public = {
        name
        for kind in (Session, SessionInternals, Store)
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_") and name not in ("open", "close", "internals")
    }
    assert public == {name.split()[0] for name in CALLS} - {"clear"}


def test_damage_is_a_typed_error(bare):
    _try_all(bare, sample=SAMPLES[bare.engine])


@pytest.fixture(scope="module")
def bare_file(opened):
    """A file without triggers and checks."""
    with opened("file", "sync") as lab:
        lab.drop_guards()
        yield lab


@pytest.fixture
def file(bare_file):
    """The same file, without any session again."""
    yield bare_file
    _empty(bare_file)


@pytest.mark.parametrize("damage", KNOWN, ids=str)
def test_damage_that_was_a_fault_once_is_a_typed_error(file, damage):
    assert not _faults(file, damage)


@pytest.mark.parametrize("column", KEPT)
def test_rebuild_renews_numbers_that_cannot_be_read(file, column):
    chat = build(file.store)
    kept = f"SELECT {', '.join(KEPT)} FROM sessions"
    before = list(file.sql(kept))
    for value in ("'one'", "9e999", "x'00ff'"):
        file.sql(f"UPDATE sessions SET {column} = {value}")
        assert not chat.verify().ok, value
        assert chat.rebuild() > 0
        assert list(file.sql(kept)) == before, value
        assert chat.verify().ok
        assert chat.rebuild() == 0


@pytest.mark.torture
def test_many_more_damages_are_typed_errors(bare):
    _try_all(bare, sample=80 * SAMPLES[bare.engine])


def _try_all(lab: Any, sample: int) -> None:
    chat = build(lab.store)
    assert chat.verify().ok
    cases = list(damages(lab.engine, _rows(lab, chat.id)))
    step = len(cases) // sample
    _empty(lab)
    wrong = [fault for case in cases[::step] for fault in _faults(lab, case)]
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong[:40])


def _rows(lab: Any, session_id: str) -> dict[str, list[tuple[str, Any]]]:
    """A condition that finds one row of each kind in each table, and its seq."""
    seqs = lab.sql(
        "SELECT min(seq) FROM entries WHERE seq > 3"
        f" AND session_id = '{session_id}' GROUP BY kind, note, usage IS NULL, salt IS NULL"
    )
    [(ending,)] = lab.sql("SELECT min(hi) FROM spans")
    lo = "(SELECT max(lo) FROM spans WHERE lo < 9)"
    return {
        "sessions": [("true", 0)],
        "entries": [
            ("seq = 1", 1),
            (f"seq = {ending}", ending),
            *((f"seq = {seq}", seq) for (seq,) in sorted(seqs)),
        ],
        "spans": [("lo = 1", 1), (f"lo = {lo}", 1)],
        "clearings": [("true", 1)],
        "counts": [("seq = 3", 3), ("seq = 12", 12)],
        "facts": [("true", 0)],
    }


def _faults(lab: Any, damage: Damage) -> list[str]:
    """Damage a new session and ask everything of it; what went wrong then."""
    chat = build(lab.store)
    column = f"ALTER TABLE {damage.table} ALTER COLUMN {damage.column}"
    is_nullable = metadata.tables[damage.table].columns[damage.column].nullable
    forbidden = lab.engine == "postgres" and damage.value == "NULL" and not is_nullable
    try:
        before = _cells(lab, damage)
        if forbidden:
            lab.sql(f"{column} DROP NOT NULL")
        # No cluster changes the id of a session, which says on which node its rows are.
        refusals = (psycopg.IntegrityError, psycopg.DataError, psycopg.errors.FeatureNotSupported)
        with suppress(sqlite3.IntegrityError, *refusals):
            lab.sql(
                f"UPDATE {damage.table} SET {damage.column} = {damage.value} WHERE {damage.row}"
            )
        if _cells(lab, damage) == before:
            return []
        return [f"{damage}: {fault}" for fault in _asked(lab.store, chat, damage)]
    finally:
        _empty(lab)
        if forbidden:
            lab.sql(f"{column} SET NOT NULL")


def _asked(store: Any, chat: Any, damage: Damage) -> list[str]:
    faults = []
    for name, operation in CALLS.items():
        try:
            answer = operation(store, chat)
        except RooContextError as error:
            if SECRET in f"{error} {error.facts} {error.__cause__}":
                faults.append(f"{name} quotes content")
            if name == "verify" and damage.column != "session_id":
                faults.append(f"verify raises {error!r}")
        except Exception as error:  # noqa: BLE001 - which is what is looked for
            faults.append(f"{name} raises {error!r}")
        else:
            if name == "verify":
                faults += _unnamed(answer, damage)
    return faults


def _unnamed(found: Any, damage: Damage) -> list[str]:
    """The faults in the findings of `verify`."""
    harmless = damage.column in UNPROVED or damage.table == "counts"
    if found.ok:
        return [] if harmless else ["verify finds nothing"]
    if SECRET in found.problem:
        return ["verify quotes content"]
    named = damage.table == "entries" and damage.column != "seq"
    # Without its redaction nothing vouches for the message, which comes first.
    rows = {f"seq = {found.seq}", *([REDACTION_ROW] if found.seq == REDACTED else [])}
    if named and damage.row not in rows:
        return [f"verify names {found.seq}: {found.problem}"]
    return []


def _cells(lab: Any, damage: Damage) -> list[Any]:
    column = damage.column
    if lab.engine == "postgres":
        cell = f"{column}::text"
    else:
        cell = f"typeof({column}), quote(CAST({column} AS BLOB))"
    return sorted(map(str, lab.sql(f"SELECT {cell} FROM {damage.table}")))


def _empty(lab: Any) -> None:
    lab.sql(*(f"DELETE FROM {table}" for table in metadata.tables))


def test_half_of_a_reference_to_a_call_is_none(lab):
    lab.drop_guards()
    for half in ("answers_seq = 0", "answers_seq = 3", "answers_block = 0"):
        chat = build(lab.store)
        seq = max(one.seq for one in chat.audit() if one.kind == "message" and one.role == "user")
        lab.sql(f"UPDATE entries SET {half} WHERE session_id = '{chat.id}' AND seq = {seq}")
        assert chat.message(seq).answers is None, half
        assert chat.messages()
        assert seq in {entry.seq for entry in chat.audit() if entry.entry.answers is None}
        assert chat.verify().seq == seq


def test_span_that_ends_before_the_log_is_a_typed_error(lab):
    chat = build(lab.store)
    lab.drop_guards()
    for end in (-1, -(1 << 62)):
        lab.sql(f"UPDATE spans SET hi = {end} WHERE lo = (SELECT max(lo) FROM spans)")
        with pytest.raises(HistoryCorrupt):
            chat.tokens(BYTES)
        chat.rebuild()
        assert chat.tokens(BYTES)


CELLS = {
    "sessions": ("last_seq", "head_seq"),
    "spans": ("hi", "position"),
    "entries": ("kind", "recorded_at"),
    "clearings": ("placeholder",),
}


@pytest.mark.only("postgres")
def test_null_in_a_required_column_is_an_error(lab):
    lab.drop_guards()
    for table, columns in CELLS.items():
        for column in columns:
            chat = lab.store.create()
            fill(chat, 3)
            _, answer = work(chat)
            chat.commit(Plan.clear(chat.view(), [(answer, 0)], "gone"))
            lab.sql(
                f"ALTER TABLE {table} ALTER {column} DROP NOT NULL",
                f"UPDATE {table} SET {column} = NULL WHERE session_id = '{chat.id}'",
            )
            for read in (chat.view, chat.messages, chat.repairs):
                with pytest.raises(HistoryCorrupt, match=rf"^{table}\.{column} holds NULL"):
                    read()
