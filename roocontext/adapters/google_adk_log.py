"""How conversations of Google ADK are kept in sessions of ours. Nothing here needs ADK.

Each event is a note, numbered from 0 in its epoch. Its content is a message right before the note,
in the format `gemini`. The number is in the note's client id: of two writers with the same number
one is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple
from uuid import uuid4

from roocontext.adapters.epochs import epoch, hide
from roocontext.adapters.google_adk_state import (
    Key,
    Revision,
    SharedStates,
    changes,
    own,
    share,
    values,
)
from roocontext.errors import DuplicateMessage, SessionNotFound, VersionConflict
from roocontext.log.entries import Kind, NewMessage, Range
from roocontext.log.plan import Action, Plan
from roocontext.store.audit import AuditEntry
from roocontext.store.items import Describe, Item, NewNote, Rewind
from roocontext.store.notes import Note
from roocontext.store.session import Session
from roocontext.store.store import Store

OPENED: Final = "adk.session"
EVENT: Final = "adk.event"


class Stale(Exception):
    """Another writer has appended to the conversation since it was read."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append. Its content is apart from it, if that is a `message`.

    `read` is the version that the writer has read; a writer who does not know it gives the id of
    the last event, `after`, instead. `covers` are the first and last time of the events that the
    `summary` replaces, and `rewinds` is the invocation before which the event rewinds.
    """

    event: dict[str, Any]
    message: NewMessage | None = None
    read: Revision | None = None
    after: str | None = None
    covers: tuple[float, float] | None = None
    summary: NewMessage | None = None
    rewinds: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation as it is stored."""

    key: Key
    revision: Revision
    updated: float
    state: dict[str, dict[str, Any]]
    events: list[dict[str, Any]] = field(default_factory=list)


class _Row(NamedTuple):
    """An event in the log: its first entry, its message if it has one, and itself."""

    first: int
    message: int | None
    event: dict[str, Any]


def create(store: Store, key: Key, state: Mapping[str, Any], *, at: float) -> Found:
    """Begin a conversation. Raises DuplicateMessage if there is one."""
    chat = store.open_session(key.session_id, metadata=key.metadata("none"))
    begun = epoch(chat)
    # The unique value makes a second creation differ from the first.
    opened = {"at": at, "state": dict(state), "by": uuid4().hex}
    opening = NewNote(OPENED, opened, client_id=f"{OPENED}.{begun}")
    chat.write_batch([opening, Describe(key.metadata("session")), *changes(own(state))])
    share(store, key, Revision(begun, 0), state)
    return _found(store, chat, key)


def read(
    store: Store, key: Key, *, last: int | None = None, since: float | None = None
) -> Found | None:
    """The conversation with its last events, or those since a time; None if there is none."""
    try:
        chat = store.session(key.session_id)
        found = _found(store, chat, key)
    except SessionNotFound:
        return None
    rows = _newest_rows(chat, found.revision, last)
    found.events.extend(
        row.event for row in rows if since is None or row.event["timestamp"] >= since
    )
    return found


def delete(store: Store, key: Key) -> None:
    """Hide the conversation. The state of its app and user stays."""
    try:
        chat = store.session(key.session_id)
        _opened(chat, epoch(chat))
    except SessionNotFound:
        return
    hide(chat, by="delete_session", metadata=key.metadata("deleted"))


def listed(store: Store, app: str, user: str | None) -> list[Found]:
    """The conversations of an app, or of one of its users, without their events."""
    where = {"adk": "session", "app": app, **({} if user is None else {"user": user})}
    infos = page = store.sessions(limit=500, where=where)
    while page:
        page = store.sessions(limit=500, before=page[-1], where=where)
        infos += page
    states = SharedStates(store)  # they are read once for all conversations
    found = []
    for info in infos:
        key = Key(app, info.metadata["user"], info.metadata["session"])
        with suppress(SessionNotFound):  # deleted in the meantime
            found.append(_found(store, store.session(key.session_id), key, states))
    return found


def append(store: Store, key: Key, new: NewEvent) -> tuple[Revision, bool]:
    """Append an event; the version after it, and whether it is new.

    If it is the last event already, nothing is written. Raises Stale if there are events that the
    writer has not read.
    """
    chat = store.session(key.session_id)
    begun = epoch(chat)
    conflict: VersionConflict | None = None
    while True:
        newest = _newest(chat, begun)
        if newest is None:
            _opened(chat, begun)  # it may have been deleted
        known = Revision(begun, 0 if newest is None else newest.content["number"] + 1)
        if newest is not None and newest.content["event"] == new.event:
            return known, False
        if not _is_current(new, known, newest):
            raise Stale
        if isinstance(conflict, DuplicateMessage):
            raise conflict  # of an entry that is no event
        try:
            _write(chat, known, new)
        except VersionConflict as error:
            conflict = error
        else:
            after = Revision(begun, known.events + 1)
            share(store, key, after, _delta(new.event))
            return after, True


