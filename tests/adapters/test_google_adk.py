"""The session service of Google ADK: events come back as they were, and nothing is deleted."""

import asyncio
import math
import threading

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from roocontext import AsyncStore, InvalidMessage
from roocontext.adapters import google_adk_log
from roocontext.adapters.google_adk import RooContextSessionService


def given(plain):
    return plain


class Desk:
    """A store, and a loop to await its service in."""

    def __init__(self, lab):
        self.url = lab.url
        self.run = lab.store._runner.run
        self.store = lab.store.target
        self.sync = self.run(self.store.run(given))
        self.service = RooContextSessionService(self.store)
        self._users = 0

    def user(self):
        self._users += 1
        return {"app_name": f"app{self._users}", "user_id": "u"}

    def create(self, user=None, **options):
        return self.run(self.service.create_session(**(user or self.user()), **options))

    def get(self, session, **config):
        return self.run(
            self.service.get_session(
                app_name=session.app_name,
                user_id=session.user_id,
                session_id=session.id,
                config=GetSessionConfig(**config) if config else None,
            )
        )

    def append(self, session, event):
        return self.run(self.service.append_event(session, event))

    def chat(self, session):
        return self.sync.session(f"{session.app_name}/{session.user_id}/{session.id}")

    def texts(self, session):
        """What the model sees, by our view."""
        messages = self.chat(session).view().messages
        return ["".join(part.get("text", "") for part in m.content["parts"]) for m in messages]


@pytest.fixture(scope="module")
def desk(leg, opened):
    with opened(leg[0], "async") as lab:
        yield Desk(lab)


def text_event(text, author="user", **fields):
    role = "user" if author == "user" else "model"
    return Event(author=author, content=Content(role=role, parts=[Part(text=text)]), **fields)


def changed(**delta):
    return Event(
        author="user",
        actions=EventActions(state_delta={k.replace("__", ":"): v for k, v in delta.items()}),
    )


EVENTS = [
    text_event("Which files?", invocation_id="i1"),
    Event(
        author="coder",
        invocation_id="i1",
        content=Content(
            role="model",
            parts=[
                Part(text="Hm.", thought=True, thought_signature=b"\xff\xfe"),
                Part(function_call=FunctionCall(id="c1", name="ls", args={"a": [1, 1.0, None]})),
            ],
        ),
        long_running_tool_ids={"c1"},
        model_version="gemini-3-pro",
        usage_metadata={"prompt_token_count": 9, "candidates_token_count": 2},
        branch="a.b",
    ),
    Event(
        author="coder",
        invocation_id="i1",
        content=Content(
            role="user",
            parts=[
                Part(function_response=FunctionResponse(id="c1", name="ls", response={"r": "x"})),
                Part.from_bytes(data=b"\x89PNG\xff", mime_type="image/png"),
            ],
        ),
        actions=EventActions(artifact_delta={"f": 1}, skip_summarization=True),
    ),
    Event(author="coder", error_code="X", error_message="failed", custom_metadata={"n": 2**70}),
    Event(author="coder", content=Content(role="model", parts=[])),
    Event(author="coder", content=Content(role="odd", parts=[Part(text="another role")])),
    Event(author="coder", content=Content(parts=[Part(text="lone \ud800 and NUL \0")])),
    Event(author="coder", actions=EventActions(transfer_to_agent="other", escalate=True)),
]


def test_events_come_back_as_they_were(desk):
    session = desk.create()
    for event in EVENTS:
        assert desk.append(session, event.model_copy(deep=True)) == event
    found = desk.get(session)
    assert found.events == EVENTS
    assert found == session
    assert found.last_update_time == EVENTS[-1].timestamp


def test_contents_are_messages_of_ours(desk):
    session = desk.create()
    for event in EVENTS:
        desk.append(session, event)
    chat = desk.chat(session)
    view = chat.view().messages
    assert [one.role for one in view] == ["user", "model", "user", "model"]
    assert view[1].content["parts"][1]["functionCall"]["name"] == "ls"
    assert view[1].model == "gemini-3-pro"
    assert chat.pending() == []
    assert [one["role"] for one in chat.messages("anthropic")][:3] == ["user", "assistant", "user"]
    (usage,) = chat.usage()
    assert usage.model == "gemini-3-pro"
    assert chat.verify().ok


