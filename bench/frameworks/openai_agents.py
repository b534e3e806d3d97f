"""The OpenAI Agents SDK: our session beside its own durable ones, SQLite and SQLAlchemy."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession
from agents.memory import SQLiteSession

from bench.data import SIZE, content
from bench.report import Line
from bench.sites import Site, SqliteSite, line_of
from bench.sizes import Sizes
from bench.timing import Step, alternate
from roocontext import AsyncStore, NewMessage, Plan
from roocontext.adapters.openai_agents import RooContextSession

KEPT = 20
"""How many items a compaction leaves, besides its summary."""
SUMMARY = {"role": "user", "content": "The conversation so far. " * 40}


def lines(site: Site, sizes: Sizes) -> Iterator[Line]:
    with asyncio.Runner() as runner:
        store = runner.run(_opened(site))
        for count in sizes.conversations:
            ours, theirs = RooContextSession(f"of {count}", store), _theirs(site, f"of {count}")
            items = [_item(number) for number in range(count)]
            for session in (ours, theirs):
                for first in range(0, count, 500):
                    runner.run(session.add_items(items[first : first + 500]))
            yield _append(site, sizes, runner, ours, theirs, count)
            yield _load(site, sizes, runner, store, ours, theirs, count)
        runner.run(store.close())


def _append(site: Site, sizes: Sizes, runner: Any, ours: Any, theirs: Any, count: int) -> Line:
    def step(name: str, session: Any) -> Step:
        return Step(name, lambda number: runner.run(session.add_items([_item(number)])))

    times = alternate([step("theirs", theirs), step("ours", ours)], rounds=10 * sizes.commits)
    return _line(site, times, f"append.{count}", f"add an item of {SIZE:,} bytes to {count:,}")


def _load(
    site: Site, sizes: Sizes, runner: Any, store: Any, ours: Any, theirs: Any, count: int
) -> Line:
    kept = runner.run(_condensed(store, ours.session_id))
    runner.run(theirs.clear_session())
    runner.run(theirs.add_items([SUMMARY, *kept]))
    assert runner.run(ours.get_items()) == runner.run(theirs.get_items())

    def step(name: str, session: Any) -> Step:
        return Step(name, lambda _: runner.run(session.get_items()))

    times = alternate([step("theirs", theirs), step("ours", ours)], rounds=10 * sizes.reads)
    what = f"load {KEPT} items and the summary of {count:,}"
    return _line(site, times, f"load.{count}", what)


def _line(site: Site, times: Any, key: str, what: str) -> Line:
    against = "SQLiteSession" if isinstance(site, SqliteSite) else "SQLAlchemySession"
    key, what = f"openai_agents.{key}", f"openai-agents: {what}"
    return line_of(site, key, what, against, times["ours"], times["theirs"], 1.2, 1.0)


async def _opened(site: Site) -> AsyncStore:
    site.store("openai_agents")  # made here, and closed with the site
    if isinstance(site, SqliteSite):
        return await AsyncStore.open(site.path("openai_agents"))
    return await AsyncStore.open(site.url("openai_agents"))


def _theirs(site: Site, name: str) -> Any:
    if isinstance(site, SqliteSite):  # in WAL mode, and synchronous as SQLite is by itself: FULL
        return SQLiteSession(name, site.path("openai_agents_own"))
    url = site.url("openai_agents_own").replace("postgresql:", "postgresql+psycopg:", 1)
    return SQLAlchemySession.from_url(name, url=url, create_tables=True)


async def _condensed(store: AsyncStore, session_id: str) -> list[Any]:
    """Condense all but the last items, and return those."""
    chat = await store.session(session_id)
    view = await chat.view()
    hidden = [message.seq for message in view.messages[:-KEPT]]
    # As a manager writes it here: in the format of the session.
    await chat.commit(Plan.condense(view, hidden, NewMessage("user", SUMMARY, "openai-responses")))
    return [item for one in view.messages[-KEPT:] for item in _items(one.content)]


def _items(stored: Any) -> list[Any]:
    return stored if isinstance(stored, list) else [stored]


def _item(number: int) -> dict[str, Any]:
    text = json.dumps(content(number))
    if number % 2 == 0:
        return {"role": "user", "content": text}
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [part]}