def _is_current(new: NewEvent, known: Revision, newest: Note | None) -> bool:
    if new.read is not None:
        return new.read == known
    return new.after == (None if newest is None else newest.content["event"]["id"])


def _write(chat: Session, known: Revision, new: NewEvent) -> None:
    head = chat.head_seq() if new.summary or new.rewinds else None
    items: list[Item] = []
    if new.summary and new.covers and (hides := _covered(chat, known.epoch, new.covers)):
        items.append(_plan(new.summary, new.covers, hides, head or 0))
    if new.rewinds and (first := _first_of(chat, known.epoch, new.rewinds)):
        items.append(Rewind(first - 1, head_seq=head, trigger="google-adk"))
    if new.message is not None:
        items.append(new.message)
    content = {
        "epoch": known.epoch,
        "number": known.events,
        "event": new.event,
        "message": new.message is not None,
    }
    client_id = f"{EVENT}.{known.epoch}.{known.events}"
    items += [NewNote(EVENT, content, client_id=client_id), *changes(own(_delta(new.event)))]
    chat.write_batch(items, expected_seq=head)


def _found(store: Store, chat: Session, key: Key, states: SharedStates | None = None) -> Found:
    begun = epoch(chat)
    newest = _newest(chat, begun)
    last = _opened(chat, begun) if newest is None else newest
    if newest is None:
        revision, updated, delta = Revision(begun, 0), last.content["at"], last.content["state"]
    else:
        event = newest.content["event"]
        revision = Revision(begun, newest.content["number"] + 1)
        updated, delta = event["timestamp"], _delta(event)
    share(store, key, revision, delta, recorded_at=last.recorded_at)
    state = (states or SharedStates(store)).of(key)
    return Found(key, revision, updated, {**state, "": values(chat, begun)})


def _opened(chat: Session, begun: int) -> Note:
    """The note that began the conversation. Raises SessionNotFound if there is none."""
    opened = chat.newest_note(OPENED)
    if opened is None or opened.seq < begun:
        raise SessionNotFound(session_id=chat.id)
    return opened


def _newest(chat: Session, begun: int) -> Note | None:
    """The newest event of the conversation."""
    newest = chat.newest_note(EVENT)
    return newest if newest is not None and newest.content["epoch"] == begun else None


def _newest_rows(chat: Session, revision: Revision, last: int | None) -> list[_Row]:
    """The last events: all of them, or some from the end of the log."""
    if last == 0 or not revision.events:
        return []
    wanted = revision.events if last is None else min(last, revision.events)
    start = revision.epoch
    if wanted < revision.events:
        start = max(start, chat.head().seq - 4 * wanted)
    while True:
        rows = list(_rows(chat, start, revision.epoch))
        if len(rows) >= wanted or start == revision.epoch:
            return rows[-wanted:]
        start = max(revision.epoch, start - 4 * (chat.head().seq - start))


def _rows(chat: Session, after: int, begun: int) -> Iterator[_Row]:
    """The events behind an entry, in order, rewound ones too."""
    before: AuditEntry | None = None
    for one in chat.audit(after=after):
        if one.entry.note == EVENT and one.content["epoch"] == begun:
            event = one.content["event"]
            if not one.content["message"]:
                yield _Row(one.seq, None, event)
            elif before is not None:  # else the message is the entry `after`
                yield _Row(before.seq, before.seq, {**event, "content": before.content})
        before = one


def _covered(chat: Session, begun: int, covers: tuple[float, float]) -> list[Range]:
    """What a summary hides: the visible contents of the time, and summaries of parts of it.

    Nothing if it is within a time that another summary covers.
    """
    start, end = covers
    times = {row.message: row.event["timestamp"] for row in _rows(chat, begun, begun)}
    inside = {seq for seq, time in times.items() if start <= time <= end}
    for one in chat.audit(after=begun):
        if one.kind is Kind.SUMMARY and one.visible and "adk" in one.entry.details["record"]:
            lo, hi = one.entry.details["record"]["adk"]
            if start <= lo and hi <= end:
                inside.add(one.seq)
    inside -= chat.pins()
    live = sorted((it for it in chat.live()), key=lambda it: it.message.seq)
    # A range stands for the live messages in it, so it ends where one stays or is hidden already.
    runs = groupby(
        live,
        key=lambda it: (
            it.message.seq in inside and not (it.condense_parent or it.truncation_parent)
        ),
    )
    hidden = ([it.message.seq for it in run] for hides, run in runs if hides)
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


def _first_of(chat: Session, begun: int, invocation: str) -> int | None:
    """The first entry of an invocation."""
    rows = _rows(chat, begun, begun)
    return next((row.first for row in rows if row.event["invocation_id"] == invocation), None)


def _delta(event: Mapping[str, Any]) -> dict[str, Any]:
    delta: dict[str, Any] = event["actions"].get("state_delta", {})
    return delta
