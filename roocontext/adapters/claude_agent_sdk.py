"""The Claude Agent SDK's SessionStore over a store of ours. docs/adapters/claude_agent_sdk.md.

A transcript is a session of ours, that of a sub-agent (a `subpath`) a child of it. The SDK's ids
and the summary that it lists sessions by are in the session's metadata.
"""

from functools import partial
from threading import Lock
from typing import Any
from urllib.parse import quote

from roocontext.adapters.adapter_notes import epoch, hide
from roocontext.adapters.claude_agent_transcript import (
    NAME,
    Rewinds,
    Transcript,
    is_record,
    transcript_record,
)
from roocontext.adapters.serializing import framework, pages
from roocontext.errors import SessionNotFound, VersionConflict
from roocontext.formats.imported import storable_title
from roocontext.log.spans import within
from roocontext.store.given import AnyStore, GivenStore, OverStore
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.session import Session
from roocontext.store.sessions.sessions import SessionInfo
from roocontext.store.store import Store
from roocontext.store.writing.items import Item, SetMetadata, SetTitle

with framework("claude-agent-sdk", works=">=0.2.180,<0.3", extra="claude-agent-sdk"):
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStore,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
        fold_session_summary,
    )

_KEPT = 16
"""How many transcripts' trees stay in memory: those of the sessions that are written now."""
_TRIES = 100
"""How often others may be first. Each time one of them has made progress."""


class RooContextSessionStore(OverStore, SessionStore):
    """Keeps the transcripts of Claude agents: `ClaudeAgentOptions(session_store=...)`.

    Give it an open store, or a URL or path, which it opens with the first call. It works under
    asyncio and under trio.
    """

    def __init__(self, store: AnyStore) -> None:
        self._given = GivenStore(store)
        self._desks: dict[str, _Desk] = {}
        self._lock = Lock()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append the entries whose `uuid` is new, and those without one."""
        await self._given.run(partial(self._append, key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries since the session was last deleted, those of all branches.

        After a rewind of yours, only those that were live at the entry you went back to.
        """
        return await self._given.run(partial(_load, key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The main transcripts of a project, the one written last first."""
        found = await self._given.run(partial(_sessions_of, project_key))
        return [{"session_id": one.metadata["session"], "mtime": one.updated_at} for one in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """What the SDK shows of each main transcript of a project."""
        return [_summary(one) for one in await self._given.run(partial(_sessions_of, project_key))]

    async def delete(self, key: SessionKey) -> None:
        """Hide a transcript, and those of its sub-agents. Only `Store.purge` destroys."""
        await self._given.run(partial(_delete, key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session's sub-agents."""
        main: SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
        found = await self._given.run(partial(_listed, parent=_id(main), framework=NAME))
        # A child of yours may have any metadata, and a fork has that of its origin.
        subpaths = [(one.session_id, str(one.metadata.get("subpath"))) for one in found]
        return sorted(one for name, one in subpaths if name == _id({**main, "subpath": one}))

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry], store: Store) -> None:
        if not entries:
            return
        session = _opened(store, key)
        desk = self._desk(session.id)
        with desk.lock:
            tries = 0
            while entries:
                transcript, desk.transcript = desk.transcript, None
                transcript = transcript or Transcript(of_agent=bool(key.get("subpath")))
                try:
                    done = transcript.append(session, entries, partial(_also, key))
                except VersionConflict:  # another process was first: read, and decide again
                    tries += 1
                    if tries == _TRIES:
                        raise
                else:
                    entries, desk.transcript = entries[done:], transcript

    def _desk(self, session_id: str) -> "_Desk":
        with self._lock:
            desk = self._desks.pop(session_id, None) or _Desk()
            self._desks[session_id] = desk  # the newest comes last
            if len(self._desks) > _KEPT:
                del self._desks[next(iter(self._desks))]
        return desk


