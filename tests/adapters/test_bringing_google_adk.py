"""Sessions that Google ADK's own session services have written, imported without ADK."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from roocontext import Store
from roocontext.formats import import_paths
from roocontext.formats.writing import SessionImport

KEY = {"app_name": "my app", "user_id": "u/1", "session_id": "one"}
SESSION = "adk-sessions:my app/u%2F1/one"

Append = Callable[..., None]


def event(author: str, at: float, invocation: str = "i1", **fields: Any) -> Event:
    return Event(id=f"e{at:g}", author=author, timestamp=at, invocation_id=invocation, **fields)


def said(author: str, text: str, *, at: float, invocation: str = "i1") -> Event:
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return event(author, at, invocation, content=content)


def called(at: float) -> list[Event]:
    call = types.FunctionCall(id="c1", name="ls", args={"the_path": [1, None]})
    asks = types.Part(function_call=call, thought_signature=b"\x00\xffsig")
    response = types.FunctionResponse(id="c1", name="ls", response={"the_files": ["a.py"]})
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=9, candidates_token_count=3, total_token_count=12
    )
    asked = types.Content(role="model", parts=[asks])
    answered = types.Content(role="user", parts=[types.Part(function_response=response)])
    looked = EventActions(state_delta={"looked": True})
    model = {"usage_metadata": usage, "model_version": "gemini-3-pro"}
    return [
        event("agent", at, content=asked, **model),
        event("agent", at + 1, content=answered, actions=looked),
    ]


def compacted(summary: str, start: float, end: float, *, at: float) -> Event:
    content = types.Content(role="model", parts=[types.Part(text=summary)])
    covers = EventCompaction(start_timestamp=start, end_timestamp=end, compacted_content=content)
    return event("user", at, f"i{at:g}", actions=EventActions(compaction=covers))


def rewound(before: str, *, at: float) -> Event:
    return event("user", at, f"i{at:g}", actions=EventActions(rewind_before_invocation_id=before))


@pytest.fixture(params=["file", "sqlite service", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path: Any) -> tuple[str, Append]:
    """A place, and a function that appends events to the session there."""
    if request.param == "postgres":
        place = request.getfixturevalue("server_url")
        url = place.replace("postgresql://", "postgresql+psycopg://")
    else:
        place = str(tmp_path / "adk.db")
        url = f"sqlite+aiosqlite:///{place}"

    def append(*events: Event) -> None:
        async def run() -> None:
            service: Any = (
                SqliteSessionService(place)
                if request.param == "sqlite service"
                else DatabaseSessionService(url)
            )
            session = await service.get_session(**KEY)
            if session is None:
                session = await service.create_session(**KEY, state={"begun": 1})
            for event in events:
                await service.append_event(session, event)
            if request.param != "sqlite service":
                await service.close()

        asyncio.run(run())

    return place, append


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def imported(store: Store, place: str) -> list[SessionImport]:
    return [one for one in import_paths(store, [place]) if isinstance(one, SessionImport)]


def texts(store: Store) -> list[str]:
    view = store.session(SESSION).messages(form="openai")
    return [str(one["content"]) for one in view if one["content"]]


def test_session_is_imported_once_and_then_continued(store, source):
    place, append = source
    append(said("user", "hello", at=1_000.25), *called(1_001.5))
    (first,) = imported(store, place)
    again = imported(store, place)
    append(said("agent", "One file.", at=1_010))
    (more,) = imported(store, place)
    assert (first.status, first.session_id, first.messages) == ("created", SESSION, 3)
    assert first.problems == ()
    assert [(one.status, one.new) for one in again] == [("unchanged", 0)]
    assert (more.status, more.messages, more.controls) == ("continued", 1, 0)
    chat = store.session(SESSION)
    rows = [row.entry for row in chat.audit() if row.visible]
    assert [row.ts for row in rows] == [1_000_250, 1_001_500, 1_002_500, 1_010_000]
    assert [row.role for row in rows] == ["user", "model", "user", "model"]
    assert (rows[1].model, rows[1].usage["promptTokenCount"]) == ("gemini-3-pro", 9)
    assert chat.pending() == []
    assert chat.messages(form="anthropic")[1]["content"][0]["input"] == {"the_path": [1, None]}


def test_content_is_sent_to_gemini_as_it_was(store, source):
    place, append = source
    append(said("user", "hello", at=1), *called(2))
    imported(store, place)
    sent = store.session(SESSION).messages(form="gemini", model="gemini-3-pro")
    events = [said("user", "hello", at=1), *called(2)]
    assert [types.Content.model_validate(one) for one in sent] == [it.content for it in events]


def test_compaction_of_a_part_of_what_another_one_stands_for_is_a_note(store, source):
    place, append = source
    append(said("user", "first", at=1), said("agent", "re first", at=2))
    append(compacted("All.", 1, 2, at=3), compacted("The end.", 2, 2, at=4))
    imported(store, place)
    assert texts(store) == ["All."]
    append(rewound("i3", at=5), compacted("The end.", 2, 2, at=6))
    imported(store, place)
    assert texts(store) == ["first", "The end."]


def test_rewind_goes_back_to_before_the_invocation(store, source):
    place, append = source
    append(said("user", "first", at=1), said("agent", "re first", at=2))
    append(said("user", "second", at=3, invocation="i2"))
    append(said("agent", "re second", at=4, invocation="i2"))
    imported(store, place)
    append(rewound("i2", at=5), said("user", "third", at=6, invocation="i4"))
    (more,) = imported(store, place)
    assert (more.messages, more.controls) == (1, 1)
    assert texts(store) == ["first", "re first", "third"]


def test_state_is_a_note(store, source):
    place, append = source
    append(said("user", "first", at=1), *called(2))
    imported(store, place)
    notes = [note.content for note in store.session(SESSION).notes("imported")]
    assert {"kind": "state", "record": {"begun": 1, "looked": True}} in notes


def test_tables_of_a_newer_release_are_refused(store, tmp_path):
    place = tmp_path / "adk.db"

    async def write() -> None:
        service = DatabaseSessionService(f"sqlite+aiosqlite:///{place}")
        await service.create_session(**KEY)
        await service.close()

    asyncio.run(write())
    with closing(sqlite3.connect(place)) as file:
        file.execute("UPDATE adk_internal_metadata SET value = '2'")
        file.commit()
    (one,) = import_paths(store, [place])
    assert not isinstance(one, SessionImport)
    assert one.is_problem
    assert "has version 2 of Google ADK's tables" in one.why
