"""The session service of Google ADK: events come back as they were, and nothing is deleted.

ADK's compactions and rewinds are ours, and of writers at the same time one wins.
"""

import asyncio
import math
import threading

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.genai.types import Content, FunctionCall, Part

from roocontext import AsyncStore, InvalidMessage, SessionPurged
from roocontext.adapters import google_adk_log
from roocontext.adapters.google_adk import RooContextSessionService
from support.google_adk_driver import EVENTS, GoogleADKDriver, changed, compacted, text_event


@pytest.fixture(scope="module")
def driver(leg, opened):
    with opened(leg[0], "async") as lab:
        yield GoogleADKDriver(lab)


def test_events_come_back_as_they_were(driver):
    session = driver.create()
    for event in EVENTS:
        assert driver.append(session, event.model_copy(deep=True)) == event
    found = driver.get(session)
    assert found == session
    assert (found.events, found.last_update_time) == (EVENTS, EVENTS[-1].timestamp)


def test_contents_are_stored_as_messages(driver):
    session = driver.create()
    for event in EVENTS:
        driver.append(session, event)
    chat = driver.chat(session)
    view = chat.view().messages
    assert [one.role for one in view] == ["user", "model", "user", "model"]
    assert view[1].content["parts"][1]["functionCall"]["name"] == "ls"
    assert view[1].model == "gemini-3-pro"
    assert chat.pending() == []
    assert [one["role"] for one in chat.messages("anthropic")][:3] == ["user", "assistant", "user"]
    (usage,) = chat.usage()
    assert usage.model == "gemini-3-pro"
    assert chat.verify().ok


def test_events_are_read_by_number_and_time(driver):
    session = driver.create()
    for number in range(40):
        driver.append(session, text_event(str(number), timestamp=1000.0 + number))
    texts = lambda **config: [  # noqa: E731
        int(e.content.parts[0].text) for e in driver.get(session, **config).events
    ]
    assert (texts(num_recent_events=0), texts(num_recent_events=1)) == ([], [39])
    assert texts(num_recent_events=7) == list(range(33, 40))
    assert texts(num_recent_events=99) == list(range(40))
    assert texts(after_timestamp=1035.0) == list(range(35, 40))
    assert texts(num_recent_events=9, after_timestamp=1035.0) == list(range(35, 40))
    assert texts(num_recent_events=2, after_timestamp=1035.0) == [38, 39]


def test_state_is_kept_by_scope(driver):
    user = driver.user()
    session = driver.create(user, state={"app:a": 1, "user:b": [2], "c": {"d": None}, "temp:e": 5})
    assert session.state == {"app:a": 1, "user:b": [2], "c": {"d": None}}
    event = changed(app__a=2, user__x="y", c=None, temp__t="kept for this run")
    driver.append(session, event)
    assert session.state["temp:t"] == "kept for this run"
    assert "temp:t" not in event.actions.state_delta
    expected = {"app:a": 2, "user:b": [2], "user:x": "y", "c": None}
    assert driver.get(session).state == expected
    assert driver.create({**user, "user_id": "v"}).state == {"app:a": 2}
    assert driver.run(driver.service.get_user_state(**user)) == {"b": [2], "x": "y"}
    assert driver.run(driver.service.get_user_state(app_name="none", user_id="u")) == {}
    listed = driver.run(driver.service.list_sessions(app_name=user["app_name"])).sessions
    assert {one.user_id: one.state for one in listed} == {"u": expected, "v": {"app:a": 2}}


@pytest.mark.parametrize("key", ["", "a b", "ä\0", "x" * 3_000, "app", "/", "a.b#c"])
def test_keys_and_names_are_any_string(driver, key):
    name = key.replace("\0", "0")[:200]
    user = {"app_name": driver.user()["app_name"] + name, "user_id": name}
    session = driver.create(user, session_id=f"s{name}", state={key: 1, f"user:{key}": 2})
    driver.append(session, changed(**{key: 3, f"app:{key}": 4}))
    assert driver.get(session).state == {key: 3, f"user:{key}": 2, f"app:{key}": 4}


