"""Random conversations: ADK reads what its own service gives, and our view is what ADK sends."""

import copy

import pytest
from google.adk.events import Event, EventActions
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.flows.llm_flows.contents import _process_compaction_events
from google.adk.sessions import InMemorySessionService
from google.genai.types import Content, Part
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext.adapters.google_adk import RooContextSessionService
from support.examples import examples

KEYS = st.sampled_from(["a", "b", "app:a", "user:a", "temp:a"])
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.booleans()))
PLACES, FLAGS = st.integers(0, 20), st.booleans()
STEPS = st.lists(
    st.one_of(
        *(st.tuples(st.just(name), FLAGS) for name in ("say", "say", "reload")),
        *(st.tuples(st.just(name), PLACES) for name in ("compact", "rewind")),
        st.tuples(st.just("change"), st.dictionaries(KEYS, VALUES, max_size=3)),
    ),
    min_size=3,
    max_size=16,
)


@pytest.fixture(scope="module")
def services(leg, opened):
    with opened(leg[0], "async") as lab:
        run = lab.store._runner.run
        store = lab.store.target
        yield RooContextSessionService(store), InMemorySessionService(), run, store


class Numbers:
    """Names of conversations: no example sees another's."""

    last = 0


def event_of(step, value, number, events):
    """The event of a step; None if it has nothing to refer to.

    As ADK does it, a compaction covers events that are not rewound, up to the last of them.
    """
    spoken = [event for event in events if event.content]
    live = [event for event in _apply_rewinds(events) if event.content]
    time, invocation = float(number), f"i{number // 2}"
    if step == "say":
        role, author = ("user", "user") if value else ("model", "coder")
        content = Content(role=role, parts=[Part(text=str(number))])
        return Event(author=author, content=content, timestamp=time, invocation_id=invocation)
    actions = EventActions()
    if step == "change":
        actions.state_delta = value
    elif not (live if step == "compact" else spoken):
        return None
    elif step == "rewind":
        invocations = [*(event.invocation_id for event in spoken), "unknown"]
        actions.rewind_before_invocation_id = invocations[value % len(invocations)]
    else:
        start, end = live[value % len(live)].timestamp, live[-1].timestamp
        summary = Content(role="model", parts=[Part(text=f"[{start:.0f}-{end:.0f}]")])
        covered = {"start_timestamp": start, "end_timestamp": end, "compacted_content": summary}
        actions = EventActions(compaction=covered)
    return Event(author="user", actions=actions, timestamp=time, invocation_id=f"own{number}")


@settings(max_examples=examples(25))
@given(STEPS)
def test_any_conversation_comes_back_equal(services, steps):
    ours, theirs, run, store = services
    Numbers.last += 1
    user = {"app_name": f"p{Numbers.last}", "user_id": "u"}
    sessions = [
        run(service.create_session(**user, session_id="s", state={"b": 0}))
        for service in (ours, theirs)
    ]
    events = []
    for number, (step, value) in enumerate(steps):
        if step == "reload":
            sessions[0] = run(ours.get_session(**user, session_id="s"))
            continue
        event = event_of(step, value, number, events)
        if event is None:
            continue
        events.append(event)
        for service, session in zip((ours, theirs), sessions, strict=True):
            run(service.append_event(session, copy.deepcopy(event)))
    read = [run(service.get_session(**user, session_id="s")) for service in (ours, theirs)]
    assert (read[0].events, read[0].state) == (read[1].events, read[1].state)
    assert not read[0].events or read[0].last_update_time == read[1].last_update_time
    assert run(view(store, user)) == sent(read[1].events)


async def view(store, user):
    chat = await store.session(f"google-adk:{user['app_name']}/u/s")
    assert (await chat.verify()).ok
    return [one.content["parts"][0]["text"] for one in (await chat.view()).messages]


def sent(events):
    """The contents that ADK sends of these events."""
    live = _process_compaction_events(_apply_rewinds(events))
    return [event.content.parts[0].text for event in live if event.content]
