"""ADK's compactions and rewinds are ours, and of writers at the same time one wins."""

import asyncio
import threading

import pytest
from google.adk.errors import StaleSessionError
from google.adk.events import Event

from roocontext import AsyncStore
from roocontext.adapters import google_adk_log
from roocontext.adapters.google_adk import RooContextSessionService
from support.google_adk_driver import EVENTS, GoogleADKDriver, changed, compacted, text_event


@pytest.fixture(scope="module")
def driver(leg, opened):
    with opened(leg[0], "async") as lab:
        yield GoogleADKDriver(lab)


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
    fresh = driver.get(session)
    driver.append(fresh, changed(a=1))
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
