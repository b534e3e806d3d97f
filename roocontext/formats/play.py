"""The one importer: plays the events of a source into a session.

It follows the events along the tree of what was imported before, as far as they agree. What comes
behind is written; if the session was elsewhere, a rewind goes there first. So a source that was not
changed writes nothing, one that has grown is continued, and a branch that was imported before is
returned to.
"""

from dataclasses import replace
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace as with_fields

from roocontext.errors import (
    InvalidMessage,
    InvalidPlan,
    SessionNotFound,
    SourceDiverged,
)
from roocontext.formats.events import (
    Added,
    Cleared,
    Event,
    Hid,
    Noted,
    Problem,
    Source,
    Titled,
    WentBack,
)
from roocontext.formats.imported import (
    COMPANION,
    Imported,
    Keys,
    Node,
    storable,
    storable_title,
)
from roocontext.formats.plans import clearing, hiding
from roocontext.formats.played import Played
from roocontext.log.encoding import encode
from roocontext.log.entries import NewMessage
from roocontext.log.plan import Plan
from roocontext.log.readings import reader
from roocontext.store.items import Describe, Item, NewNote, Rename, Rewind
from roocontext.store.session import Session
from roocontext.store.store import Store

OnConflict: TypeAlias = Literal["refuse", "fork"]

BATCH = 500
BATCH_BYTES = 4 << 20
NOTE = "imported"
SKIPPED = "skipped"


def play(
    store: Store, source: Source, *, on_conflict: OnConflict = "refuse", dry_run: bool = False
) -> Played:
    """Import a source, or continue its import. A dry run only counts."""
    name, parent = storable(source.session_id), storable(source.parent)
    source = replace(source, session_id=name or "-", parent=parent)
    player = _Player(store, source, on_conflict, dry_run=dry_run)
    for event in source.events():
        player.take(event)
    return player.finish()


