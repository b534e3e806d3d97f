"""pydantic-ai's ConversationStore over a store: docs/adapters/pydantic_ai.md.

A conversation is a session. Its messages are stored as pydantic-ai serializes them, and its record
is the newest note of its kind. An entry's id names the session in which it was first stored. A fork
is a fork of the session: it copies the entries, which keep their ids.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from roocontext.adapters.adapter_notes import Shape, epoch, hide, newest_own
from roocontext.adapters.serializing import check_json, framework, pages, serializing
from roocontext.errors import (
    DuplicateMessage,
    MessageNotFound,
    SessionExists,
    SessionNotFound,
    SessionPurged,
    VersionConflict,
)
from roocontext.formats.imported import storable_model
from roocontext.log.entries import Kind, Message, NewMessage
from roocontext.log.moments import EPOCH, in_calendar
from roocontext.log.readings import read_message, text_of
from roocontext.store.given import AnyStore, GivenStore, OverStore
from roocontext.store.session import Session
from roocontext.store.store import Store
from roocontext.store.writing.items import Item, NewNote, Rewind, SetMetadata

with framework("pydantic-ai-slim", works=">=2.68,<3", extra="pydantic-ai"):
    from pydantic import TypeAdapter
    from pydantic_ai import AgentRunResult, Conversation, RunContext
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import (
        CompactionPart,
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )
    from pydantic_ai.usage import RequestUsage

NAME = "pydantic-ai"
"""The format of the messages, the framework in the metadata, and the start of the session ids."""
RECORD, DELETED = "pydantic-ai.record", "pydantic-ai.deleted"
_RECORD: Shape = {"conversation": str, "record": dict}
_INHERITS = f"{NAME}.inherits:"
"""The start of the metadata's keys that name the sessions in which entries were first stored."""
_Records = TypeAdapter(ConversationRecord)
_TRIES = 100
"""How often other writers may be first. Each time one of them has made progress."""


