"""A summariser takes its time: others write meanwhile, and nobody waits for it.

What is shown is an order, not a duration: the model answers only after another process was
acknowledged all that it appended. The long form takes a minute.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from roocontext import AsyncContextManager, AsyncStore, ContextManager, Store
from support.async_manager import Scripted, manager
from support.dialogue import fill, shown
from support.examples import TORTURE, everyday
from support.fake_provider import Answer, Exchange, ModelServer
from support.pgbouncer import bouncers
from support.run_judge import changes_since
from torture.processes import Nursery

SECONDS = 60 if TORTURE else 0
APPENDS = 5
LIMIT = 20_000 if TORTURE else 5_000
"""More than the view, what is appended in the longest run included, needs after the summary."""
LONG = 600 if TORTURE else 150
PATIENCE = 180
PLACES = ["file", "postgres", *bouncers()]
"""The long run has all of them; each day a thread writes to a file and a task to a server."""


@dataclass(frozen=True)
class Late:
    """An answer that waits until it may come."""

    may_come: threading.Event = field(default_factory=threading.Event)

    def send(self, exchange: Exchange) -> None:
        assert self.may_come.wait(PATIENCE)
        Answer("What was done.").send(exchange)


@pytest.fixture
def model() -> Iterator[tuple[ModelServer, Late]]:
    """A model, and the answer that it will give."""
    late = Late()
    with ModelServer(late) as server:
        yield server, late


def others_append(nursery: Nursery, url: str, model: tuple[ModelServer, Late]) -> list[int]:
    """Wait until the model is asked, let another process append, and only then let it answer."""
    server, late = model
    server.wait_for(1)
    acknowledged: list[int] = []
    end = time.monotonic() + SECONDS
    while not acknowledged or time.monotonic() < end:
        name = f"round {len(acknowledged)}"
        job = {"url": url, "session": "slow", "times": APPENDS, "name": name}
        brood = nursery.run(("append_each", job))
        assert brood.ends == [0]
        acknowledged += [facts["seq"] for facts in brood.told]
        time.sleep(SECONDS / 60)
    assert len(server.requests) == 1
    assert not late.may_come.is_set()
    late.may_come.set()
    return acknowledged


def as_planned(chat: Any, outcome: Any, said: list[int], acknowledged: list[int]) -> None:
    """The summary hides what was planned; later messages are shown after it."""
    assert (outcome.status, outcome.calls) == ("condensed", 1)
    (change,) = changes_since(chat, said[-1])
    assert len(change.hides) == outcome.hidden
    assert set(change.hides) < set(said)
    kept = [seq for seq in said if seq not in change.hides]
    assert shown(chat) == [*outcome.seqs, *kept, *acknowledged]
    assert chat.verify().ok


@pytest.mark.parametrize("url", everyday(["file"], PLACES), indirect=True)
def test_another_process_appends_while_a_model_is_asked(nursery, url, model):
    with Store.open(url) as store:
        chat = store.create("slow")
        said = fill(chat, LONG)
        client = model[0].client(timeout=PATIENCE)
        context = ContextManager("gpt-4o", limit=LIMIT, client=client)
        outcomes: list[Any] = []
        run = threading.Thread(target=lambda: outcomes.append(context.manage(chat)))
        run.start()
        acknowledged = others_append(nursery, url, model)
        run.join(PATIENCE)
        as_planned(chat, outcomes[0], said, acknowledged)


@pytest.mark.parametrize("url", everyday(["postgres"], PLACES), indirect=True)
def test_session_is_appended_to_while_a_task_waits_for_the_model(nursery, url, model):
    with Store.open(url) as store:
        chat = store.create("slow")
        said = fill(chat, LONG)

        async def scene() -> tuple[Any, list[int]]:
            async with (
                await AsyncStore.open(url) as mine,
                model[0].async_client(timeout=PATIENCE) as client,
            ):
                context = AsyncContextManager("gpt-4o", limit=LIMIT, client=client)
                running = asyncio.create_task(context.manage(await mine.session("slow")))
                acknowledged = await asyncio.to_thread(others_append, nursery, url, model)
                return await running, acknowledged

        outcome, acknowledged = asyncio.run(scene())
        as_planned(chat, outcome, said, acknowledged)


@pytest.mark.parametrize("url", everyday(["file"], ["file", "postgres"]), indirect=True)
def test_manager_killed_while_it_asks_leaves_no_trace(nursery, url):
    with Store.open(url) as store:
        chat = store.create("slow")
        said = fill(chat, LONG)
        before = chat.head()
        brood = nursery.run(("ask_and_die", {"url": url, "session": "slow", "limit": LIMIT}))
        assert ([facts["op"] for facts in brood.told], brood.ends) == (["asked"], [-9])
        assert chat.head() == before
        said += fill(chat, 1)
        outcome = manager(chat, limit=LIMIT, summariser=Scripted()).manage(chat)
        as_planned(chat, outcome, said, [])
