"""L10: with a given clock and id source, two runs write byte-identical logs, on both engines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from freezegun import freeze_time

from roocontext import NewMessage, Plan, Store
from sources import CountedIds

COLUMNS = (
    "session_id, seq, kind, format, role, ts, recorded_at, message_id, client_id, model, usage,"
    " compaction_id, note, target, size, messages_total, bytes_total, salt, content_digest, hash,"
    " details, content"
)
TABLES = {
    "entries": f"SELECT {COLUMNS} FROM entries ORDER BY session_id, seq",
    "spans": "SELECT * FROM spans ORDER BY session_id, lo",
    "clearings": "SELECT * FROM clearings ORDER BY session_id, seq, block",
    "sessions": "SELECT * FROM sessions ORDER BY session_id",
}


def script(store: Store) -> None:
    """Every operation that writes."""
    chat = store.create(title="mend the parser", metadata={"branch": "main"})
    for number in range(6):
        chat.append("user", f"question {number} " + "x" * 80, message_id=f"m{number}", ts=number)
        call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"n": number}}
        output = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "y" * 90}
        chat.append_many([NewMessage("assistant", [call]), NewMessage("user", [output])])
        chat.append("assistant", "answer \ud83d\0", client_id=f"c{number}", usage={"output": 1})
    view = chat.view()
    chat.pin(view.messages[0].seq)
    chat.commit(Plan.clear(view, [(view.messages[2].seq, 0)]))
    view = chat.view()
    seqs = [message.seq for message in view.messages]
    companion = NewMessage("assistant", "Understood.")
    chat.commit(Plan.condense(view, seqs[1:8], "what happened", companions=[companion]))
    view = chat.view()
    chat.commit(Plan.truncate(view, [message.seq for message in view.messages[3:7]]))
    chat.rewind(to="m3")
    chat.undo()
    fork = chat.fork(12, session_id="Fork")
    chat.redact(seqs[0])
    fork.append("user", "elsewhere")
    chat.rename("done")
    store.purge(store.create("gone").id)


def dump(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows, read by the plain driver."""
    if "://" in url:
        plain = sqlalchemy.make_url(url).set(drivername="postgresql")
        with psycopg.connect(plain.render_as_string(hide_password=False)) as connection:
            return {name: connection.execute(sql).fetchall() for name, sql in TABLES.items()}
    engine = sqlalchemy.create_engine(f"sqlite:///{url}")
    with engine.connect() as connection:
        rows = {
            name: [tuple(row) for row in connection.exec_driver_sql(sql)]
            for name, sql in TABLES.items()
        }
    engine.dispose()
    return rows


@pytest.fixture
def run() -> Callable[[str], dict[str, list[tuple[Any, ...]]]]:
    """Runs the script on a new store under a frozen clock, and reads what it wrote."""

    def run(url: str) -> dict[str, list[tuple[Any, ...]]]:
        with (
            freeze_time("2026-01-02 03:04:05.678"),
            Store.open(url, ids=CountedIds()) as store,
        ):
            script(store)
            assert all(store.session(info.session_id).verify().ok for info in store.sessions())
        return dump(url)

    return run


def test_two_runs_on_two_engines_write_the_same_bytes(
    run: Callable[[str], dict[str, list[tuple[Any, ...]]]], tmp_path: Path, postgres_url: str
) -> None:
    first = run(str(tmp_path / "first.db"))
    assert len(first["entries"]) > 40
    assert run(str(tmp_path / "second.db")) == first
    assert run(postgres_url) == first
