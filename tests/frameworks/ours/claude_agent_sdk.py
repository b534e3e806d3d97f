"""The SessionStore of the Claude Agent SDK's own tests, `InMemorySessionStore`, is ours.

A pytest plugin: it is loaded before the tests are, which import the store by name.
"""

import claude_agent_sdk
import claude_agent_sdk._internal.session_store as own
from claude_agent_sdk import SessionKey, SessionStoreEntry

from frameworks.ours.stores import new_store, now
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore


class InMemorySessionStore(RooContextSessionStore):
    """Made as the SDK's own, with the helpers that it has for tests."""

    def __init__(self) -> None:
        self._plain = new_store()
        super().__init__(self._plain)

    def get_entries(self, key: SessionKey) -> list[SessionStoreEntry]:
        return now(self.load(key)) or []

    @property
    def size(self) -> int:
        return len(self._keys())

    def clear(self) -> None:
        for key in self._keys():
            now(self.delete(key))

    def _keys(self) -> list[SessionKey]:
        kept = self._plain.sessions(where={"level": "main"})
        projects = {info.metadata["project"] for info in kept}
        return [
            {"project_key": project, "session_id": found["session_id"]}
            for project in projects
            for found in now(self.list_sessions(project))
        ]


claude_agent_sdk.InMemorySessionStore = InMemorySessionStore
own.InMemorySessionStore = InMemorySessionStore
