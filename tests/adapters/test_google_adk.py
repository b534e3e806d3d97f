"""The session service of Google ADK: events come back as they were, and nothing is deleted."""

import math

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.genai.types import Content, FunctionCall, Part

from roocontext import InvalidMessage, SessionPurged
from roocontext.adapters import google_adk_log
from support.google_adk_driver import EVENTS, GoogleADKDriver, changed, text_event


@pytest.fixture(scope="module")
def driver(leg, opened):
    with opened(leg[0], "async") as lab:
        yield GoogleADKDriver(lab)


def test_events_come_back_as_they_were(driver):
    session = driver.create()
    for event in EVENTS:
        assert driver.append(session, event.model_copy(deep=True)) == event
    found = driver.get(session)
    assert found.events == EVENTS
    assert found == session
    assert found.last_update_time == EVENTS[-1].timestamp


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
    assert texts(num_recent_events=0) == []
    assert texts(num_recent_events=1) == [39]
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
    other = driver.create({**user, "user_id": "v"})
    assert other.state == {"app:a": 2}
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
    contents = [one.content for one in driver.chat(again).audit() if one.role]
    assert len(contents) == 2
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
    assert driver.get(session).events == [event]
    assert driver.texts(session) == ["x"]


def test_flush_does_nothing(driver):
    assert driver.run(driver.service.flush()) is None


def test_lists_are_sorted_by_update(driver, monkeypatch):
    monkeypatch.setattr(google_adk_log, "PAGE", 2)
    user = driver.user()
    for name, at in (("b", 20.0), ("a", 20.0), ("c", 10.0)):
        session = driver.create(user, session_id=name)
        driver.append(session, text_event("x", timestamp=at))
    listed = driver.run(driver.service.list_sessions(**user)).sessions
    assert [(one.id, one.last_update_time, one.events) for one in listed] == [
        ("c", 10.0, []),
        ("a", 20.0, []),
        ("b", 20.0, []),
    ]
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
