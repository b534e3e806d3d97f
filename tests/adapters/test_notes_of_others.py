"""Notes of an adapter's own kinds that somebody else wrote: the adapter passes over them."""

import asyncio

import pytest

from roocontext import AsyncStore, Store
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from roocontext.adapters.google_adk import RooContextSessionService
from roocontext.adapters.pydantic_ai import RooContextConversationStore
from support.framework_writers import WRITERS

KINDS = {
    "openai-agents": ["openai-agents", "roocontext.item"],
    "claude-agent-sdk": ["claude-agent-sdk"],
    "langgraph": ["langgraph/", "langgraph/~", "langgraph/000000/", "langgraph/000000/~"],
    "google-adk": ["adk.session", "adk.event", "adk.state.", "adk.state.x", "adk.state.~"],
    "pydantic-ai": ["pydantic-ai.record", "pydantic-ai.deleted"],
}
STRANGE = ({}, {"x": 1}, {"entry": 3}, {"epoch": "0", "id": None, "key": 1, "record": []})


async def use(url, framework, *texts):
    """Write as the framework does; what it finds then."""
    async with await AsyncStore.open(url, durability="normal") as store:
        writer = WRITERS[framework](store)
        for text in texts:
            await writer.read()
            await writer.write(text)
        return sorted(await writer.texts())


@pytest.mark.parametrize("framework", WRITERS)
def test_adapter_ignores_notes_of_others(tmp_path, framework):
    url = tmp_path / "store.db"
    asyncio.run(use(url, framework, "a", "b"))
    with Store.open(url) as store:
        chat = store.session(WRITERS[framework].SESSION)
        written = {one.entry.note for one in chat.audit() if one.entry.note}
        for kind in {"adapter.epoch", *KINDS[framework], *written} - {"metadata", "title"}:
            for content in STRANGE:
                chat.note(kind, content)
                chat.note(kind, content, target=chat.view().messages[-1].seq)
    assert asyncio.run(use(url, framework)) == ["a", "b"]
    assert asyncio.run(use(url, framework, "c")) == ["a", "b", "c"]
    assert asyncio.run(use(url, framework, "d")) == ["a", "b", "c", "d"]


def test_state_of_google_adk_ignores_notes_of_others(tmp_path):
    async def state(begun=None):
        async with await AsyncStore.open(tmp_path / "store.db", durability="normal") as store:
            service, names = RooContextSessionService(store), {"app_name": "a", "user_id": "u"}
            if begun:
                await service.create_session(**names, session_id="s", state=begun)
            return (await service.get_session(**names, session_id="s")).state

    assert asyncio.run(state({"x": 1, "y": 2})) == {"x": 1, "y": 2}
    with Store.open(tmp_path / "store.db") as store:
        chat = store.session("google-adk:a/u/s")
        chat.note("adk.state.x", {"key": "y", "value": 3})
        chat.note("adk.state.z", {"value": 3})
    assert asyncio.run(state()) == {"x": 1, "y": 2}


def test_lists_ignore_sessions_of_others(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        claude = {"framework": "claude-agent-sdk", "project": "p", "level": "main"}
        for metadata in (claude, {"adk": "session", "app": "app"}, {"framework": "pydantic-ai"}):
            store.create(metadata=metadata)

    async def listed():
        async with await AsyncStore.open(tmp_path / "store.db", durability="normal") as store:
            return (
                await RooContextSessionStore(store).list_sessions("p"),
                (await RooContextSessionService(store).list_sessions(app_name="app")).sessions,
                await RooContextConversationStore(store).list_conversations(),
            )

    assert asyncio.run(listed()) == ([], [], [])
