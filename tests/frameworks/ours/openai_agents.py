"""`SQLiteSession` of the OpenAI Agents SDK is ours.

So is the list that its tests of runs use as a session.

A pytest plugin: it is loaded before the tests are, which import the session by name.
"""

from typing import Any

import agents
import agents.extensions.memory.encrypt_session  # it asks whether a session is the SDK's own
import agents.memory
import agents.memory.sqlite_session
import tests.utils.simple_session

from frameworks.ours.stores import new_store, now, store_at
from roocontext.adapters import openai_agents
from roocontext.adapters.openai_agents import RooContextSession


class SQLiteSession(RooContextSession):
    """Made as the SDK's own: the tables have other names here."""

    def __init__(
        self,
        session_id: str,
        db_path: Any = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        self.db_path = db_path
        super().__init__(session_id, store_at(db_path), session_settings=session_settings)


class _Listed:
    """The tests' `SimpleListSession`, over a session of ours."""

    def __init__(self, session_id: str = "test", history: Any = None) -> None:
        self.session_id = session_id
        self._ours = RooContextSession(session_id, new_store())
        self._ignore_ids_for_matching = False
        if history:
            now(self._ours.add_items(history))

    @property
    def saved_items(self) -> list[Any]:
        return now(self._ours.get_items())

    _items = saved_items

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return await self._ours.get_items(limit)

    async def add_items(self, items: list[Any]) -> None:
        await self._ours.add_items(items)

    async def pop_item(self) -> Any:
        return await self._ours.pop_item()

    async def clear_session(self) -> None:
        await self._ours.clear_session()


# A subclass of ours may show other items, so it is not compacted: here this one is the class.
openai_agents.RooContextSession = SQLiteSession
for package in (agents, agents.memory, agents.memory.sqlite_session):
    package.SQLiteSession = SQLiteSession
# The sessions that derive from it are in the same module: so its methods are replaced.
for name, member in vars(_Listed).items():
    if name not in ("__dict__", "__weakref__", "__module__", "__doc__"):
        setattr(tests.utils.simple_session.SimpleListSession, name, member)