def test_the_last_events_and_those_since_a_time(desk):
    session = desk.create()
    for number in range(40):
        desk.append(session, text_event(str(number), timestamp=1000.0 + number))
    texts = lambda **config: [  # noqa: E731
        int(e.content.parts[0].text) for e in desk.get(session, **config).events
    ]
    assert texts(num_recent_events=0) == []
    assert texts(num_recent_events=1) == [39]
    assert texts(num_recent_events=7) == list(range(33, 40))
    assert texts(num_recent_events=99) == list(range(40))
    assert texts(after_timestamp=1035.0) == list(range(35, 40))
    assert texts(num_recent_events=9, after_timestamp=1035.0) == list(range(35, 40))
    assert texts(num_recent_events=2, after_timestamp=1035.0) == [38, 39]


def test_state_has_scopes(desk):
    user = desk.user()
    session = desk.create(user, state={"app:a": 1, "user:b": [2], "c": {"d": None}, "temp:e": 5})
    assert session.state == {"app:a": 1, "user:b": [2], "c": {"d": None}}
    event = changed(app__a=2, user__x="y", c=None, temp__t="kept for this run")
    desk.append(session, event)
    assert session.state["temp:t"] == "kept for this run"
    assert "temp:t" not in event.actions.state_delta
    expected = {"app:a": 2, "user:b": [2], "user:x": "y", "c": None}
    assert desk.get(session).state == expected
    other = desk.create({**user, "user_id": "v"})
    assert other.state == {"app:a": 2}
    assert desk.run(desk.service.get_user_state(**user)) == {"b": [2], "x": "y"}
    assert desk.run(desk.service.get_user_state(app_name="none", user_id="u")) == {}
    listed = desk.run(desk.service.list_sessions(app_name=user["app_name"])).sessions
    assert {one.user_id: one.state for one in listed} == {"u": expected, "v": {"app:a": 2}}


@pytest.mark.parametrize("key", ["", "a b", "ä\0", "x" * 3_000, "app", "/", "a.b#c"])
def test_any_key_and_any_name(desk, key):
    name = key.replace("\0", "0")[:200]
    user = {"app_name": desk.user()["app_name"] + name, "user_id": name}
    session = desk.create(user, session_id=f"s{name}", state={key: 1, f"user:{key}": 2})
    desk.append(session, changed(**{key: 3, f"app:{key}": 4}))
    assert desk.get(session).state == {key: 3, f"user:{key}": 2, f"app:{key}": 4}


def test_many_keys_with_many_values(desk):
    session = desk.create(state={f"k{n}": n for n in range(50)})
    for number in range(40):
        desk.append(session, changed(k7=number, k31=-number))
    assert desk.get(session).state == {**{f"k{n}": n for n in range(50)}, "k7": 39, "k31": -39}


def test_partial_events_are_not_stored(desk):
    session = desk.create()
    desk.append(session, text_event("half", partial=True))
    assert session.events == []
    assert desk.get(session).events == []


def test_stale_writers_are_refused(desk):
    session = desk.create()
    stale = desk.get(session)
    desk.append(session, text_event("first"))
    with pytest.raises(StaleSessionError, match="Read it again"):
        desk.append(stale, text_event("first"))
    with pytest.raises(StaleSessionError):
        desk.append(stale, changed(**{"app:x": 1}))
    assert "app:x" not in desk.get(session).state
    fresh = desk.get(session)
    desk.append(fresh, changed(a=1))
    with pytest.raises(StaleSessionError):
        desk.append(session, text_event("behind a change of state"))
    assert len(desk.get(session).events) == 2


def test_a_session_without_a_revision(desk):
    session = desk.create()
    desk.append(session, text_event("first"))
    bare = desk.get(session).model_copy()
    bare._storage_update_marker = None
    desk.append(bare, text_event("second"))
    for events in ([], bare.events[:1]):
        bare._storage_update_marker = "of another service"
        bare.events = events
        with pytest.raises(StaleSessionError):
            desk.append(bare, text_event("third"))


def test_a_repeated_event_is_appended_once(desk):
    session = desk.create()
    before = desk.get(session)
    event = text_event("once")
    desk.append(session, event)
    desk.append(session, event)
    desk.append(before, event)  # the answer to the first call was lost
    assert desk.get(session).events == [event]
    assert before.events == session.events == [event]


