"""Conversations of Google ADK as sessions. Nothing here needs ADK.

Each event is a note, numbered from 0 in its epoch. Its content is a message right before the note,
in the format `gemini`. The number is in the note's client id: if two writers have the same number,
one of them is refused.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, groupby
from typing import Any, Final, NamedTuple
from uuid import uuid4

from roocontext.adapters.adapter_notes import Shape, epoch, fits, hide, newest_own
from roocontext.adapters.google_adk_state import (
    APP,
    USER,
    ConversationKey,
    ConversationVersion,
    changes,
    own,
    shared_state,
    values,
    write_shared,
)
from roocontext.adapters.serializing import pages
from roocontext.errors import (
    DuplicateMessage,
    SessionNotFound,
    SessionPurged,
    StoreReadOnly,
    VersionConflict,
)
from roocontext.formats.writing import around_pins
from roocontext.log.entries import Kind, NewMessage, Range
from roocontext.log.plan import Action, Plan
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.reading.notes import Note
from roocontext.store.session import Session
from roocontext.store.store import Store
from roocontext.store.writing.items import Item, NewNote, Rewind, SetMetadata

OPENED: Final = "adk.session"
EVENT: Final = "adk.event"
_OPENED: Final[Shape] = {"at": object, "state": dict}
_EVENT: Final[Shape] = {"epoch": int, "number": int, "event": dict, "message": bool}
PAGE: Final = 500


class Stale(Exception):
    """Another writer has appended to the conversation since it was read."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append, without its content if that is a `message`.

    `read` is the version that the writer has read. If it is not known, `after`, the id of the last
    event, is compared instead. `covers` are the first and last time of the events that `summary`
    replaces, and `rewinds` is the invocation before which the event rewinds.
    """

    event: dict[str, Any]
    message: NewMessage | None = None
    read: ConversationVersion | None = None
    after: str | None = None
    covers: tuple[float, float] | None = None
    summary: NewMessage | None = None
    rewinds: str | None = None


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation as it is stored."""

    key: ConversationKey
    revision: ConversationVersion
    updated: float
    state: dict[str, dict[str, Any]]
    events: list[Any] = field(default_factory=list)


class _Row(NamedTuple):
    """An event in the log: its number, its first entry, its message if it has one, and itself."""

    number: int
    first: int
    message: int | None
    event: dict[str, Any]


def create_conversation(
    store: Store, key: ConversationKey, state: Mapping[str, Any], *, at: float
) -> StoredConversation:
    """Begin a conversation. Raises DuplicateMessage if there is one."""
    chat = store.open_session(key.session_id, metadata=key.metadata("none"))
    begun = epoch(chat)
    # The unique value makes a second creation differ from the first.
    opened = {"at": at, "state": dict(state), "by": uuid4().hex}
    opening = NewNote(OPENED, opened, client_id=f"{OPENED}.{begun}")
    chat.write_batch([opening, SetMetadata(key.metadata("session")), *changes(own(state))])
    write_shared(store, key, ConversationVersion(begun, 0), state)
    return _read(store, chat, key)


def read_conversation(
    store: Store,
    key: ConversationKey,
    load: Callable[[dict[str, Any]], Any],
    *,
    last: int | None = None,
    since: float | None = None,
) -> StoredConversation | None:
    """The conversation with its last events, or those since a time; None if there is none.

    Each event is loaded as soon as it is read, so that not all are in memory twice.
    """
    try:
        chat = store.session(key.session_id)
        conversation = _read(store, chat, key)
    except SessionNotFound:
        return None
    conversation.events.extend(
        load(row.event)
        for row in _newest_rows(chat, conversation.revision, last)
        if since is None or row.event["timestamp"] >= since
    )
    return conversation


def delete(store: Store, key: ConversationKey) -> None:
    """Hide the conversation. The state of its app and user stays."""
    try:
        chat = store.session(key.session_id)
        _opened(chat, epoch(chat))
    except SessionNotFound:
        return
    hide(chat, by="delete_session", metadata=key.metadata("deleted"))


