"""ADK's compactions and rewinds are ours, and of writers at the same time one wins."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions

from roocontext import AsyncStore
from roocontext.adapters import google_adk_log
from roocontext.adapters.google_adk import RooContextSessionService
from support.google_adk_driver import EVENTS, GoogleADKDriver, changed, compacted, text_event


@pytest.fixture(scope="module")
def driver(leg, opened):
    with opened(leg[0], "async") as lab:
        yield GoogleADKDriver(lab)


def test_compactions_are_stored_as_summaries(driver):
    session = driver.create()
    events = [text_event(str(n), invocation_id=f"i{n}", timestamp=float(n)) for n in range(1, 9)]
    for event in events[:4]:
        driver.append(session, event)
    events.insert(4, compacted(1.0, 3.0, "[1-3]"))
    driver.append(session, events[4])
    assert driver.texts(session) == ["[1-3]", "4"]
    for event in events[5:]:
        driver.append(session, event)
    for start, end, expected in (
        (2.0, 5.0, ["[1-3]", "[2-5]", "6", "7", "8"]),  # it overlaps: both stay
        (3.0, 4.0, ["[1-3]", "[2-5]", "6", "7", "8"]),  # it is within another
        (1.0, 6.0, ["[1-6]", "7", "8"]),
    ):
        events.append(compacted(start, end, f"[{start:.0f}-{end:.0f}]"))
        driver.append(session, events[-1])
        assert driver.texts(session) == expected
    events.append(compacted(1.0, 8.0, " "))  # without text, only the event is stored
    driver.append(session, events[-1])
    assert driver.texts(session) == ["[1-6]", "7", "8"]
    assert driver.get(session).events == events
    assert driver.chat(session).stats().messages == 11
    assert driver.chat(session).verify().ok


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


def test_rewinds_are_stored_as_rewinds(driver):
    session = driver.create()
    events = [text_event(str(n), invocation_id=f"i{n}", timestamp=float(n)) for n in range(1, 5)]
    for event in events:
        driver.append(session, event)

    def rewind(to):
        events.append(Event(author="user", actions=EventActions(rewind_before_invocation_id=to)))
        driver.append(session, events[-1])

    rewind("i3")
    assert driver.texts(session) == ["1", "2"]
    events.append(text_event("5", invocation_id="i5", timestamp=5.0))
    driver.append(session, events[-1])
    rewind("none")
    assert driver.texts(session) == ["1", "2", "5"]
    events.append(compacted(1.0, 2.0, "[1-2]"))
    driver.append(session, events[-1])
    assert driver.texts(session) == ["[1-2]", "5"]
    rewind("i2")
    assert driver.texts(session) == ["1"]
    assert driver.get(session).events == events
    assert driver.chat(session).verify().ok
    assert len([one for one in driver.chat(session).audit() if one.kind == "message"]) == 5


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
    state = driver.create(user).state
    assert len(state) == 80


def test_branches_append_to_one_session_object(driver):
    session = driver.create()

    async def both():
        await asyncio.gather(
            *(driver.service.append_event(session, text_event(str(number))) for number in range(20))
        )

    driver.run(both())
    assert len(driver.get(session).events) == 20


def test_threads_append_to_one_session_each_in_its_own_event_loop(driver, monkeypatch):
    session = driver.create()
    both, append_event = threading.Barrier(2, timeout=20), google_adk_log.append_event

    def at_once(*args):
        both.wait()
        return append_event(*args)

    def append(read):
        try:
            asyncio.run(driver.service.append_event(read, text_event("x")))
        except StaleSessionError:
            return 0
        return 1

    monkeypatch.setattr(google_adk_log, "append_event", at_once)
    with ThreadPoolExecutor() as pool:
        appended = sum(pool.map(append, [driver.get(session) for _ in range(2)]))
    assert appended == len(driver.get(session).events) == 1


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
    fresh = driver.get(session)
    driver.append(fresh, changed(a=1))
    with pytest.raises(StaleSessionError):
        driver.append(session, text_event("behind a change of state"))
    assert len(driver.get(session).events) == 2


@pytest.mark.parametrize("event", [text_event("the same words"), changed(a=1)])
def test_one_of_two_writers_wins(driver, event):
    session = driver.create()
    outcomes = []

    def write(barrier):
        async def run():
            async with await AsyncStore.open(driver.url, durability="normal") as store:
                service = RooContextSessionService(store)
                for _ in range(8):
                    barrier.wait()
                    own = await service.get_session(
                        app_name=session.app_name, user_id="u", session_id=session.id
                    )
                    barrier.wait()
                    try:
                        await service.append_event(
                            own, event.model_copy(update={"id": Event.new_id()}, deep=True)
                        )
                        outcomes.append("stored")
                    except StaleSessionError:
                        outcomes.append("stale")

        asyncio.run(run())

    barrier = threading.Barrier(2, timeout=60)
    writers = [threading.Thread(target=write, args=(barrier,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(outcomes) == ["stale"] * 8 + ["stored"] * 8
    assert len(driver.get(session).events) == 8
    assert driver.chat(session).verify().ok


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