def test_creating_twice_and_names(desk):
    user = desk.user()
    session = desk.create(user, session_id=" s1 ")
    assert session.id == "s1"
    with pytest.raises(AlreadyExistsError):
        desk.create(user, session_id="s1")
    assert desk.create({**user, "user_id": "v"}, session_id="s1").events == []
    assert desk.create(user).id != desk.create(user).id
    session.id = "none"
    with pytest.raises(SessionNotFoundError):
        desk.append(session, text_event("x"))
    assert desk.get(session) is None


def test_deleting_hides_and_the_id_can_be_used_again(desk):
    user = desk.user()
    session = desk.create(user, session_id="s", state={"a": 1, "user:b": 2})
    desk.append(session, text_event("gone"))
    delete = {**user, "session_id": "s"}
    desk.run(desk.service.delete_session(**delete))
    desk.run(desk.service.delete_session(**delete))
    desk.run(desk.service.delete_session(**{**delete, "session_id": "never"}))
    assert desk.get(session) is None
    assert desk.run(desk.service.list_sessions(**user)).sessions == []
    with pytest.raises(SessionNotFoundError):
        desk.append(session, text_event("x"))
    again = desk.create(user, session_id="s")
    assert again.state == {"user:b": 2}
    with pytest.raises(StaleSessionError):
        desk.append(session, text_event("of the deleted one"))
    desk.append(again, text_event("here"))
    assert [e.content.parts[0].text for e in desk.get(again).events] == ["here"]
    assert desk.texts(again) == ["here"]
    contents = [one.content for one in desk.chat(again).audit() if one.role]
    assert len(contents) == 2
    assert desk.chat(again).verify().ok


def test_redacted_contents(desk):
    session = desk.create()
    for event in EVENTS[:3]:
        desk.append(session, event)
    chat = desk.chat(session)
    for message in chat.view().messages:
        chat.redact(message.seq)
    found = desk.get(session).events
    assert [event.id for event in found] == [event.id for event in EVENTS[:3]]
    assert "Which files" not in str(found)
    assert found[1].get_function_calls()[0].name == "ls"
    assert chat.verify().ok


def test_flushing_does_nothing(desk):
    assert desk.run(desk.service.flush()) is None


def test_lists_are_sorted_by_update(desk):
    user = desk.user()
    for name, at in (("b", 20.0), ("a", 20.0), ("c", 10.0)):
        session = desk.create(user, session_id=name)
        desk.append(session, text_event("x", timestamp=at))
    listed = desk.run(desk.service.list_sessions(**user)).sessions
    assert [(one.id, one.last_update_time, one.events) for one in listed] == [
        ("c", 10.0, []),
        ("a", 20.0, []),
        ("b", 20.0, []),
    ]
    assert desk.run(desk.service.list_sessions(app_name="none")).sessions == []


def compacted(start, end, text):
    return Event(
        author="user",
        actions=EventActions(
            compaction={
                "start_timestamp": start,
                "end_timestamp": end,
                "compacted_content": Content(role="model", parts=[Part(text=text)]),
            }
        ),
    )


def test_compactions_are_summaries_of_ours(desk):
    session = desk.create()
    events = [text_event(str(n), invocation_id=f"i{n}", timestamp=float(n)) for n in range(1, 9)]
    for event in events[:4]:
        desk.append(session, event)
    events.insert(4, compacted(1.0, 3.0, "[1-3]"))
    desk.append(session, events[4])
    assert desk.texts(session) == ["[1-3]", "4"]
    for event in events[5:]:
        desk.append(session, event)
    for start, end, expected in (
        (2.0, 5.0, ["[1-3]", "[2-5]", "6", "7", "8"]),  # it overlaps: both stay
        (3.0, 4.0, ["[1-3]", "[2-5]", "6", "7", "8"]),  # it is within another
        (1.0, 6.0, ["[1-6]", "7", "8"]),
    ):
        events.append(compacted(start, end, f"[{start:.0f}-{end:.0f}]"))
        desk.append(session, events[-1])
        assert desk.texts(session) == expected
    assert desk.get(session).events == events
    assert desk.chat(session).stats().messages == 11
    assert desk.chat(session).verify().ok


