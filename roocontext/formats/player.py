"""The one importer: plays the events of a source into a session.

It follows the events along the tree of those that were imported before, as far as they agree, and
writes the others; if the session has left that branch, a rewind goes back to it first. So an
unchanged source writes nothing, a longer one is continued, and a branch that was imported before is
returned to.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace as with_fields

from roocontext.errors import (
    InvalidIdentifier,
    InvalidMessage,
    InvalidPlan,
    RooContextError,
    SessionArchived,
    SessionNotFound,
    SourceDiverged,
)
from roocontext.formats.events import (
    Added,
    Cleared,
    Covered,
    Event,
    Hid,
    Noted,
    Problem,
    Source,
    TitleSet,
    WentBack,
)
from roocontext.formats.imported import (
    AFTER,
    AGAIN,
    BEFORE,
    Imported,
    ImportedEvent,
    Keys,
    storable,
    storable_model,
)
from roocontext.formats.typed import with_typed_text
from roocontext.formats.writing import (
    NOTE,
    SKIPPED,
    SessionImport,
    around_pins,
    clearing,
    copy_of,
    fitting_item,
    hiding,
    note_id,
    note_of,
    refused_message,
)
from roocontext.log.entries import NewMessage
from roocontext.log.plan import Plan
from roocontext.log.times import ORIGIN
from roocontext.store.session import Session
from roocontext.store.store import Store
from roocontext.store.writing.items import CompactedReply, Item, NewNote, Rewind, SetMetadata

OnConflict: TypeAlias = Literal["refuse", "fork"]
BATCH: Final = 250
BATCH_BYTES: Final = 4 << 20
_SMALL: Final = 100
_OFTEN: Final = 256
_PAGE: Final = 100
"""Entries that are read at once: a page of large ones takes much memory."""


def play(
    store: Store,
    source: Source,
    *,
    on_conflict: OnConflict = "refuse",
    read: Callable[[int], None] | None = None,
) -> SessionImport:
    """Import a source, or continue its import.

    `read` is called from time to time with the bytes of the events so far.
    """
    done = _played(store, source, on_conflict, read)
    if done.forked_from is None:
        return done
    # A fork ends where the source left the session: it lacks the notes that were written later.
    rest = _played(store, source, on_conflict, None)
    counts = ("messages", "notes", "controls", "again")
    return replace(done, **{name: getattr(done, name) + getattr(rest, name) for name in counts})


def _played(
    store: Store, source: Source, on_conflict: OnConflict, read: Callable[[int], None] | None
) -> SessionImport:
    name, parent = storable(source.session_id), storable(source.parent)
    player = _Player(store, replace(source, session_id=name or "-", parent=parent), on_conflict)
    try:
        for event in source.events():
            player.take(event)
            if read is not None and player.events % _OFTEN == 0:
                read(player.size)
    except RooContextError:
        raise
    except Exception:
        player.flush()  # the events before a record of an unknown shape
        raise
    return player.finish()


def forks_of(store: Store, session_id: str) -> list[Session]:
    """The session with this id, and the forks of it that imports have made; none if it is new."""
    sessions: list[Session] = []
    for number in count(2):
        try:
            session = store.session(session_id)
        except SessionNotFound as error:
            if type(error) is not SessionNotFound:
                raise  # such as a purged one: its id is taken for ever
            break
        origin = session.newest_note(ORIGIN) if sessions else None
        if sessions and (origin is None or origin.content["session_id"] != sessions[-1].id):
            break  # a source may have such a name too
        sessions.append(session)
        base = sessions[0].id
        session_id = f"{base}~{number}"
    return sessions


def is_missing(store: Store, session_id: str) -> bool:
    """True if a session is not in the store, or was purged. An archived one has its row there."""
    try:
        store.session(session_id)
    except SessionNotFound:
        return True
    except SessionArchived:
        pass
    return False


class _Player:
    """Takes one event after the other. Messages and notes wait until a batch is full."""

    def __init__(self, store: Store, source: Source, on_conflict: OnConflict) -> None:
        self._store, self._source, self._on_conflict = store, source, on_conflict
        sessions = forks_of(store, source.session_id)
        self._session = sessions[-1] if sessions else None
        self._session_id = sessions[-1].id if sessions else source.session_id
        pages = sessions[-1].internals.audit_pages(_PAGE) if sessions else ()
        self._known = Imported.read(chain.from_iterable(pages))
        self._earlier = len(sessions)
        self.events = self.size = 0
        self._counts = Counter[str]()
        self._rewound = False
        self._forked_from: str | None = None
        self._problems: list[Problem] = []
        self._cursor = self._known.root
        self._following = True
        self._keys = Keys()
        self._titles: list[tuple[TitleSet, str, int]] = []
        self._seqs: dict[str, int] = {}
        """The entries of the source's messages; of one that was written again, its copy."""
        self._places: dict[str, int] = {}
        """The entries right after which the source's events ended, to go back there."""
        self._copies: list[tuple[str, int, int]] = []
        """The messages that were written again: the name, the copy, and the entry before it."""
        self._at = 0
        self._time: int | None = None
        self._before: int | None = None
        self._waiting: list[tuple[Event | None, str, Item]] = []
        self._waiting_size = 0
        metadata = {name: value for name, value in source.metadata.items() if value is not None}
        key, size = Keys().key(Noted(None, "metadata", metadata))
        name = f"metadata#{key}"
        self._take_note(None, name, SetMetadata(metadata, note_id(name)), size)

    def take(self, event: Event) -> None:
        """Take the next event of the source."""
        self.events += 1
        self._before = self._time
        try:
            event = self._dated(self._checked(event))
            key, size = self._keys.key(event)
        except InvalidMessage as error:
            # A record that cannot even be walked, because it is nested too deeply.
            self._report(event, error.fact)
            return
        self.size += size
        if f"{SKIPPED}#{key}" in self._known.notes or (
            self._following and f"{SKIPPED}#{self._at}#{key}" in self._known.notes
        ):
            self._stay(event)
        elif isinstance(event, Noted):
            self._take_note(event, key, note_of(event, note_id(key)), size)
        elif isinstance(event, TitleSet):
            self._titles.append((event, key, size))
        elif self._following and (known := self._cursor.following.get(key)):
            self._follow(event, known)
        else:
            if self._following:
                self._following = False
                self._go_to_cursor()
            self._write(event, key, size)

    def _write(
        self, event: Added | Hid | Covered | Cleared | WentBack, key: str, size: int
    ) -> None:
        match event:
            case Added(message=message):
                self._wait(
                    event, key, self._answering(event, self._message(event, message, key)), size
                )
            case Hid():
                self._hide(event, key, size)
            case Covered():
                self._cover(event, key)
            case Cleared():
                self._clear(event, key)
            case WentBack():
                self._go_back(event, key)

    def finish(self) -> SessionImport:
        """Write the waiting items, and return the result of the import."""
        self._before = self._time
        for number, (event, key, size) in enumerate(self._titles, 1):
            is_last = number == len(self._titles)
            own = self._known.title_key(key) if is_last else key
            self._take_note(event, own, note_of(event, note_id(own)), size)
        is_cut = any(problem.cuts for problem in self._source.problems)
        if self._following and not is_cut and self._cursor is not self._known.tip:
            self._go_to_cursor()  # the source ends earlier than it did
        if self.events == 0:
            self._waiting.clear()  # an empty source makes no session
        self.flush()
        problems = [*self._problems, *self._source.problems]
        return SessionImport(
            self._session_id,
            str(self._source.metadata.get("tool", "")),
            self._source.path,
            **self._counts,
            created=not self._earlier and self.events > 0,
            rewound=self._rewound,
            forked_from=self._forked_from,
            failed=not self.events and bool(problems),  # nothing of it could be read
            problems=tuple(sorted(problems, key=lambda problem: problem.line or 0)),
        )

    def _report(self, event: Event | None, what: str) -> None:
        """Report a problem with an event of the source."""
        line = None if event is None else event.line
        self._problems.append(Problem(self._source.path, line, what.rstrip(".")))

    def flush(self) -> None:
        """Write the messages and notes that wait, in one transaction."""
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        if not waiting:
            return
        items = [item for _, _, item in waiting]
        try:
            written = self._open().write_batch(items)
        except (InvalidIdentifier, InvalidMessage):
            items = [fitting_item(self._report, *item) for item in waiting]
            written = self._open().write_batch(items)
        for (event, _, _), item, receipt in zip(waiting, items, written, strict=True):
            is_message = isinstance(item, NewMessage)
            self._counts["messages" if is_message else "notes"] += 1
            if event is not None and is_message:
                self._remember(event, receipt.seq)
            elif isinstance(event, Added):
                self._stay(event)

    def _wait(self, event: Event | None, key: str, item: Item, size: int) -> None:
        """Write an item with the next batch."""
        self._waiting.append((event, key, item))
        self._waiting_size += size
        if len(self._waiting) >= BATCH or self._waiting_size >= BATCH_BYTES:
            self.flush()

    def _take_note(self, event: Event | None, key: str, note: Item, size: int) -> None:
        if key not in self._known.notes:
            self._wait(event, key, note, size)

    def _open(self) -> Session:
        """The session; it is created when the first entry is written."""
        if self._session is None:
            parent = self._source.parent
            if parent is not None and is_missing(self._store, parent):
                parent = None
            self._session = self._store.open_session(self._source.session_id, parent=parent)
        return self._session

    # The place in the session, and that in the source.

    def _follow(self, event: Event, known: ImportedEvent) -> None:
        """Move on to an event that was imported before."""
        self._cursor = known
        self._remember(event, known.end - len(known.again))
        self._remember_copies(event, known.again)

    def _go_to_cursor(self) -> None:
        """Make the session what it was right after the last event that the source still has."""
        if self._known.foreign is not None:
            self._leave()
        elif self._cursor is not self._known.tip:
            self.flush()
            self._rewound = True
            self._rewind(self._cursor.end, self._known.switch(self._cursor), self._before)

    def _leave(self) -> None:
        """Refuse entries that the user has added, or continue in a fork that has none of them."""
        session = self._open()
        if self._on_conflict == "refuse":
            raise SourceDiverged(
                f"Session {session.id!r} has entries of its own since entry"
                f" {self._known.foreign}, and {self._source.path} has changed.",
                session_id=session.id,
                seq=self._known.foreign,
            )
        self._forked_from = session.id
        self._session_id = f"{self._source.session_id}~{self._earlier + 1}"
        self._known.foreign = None
        self._session = session.fork(self._cursor.end, session_id=self._session_id, ts=self._before)
        self._known.generation += 1
        self._known.tip = self._cursor

    def _go_back(self, event: WentBack, key: str) -> None:
        self.flush()
        to = 0 if event.to is None else self._places.get(event.to)
        if to is None:
            self._skip(event, key, f"it goes back to {event.to!r}, which is not in the source")
            return
        self._remember(event, self._rewind(to, self._known.client_id(key), self._time))

    def _rewind(self, to: int, client_id: str, ts: int | None) -> int:
        session = self._open()
        item = Rewind(to, trigger="import", client_id=client_id, ts=ts)
        (written,) = session.write_batch([item], expected_seq=session.head_seq())
        self._counts["controls"] += 1
        return written.seq

    def _remember(self, event: Event, seq: int) -> None:
        rows: dict[str | None, int] = {getattr(event, "id", None): seq}
        if isinstance(event, Hid):
            first = seq - len(event.rows) + 1
            rows |= {row.message_id: first + index for index, row in enumerate(event.rows)}
        if isinstance(event, Covered):
            # The covering hides all but these rows, some of which were there before it.
            kept = [message.seq for message in self._open().view(as_of=seq).messages[:-1]]
            rows |= zip((row.message_id for row in event.rows), [*kept, seq], strict=False)
        if isinstance(event, WentBack):
            to = self._places.get(event.to or "", 0)
            while self._copies and self._copies[-1][1] > to:
                copied, _, before = self._copies.pop()
                self._seqs[copied] = before
        named = {name: at for name, at in rows.items() if name is not None}
        self._seqs |= named
        self._places |= named
        self._at = seq

    def _remember_copies(self, event: Event, copies: Iterable[tuple[str | None, int]]) -> None:
        """Messages were written again with an event: their names, and the copies."""
        for name, seq in copies:
            self._end(event, seq)
            if name is not None:
                self._copies.append((name, seq, self._seqs.get(name, seq)))
                self._seqs[name] = seq

    def _end(self, event: Event, seq: int) -> None:
        """The event, whose last entry this is, is the place of later events."""
        self._at = seq
        if (name := getattr(event, "id", None)) is not None:
            self._places[name] = seq

    def _stay(self, event: Event) -> None:
        """Give an event that wrote nothing the current place: later events may go back to it."""
        if not isinstance(event, Noted):
            self.flush()
            self._end(event, self._at)

    def _skip(self, event: Event, key: str, what: str, *, is_problem: bool = True) -> None:
        """Report an event that cannot be played here. The note keeps the next import from trying.

        On another branch, the same event may be possible.
        """
        if is_problem:
            self._report(event, what)
        self._stay(event)
        name = f"{SKIPPED}#{self._at}#{key}"
        note = NewNote(NOTE, {"kind": SKIPPED, "why": what}, client_id=note_id(name))
        self._take_note(None, name, note, _SMALL)

    # The items of an event.

    def _dated(self, event: Event) -> Event:
        """The event, with the time of the record before it for rows without a time.

        So a moment finds the same place in the session as in the source.
        """
        match event:
            case Added(message=NewMessage(ts=int(ts))):
                self._time = ts
            case Hid(rows=rows) | Covered(rows=rows):
                # Rows came together: those without a time get that of the last one with a time.
                times = [row.ts for row in rows if row.ts is not None]
                self._time = now = times[-1] if times else self._time
                dated = (row if row.ts is not None else with_fields(row, ts=now) for row in rows)
                return replace(event, rows=tuple(dated))
            case Noted(ts=int(ts)) | Cleared(ts=int(ts)) | WentBack(ts=int(ts)):
                self._time = ts
        return event

    def _checked(self, event: Event) -> Event:
        """The event, or a note in place of messages that the store would refuse."""
        if not isinstance(event, Hid | Covered):
            return event
        refusals = filter(None, map(refused_message, event.rows))
        if (why := next(refusals, None)) is None:
            rows = (fitting_item(self._report, event, "", row) for row in event.rows)
            return replace(event, rows=tuple(row for row in rows if isinstance(row, NewMessage)))
        self._report(event, why)
        record = [{"content": row.content, "extra": row.extra} for row in event.rows]
        return Noted(event.id, "refused", record, event.rows[0].ts, event.line)

    def _message(self, event: Event, message: NewMessage, key: str) -> NewMessage:
        """A message as the store takes it. A model's name that it would refuse is left out."""
        model = storable_model(message.model)
        if message.model and model is None:
            what = f"the name of a model, of {len(message.model):,} characters, is not valid"
            self._report(event, f"{what}; the message was imported without it")
        return with_fields(
            message,
            message_id=storable(message.message_id),
            model=model,
            client_id=self._known.client_id(key),
        )

    def _answering(self, event: Added, message: NewMessage) -> NewMessage:
        """A message that names the call that it answers, if its id does not."""
        if event.answers is None:
            return message
        self.flush()
        name, number = event.answers
        seq = self._seqs.get(name)
        return message if seq is None else with_fields(message, answers=(seq, number))

    def _hide(self, event: Hid, key: str, size: int) -> None:
        lead = event.lead
        names = [f"{BEFORE if n < lead else AFTER}#{n}#{key}" for n in range(len(event.rows))]
        names[lead] = key
        rows = [
            self._message(event, row, name) for row, name in zip(event.rows, names, strict=True)
        ]
        self.flush()
        session = self._open()
        head = session.head_seq()

        def hide(bound: Collection[int]) -> bool:
            planned = hiding(
                *(session, event, tuple(rows)),
                seqs=self._seqs,
                head=head,
                by="import",
                bound=bound,
            )
            if planned is None:
                return False
            copies = [
                copy_of(message, self._known.client_id(f"{AGAIN}#{index}#{key}"))
                for index, message in enumerate(planned.again)
            ]
            self._commit(event, planned.plan, copies, head)
            if planned.lost:
                what = f"an earlier compaction hides {planned.lost} of the messages that it keeps"
                self._report(event, what)
            return True

        if not self._around_pins(event, key, hide):
            # A file may begin with a summary of what another file holds.
            rows[lead] = with_typed_text(rows[lead], "")
            for row, name in zip(rows, names, strict=True):
                self._wait(Added(row.message_id, row), name, row, size)

    def _cover(self, event: Covered, key: str) -> None:
        self.flush()
        session = self._open()
        names = [*(f"{BEFORE}#{number}#{key}" for number in range(len(event.rows) - 1)), key]
        *kept, reply = map(partial(self._message, event), event.rows, names)
        item = CompactedReply(
            reply,
            tuple(kept),
            trigger="import",
            covering_id=self._known.client_id(f"{AFTER}#0#{key}"),
        )
        (written,) = session.write_batch([item], expected_seq=session.head_seq())
        # Without a covering, whose companions and itself are controls, all are messages.
        messages = 1 if written.head_seq > written.seq else len(written.seqs)
        self._counts += Counter(messages=messages, controls=len(written.seqs) - messages)
        self._remember(event, written.seqs[-1])

    def _clear(self, event: Cleared, key: str) -> None:
        self.flush()
        session = self._open()
        head = session.head_seq()

        def clear(bound: Collection[int]) -> bool:
            plan = clearing(
                *(session, event),
                seqs=self._seqs,
                head=head,
                by="import",
                client_id=self._known.client_id(key),
                ts=self._time,
                bound=bound,
            )
            if plan is not None:
                self._commit(event, plan, [], head)
            return plan is not None

        if not self._around_pins(event, key, clear):
            self._skip(event, key, "what it cleared is hidden", is_problem=False)

    def _around_pins(
        self, event: Event, key: str, commit: Callable[[Collection[int]], bool]
    ) -> bool:
        """Commit a plan, or report why it cannot be committed; False if there is none."""
        try:
            return around_pins(commit)
        except (InvalidPlan, InvalidMessage) as error:
            self._skip(event, key, error.fact)
            return True

    def _commit(
        self, event: Hid | Cleared, plan: Plan, copies: list[NewMessage], head: int
    ) -> None:
        written, *again = self._open().write_batch([plan, *copies], expected_seq=head)
        self._counts += Counter(controls=len(written.seqs), messages=len(again), again=len(again))
        self._remember(event, written.seqs[-1])
        names = (copy.message_id for copy in copies)
        self._remember_copies(event, zip(names, (receipt.seq for receipt in again), strict=True))
