"""ADK's compactions and rewinds are ours, and of writers at the same time one wins."""

import asyncio
import threading

import pytest
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions

from roocontext import AsyncStore
from roocontext.adapters import google_adk_log
from roocontext.adapters.google_adk import RooContextSessionService
from support.adk_desk import EVENTS, Desk, changed, compacted, text_event


@pytest.fixture(scope="module")
def desk(leg, opened):
    with opened(leg[0], "async") as lab:
        yield Desk(lab)


def test_compactions_are_stored_as_summaries(desk):
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


def test_pin_is_not_compacted(desk):
    session = desk.create()
    for number in (1, 2, 3):
        desk.append(session, text_event(str(number), timestamp=float(number)))
    chat = desk.chat(session)
    chat.pin(chat.view().messages[1].seq)
    desk.append(session, compacted(1.0, 3.0, "[1-3]"))
    assert sorted(desk.texts(session)) == ["2", "[1-3]"]


def test_tool_partner_of_a_pin_is_not_compacted(desk):
    session = desk.create()
    for number, event in enumerate(EVENTS[:3]):
        desk.append(session, event.model_copy(update={"timestamp": float(number)}))
    chat = desk.chat(session)
    _, call, response = (one.seq for one in chat.view().messages)
    chat.pin(call)
    desk.append(session, compacted(0.0, 2.0, "[0-2]"))
    view = chat.view().messages
    assert [one.seq for one in view if one.kind == "message"] == [call, response]
    assert len(view) == 3


def test_rewinds_are_stored_as_rewinds(desk):
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


def test_shared_state_of_two_sessions_is_written_at_once(desk):
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


async def read_only(desk, session):
    async with await AsyncStore.open(desk.url, read_only=True) as store:
        return await RooContextSessionService(store).get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )


@pytest.mark.parametrize("again", [False, True])
def test_shared_state_is_written_after_a_crash(desk, monkeypatch, again):
    user = desk.user()
    session = desk.create(user)
    event = changed(app__a=1, user__b=2)
    with monkeypatch.context() as patch:

        def crash(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(google_adk_log, "write_shared", crash)
        with pytest.raises(KeyboardInterrupt):
            desk.append(session, event)
    assert desk.run(read_only(desk, session)).state == {}
    other = desk.create({**user, "user_id": "v"})
    desk.append(other, changed(app__z=1))
    if again:
        desk.append(session, event)  # the caller repeats the call
        state = desk.create(user).state
    else:
        state = desk.get(session).state
    assert state == {"app:a": 1, "user:b": 2, "app:z": 1}
    assert desk.get(other).state == {"app:a": 1, "app:z": 1}


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


@pytest.mark.parametrize("event", [text_event("the same words"), changed(a=1)])
def test_one_of_two_writers_wins(desk, event):
    session = desk.create()
    outcomes = []

    def write(barrier):
        async def run():
            async with await AsyncStore.open(desk.url, durability="normal") as store:
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
    assert len(desk.get(session).events) == 8
    assert desk.chat(session).verify().ok


def test_session_without_a_revision_is_accepted_and_a_foreign_one_refused(desk):
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


def test_repeated_event_is_appended_once(desk):
    session = desk.create()
    before = desk.get(session)
    event = text_event("once")
    desk.append(session, event)
    desk.append(session, event)
    desk.append(before, event)  # the answer to the first call was lost
    assert desk.get(session).events == [event]
    assert before.events == session.events == [event]