def test_state_of_many_keys_comes_back(driver):
    session = driver.create(state={f"k{n}": n for n in range(50)})
    for number in range(40):
        driver.append(session, changed(k7=number, k31=-number))
    assert driver.get(session).state == {**{f"k{n}": n for n in range(50)}, "k7": 39, "k31": -39}


def test_partial_events_are_not_stored(driver):
    session = driver.create()
    driver.append(session, text_event("half", partial=True))
    assert session.events == []
    assert driver.get(session).events == []


def test_created_session_is_not_created_twice(driver):
    user = driver.user()
    session = driver.create(user, session_id=" s1 ")
    assert session.id == "s1"
    with pytest.raises(AlreadyExistsError):
        driver.create(user, session_id="s1")
    assert driver.create({**user, "user_id": "v"}, session_id="s1").events == []
    assert driver.create(user).id != driver.create(user).id
    assert driver.run(driver.service.get_session(**user, session_id=None)) is None
    driver.run(driver.service.delete_session(**user, session_id=None))
    session.id = "none"
    with pytest.raises(SessionNotFoundError):
        driver.append(session, text_event("x"))
    assert driver.get(session) is None


def test_deleted_session_is_hidden_and_its_id_can_be_used_again(driver):
    user = driver.user()
    session = driver.create(user, session_id="s", state={"a": 1, "user:b": 2})
    driver.append(session, text_event("gone"))
    delete = {**user, "session_id": "s"}
    driver.run(driver.service.delete_session(**delete))
    driver.run(driver.service.delete_session(**delete))
    driver.run(driver.service.delete_session(**{**delete, "session_id": "never"}))
    assert driver.get(session) is None
    assert driver.run(driver.service.list_sessions(**user)).sessions == []
    with pytest.raises(SessionNotFoundError):
        driver.append(session, text_event("x"))
    again = driver.create(user, session_id="s")
    assert again.state == {"user:b": 2}
    with pytest.raises(StaleSessionError):
        driver.append(session, text_event("of the deleted one"))
    driver.append(again, text_event("here"))
    assert [e.content.parts[0].text for e in driver.get(again).events] == ["here"]
    assert driver.texts(again) == ["here"]
    assert len([one.content for one in driver.chat(again).audit() if one.role]) == 2
    assert driver.chat(again).verify().ok


def test_conversation_survives_a_purge_of_the_state_that_it_shares(driver):
    user = driver.user()
    session = driver.create(user, state={"a": 1, "user:b": 2})
    driver.sync.purge("google-adk:{app_name}/{user_id}".format(**user))
    assert driver.get(session).state == {"a": 1}
    assert [one.id for one in driver.run(driver.service.list_sessions(**user)).sessions] == [
        session.id
    ]
    with pytest.raises(SessionPurged):
        driver.append(session, changed(user__b=3))
    assert len(driver.get(session).events) == 1


def test_redacted_content_leaves_its_event(driver):
    session = driver.create()
    for event in EVENTS[:3]:
        driver.append(session, event)
    chat = driver.chat(session)
    for message in chat.view().messages:
        chat.redact(message.seq)
    found = driver.get(session).events
    assert [event.id for event in found] == [event.id for event in EVENTS[:3]]
    assert "Which files" not in str(found)
    assert found[1].get_function_calls()[0].name == "ls"
    assert chat.verify().ok


def test_session_of_another_agent_may_be_named_like_an_app(driver):
    user = driver.user()
    own = driver.sync.create(user["app_name"])
    own.append("user", "mine")
    assert driver.create(user, state={"app:a": 1, "user:b": 2}).state == {"app:a": 1, "user:b": 2}
    assert own.head().seq == 1


def test_fork_is_no_conversation_of_adk(driver):
    user = driver.user()
    driver.chat(driver.create(user, session_id="s")).fork()
    assert [one.id for one in driver.run(driver.service.list_sessions(**user)).sessions] == ["s"]


@pytest.mark.parametrize("name", ["x" * 2_000, "x" * 250, "a\0b", ""])
def test_event_id_and_a_model_name_are_any_string(driver, name):
    session = driver.create()
    event = text_event("x", author="m", id=name or "i", model_version=name)
    driver.append(session, event)
    assert (driver.get(session).events, driver.texts(session)) == ([event], ["x"])


