"""Writes what an import takes: messages and notes in batches, and what the store would refuse."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace as with_fields

from roocontext.errors import InvalidMessage, SessionNotFound
from roocontext.formats.events import Added, Event, Noted, Problem, Source, TitleSet
from roocontext.formats.imported import storable_title
from roocontext.log.encoding import encode
from roocontext.log.entries import Message, NewMessage
from roocontext.log.readings import reader
from roocontext.log.summary import TYPED, typed_in
from roocontext.store.session import Session
from roocontext.store.store import Store
from roocontext.store.writing.items import Item, NewNote, Rename


@dataclass(slots=True)
class Played:
    """What the import of one source found and wrote.

    `again` counts the messages that were hidden and written again, because the source sends what
    a compaction kept in an order that only this gives.
    """

    source: Source
    session_id: str
    events: int = 0
    messages: int = 0
    notes: int = 0
    controls: int = 0
    again: int = 0
    created: bool = False
    rewound: bool = False
    forked_from: str | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def new(self) -> int:
        """How many entries were written, or would be."""
        return self.messages + self.notes + self.controls

    def report(self, event: Event | None, what: str) -> None:
        """Report what is wrong with an event of the source."""
        line = None if event is None else event.line
        self.problems.append(Problem(self.source.path, line, what.rstrip(".")))


BATCH = 250
BATCH_BYTES = 4 << 20
NOTE = "imported"
SKIPPED = "skipped"

Remember = Callable[[Event, int], None]


class WouldWriteError(Exception):
    """An import that may only look has found something new."""


class Writing:
    """The session that an import writes to, and the items that wait for the next transaction.

    `remember` is called with each message's event and seq, `stay` with one that was refused.
    """

    def __init__(
        self,
        store: Store,
        session: Session | None,
        done: Played,
        remember: Remember,
        stay: Callable[[Event], None],
        *,
        only_look: bool,
    ) -> None:
        self.session = session
        self._only_look = only_look
        self._store, self._done = store, done
        self._remember, self._stay = remember, stay
        self._waiting: list[tuple[Event | None, str, Item]] = []
        self._size = 0

    def open(self) -> Session:
        """The session; it is created when the first entry is written."""
        if self._only_look:
            raise WouldWriteError
        if self.session is None:
            source = self._done.source
            parent = source.parent
            if parent is not None and not exists(self._store, parent):
                parent = None
            self.session = self._store.open_session(source.session_id, parent=parent)
        return self.session

    def wait(self, event: Event | None, key: str, item: Item, size: int) -> None:
        """Write an item with the next batch."""
        if self._only_look:
            raise WouldWriteError
        self._waiting.append((event, key, item))
        self._size += size
        if len(self._waiting) >= BATCH or self._size >= BATCH_BYTES:
            self.flush()

    def forget(self) -> None:
        """Drop what waits."""
        self._waiting.clear()

    def flush(self) -> None:
        """Write the messages and notes that wait, in one transaction."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        items = [item for _, _, item in waiting]
        try:
            written = self.open().write_batch(items)
        except InvalidMessage:
            items = [self._storable(*one) for one in waiting]
            written = self.open().write_batch(items)
        self._count(items)
        for (event, _, _), item, one in zip(waiting, items, written, strict=True):
            if event is not None and isinstance(item, NewMessage):
                self._remember(event, one.seq)
            elif isinstance(event, Added):
                self._stay(event)

    def _count(self, items: list[Item]) -> None:
        messages = sum(isinstance(item, NewMessage) for item in items)
        self._done.messages += messages
        self._done.notes += len(items) - messages

    def _storable(self, event: Event | None, key: str, item: Item) -> Item:
        """The item, or what the store takes of it: its text, and a message without its record."""
        if isinstance(item, NewNote):
            return self._storable_note(event, item)
        if not isinstance(item, NewMessage):
            return item
        try:
            encode(item.content)
            reader(item.format).check(item.role, item.content)
        except InvalidMessage as error:
            self._done.report(event, error.fact)
            record = {"content": item.content, "extra": item.extra}
            content = {"kind": "refused", **_kept(record)}
            return NewNote(NOTE, content, ts=item.ts, client_id=skipping(key))
        try:
            encode(item.extra)
        except InvalidMessage as error:
            self._done.report(event, f"only its content was taken: {error.fact}")
            kept = {name: one for name, one in (item.extra or {}).items() if name == TYPED}
            return with_fields(item, extra={**_kept(item.extra), **kept})
        return item

    def _storable_note(self, event: Event | None, item: NewNote) -> Item:
        try:
            encode(item.content)
        except InvalidMessage as error:
            self._done.report(event, f"it is kept as text: {error.fact}")
            content = {"kind": item.content["kind"], **_kept(item.content["record"])}
            return NewNote(NOTE, content, ts=item.ts, client_id=item.client_id)
        return item


def skipping(key: str) -> str:
    """The client id of the note that keeps the next import from taking an event again."""
    return f"import#0#{SKIPPED}#{key}"


def exists(store: Store, session_id: str) -> bool:
    """Whether there is a session with this id."""
    try:
        store.session(session_id)
    except SessionNotFound:
        return False
    return True


def copy_of(message: Message, client_id: str) -> NewMessage:
    """A message that is written again."""
    return NewMessage(
        message.role,
        message.content,
        message.format,
        ts=message.ts,
        message_id=message.message_id,
        client_id=client_id,
        model=message.model,
        extra={"copy_of": message.seq, **typed_in("")},
    )


def note_of(event: Noted | TitleSet, client_id: str) -> Item:
    """A record as a note, or a title."""
    if isinstance(event, TitleSet):
        return Rename(storable_title(event.title), client_id)
    content = {"kind": event.kind, "record": event.record}
    return NewNote(NOTE, content, ts=event.ts, client_id=client_id)


def _kept(record: Any) -> dict[str, Any]:
    """What a note keeps of a record that the store refuses: its JSON, if need be as a text."""
    try:
        encode(record)
    except InvalidMessage:
        pass
    else:
        return {"record": record}
    try:
        return {"text": json.dumps(record)}
    except (RecursionError, TypeError, ValueError):
        return {"text": None}
