"""Imported control rows have the time of their record, or of the record before."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from roocontext import NewMessage, Store
from roocontext.formats.events import Added, Cleared, Event, Hid, Source, WentBack
from roocontext.formats.player import play
from support.steady_sources import SetClock

NOW = 1_800_000_000_000
OUTPUT = [{"type": "tool_result", "tool_use_id": "t", "content": "much"}]
CALL = [{"type": "tool_use", "id": "t", "name": "run", "input": {}}]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.db", clock=SetClock(NOW)) as opened:
        yield opened


def said(name: str, ts: int | None, role: str = "user", content: object = "words") -> Added:
    return Added(name, NewMessage(role, content, ts=ts, message_id=name))


def source(*events: Event) -> Source:
    return Source("s", Path("s.jsonl"), {}, lambda: iter(events))


EVENTS = (
    said("a", -500),
    said("b", 10, "assistant", CALL),
    said("c", 20, "user", OUTPUT),
    Cleared("d", (("c", 0),), "cleared"),
    said("e", 30),
    WentBack("f", "b", ts=35),
    said("g", 40, "user", OUTPUT),
    WentBack("h", "a"),
    said("i", 50),
    Hid("j", (NewMessage("user", "short"), NewMessage("assistant", "ok", ts=60)), frozenset("a")),
    said("k", 70),
)


def test_every_control_row_has_a_time(store):
    play(store, source(*EVENTS))
    chat = store.session("s")
    folded = [entry for entry in chat.audit() if entry.kind != "note"]
    kinds = [(entry.kind.value, entry.entry.ts) for entry in folded]
    assert kinds == [
        *(("message", ts) for ts in (-500, 10, 20)),
        *(("clearing", 20), ("message", 30), ("rewind", 35), ("message", 40), ("rewind", 40)),
        *(("message", 50), ("summary", 60), ("companion", 60), ("message", 70)),
    ]
    for entry, following in pairwise(folded):
        then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=entry.entry.happened_at)
        if following.entry.happened_at > entry.entry.happened_at:
            assert chat.view(as_of=then).seq == following.seq - 1
    assert chat.info().happened_at == 70
    assert chat.verify().ok


def test_later_import_goes_back_with_the_time_of_the_source(store):
    play(store, source(*EVENTS[:3]))
    play(store, source(*EVENTS[:2], said("z", 90)))
    chat = store.session("s")
    (back,) = [entry for entry in chat.audit() if entry.kind == "rewind"]
    assert back.entry.ts == 10
    assert chat.info().happened_at == 90


def test_fork_of_an_import_has_the_time_of_the_source(store):
    play(store, source(*EVENTS[:3]))
    store.session("s").append("user", "my own")
    play(store, source(*EVENTS[:2], said("z", 90)), on_conflict="fork")
    assert store.session("s~2").info().happened_at == 90
    assert [info.session_id for info in store.sessions()] == ["s", "s~2"]
