"""Claude Agent SDK: `InMemorySessionStore`, the only store that it ships.

The SDK mirrors the transcript of its bundled program into the store. The program itself decides
what is rewound, condensed and sent.
"""

from uuid import NAMESPACE_URL, uuid4, uuid5

from claude_agent_sdk import InMemorySessionStore

from adapters.drivers.shapes import Loop, kept_in_memory
from roocontext.testing import Capability, History, Message, Receipt, View

STORES = kept_in_memory(InMemorySessionStore)
BY_THE_PROGRAM = "the bundled program does it, not the store"


class InMemory:
    """One transcript. The key of a retry is the entry's uuid."""

    lacks = {
        **dict.fromkeys({*Capability} - {Capability.DELETE}, BY_THE_PROGRAM),
        Capability.DURABLE: "it keeps transcripts in the process's memory",
    }

    def __init__(self, place):
        self._store = STORES[place]
        self._run = Loop()
        self._key = {}

    def open(self, session):
        self._key = {"project_key": "probe", "session_id": session}
        return Receipt(self.view().version)

    def append(self, new):
        key = new.retry_key
        entry = {
            "type": new.message.role,
            "uuid": str(uuid5(NAMESPACE_URL, key) if key else uuid4()),
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": {"role": new.message.role, "content": new.message.content},
        }
        self._run(self._store.append(self._key, [entry]))
        return Receipt(self.view().version)

    def view(self):
        entries = self._run(self._store.load(self._key)) or []
        messages = (entry["message"] for entry in entries)
        return View(len(entries), tuple(Message(it["role"], it["content"]) for it in messages))

    def history(self):
        return History(self.view().messages)

    def delete(self):
        self._run(self._store.delete(self._key))

    def close(self):
        self._run.close()
