"""L10: with a given clock and id source, two runs write byte-identical logs, on both engines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from roocontext import NewMessage, Plan, Store
from support.dumps import dump
from support.steady_sources import CountedIds, SetClock


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
    chat.set_title("done")
    store.purge(store.create("gone").id)


@pytest.fixture
def run() -> Callable[[str], dict[str, list[tuple[Any, ...]]]]:
    """Runs the script on a new store with a clock of its own, and reads what it wrote."""

    def run(url: str) -> dict[str, list[tuple[Any, ...]]]:
        with Store.open(url, clock=SetClock(), ids=CountedIds()) as store:
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


def test_store_without_a_clock_takes_the_time_of_day(tmp_path: Path) -> None:
    with freeze_time("2026-01-02 03:04:05.678"), Store.open(tmp_path / "store.db") as store:
        chat = store.create("now")
        chat.append("user", "hello")
        (entry,) = chat.audit()
        assert (chat.info().created_at, entry.entry.recorded_at) == (1_767_323_045_678,) * 2