class RooContextConversationStore(OverStore, ConversationStore):
    """Keeps the conversations of pydantic-ai agents.

    Pass an open store, or a URL or path, which is opened by the first call. `delete` hides a
    conversation, whose id can be used again; only `Store.purge` destroys it.
    """

    def __init__(self, store: AnyStore) -> None:
        self._given = GivenStore(store)

    async def save(
        self, conversation: Conversation | AgentRunResult[Any], *, scope: str | None = None
    ) -> list[ConversationEntry]:
        """See ConversationStore.save. The entries have the ids that `load_entries` gives them."""
        saved = await super().save(conversation, scope=scope)
        if isinstance(conversation, AgentRunResult):
            conversation = conversation.conversation
        return _named(saved, _names(saved, conversation.conversation_id))

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The newest record of a conversation, or None if it was never saved, or was deleted."""
        return (await self._given.run(lambda store: _stored(store, conversation_id))).record

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records of a scope, or all of them, the newest first."""
        return await self._given.run(partial(_read_records, scope, limit))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store the record and its new entries in one transaction."""
        await self._given.run(partial(_write_record, record, new_entries, expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Hide a conversation. Its entries stay in the log, and its forks keep their own copies."""
        await self._given.run(partial(_delete_record, conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with this id, from the session that the id names."""
        return (await self._given.run(partial(_read_path, entry_id, 1)))[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to `head_id`, including those that a summary hides."""
        if head_id is None or limit == 0:
            return []
        return await self._given.run(partial(_read_path, head_id, limit))

    async def effective_history(
        self, context: RunContext[Any], messages: list[ModelMessage]
    ) -> list[ModelMessage]:
        """A history processor: the model sees the session's view, as `manage` and `rewind` left it.

        The view replaces the stored messages. Those of the run that are not stored yet follow it.
        """
        name = context.conversation_id
        return (
            messages if name is None else await self._given.run(partial(_effective, name, messages))
        )


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored conversation: its session, its newest record, and the epoch."""

    conversation_id: str
    session: Session | None
    record: ConversationRecord | None = None
    epoch: int = 0

    def successor(self, revision: str | None) -> str:
        """The client id of the note that follows a revision: only one writer can use it."""
        return f"{session_id(self.conversation_id)}#{self.epoch}#{revision or ''}"


def session_id(conversation_id: str) -> str:
    """The id of a conversation's session, for views, searches and audits of it."""
    return f"{NAME}:{_quoted(conversation_id)}"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _names(entries: Iterable[ConversationEntry], conversation_id: str) -> dict[str, str]:
    """The ids under which new entries are stored."""
    owner = session_id(conversation_id)
    return {entry.id: f"{owner}#{_quoted(entry.id)}" for entry in entries}


def _named(
    entries: Iterable[ConversationEntry], names: Mapping[str, str]
) -> list[ConversationEntry]:
    return [
        replace(
            entry, id=names[entry.id], parent_id=names.get(entry.parent_id or "", entry.parent_id)
        )
        for entry in entries
    ]


def _stored(store: Store, conversation_id: str) -> _Stored:
    try:
        session = store.session(session_id(conversation_id))
    except SessionNotFound:
        return _Stored(conversation_id, None)
    begun, note = epoch(session), newest_own(session, RECORD, _RECORD)
    # A fork has copied the record of its origin.
    if note is None or note.seq < begun or note.content["conversation"] != conversation_id:
        return _Stored(conversation_id, session, None, begun)
    record = _Records.validate_python(note.content["record"])
    return _Stored(conversation_id, session, record, begun)


def _checked(store: Store, conversation_id: str, expected: str | None) -> _Stored:
    stored = _stored(store, conversation_id)
    if (stored.record.revision if stored.record else None) != expected:
        raise ConversationConflict(conversation_id)
    return stored


def _read_records(scope: str | None, limit: int | None, store: Store) -> list[ConversationRecord]:
    where = {"framework": NAME, **({} if scope is None else {"scope": scope})}
    records: list[ConversationRecord] = []
    for page in pages(store, where, size=100):
        names = [(info.session_id, info.metadata.get("conversation")) for info in page]
        # A fork has the metadata of its origin until its record is written, and other sessions may
        # have any.
        stored = [
            _stored(store, name)
            for own, name in names
            if isinstance(name, str) and own == session_id(name)
        ]
        records += [
            conversation.record for conversation in stored if conversation.record is not None
        ]
        records.sort(key=lambda record: record.updated_at, reverse=True)
        # No session is older than its record, and those that follow are older than the last one.
        if limit is not None and records[limit - 1 :]:
            oldest = records[limit - 1] if limit else records[0]
            if oldest.updated_at.timestamp() * 1000 > page[-1].updated_at:
                break
    return records[:limit]


def _write_record(
    record: ConversationRecord,
    new: Sequence[ConversationEntry],
    expected: str | None,
    store: Store,
) -> None:
    names = _names(new, record.conversation_id)
    entries = _named(new, names)
    head = names.get(record.head_id or "", record.head_id)
    branches = [names.get(branch, branch) for branch in record.branches]
    named = replace(record, head_id=head, branches=branches)
    for _ in range(_TRIES):
        stored = _checked(store, record.conversation_id, expected)
        try:
            if stored.session is None:
                _begin(store, named, entries)
            else:
                _write(store, stored, stored.session, named, entries)
                return
        except SessionPurged:  # not a conflict: loading it again would not help
            raise
        except (DuplicateMessage, MessageNotFound, SessionNotFound):
            raise ConversationConflict(record.conversation_id) from None
        except (VersionConflict, SessionExists):  # others have written to the session, or made it
            continue
    raise ConversationConflict(record.conversation_id)


def _base(record: ConversationRecord, entries: Sequence[ConversationEntry]) -> str | None:
    """The entry that the new ones follow."""
    return entries[0].parent_id if entries else record.head_id


def _begin(store: Store, record: ConversationRecord, entries: Sequence[ConversationEntry]) -> None:
    """Create the session: a fork of the one that holds the entry which the new ones follow."""
    name, base = session_id(record.conversation_id), _base(record, entries)
    if base is None:
        store.create(name)
    else:
        origin = _holder(store, base)
        origin.fork(origin.message(base).seq, session_id=name)


def _holder(store: Store, entry_id: str) -> Session:
    """The session in which an entry was first stored; if that was purged, a fork that has it."""
    name = _first_session(entry_id)
    if not name:
        raise MessageNotFound(f"{entry_id[:64]!r} is not the id of an entry.", message_id=entry_id)
    try:
        return store.session(name)
    except SessionPurged:
        for page in pages(store, {_INHERITS + name: "yes"}):
            for fork in (store.session(info.session_id) for info in page):
                if _seq_of(fork, entry_id) is not None:
                    return fork
        raise


def _first_session(entry_id: str | None) -> str:
    return (entry_id or "").rpartition("#")[0]


def _write(
    store: Store,
    stored: _Stored,
    session: Session,
    record: ConversationRecord,
    entries: Sequence[ConversationEntry],
) -> None:
    info, base = session.info(), _base(record, entries)
    head = info.head_seq
    items: list[Item] = []
    inherited = {base}
    if base != _tip(stored, session):
        rewind, missing = _back_to(store, session, base, head)
        items += [rewind, *map(_serialized, missing)]
        inherited |= {entry.id for entry in missing}
    moves = bool(items)
    items += map(_serialized, entries)
    with serializing(record, "record"):
        dumped = _Records.dump_python(record, mode="json")
    content = {"conversation": record.conversation_id, "record": dumped}
    expected = None if stored.record is None else stored.record.revision
    items.append(NewNote(RECORD, content, client_id=stored.successor(expected)))
    before = info.metadata or {}
    own = {key: value for key, value in before.items() if key != "scope"}
    scope = {} if record.scope is None else {"scope": record.scope}
    facts = {"framework": NAME, "conversation": record.conversation_id, **scope}
    firsts = {_first_session(entry_id) for entry_id in inherited} - {"", session.id}
    # A fork has the names of its origin already: it has copied the metadata.
    metadata = {**own, **facts, **{f"{_INHERITS}{first}": "yes" for first in sorted(firsts)}}
    if metadata != before:
        items.append(SetMetadata(metadata))
    session.write_batch(items, expected_seq=head if moves else None)


def _tip(stored: _Stored, session: Session) -> str | None:
    """The newest entry of the line that the session is on."""
    if stored.record is not None:
        return stored.record.head_id
    newest = session.view(last=1).messages
    return newest[-1].message_id if newest else None


def _back_to(
    store: Store, session: Session, base: str | None, head: int
) -> tuple[Rewind, list[ConversationEntry]]:
    """A rewind to an entry, and the entries up to it that the session does not have yet."""
    at, missing = 0 if base is None else _seq_of(session, base), list[ConversationEntry]()
    if base is not None and at is None:
        for entry in reversed(_read_path(base, None, store)):
            at = _seq_of(session, entry.id)
            if at is not None:
                break
            missing.insert(0, entry)
    return Rewind(at or 0, head_seq=head, trigger=NAME), missing


def _seq_of(session: Session, entry_id: str) -> int | None:
    try:
        return session.message(entry_id).seq
    except MessageNotFound:
        return None


def _delete_record(conversation_id: str, expected: str, store: Store) -> None:
    stored = _checked(store, conversation_id, expected)
    assert stored.session is not None
    deleted = NewNote(DELETED, {"revision": expected}, client_id=stored.successor(expected))
    try:
        hide(stored.session, by=f"{NAME}.delete", metadata={}, also=[deleted])
    except DuplicateMessage:
        raise ConversationConflict(conversation_id) from None


def _read_path(entry_id: str, limit: int | None, store: Store) -> list[ConversationEntry]:
    """The entries up to this one, or the last of them, whether the view shows them or not."""
    session = _holder(store, entry_id)
    at = session.message(entry_id).seq
    span = at if limit is None else 2 * limit + 20
    while True:
        start = max(at - span, 0)
        entries: dict[str, tuple[str | None, Any]] = {}
        for row in session.audit(after=start):
            if row.seq > at:
                break
            name, _, parent = (row.entry.client_id or "").partition("|")
            if name and name == row.entry.message_id:
                entries[name] = (parent or None, row.content)
        path: list[tuple[str, str | None, Any]] = []
        above: str | None = entry_id
        while above in entries and (limit is None or len(path) < limit):
            path.append((above, *entries[above]))
            above = entries[above][0]
        if start == 0 or above is None or len(path) == limit:
            break
        span *= 4
    messages = ModelMessagesTypeAdapter.validate_python([content for _, _, content in path])
    return [
        ConversationEntry(id=name, parent_id=parent, message=message)
        for (name, parent, _), message in reversed(list(zip(path, messages, strict=True)))
    ]


def _effective(
    conversation_id: str, messages: list[ModelMessage], store: Store
) -> list[ModelMessage]:
    stored = _stored(store, conversation_id)
    if stored.session is None or stored.record is None or stored.record.head_id is None:
        return messages
    rows = map(_shown_row, stored.session.view().messages)
    view = [message for message in rows if message is not None]
    (head,) = _read_path(stored.record.head_id, 1, store)
    known = [head.message, *view[-1:]]
    places = [at for at, message in enumerate(messages) if message in known]
    if not places:
        return messages  # another history than the stored one
    return [*_system_prompt(messages[0], view), *view, *messages[places[-1] + 1 :]]


def _serialized(entry: ConversationEntry) -> NewMessage:
    """An entry as a message, whose content is the output of pydantic-ai's serializer."""
    message = entry.message
    with serializing(message, "message"):
        check_json(ModelMessagesTypeAdapter.dump_python([message])[0], "message")
        content = ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
    reply = message if isinstance(message, ModelResponse) else None
    when = message.timestamp
    return NewMessage(
        "user" if reply is None else "assistant",
        content,
        NAME,
        ts=None if when is None else int(when.timestamp() * 1000),
        message_id=entry.id,
        # With the parent, because a redaction leaves the client id.
        client_id=f"{entry.id}|{entry.parent_id or ''}",
        model=None if reply is None else storable_model(reply.model_name),
        usage=None if reply is None else _usage(reply.usage),
    )


def _usage(usage: RequestUsage) -> dict[str, int] | None:
    """A reply's usage with the names that the store's sums know."""
    cached, written = usage.cache_read_tokens, usage.cache_write_tokens
    counted = {
        "input_tokens": max(usage.input_tokens - cached - written, 0),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
    return counted if any(counted.values()) else None


def _system_prompt(first: ModelMessage, view: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The system prompt of the first message, if a summary hides that message."""
    if not isinstance(first, ModelRequest) or first in view[:1]:
        return []
    parts = [part for part in first.parts if isinstance(part, SystemPromptPart)]
    return [ModelRequest(parts=parts, timestamp=first.timestamp)] if parts else []


def _shown_row(row: Message) -> ModelMessage | None:
    """A row of the view as a message of pydantic-ai; None if it has no text."""
    if row.format == NAME and row.kind is Kind.MESSAGE:
        return ModelMessagesTypeAdapter.validate_python([row.content])[0]
    role, blocks = read_message(row)
    text, when = text_of(blocks), in_calendar(row.happened_at) or EPOCH
    if not text:
        return None
    if role == "assistant":
        return ModelResponse(parts=[TextPart(text)], timestamp=when)
    is_summary = row.kind is Kind.SUMMARY
    part = CompactionPart(text) if is_summary else UserPromptPart(text, timestamp=when)
    return ModelRequest(parts=[part], timestamp=when)