def test_flush_does_nothing(driver):
    assert driver.run(driver.service.flush()) is None


def test_lists_are_sorted_by_update(driver, monkeypatch):
    monkeypatch.setattr(google_adk_log, "PAGE", 2)
    user = driver.user()
    for name, at in (("b", 20.0), ("a", 20.0), ("c", 10.0)):
        driver.append(driver.create(user, session_id=name), text_event("x", timestamp=at))
    listed = driver.run(driver.service.list_sessions(**user)).sessions
    updated = {one.id: one.last_update_time for one in listed}
    assert [*updated.items()] == [("c", 10.0), ("a", 20.0), ("b", 20.0)]
    assert [one.events for one in listed] == [[]] * 3
    assert driver.run(driver.service.list_sessions(app_name="none")).sessions == []


@pytest.mark.parametrize(
    "event",
    [
        changed(x=math.nan),
        text_event("x", timestamp=math.inf),
        changed(x=[{"y": math.inf}]),
        changed(**{"\ud800": 1}),
        Event(author="m", output={"x": math.nan}),
        Event(
            author="m",
            content=Content(
                role="model",
                parts=[Part(function_call=FunctionCall(name="f", args={"x": math.nan}))],
            ),
        ),
    ],
)
def test_values_that_adks_json_would_change_are_refused(driver, event):
    session = driver.create()
    with pytest.raises(
        InvalidMessage, match=r"is (nan|inf), which JSON cannot hold|a lone surrogate"
    ):
        driver.append(session, event)
    assert session.events == driver.get(session).events == []


def test_compaction_without_text_hides_nothing(driver):
    session = driver.create()
    for event in (text_event("1", timestamp=1.0), compacted(1.0, 1.0, " ")):
        driver.append(session, event)
    assert driver.texts(session) == ["1"]
    assert len(driver.get(session).events) == 2


def test_pin_is_not_compacted(driver):
    session = driver.create()
    for number in (1, 2, 3):
        driver.append(session, text_event(str(number), timestamp=float(number)))
    chat = driver.chat(session)
    chat.pin(chat.view().messages[1].seq)
    driver.append(session, compacted(1.0, 3.0, "[1-3]"))
    assert sorted(driver.texts(session)) == ["2", "[1-3]"]


def test_tool_partner_of_a_pin_is_not_compacted(driver):
    session = driver.create()
    for number, event in enumerate(EVENTS[:3]):
        driver.append(session, event.model_copy(update={"timestamp": float(number)}))
    chat = driver.chat(session)
    _, call, response = (one.seq for one in chat.view().messages)
    chat.pin(call)
    driver.append(session, compacted(0.0, 2.0, "[0-2]"))
    view = chat.view().messages
    assert [one.seq for one in view if one.kind == "message"] == [call, response]
    assert len(view) == 3


def test_shared_state_of_two_sessions_is_written_at_once(driver):
    user = driver.user()

    def write(name):
        async def run():
            async with await AsyncStore.open(driver.url, durability="normal") as store:
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
    assert len(driver.create(user).state) == 80


def test_branches_append_to_one_session_object(driver):
    session = driver.create()

    async def both():
        await asyncio.gather(
            *(driver.service.append_event(session, text_event(str(number))) for number in range(20))
        )

    driver.run(both())
    assert len(driver.get(session).events) == 20


def test_cancelled_append_leaves_the_session_object_as_it_is_stored(driver, monkeypatch):
    session = driver.create()
    append_event = google_adk_log.append_event

    async def cancelled():
        loop = asyncio.get_running_loop()
        appending = loop.create_task(driver.service.append_event(session, text_event("asked")))

        def cancel_first(*args):
            loop.call_soon_threadsafe(appending.cancel)
            return append_event(*args)

        with monkeypatch.context() as patch:
            patch.setattr(google_adk_log, "append_event", cancel_first)
            with pytest.raises(asyncio.CancelledError):
                await appending

    driver.run(cancelled())
    # As ADK seals an invocation that was aborted.
    driver.append(session, text_event("stopped"))
    assert driver.texts(session) == ["asked", "stopped"]
    assert driver.get(session) == session


