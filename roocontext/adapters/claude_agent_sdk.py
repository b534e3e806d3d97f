"""The Claude Agent SDK's SessionStore over a store: docs/adapters/claude_agent_sdk.md.

A transcript is a session, and the transcript of a sub-agent (a `subpath`) is a child of it. The
session's metadata holds the SDK's ids and the summary that it lists sessions by.
"""

from collections.abc import Collection
from functools import lru_cache, partial
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
from roocontext.formats.writing import around_pins
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

_REMEMBERED = 16
"""How many transcripts stay in memory, those that were written last."""
_TRIES = 100
"""How often other writers may be first. Each time one of them has made progress."""


class RooContextSessionStore(OverStore, SessionStore):
    """Keeps the transcripts of Claude agents: `ClaudeAgentOptions(session_store=...)`.

    Pass an open store, or a URL or path, which is opened by the first call. It works under asyncio
    and under trio.
    """

    def __init__(self, store: AnyStore) -> None:
        self._given = GivenStore(store)
        self._writers = lru_cache(_REMEMBERED)(lambda _: _Writer())

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append the entries whose `uuid` is new, and those without one."""
        await self._given.run(partial(self._append, key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of all branches since the session was last deleted.

        After a rewind by you, only the entries that were live at its target.
        """
        return await self._given.run(partial(_load, key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The main transcripts of a project, the newest write first."""
        infos = await self._given.run(partial(_sessions_of, project_key))
        return [
            {"session_id": info.metadata["session"], "mtime": info.updated_at} for info in infos
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summary of each main transcript of a project."""
        infos = await self._given.run(partial(_sessions_of, project_key))
        return [
            {
                "session_id": info.metadata["session"],
                "mtime": info.updated_at,
                "data": _data(info.metadata),
            }
            for info in infos
        ]

    async def delete(self, key: SessionKey) -> None:
        """Hide a transcript and those of its sub-agents. Only `Store.purge` destroys."""
        await self._given.run(partial(_delete, key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session's sub-agents."""
        main: SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
        infos = await self._given.run(partial(_listed, parent=_id(main), framework=NAME))
        # A fork has the metadata of its origin, and other children may have any.
        subpaths = [(info.session_id, str(info.metadata.get("subpath"))) for info in infos]
        return sorted(path for name, path in subpaths if name == _id({**main, "subpath": path}))

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry], store: Store) -> None:
        if not entries:
            return
        session = _opened(store, key)
        writer = self._writers(session.id)
        with writer.lock:
            tries = 0
            while entries:
                try:
                    done = around_pins(partial(writer.append, session, key, entries))
                except VersionConflict:  # another process was first: read, and decide again
                    tries += 1
                    if tries == _TRIES:
                        raise
                else:
                    entries = entries[done:]


class _Writer:
    """One thread at a time writes a session. No transcript is kept after a write that failed."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._transcript: Transcript | None = None

    def append(
        self,
        session: Session,
        key: SessionKey,
        entries: list[SessionStoreEntry],
        bound: Collection[int],
    ) -> int:
        """Append the first entries, and return how many they were. See Transcript.append."""
        transcript, self._transcript = self._transcript, None
        transcript = transcript or Transcript(of_agent=bool(key.get("subpath")))
        done = transcript.append(session, entries, partial(_also, key), bound)
        self._transcript = transcript
        return done


def _id(key: SessionKey) -> str:
    """The id of a transcript's session: no two keys have the same one."""
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


def _existing(store: Store, key: SessionKey) -> Session | None:
    try:
        return store.session(_id(key))
    except SessionNotFound:
        return None


def _also(key: SessionKey, session: Session, info: SessionInfo, records: list[Any]) -> list[Item]:
    """The metadata and the title, if new entries change them."""
    note = session.newest_note("metadata")
    seq, before = (0, None) if note is None else (note.seq, note.content["metadata"])
    metadata = _described(key, before, records)
    if metadata == before:
        return []
    # By its client id, only one of two writers may follow the same metadata.
    items: list[Item] = [SetMetadata(metadata, f"{NAME}#metadata#{seq}")]
    data = _data(metadata)
    title = storable_title(data.get("custom_title") or data.get("ai_title") or "").strip()[:200]
    if title and title != info.title:
        items.append(SetTitle(title))
    return items


def _described(key: SessionKey, before: Any, records: list[Any]) -> dict[str, Any]:
    """The metadata with new entries. Whatever else is in it stays."""
    before = before or {}
    facts = {"framework": NAME, "project": key["project_key"], "session": key["session_id"]}
    if subpath := key.get("subpath"):
        return {**before, **facts, "subpath": subpath}
    session_id = key["session_id"]
    prev: SessionSummaryEntry = {"session_id": session_id, "mtime": 0, "data": _data(before)}
    data = fold_session_summary(prev, key, records)["data"]
    return {**before, **facts, "level": "main", "summary": data}


def _load(key: SessionKey, store: Store) -> list[SessionStoreEntry] | None:
    session = _existing(store, key)
    if session is None:
        return None
    stored: list[AuditEntry] = []
    rewinds = Rewinds()
    for entry in session.audit(after=epoch(session)):
        rewinds.take(entry)
        if is_record(entry):
            stored.append(entry)
    live = rewinds.kept(stored[-1].seq) if stored else ()
    loaded: list[SessionStoreEntry] = []
    above: str | None = None
    for entry in stored:
        if within(live, entry.seq):
            record = transcript_record(entry, above)
            loaded.append(record)
            above = entry.entry.message_id or (record.get("uuid") or above)
    return loaded or None


def _sessions_of(project_key: str, store: Store) -> list[SessionInfo]:
    listed = _listed(store, framework=NAME, project=project_key, level="main")
    # A fork has the metadata of its origin, and other sessions may have any.
    return [
        info
        for info in listed
        if info.session_id
        == _id({"project_key": project_key, "session_id": str(info.metadata.get("session"))})
    ]


def _listed(store: Store, *, parent: str | None = None, **facts: str) -> list[SessionInfo]:
    return [info for page in pages(store, facts, parent=parent) for info in page]


def _data(metadata: Any) -> dict[str, Any]:
    """The SDK's summary in a session's metadata, which anybody may write to."""
    summary = metadata.get("summary")
    return summary if isinstance(summary, dict) else {}


def _delete(key: SessionKey, store: Store) -> None:
    session = _existing(store, key)
    if session is None:
        return
    if not key.get("subpath"):
        for child in session.children():
            # Others were not created by the adapter, and nothing of an archived one can be loaded.
            if child.session_id.startswith(f"{session.id}/") and child.archived_at is None:
                _hide(store.session(child.session_id))
    _hide(session)


def _hide(session: Session) -> None:
    # The metadata follows the note of the epoch. If nothing follows it, all is hidden already.
    if session.info().last_seq > epoch(session) + 1:
        hide(session, by=f"{NAME}.delete", metadata={})