class _Player:
    def __init__(
        self, store: Store, source: Source, on_conflict: OnConflict, *, dry_run: bool
    ) -> None:
        self._store, self._source = store, source
        self._on_conflict, self._dry_run = on_conflict, dry_run
        self._session, self._known = self._opened(source.session_id)
        self.done = Played(source, self._session.id if self._session else source.session_id)
        self.done.created = self._session is None
        self._cursor: Node = self._known.root
        self._keys = Keys()
        self._following = True
        self._seqs: dict[str, int] = {}
        self._waiting: list[tuple[Event | None, str, Item]] = []
        self._size = 0
        self._take_note(
            None,
            f"metadata#{self._digest()}",
            lambda client_id: Describe(self._metadata(), client_id),
        )

    def take(self, event: Event) -> None:
        """Take the next event of the source."""
        self.done.events += 1
        try:
            event = self._checked(event)
            key = self._keys.key(event)
        except InvalidMessage as error:
            self._report(event, error.fact)
            return
        if f"{SKIPPED}#{key}" in self._known.notes:
            return
        if isinstance(event, Noted | Titled):
            self._take_note(event, key, lambda client_id: _note(event, client_id))
            return
        if self._following and (known := self._cursor.children.get(key)):
            self._cursor = known
            self._remember(event, known.seq)
            return
        if self._following:
            self._following = False
            self._go_to_cursor()
        match event:
            case Added():
                self._wait(event, key, self._message(event.message, key))
            case Hid():
                self._hide(event, key)
            case Cleared():
                self._clear(event, key)
            case WentBack():
                self._go_back(event, key)

    def finish(self) -> Played:
        """Write what waits; return what was done."""
        if self._following:
            # The source may end earlier than it did: then the session goes back to there.
            self._go_to_cursor(only_if_moved=True)
        if self.done.events == 0:
            self._waiting.clear()  # no session for a source that holds nothing
            self.done.created = False
        self._flush()
        self.done.problems += self._source.problems
        self.done.problems.sort(key=lambda problem: problem.line or 0)
        return self.done

    def _opened(self, session_id: str) -> tuple[Session | None, Imported]:
        """The newest fork that an import has made of the session, or itself."""
        number, found = 1, None
        name = session_id
        while True:
            try:
                found = self._store.session(name)
            except SessionNotFound as error:
                if type(error) is not SessionNotFound:
                    raise
                break
            number += 1
            name = f"{session_id}~{number}"
        return found, Imported.read(found.audit()) if found else Imported()

    def _go_to_cursor(self, *, only_if_moved: bool = False) -> None:
        """Make the session what it was right after the last event that the source still has."""
        moved = self._cursor is not self._known.tip
        if only_if_moved and not moved:
            return
        if self._known.foreign is not None:
            self._leave()
            moved = False
        if not moved:
            return
        self._flush()
        self.done.rewound = True
        self.done.controls += 1
        client_id = self._known.switch(self._cursor)
        if self._session is not None and not self._dry_run:
            head = self._session.head_seq()
            item = Rewind(self._cursor.seq, trigger="import", client_id=client_id)
            self._session.write_batch([item], expected_seq=head)

    def _leave(self) -> None:
        """Somebody has added entries: refuse, or continue in a fork that has none of them."""
        assert self._session is not None
        if self._on_conflict == "refuse":
            raise SourceDiverged(
                f"Session {self._session.id!r} has entries of its own since entry"
                f" {self._known.foreign}, and {self._source.path} has changed.",
                session_id=self._session.id,
                seq=self._known.foreign,
            )
        self.done.forked_from = self._session.id
        base, _, number = self._session.id.rpartition("~")
        if base != self._source.session_id:
            base, number = self._session.id, "1"
        self.done.session_id = f"{base}~{int(number) + 1}"
        self._known.foreign = None
        if not self._dry_run:
            at = self._cursor.seq
            self._session = self._session.fork(at, session_id=self.done.session_id)
            self._known.generation += 1
            self._known.tip = self._cursor

    def _take_note(self, event: Event | None, key: str, made: Any) -> None:
        if key in self._known.notes:
            return
        self._known.notes.add(key)
        self._wait(event, key, made(f"import#0#{key}"))

    def _message(self, message: NewMessage, key: str | None) -> NewMessage:
        """A message as the store takes it."""
        message_id = storable(message.message_id)
        client_id = None if key is None else self._known.client_id(key)
        model = storable(message.model or None)
        return with_fields(message, message_id=message_id, model=model, client_id=client_id)

    def _wait(self, event: Event | None, key: str, item: Item) -> None:
        self._waiting.append((event, key, item))
        self._size += len(str(item.content)) if isinstance(item, NewMessage) else 100
        if len(self._waiting) >= BATCH or self._size >= BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write the messages and notes that wait, in one transaction."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        for _, _, item in waiting:
            if isinstance(item, NewMessage):
                self.done.messages += 1
            else:
                self.done.notes += 1
        if self._dry_run:
            return
        session, items = self._open(), [item for _, _, item in waiting]
        try:
            written = session.write_batch(items)
        except InvalidMessage:
            written = session.write_batch(
                [self._plainer(event, item) for event, _, item in waiting]
            )
        for (event, _, item), one in zip(waiting, written, strict=True):
            if event is not None and isinstance(item, NewMessage):
                self._remember(event, one.seq)

    def _checked(self, event: Event) -> Event:
        """The event, or a note in place of messages that the store would refuse."""
        rows = event.rows if isinstance(event, Hid) else ()
        rows = (event.message,) if isinstance(event, Added) else rows
        try:
            # Only this: what else a draft would check, the key and the batch check too.
            for row in rows:
                reader(row.format).check(row.role, row.content)
        except InvalidMessage as error:
            self._report(event, error.fact)
            record = [{"content": row.content, "extra": row.extra} for row in rows]
            return Noted(getattr(event, "id", None), "refused", record, rows[0].ts, event.line)
        return event

    def _plainer(self, event: Event | None, item: Item) -> Item:
        """A message without the rest of its record, if it is this that the store refuses."""
        if not isinstance(item, NewMessage):
            return item
        try:
            encode(item.extra)
        except InvalidMessage as error:
            self._report(event, f"only its content was taken: {error.fact}")
            return with_fields(item, extra=None)
        return item

    def _skip(self, event: Event, key: str, what: str, *, is_problem: bool = True) -> None:
        """Report an event that cannot be played. The note keeps the next import from trying."""
        if is_problem:
            self._report(event, what)
        content = {"kind": SKIPPED, "why": what}
        self._take_note(
            None, f"{SKIPPED}#{key}", lambda name: NewNote(NOTE, content, None, None, name)
        )

    def _open(self) -> Session:
        if self._session is None:
            parent = self._source.parent
            if parent is not None and not self._exists(parent):
                parent = None
            self._session = self._store.open_session(self._source.session_id, parent=parent)
        return self._session

    def _exists(self, session_id: str) -> bool:
        try:
            self._store.session(session_id)
        except SessionNotFound:
            return False
        return True

    def _hide(self, event: Hid, key: str) -> None:
        rows = [self._message(row, None) for row in event.rows]
        rows[event.lead] = self._message(event.rows[event.lead], key)
        self._flush()
        if self._dry_run:
            self.done.controls += len(rows)
            return
        session = self._open()
        head = session.head_seq()
        plan = hiding(session, event, tuple(rows), seqs=self._seqs, head=head, by="import")
        if plan is None:
            # A file may begin with a summary of what another file holds.
            for index, row in enumerate(rows):
                name = key if index == event.lead else f"{COMPANION}#{index}#{key}"
                self._wait(Added(row.message_id, row), name, self._message(row, name))
            return
        self._control(event, key, plan, head)

    def _clear(self, event: Cleared, key: str) -> None:
        self._flush()
        if self._dry_run:
            self.done.controls += 1
            return
        session = self._open()
        head = session.head_seq()
        named = self._known.client_id(key)
        plan = clearing(session, event, seqs=self._seqs, head=head, by="import", client_id=named)
        if plan is None:
            self._skip(event, key, "what it cleared is hidden", is_problem=False)
            return
        self._control(event, key, plan, head)

    def _go_back(self, event: WentBack, key: str) -> None:
        self._flush()
        if self._dry_run:
            self.done.controls += 1
            return
        if event.to is not None and event.to not in self._seqs:
            self._skip(event, key, f"it goes back to {event.to!r}, which is not in the source")
            return
        self.done.controls += 1
        to = 0 if event.to is None else self._seqs[event.to]
        head = self._open().head_seq()
        item = Rewind(to, trigger="import", client_id=self._known.client_id(key))
        written = self._open().write_batch([item], expected_seq=head)
        self._remember(event, written[0].seq)

    def _control(self, event: Hid | Cleared, key: str, plan: Plan, head: int) -> None:
        try:
            (written,) = self._open().write_batch([plan], expected_seq=head)
        except (InvalidPlan, InvalidMessage) as error:
            self._skip(event, key, error.fact)
            return
        self.done.controls += len(written.seqs)
        self._remember(event, written.seqs[-1])

    def _remember(self, event: Event, seq: int) -> None:
        name = getattr(event, "id", None)
        if name is not None:
            self._seqs[name] = seq
        if isinstance(event, Hid):
            for index, row in enumerate(event.rows):
                if row.message_id is not None:
                    self._seqs[row.message_id] = seq - len(event.rows) + 1 + index

    def _report(self, event: Event | None, what: str) -> None:
        line = None if event is None else event.line
        self.done.problems.append(Problem(self._source.path, line, what.rstrip(".")))

    def _metadata(self) -> dict[str, Any]:
        return {name: value for name, value in self._source.metadata.items() if value is not None}

    def _digest(self) -> str:
        return Keys().key(Noted(None, "metadata", self._metadata()))


def _note(event: Noted | Titled, client_id: str) -> Item:
    if isinstance(event, Titled):
        return Rename(storable_title(event.title), client_id)
    content = {"kind": event.kind, "record": event.record}
    return NewNote(NOTE, content, ts=event.ts, client_id=client_id)