class _Desk:
    """Where one thread at a time writes a session; its transcript, unless the last write failed."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.transcript: Transcript | None = None


def _id(key: SessionKey) -> str:
    """Our id of a transcript: no two keys have the same one."""
    parts = [key["project_key"], key["session_id"]]
    if subpath := key.get("subpath"):
        parts.append(subpath)
    return f"{NAME}:" + "/".join(quote(part, "", errors="surrogatepass") for part in parts)


def _opened(store: Store, key: SessionKey) -> Session:
    if not key.get("subpath"):
        return store.open_session(_id(key))
    main: SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
    parent = store.open_session(_id(main))
    return store.open_session(_id(key), parent=parent.id)


def _found(store: Store, key: SessionKey) -> Session | None:
    try:
        return store.session(_id(key))
    except SessionNotFound:
        return None


def _also(key: SessionKey, session: Session, info: SessionInfo, records: list[Any]) -> list[Item]:
    """The metadata and the title, if new entries change them."""
    if _described(key, info.metadata, records) == info.metadata:
        return []
    # Read again with its seq: only one of two writers may follow the same metadata.
    note = session.newest_note("metadata")
    seq, before = (0, None) if note is None else (note.seq, note.content["metadata"])
    metadata = _described(key, before, records)
    items: list[Item] = [SetMetadata(metadata, f"{NAME}#metadata#{seq}")]
    data = _data(metadata)
    title = storable_title(data.get("custom_title") or data.get("ai_title") or "").strip()[:200]
    if title and title != info.title:
        items.append(SetTitle(title))
    return items


def _described(key: SessionKey, before: Any, records: list[Any]) -> dict[str, Any]:
    """The metadata with new entries; what others have written there stays."""
    before = before or {}
    facts = {"framework": NAME, "project": key["project_key"], "session": key["session_id"]}
    if subpath := key.get("subpath"):
        return {**before, **facts, "subpath": subpath}
    session_id = key["session_id"]
    prev: SessionSummaryEntry = {"session_id": session_id, "mtime": 0, "data": _data(before)}
    data = fold_session_summary(prev, key, records)["data"]
    return {**before, **facts, "level": "main", "summary": data}


def _load(key: SessionKey, store: Store) -> list[SessionStoreEntry] | None:
    session = _found(store, key)
    if session is None:
        return None
    found: list[AuditEntry] = []
    rewinds = Rewinds()
    for shown in session.audit(after=epoch(session)):
        rewinds.take(shown)
        if is_record(shown):
            found.append(shown)
    kept = rewinds.kept(found[-1].seq) if found else ()
    loaded: list[SessionStoreEntry] = []
    above: str | None = None
    for shown in found:
        if within(kept, shown.seq):
            record = transcript_record(shown, above)
            loaded.append(record)
            above = shown.entry.message_id or (record.get("uuid") or above)
    return loaded or None


def _sessions_of(project_key: str, store: Store) -> list[SessionInfo]:
    listed = _listed(store, framework=NAME, project=project_key, level="main")
    # A fork of ours has the metadata of its origin, and a session of somebody else may have any.
    return [
        one
        for one in listed
        if one.session_id
        == _id({"project_key": project_key, "session_id": str(one.metadata.get("session"))})
    ]


def _listed(store: Store, *, parent: str | None = None, **facts: str) -> list[SessionInfo]:
    return [one for page in pages(store, facts, parent=parent) for one in page]


def _summary(info: SessionInfo) -> SessionSummaryEntry:
    session_id, data = info.metadata["session"], _data(info.metadata)
    return {"session_id": session_id, "mtime": info.updated_at, "data": data}


def _data(metadata: Any) -> dict[str, Any]:
    """The SDK's summary in a session's metadata, in which anybody may write."""
    found = metadata.get("summary")
    return found if isinstance(found, dict) else {}


def _delete(key: SessionKey, store: Store) -> None:
    session = _found(store, key)
    if session is None:
        return
    if not key.get("subpath"):
        for child in session.children():
            if child.session_id.startswith(f"{session.id}/"):  # else it is a child of yours
                _hide(store.session(child.session_id))
    _hide(session)


def _hide(session: Session) -> None:
    # Behind the note of the epoch is the metadata, and if nothing follows it is hidden already.
    if session.info().last_seq > epoch(session) + 1:
        hide(session, by=f"{NAME}.delete", metadata={})
