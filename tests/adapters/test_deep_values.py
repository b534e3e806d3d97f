"""Deeply nested values come back equal, or are refused by one error that names the place."""

import asyncio

import pytest
from google.adk.events import Event, EventActions
from google.genai.types import Content, FunctionCall, Part
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic_ai import Conversation, DeferredToolRequests
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart

from roocontext import AsyncStore, InvalidMessage
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from roocontext.adapters.google_adk import RooContextSessionService
from roocontext.adapters.langgraph import RooContextSaver
from roocontext.adapters.openai_agents import RooContextSession
from roocontext.adapters.pydantic_ai import RooContextConversationStore
from roocontext.adapters.serializing import serializing


async def openai_agents(store, name, value):
    session = RooContextSession(name, store)
    await session.add_items([{"type": "of-the-future", "x": value}])
    return (await session.get_items())[0]["x"]


async def claude(store, name, row, *path):
    sdk, key = RooContextSessionStore(store), {"project_key": "p", "session_id": name}
    await sdk.append(key, [row])
    (found,) = await sdk.load(key)
    for step in path:
        found = found[step]
    return found


async def claude_row(store, name, value):
    return await claude(store, name, {"type": "tag", "x": value}, "x")


async def claude_call(store, name, value):
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {"x": value}}
    message = {"role": "assistant", "id": "m", "content": [call]}
    row = {"type": "assistant", "uuid": "u", "message": message}
    return await claude(store, name, row, "message", "content", 0, "input", "x")


async def langgraph(store, name, values, metadata=(), writes=()):
    saver = RooContextSaver(store)
    config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    checkpoint = empty_checkpoint() | {"channel_values": values}
    versions = dict.fromkeys(values, saver.get_next_version(None, None))
    config = await saver.aput(config, checkpoint, dict(metadata), versions)
    await saver.aput_writes(config, list(writes), "task")
    return await saver.aget_tuple(config)


async def langgraph_call(store, name, value):
    call = {"name": "n", "args": {"x": value}, "id": "c"}
    found = await langgraph(store, name, {"messages": [AIMessage("", tool_calls=[call])]})
    return found.checkpoint["channel_values"]["messages"][0].tool_calls[0]["args"]["x"]


async def langgraph_value(store, name, value):
    found = await langgraph(store, name, {"x": value})
    return found.checkpoint["channel_values"]["x"]


async def langgraph_metadata(store, name, value):
    return (await langgraph(store, name, {}, metadata={"x": value})).metadata["x"]


async def langgraph_writes(store, name, value):
    return (await langgraph(store, name, {}, writes=[("x", value)])).pending_writes[0][2]


async def adk(store, name, event, state=None):
    service, user = RooContextSessionService(store), {"app_name": "a", "user_id": "u"}
    session = await service.create_session(**user, session_id=name, state=state)
    await service.append_event(session, event)
    return await service.get_session(**user, session_id=name)


async def adk_call(store, name, value):
    part = Part(function_call=FunctionCall(name="n", args={"x": value}))
    found = await adk(store, name, Event(author="a", content=Content(role="model", parts=[part])))
    return found.events[0].content.parts[0].function_call.args["x"]


async def adk_state(store, name, value):
    event = Event(author="a", actions=EventActions(state_delta={"x": value}))
    return (await adk(store, name, event)).state["x"]


async def adk_first_state(store, name, value):
    return (await adk(store, name, Event(author="a"), {"x": value})).state["x"]


async def pydantic_ai(store, name, message, **options):
    ai = RooContextConversationStore(store)
    await ai.save(Conversation(messages=[message], conversation_id=name, **options))
    return await ai.load(name)


async def pydantic_ai_call(store, name, value):
    message = ModelResponse(parts=[ToolCallPart("n", {"x": value}, "c")])
    return (await pydantic_ai(store, name, message)).messages[0].parts[0].args["x"]


async def pydantic_ai_result(store, name, value):
    message = ModelRequest(parts=[ToolReturnPart("n", value, "c")])
    return (await pydantic_ai(store, name, message)).messages[0].parts[0].content


async def pydantic_ai_record(store, name, value):
    message = ModelResponse(parts=[ToolCallPart("n", {}, "c")])
    waiting = DeferredToolRequests(approvals=message.parts, metadata={"c": {"x": value}})
    found = await pydantic_ai(store, name, message, deferred_tool_requests=waiting)
    return found.deferred_tool_requests.metadata["c"]["x"]


PLACES = [
    *(openai_agents, claude_row, claude_call),
    *(langgraph_call, langgraph_value, langgraph_metadata, langgraph_writes),
    *(adk_call, adk_state, adk_first_state),
    *(pydantic_ai_call, pydantic_ai_result, pydantic_ai_record),
]


ROOTS = {
    *("claude-agent-sdk", "content", "event", "state", "message", "record", "value"),
    *("channel_values", "writes"),
}


@pytest.fixture
def run_over(tmp_path):
    with asyncio.Runner() as runner:
        store = runner.run(AsyncStore.open(tmp_path / "store.db", durability="normal"))
        yield lambda work, *given: runner.run(work(store, *given))
        runner.run(store.close())


def nested(levels):
    value = "innermost"
    for level in range(levels):
        value = {"in": value} if level % 2 else [value]
    return value


def levels_of(value):
    levels = 0
    while value != "innermost":
        levels += 1
        (value,) = value.values() if isinstance(value, dict) else value
    return levels


async def stored(store):
    """The number of entries that hold a value, in all sessions."""
    count = 0
    for info in await store.sessions(limit=10_000):
        async for one in (await store.session(info.session_id)).audit():
            count += "innermost" in f"{one.content}{one.entry.extra}"
    return count


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_deep_values_come_back_or_are_refused_with_their_place(run_over, place):
    # Frameworks end at about 255 levels, the store at 500, Python's own recursion at 1,000.
    for levels in (100, 240, 254, 257, 480, 1_000, 10_000):
        before, refused = run_over(stored), None
        try:
            found = run_over(place, f"{place.__name__} {levels}", nested(levels))
        except InvalidMessage as error:
            refused = error
        if refused is not None:
            assert levels > 240
            assert "nested deeper" in str(refused)
            assert refused.path.split(".")[0].split("[")[0] in ROOTS
            assert run_over(stored) == before
        else:
            assert levels < 500
            assert levels_of(found) == levels
            if not place.__name__.startswith("langgraph"):  # which stores what it packs as base64
                assert run_over(stored) > before


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_values_that_contain_themselves_are_refused(run_over, place):
    value = []
    value += [value, {"x": value}]
    with pytest.raises(InvalidMessage):
        run_over(place, place.__name__, value)


def test_refusal_for_another_reason_is_unchanged():
    class Linked:
        """A class that no framework looks into."""

    one, shared = Linked(), ["innermost"]
    one.next = one
    for _ in range(50):  # 2 ** 50 ways to the innermost
        shared = [shared, shared]
    with pytest.raises(TypeError, match="unknown"), serializing([one, shared], "value"):
        raise TypeError("unknown")