def test_a_pin_is_not_compacted(desk):
    session = desk.create()
    for number in (1, 2, 3):
        desk.append(session, text_event(str(number), timestamp=float(number)))
    chat = desk.chat(session)
    chat.pin(chat.view().messages[1].seq)
    desk.append(session, compacted(1.0, 3.0, "[1-3]"))
    assert sorted(desk.texts(session)) == ["2", "[1-3]"]


def test_rewinds_are_rewinds_of_ours(desk):
    session = desk.create()
    events = [text_event(str(n), invocation_id=f"i{n}", timestamp=float(n)) for n in range(1, 5)]
    for event in events:
        desk.append(session, event)

    def rewind(to):
        events.append(Event(author="user", actions=EventActions(rewind_before_invocation_id=to)))
        desk.append(session, events[-1])

    rewind("i3")
    assert desk.texts(session) == ["1", "2"]
    events.append(text_event("5", invocation_id="i5", timestamp=5.0))
    desk.append(session, events[-1])
    rewind("none")
    assert desk.texts(session) == ["1", "2", "5"]
    events.append(compacted(1.0, 2.0, "[1-2]"))
    desk.append(session, events[-1])
    assert desk.texts(session) == ["[1-2]", "5"]
    rewind("i2")
    assert desk.texts(session) == ["1"]
    assert desk.get(session).events == events
    assert desk.chat(session).verify().ok
    assert len([one for one in desk.chat(session).audit() if one.kind == "message"]) == 5


@pytest.mark.parametrize(
    "event",
    [
        changed(x=math.nan),
        changed(x=[{"y": math.inf}]),
        changed(**{"\ud800": 1}),
        Event(
            author="m",
            content=Content(
                role="model",
                parts=[Part(function_call=FunctionCall(name="f", args={"x": math.nan}))],
            ),
        ),
    ],
)
def test_what_adks_json_would_change_is_refused(desk, event):
    session = desk.create()
    with pytest.raises(InvalidMessage, match=r"NaN|surrogate"):
        desk.append(session, event)
    assert session.events == desk.get(session).events == []


def test_shared_state_from_two_sessions_at_once(desk):
    user = desk.user()

    def write(name):
        async def run():
            async with await AsyncStore.open(desk.url, durability="normal") as store:
                service = RooContextSessionService(store)
                session = await service.create_session(**user, session_id=name)
                for number in range(20):
                    await service.append_event(
                        session, changed(**{f"app:{name}{number}": 1, f"user:{name}{number}": 2})
                    )

        asyncio.run(run())

    writers = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    state = desk.create(user).state
    assert len(state) == 80


def test_branches_append_to_one_session_object(desk):
    session = desk.create()

    async def both():
        await asyncio.gather(
            *(desk.service.append_event(session, text_event(str(number))) for number in range(20))
        )

    desk.run(both())
    assert len(desk.get(session).events) == 20


def test_shared_state_is_written_after_a_crash(desk, monkeypatch):
    user = desk.user()
    session = desk.create(user)
    event = changed(app__a=1, user__b=2)
    with monkeypatch.context() as patch:

        def crash(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(google_adk_log, "share", crash)
        with pytest.raises(KeyboardInterrupt):
            desk.append(session, event)
    other = desk.create({**user, "user_id": "v"})
    desk.append(other, changed(app__z=1))
    assert desk.get(session).state == {"app:a": 1, "user:b": 2, "app:z": 1}
    assert desk.get(other).state == {"app:a": 1, "app:z": 1}


@pytest.mark.parametrize("of", ["events", "state"])
def test_it_does_what_the_service_in_memory_does(desk, of):
    theirs = InMemorySessionService()
    user = desk.user()
    sessions = [
        desk.run(service.create_session(**user, session_id="s", state={"a": 1, "app:b": 2}))
        for service in (desk.service, theirs)
    ]
    for event in [*EVENTS, changed(a=None), changed(app__c=[1]), changed(user__d={"e": 1})]:
        for service, session in zip((desk.service, theirs), sessions, strict=True):
            desk.run(service.append_event(session, event.model_copy(deep=True)))
    found = [
        desk.run(service.get_session(**user, session_id="s")) for service in (desk.service, theirs)
    ]
    assert getattr(found[0], of) == getattr(found[1], of)
