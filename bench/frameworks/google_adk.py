"""Google ADK: our session service beside its DatabaseSessionService."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.genai.types import Content, Part

from bench.data import SIZE, content
from bench.report import Line
from bench.sites import Site, SqliteSite, line_of
from bench.sizes import Sizes
from bench.timing import Step, alternate
from roocontext import AsyncStore
from roocontext.adapters.google_adk import RooContextSessionService

RECENT = 20
"""How many events a compaction leaves."""


def lines(site: Site, sizes: Sizes) -> Iterator[Line]:
    with asyncio.Runner() as runner:
        store = runner.run(_opened(site))
        services = {"theirs": _theirs(site), "ours": RooContextSessionService(store)}
        for count in sizes.conversations:
            sessions = {
                name: runner.run(_grown(service, count)) for name, service in services.items()
            }
            yield _append(site, sizes, runner, services, sessions, count)
            yield from _load(site, sizes, runner, services, sessions, count)
        runner.run(services["theirs"].close())
        runner.run(store.close())


def _append(site: Site, sizes: Sizes, runner: Any, services: Any, made: Any, count: int) -> Line:
    def step(name: str) -> Step:
        append, session = services[name].append_event, made[name]
        return Step(name, lambda number: runner.run(append(session, _event(count + number))))

    times = alternate([step(name) for name in services], rounds=5 * sizes.commits)
    return _line(site, times, f"append.{count}", f"append an event of {SIZE:,} bytes to {count:,}")


def _load(
    site: Site, sizes: Sizes, runner: Any, services: Any, made: Any, count: int
) -> Iterator[Line]:
    last = made["ours"].events[-1].timestamp
    for name, service in services.items():
        runner.run(service.append_event(made[name], _compaction(last - RECENT)))

    def step(name: str, **config: Any) -> Step:
        read, key = services[name].get_session, {"app_name": "a", "user_id": "u"}
        asked = {**key, "session_id": made[name].id, "config": config or None}
        return Step(name, lambda _: runner.run(read(**asked)))

    times = alternate([step(name) for name in services], rounds=sizes.heavy // 2 + 1)
    what = f"load {count:,} events, compacted all but {RECENT}"
    yield _line(site, times, f"load.{count}", what)


def _line(site: Site, times: Any, key: str, what: str) -> Line:
    key, what = f"google_adk.{key}", f"google-adk: {what}"
    against = "DatabaseSessionService"
    return line_of(site, key, what, against, times["ours"], times["theirs"], 1.2, 1.0)


async def _opened(site: Site) -> AsyncStore:
    site.store("google_adk")  # made here, and closed with the site
    if isinstance(site, SqliteSite):
        return await AsyncStore.open(site.path("google_adk"))
    return await AsyncStore.open(site.url("google_adk"))


def _theirs(site: Site) -> DatabaseSessionService:
    if isinstance(site, SqliteSite):
        # The mode of our stores, which stays with the file. Both are synchronous FULL.
        site.floor("google_adk_own").rows("PRAGMA journal_mode = WAL")
        return DatabaseSessionService(f"sqlite+aiosqlite:///{site.path('google_adk_own')}")
    url = site.url("google_adk_own").replace("postgresql:", "postgresql+psycopg:", 1)
    return DatabaseSessionService(url)


async def _grown(service: Any, count: int) -> Any:
    session = await service.create_session(app_name="a", user_id="u")
    if isinstance(service, DatabaseSessionService):
        await _insert(service, session, count)
        return session
    for number in range(count):
        await service.append_event(session, _event(number))
    return session


async def _insert(service: Any, session: Any, count: int) -> None:
    """Put the rows into its tables at once: appending each would take minutes."""
    row_of = service._get_schema_classes().StorageEvent.from_event  # noqa: SLF001
    for first in range(0, count, 500):
        async with service.database_session_factory() as tx:
            tx.add_all(
                row_of(session, _event(first + number)) for number in range(min(500, count - first))
            )
            await tx.commit()


def _event(number: int) -> Event:
    part = Part(text=json.dumps(content(number)))
    author, role = ("user", "user") if number % 2 == 0 else ("coder", "model")
    spoken = Content(role=role, parts=[part])
    return Event(author=author, content=spoken, invocation_id=f"i{number}", timestamp=float(number))


def _compaction(until: float) -> Event:
    summary = Content(role="model", parts=[Part(text="The conversation so far.")])
    covered = {"start_timestamp": 0.0, "end_timestamp": until, "compacted_content": summary}
    actions = EventActions(compaction=covered)
    return Event(author="user", actions=actions, timestamp=until + RECENT + 1)