def list_conversations(store: Store, app: str, user: str | None) -> list[StoredConversation]:
    """The conversations of an app, or of one of its users, without their events."""
    where = {"adk": "session", "app": app, **({} if user is None else {"user": user})}
    infos = [*chain.from_iterable(pages(store, where, size=PAGE))]
    read = cache(partial(shared_state, store))
    conversations = []
    for info in infos:
        key = ConversationKey(
            app, str(info.metadata.get("user")), str(info.metadata.get("session"))
        )
        # A fork has the metadata of its origin, and other sessions may have any.
        if info.session_id != key.session_id:
            continue
        with suppress(SessionNotFound):  # deleted in the meantime
            conversations.append(_read(store, store.session(key.session_id), key, read))
    return conversations


def append_event(
    store: Store, key: ConversationKey, new: NewEvent
) -> tuple[ConversationVersion, bool]:
    """Append an event; the version after it, and whether it is new.

    If it already is the last event, nothing is written. Raises Stale if there are events that the
    writer has not read.
    """
    chat = store.session(key.session_id)
    begun = epoch(chat)
    while True:
        newest = _newest(chat, begun)
        if newest is None:
            _opened(chat, begun)  # it may have been deleted
        known = ConversationVersion(begun, 0 if newest is None else newest.content["number"] + 1)
        if newest is not None and _holds(chat, newest, new):
            write_shared(store, key, known, _delta(new.event), recorded_at=newest.recorded_at)
            return known, False
        last = None if newest is None else newest.content["event"]["id"]
        if new.after != last if new.read is None else new.read != known:
            raise Stale
        try:
            around_pins(partial(_write, chat, known, new))
        except DuplicateMessage:  # another event has the number
            raise Stale from None
        except VersionConflict:  # the head has moved, which only summaries and rewinds depend on
            continue
        else:
            after = ConversationVersion(begun, known.events + 1)
            write_shared(store, key, after, _delta(new.event))
            return after, True


def _holds(chat: Session, stored: Note, new: NewEvent) -> bool:
    """True if the event is stored in this note and, if it has one, the message before it."""
    content, message = stored.content, new.message
    if content["event"] != new.event or content["message"] != (message is not None):
        return False
    if message is None:
        return True
    before = next(chat.audit(after=stored.seq - 2))
    return before.redacted or before.content == message.content


def _write(
    chat: Session, known: ConversationVersion, new: NewEvent, bound: Collection[int]
) -> None:
    head = chat.head_seq() if new.summary or new.rewinds else None
    items: list[Item] = []
    if new.summary and new.covers and (hides := _covered(chat, known.epoch, new.covers, bound)):
        items.append(_plan(new.summary, new.covers, hides, head or 0))
    if new.rewinds:
        rows = _rows(chat, known.epoch, known.epoch)
        undone = (row.first for row in rows if row.event["invocation_id"] == new.rewinds)
        if first := next(undone, None):
            items.append(Rewind(first - 1, head_seq=head, trigger="google-adk"))
    if new.message is not None:
        items.append(new.message)
    content = {
        "epoch": known.epoch,
        "number": known.events,
        "event": new.event,
        "message": new.message is not None,
    }
    noted = NewNote(EVENT, content, client_id=_client_id(*known))
    items += [noted, *changes(own(_delta(new.event)))]
    chat.write_batch(items, expected_seq=head)


def _client_id(begun: int, number: int) -> str:
    """The client id of an event's note: only one writer can use it."""
    return f"{EVENT}.{begun}.{number}"


def _read(
    store: Store,
    chat: Session,
    key: ConversationKey,
    read: Callable[[str], dict[str, Any]] | None = None,
) -> StoredConversation:
    begun = epoch(chat)
    newest = _newest(chat, begun)
    if newest is None:
        last = _opened(chat, begun)
        events, updated, delta = 0, last.content["at"], last.content["state"]
    else:
        last, event = newest, newest.content["event"]
        events, updated, delta = newest.content["number"] + 1, event["timestamp"], _delta(event)
    revision = ConversationVersion(begun, events)
    # A read-only store leaves it to the next read that may write. What was purged stays so.
    with suppress(StoreReadOnly, SessionPurged):
        write_shared(store, key, revision, delta, recorded_at=last.recorded_at)
    read = read or partial(shared_state, store)
    state = {scope: read(key.scope_id(scope)) for scope in (APP, USER)}
    return StoredConversation(key, revision, updated, {**state, "": values(chat, begun)})