@pytest.mark.parametrize("event", [text_event("x"), changed(a=1)], ids=["message", "state"])
def test_threads_append_to_one_session_each_in_its_own_event_loop(driver, monkeypatch, event):
    session = driver.create()
    both, append_event = threading.Barrier(2, timeout=10), google_adk_log.append_event
    ends = []

    def at_once(*args):
        both.wait()
        return append_event(*args)

    def append(read):
        try:
            own = event.model_copy(update={"id": Event.new_id()}, deep=True)
            asyncio.run(driver.service.append_event(read, own))
        except StaleSessionError:
            ends.append("stale")
        else:
            ends.append("stored")

    monkeypatch.setattr(google_adk_log, "append_event", at_once)
    reads = [driver.get(session) for _ in range(2)]
    writers = [threading.Thread(target=append, args=(read,), daemon=True) for read in reads]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(20)
    assert sorted(ends) == ["stale", "stored"]
    assert len(driver.get(session).events) == 1


async def read_only(driver, session):
    async with await AsyncStore.open(driver.url, read_only=True) as store:
        return await RooContextSessionService(store).get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )


@pytest.mark.parametrize("again", [False, True])
def test_shared_state_is_written_after_a_crash(driver, monkeypatch, again):
    user = driver.user()
    session = driver.create(user)
    event = changed(app__a=1, user__b=2)
    with monkeypatch.context() as patch:

        def crash(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(google_adk_log, "write_shared", crash)
        with pytest.raises(KeyboardInterrupt):
            driver.append(session, event)
    assert driver.run(read_only(driver, session)).state == {}
    other = driver.create({**user, "user_id": "v"})
    driver.append(other, changed(app__z=1))
    if again:
        driver.append(session, event)  # the caller repeats the call
        state = driver.create(user).state
    else:
        state = driver.get(session).state
    assert state == {"app:a": 1, "user:b": 2, "app:z": 1}
    assert driver.get(other).state == {"app:a": 1, "app:z": 1}


def test_last_event_is_not_appended_twice(driver):
    session = driver.create()
    events = [text_event(text, id="same", timestamp=1.0) for text in ("one", "two")]
    events.append(changed(a=1).model_copy(update={"id": "same", "timestamp": 1.0}))
    for event in events:
        for _ in range(2):
            driver.append(session, event)
    assert session.events == driver.get(session).events == events
    driver.append(session, text_event("three", id="same", timestamp=1.0))
    chat = driver.chat(session)
    chat.redact(chat.view().messages[-1].seq)
    driver.append(session, text_event("three", id="same", timestamp=1.0))
    assert len(driver.get(session).events) == 4


def test_stale_writers_are_refused(driver):
    session = driver.create()
    stale = driver.get(session)
    driver.append(session, text_event("first"))
    with pytest.raises(StaleSessionError, match="Read it again"):
        driver.append(stale, text_event("first"))
    with pytest.raises(StaleSessionError):
        driver.append(stale, changed(**{"app:x": 1}))
    assert "app:x" not in driver.get(session).state
    driver.append(driver.get(session), changed(a=1))
    with pytest.raises(StaleSessionError):
        driver.append(session, text_event("behind a change of state"))
    assert len(driver.get(session).events) == 2


def test_session_without_a_revision_is_accepted_and_a_foreign_one_refused(driver):
    session = driver.create()
    driver.append(session, text_event("first"))
    bare = driver.get(session).model_copy()
    bare._storage_update_marker = None
    driver.append(bare, text_event("second"))
    for events in ([], bare.events[:1]):
        bare._storage_update_marker = "of another service"
        bare.events = events
        with pytest.raises(StaleSessionError):
            driver.append(bare, text_event("third"))


def test_repeated_event_is_appended_once(driver):
    session = driver.create()
    before = driver.get(session)
    event = text_event("once")
    driver.append(session, event)
    driver.append(session, event)
    driver.append(before, event)  # the answer to the first call was lost
    assert driver.get(session).events == [event]
    assert before.events == session.events == [event]
