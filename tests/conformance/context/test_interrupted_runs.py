"""Runs that are interrupted, cancelled or overtaken: wholly done, or nothing but a note."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from roocontext import AsyncContextManager, ContextManager
from roocontext.errors import SessionPurged
from support.async_manager import Scripted, manager
from support.dialogue import fill, state
from support.fake_provider import Hang, ModelServer
from support.nasty_sessions import WINDOW
from support.provider_rules.anthropic import violations
from support.run_judge import changes_since


def unchanged_but_for(chat: Any, before: tuple[Any, ...], reason: str) -> None:
    """The view and the head are what they were, and one note says what happened."""
    assert (chat.head_seq(), chat.view().messages) == (before[1], before[2].messages)
    (note,) = chat.notes("compaction")
    assert (note.content["event"], note.content["reason"]) == ("failed", reason)
    assert note.content["failures"] == 0
    assert chat.verify().ok


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_interrupt_of_a_run_is_raised(memory, interrupt):
    chat = memory.create()
    fill(chat, 40)
    before = state(chat)
    with pytest.raises(type(interrupt)):
        manager(chat, limit=WINDOW, summariser=Scripted(interrupt)).manage(chat)
    unchanged_but_for(chat, before, type(interrupt).__name__)


def cancelling(lab: Any, chat: Any, make: Callable[[asyncio.Event], Any]) -> None:
    """Cancel a run on the loop of the lab when its summariser, which `make` makes, was asked."""

    async def scene() -> None:
        asked = asyncio.Event()
        context = AsyncContextManager("gpt-4o", limit=WINDOW, summariser=make(asked))
        running = asyncio.create_task(context.manage(chat.target))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    lab.store._runner.run(scene())


@pytest.fixture(scope="module", params=["file", "postgres", "memory"])
def waiting(request: pytest.FixtureRequest, opened: Callable[..., Any]) -> Iterator[Any]:
    """An asynchronous store."""
    with opened(request.param, "async") as lab:
        yield lab


def test_summariser_that_hangs_can_be_cancelled(waiting):
    chat = waiting.store.create()
    fill(chat, 40)
    before = state(chat)

    def make(asked: asyncio.Event) -> Any:
        async def hang(_request: Any) -> str:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        return hang

    cancelling(waiting, chat, make)
    unchanged_but_for(chat, before, "CancelledError")
    assert manager(chat, limit=WINDOW, summariser=Scripted()).manage(chat).status == "condensed"


def test_cancelled_run_with_a_blocking_summariser_returns(waiting):
    chat = waiting.store.create()
    fill(chat, 40)
    before = state(chat)
    free, done = threading.Event(), threading.Event()

    def make(asked: asyncio.Event) -> Any:
        loop = asyncio.get_running_loop()

        def block(_request: Any) -> str:
            loop.call_soon_threadsafe(asked.set)
            free.wait(30)
            done.set()
            return "too late"

        return block

    cancelling(waiting, chat, make)
    unchanged_but_for(chat, before, "CancelledError")
    free.set()
    assert done.wait(30)
    unchanged_but_for(chat, before, "CancelledError")


def test_model_that_hangs_is_hung_up_on(waiting):
    chat = waiting.store.create()
    fill(chat, 40)
    before = state(chat)
    with ModelServer(otherwise=Hang(begun=True)) as server:

        async def scene() -> None:
            async with server.async_client() as client:
                context = AsyncContextManager("gpt-4o", limit=WINDOW, client=client)
                running = asyncio.create_task(context.manage(chat.target))
                await asyncio.to_thread(server.wait_for, 1)
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running

        waiting.store._runner.run(scene())
        assert server.requests[0].left.wait(30)
    unchanged_but_for(chat, before, "CancelledError")


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_run_cancelled_at_any_step_is_done_or_not_begun(waiting, steps):
    chat = waiting.store.create()
    said = fill(chat, 40)
    before = state(chat)

    async def brief(_request: Any) -> str:
        await asyncio.sleep(0)
        return "What was done."

    async def scene() -> None:
        context = AsyncContextManager("gpt-4o", limit=WINDOW, summariser=brief)
        running = asyncio.create_task(context.manage(chat.target))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    waiting.store._runner.run(scene())
    changes = changes_since(chat, said[-1])
    assert len(changes) <= 1
    if not changes:
        assert (chat.head_seq(), chat.view().messages) == (before[1], before[2].messages)
    assert chat.verify().ok
    assert violations(chat.messages()) == []


# What happens while it is asked


def test_concurrent_managers_do_not_undo_each_other(memory):
    chat = memory.create()
    said = fill(chat, 40)
    meeting = threading.Barrier(2, timeout=30)

    def slow(_request: Any) -> str:
        meeting.wait()
        return "What was done."

    def run(_: int) -> str:
        context = ContextManager("gpt-4o", limit=WINDOW, summariser=slow)
        return context.manage(memory.session(chat.id)).status

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(run, range(2))) == ["condensed", "conflict"]
    assert len(changes_since(chat, said[-1])) == 1


def test_summariser_that_manages_the_session_itself_is_overtaken(memory):
    chat = memory.create()
    said = fill(chat, 40)
    inner = manager(chat, limit=WINDOW, summariser=Scripted("from within"))
    outer = Scripted(lambda _: inner.manage(chat).status.value)
    assert manager(chat, limit=WINDOW, summariser=outer).manage(chat).status == "conflict"
    assert len(changes_since(chat, said[-1])) == 1
    assert "from within" in chat.view().messages[0].content


def test_session_purged_during_the_run_is_gone(memory):
    chat = memory.create()
    fill(chat, 40)

    def meanwhile(_request: Any) -> str:
        memory.purge(chat.id)
        return "too late"

    with pytest.raises(SessionPurged):
        manager(chat, limit=WINDOW, summariser=Scripted(meanwhile)).manage(chat)
