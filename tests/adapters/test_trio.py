"""The store and its adapters under trio, which claude-agent-sdk and pydantic-ai may run on."""

import threading

import pytest
import trio
import trio.testing
from pydantic_ai import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

from roocontext import AsyncContextManager, AsyncStore, InvalidOption, SessionNotFound
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from roocontext.adapters.langgraph import RooContextSaver
from roocontext.adapters.pydantic_ai import RooContextConversationStore
from support.claude_agent_driver import KEY
from support.dialogue import WORDS


@pytest.fixture(params=["file", "postgres"])
def lab(request, opened):
    with opened(request.param, "sync") as lab:
        yield lab


def test_store_works_under_trio(lab):
    async def run():
        async with await AsyncStore.open(lab.url) as store:
            chat = await store.create("trio")
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(chat.append, "user", str(number))
            with pytest.raises(SessionNotFound):
                await store.session("no such")
            return sorted(int(one.content) for one in (await chat.view()).messages)

    assert trio.run(run) == [*range(20)]
    assert lab.store.session("trio").verify().ok


def test_cancelled_call_has_ended_when_it_is_cancelled(lab):
    begun, may_end = threading.Event(), threading.Event()

    def work(store):
        begun.set()
        may_end.wait()
        store.create("created all the same")

    async def run():
        async with await AsyncStore.open(lab.url) as store, trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def call():
                with scope:
                    await store.run(work)

            nursery.start_soon(call)
            await trio.to_thread.run_sync(begun.wait)
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert not scope.cancelled_caught  # it is joined
            may_end.set()
        return scope.cancelled_caught

    assert trio.run(run)
    assert lab.store.session("created all the same").id


def test_manager_condenses_under_trio_and_can_be_cancelled(lab):
    begun, may_end = threading.Event(), threading.Event()

    def slow(request):
        begun.set()
        may_end.wait()
        return "In short."

    async def run():
        async with await AsyncStore.open(lab.url) as store:
            chat = await store.create("managed")
            for number in range(9):
                await chat.append("user", f"message {number} {WORDS}")
            async with trio.open_nursery() as nursery:
                waiting = AsyncContextManager("gpt-4o", summariser=slow)
                nursery.start_soon(waiting.condense, chat)
                await trio.to_thread.run_sync(begun.wait)
                nursery.cancel_scope.cancel()
            may_end.set()
            assert len((await chat.view()).messages) == 9
            return await AsyncContextManager("gpt-4o").condense(chat)

    assert trio.run(run).status == "condensed"


def test_cancelled_open_leaves_no_store_open(lab):
    async def run():
        with trio.CancelScope() as scope:
            scope.cancel()
            await AsyncStore.open(lab.url)
        return scope.cancelled_caught

    assert trio.run(run)


@pytest.mark.parametrize("kind", ["url", "store", "async"])
def test_claude_agent_sdk_stores_its_transcripts_under_trio(lab, kind):
    entry = {"type": "user", "uuid": "u-1", "message": {"role": "user", "content": "Hi."}}

    async def run():
        given = {"url": lab.url, "store": lab.store}.get(kind) or await AsyncStore.open(lab.url)
        store = RooContextSessionStore(given)
        await store.append(KEY, [entry])
        found = await store.load(KEY)
        await store.close()
        if kind == "async":
            await given.close()
        return found

    assert trio.run(run) == [entry]


def test_synchronous_call_of_an_asynchronous_store_is_refused_under_trio(lab):
    async def run():
        async with await AsyncStore.open(lab.url) as store:
            RooContextSaver(store).get_tuple({"configurable": {"thread_id": "t"}})

    with pytest.raises(InvalidOption, match="event loop"):
        trio.run(run)


def test_pydantic_ai_stores_its_conversations_under_trio(lab):
    async def run():
        async with RooContextConversationStore(lab.url) as store:
            messages = [ModelRequest(parts=[UserPromptPart("Hello.")])]
            await store.save(Conversation(conversation_id="c", messages=messages))
            return (await store.load("c")).messages == messages

    assert trio.run(run)
