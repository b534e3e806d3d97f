"""Adapters take an open store of either kind, or the URL of one that they open."""

import asyncio
import sqlite3
import subprocess
import sys

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from roocontext import AsyncStore, ContextManager, InvalidOption, Store
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from roocontext.adapters.google_adk import RooContextSessionService
from roocontext.adapters.langgraph import RooContextSaver
from roocontext.adapters.openai_agents import CompactingSession, RooContextSession
from roocontext.errors import StoreClosed
from support.framework_writers import WRITERS
from support.langgraph_thread import at

AT = at("t")
USER = {"app_name": "a", "user_id": "u"}
ITEM = {"role": "user", "content": "Hello."}

MODULE = """
import asyncio
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from roocontext.adapters.google_adk import RooContextSessionService
from roocontext.adapters.langgraph import RooContextSaver
from roocontext.adapters.openai_agents import RooContextSession
from roocontext.adapters.pydantic_ai import RooContextConversationStore

made = [
    RooContextSessionStore("a.db"), RooContextSessionService(db_url="sqlite+aiosqlite:///a.db"),
    RooContextSaver("sqlite:///a.db"), RooContextSession("s", "a.db"),
    RooContextConversationStore("a.db"),
]
import os
assert not os.path.exists("a.db")
asyncio.run(made[3].add_items([{"role": "user", "content": "Hello."}]))
assert asyncio.run(made[3].get_items())
for one in made:
    one.close()
"""


@pytest.fixture(params=["file", "postgres"])
def lab(request, opened):
    with opened(request.param, "sync") as lab:
        yield lab


async def used(framework, given):
    """A writer that has used its adapter."""
    writer = WRITERS[framework](given)
    await writer.read()
    await writer.write("a")
    return writer


@pytest.mark.parametrize("framework", WRITERS)
def test_store_that_was_opened_by_its_url_is_closed(lab, framework):
    async def run():
        writer = await used(framework, lab.url)
        assert await writer.adapter.close() is None
        writer.adapter.close()  # it need not be awaited, and may be repeated
        with pytest.raises(StoreClosed):
            await writer.read()

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("framework", WRITERS)
def test_store_that_was_given_stays_open(lab, framework, kind):
    async def run():
        given = await AsyncStore.open(lab.url) if kind == "async" else lab.store
        writer = await used(framework, given)
        await writer.adapter.close()
        async with writer.adapter:
            pass
        assert await writer.texts() == ["a"]
        if kind == "async":
            await given.close()

    asyncio.run(run())
    assert lab.store.sessions() is not None


def test_adapters_are_made_at_the_top_of_a_module(tmp_path):
    subprocess.run([sys.executable, "-c", MODULE], cwd=tmp_path, check=True)


def test_saver_is_made_from_a_connection_string(lab):
    url = str(lab.url)
    with RooContextSaver.from_conn_string(url) as saver:
        saver.setup()
        config = saver.put(AT, empty_checkpoint(), {}, {})

    async def run():
        async with RooContextSaver.from_conn_string(url) as one:
            await one.setup()
            return await one.aget_tuple(AT)

    assert asyncio.run(run()).config == config
    with pytest.raises(StoreClosed):
        saver.get_tuple(AT)


def test_urls_of_the_frameworks_stores_are_accepted(tmp_path):
    async def run():
        path = tmp_path / "a.db"
        async with RooContextSession.from_url("s", url=f"sqlite+aiosqlite:///{path}") as one:
            await one.add_items([ITEM])
        manager = ContextManager("gpt-5")
        async with CompactingSession.from_url("s", url=str(path), manager=manager) as one:
            assert type(one) is CompactingSession
            assert await one.get_items() == [ITEM]
        service = RooContextSessionService(db_url=f"sqlite+aiosqlite:///{path}")
        await service.prepare_tables()
        await service.create_session(**USER, session_id="s")
        await service.close()
        with Store.open(path) as store:
            assert len(store.sessions()) > 1

    asyncio.run(run())


@pytest.mark.parametrize("given", ["mysql://host/db", "host=a dbname=b", "", None, 7, sqlite3])
def test_adapter_refuses_a_wrong_store_at_once(given):
    for make in (RooContextSaver, RooContextSessionStore, RooContextSessionService):
        with pytest.raises(InvalidOption):
            make(given)
    with pytest.raises(InvalidOption):
        RooContextSessionService("a.db", db_url="b.db")