def _opened(chat: Session, begun: int) -> Note:
    """The note that began the conversation. Raises SessionNotFound if there is none."""
    opened = newest_own(chat, OPENED, _OPENED)
    if opened is None or opened.seq < begun:
        raise SessionNotFound(session_id=chat.id)
    return opened


def _newest(chat: Session, begun: int) -> Note | None:
    """The newest event of the conversation."""
    newest = newest_own(chat, EVENT, _EVENT)
    return newest if newest is not None and newest.content["epoch"] == begun else None


def _newest_rows(chat: Session, revision: ConversationVersion, last: int | None) -> Iterator[_Row]:
    """The last events, or all of them. Others may have appended since the revision was read."""
    begun, count = revision
    first = 0 if last is None else max(count - last, 0)
    if first >= count:
        return iter(())
    after = begun
    if first:
        (note,) = chat.internals.noted([_client_id(begun, first)]).values()
        after = note.seq - 2  # its message is right before it
    return (row for row in _rows(chat, after, begun) if first <= row.number < count)


def _rows(chat: Session, after: int, begun: int) -> Iterator[_Row]:
    """The events after an entry, in order, including rewound ones."""
    before: AuditEntry | None = None
    # Larger pages than those of `audit`, because each is a round trip to the server.
    for entry in chain.from_iterable(chat.internals.audit_pages(2_000, after=after)):
        own = entry.entry.note == EVENT and fits(entry.content, _EVENT)
        if own and entry.content["epoch"] == begun:
            number, event = entry.content["number"], entry.content["event"]
            if not entry.content["message"]:
                yield _Row(number, entry.seq, None, event)
            elif before is not None:  # else the message is the entry `after`
                event = {**event, "content": before.content}
                yield _Row(number, before.seq, before.seq, event)
        before = entry


def _covered(
    chat: Session, begun: int, covers: tuple[float, float], bound: Collection[int]
) -> list[Range]:
    """The ranges that a summary hides: the visible contents of the time, and summaries within it.

    None of them is visible if another summary covers the whole time.
    """
    start, end = covers
    times = {row.message: row.event["timestamp"] for row in _rows(chat, begun, begun)}
    inside = {seq for seq, time in times.items() if start <= time <= end}
    for entry in chat.audit(after=begun):
        if entry.kind is Kind.SUMMARY and entry.visible and "adk" in entry.entry.details["record"]:
            lo, hi = entry.entry.details["record"]["adk"]
            if start <= lo and hi <= end:
                inside.add(entry.seq)
    inside -= chat.pins().union(bound)
    # A range stands for the live messages in it, so it ends where one stays or is hidden already.
    runs = groupby(
        sorted(chat.internals.live(), key=lambda row: row.message.seq),
        key=lambda row: (
            row.message.seq in inside and not (row.condense_parent or row.truncation_parent)
        ),
    )
    hidden = ([row.message.seq for row in run] for hides, run in runs if hides)
    return [(seqs[0], seqs[-1]) for seqs in hidden]


def _plan(
    summary: NewMessage, covers: tuple[float, float], hides: Sequence[Range], head: int
) -> Plan:
    return Plan(
        head_seq=head,
        action=Action.CONDENSE,
        hides=tuple(hides),
        rows=(summary,),
        # As ADK decided: it splits pairs, and its summary may be longer.
        compat=True,
        policy="google-adk",
        trigger="auto",
        record={"adk": list(covers)},
    )


def _delta(event: Mapping[str, Any]) -> dict[str, Any]:
    delta: dict[str, Any] = event["actions"].get("state_delta", {})
    return delta
