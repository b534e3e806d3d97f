"""A growing transcript of Claude Code: how its records become entries of a session.

The importer sees a whole file. Here a record is placed by those before it: a message that does not
follow the newest one is on another branch, and a rewind goes to that branch first.

The program keeps all branches of its conversation and continues after the newest entry. The rewinds
that the adapter writes lead from one branch to another and take nothing back. After any other
rewind, the transcript is what was live at its target, where the program resumes.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from roocontext.adapters.adapter_notes import BEGUN, EPOCH, fits
from roocontext.formats.events import Added, Cleared, Event, Hid, Noted
from roocontext.formats.files import SourceLine
from roocontext.formats.imported import storable, storable_model
from roocontext.formats.importers.claude_code import Calls, events_of
from roocontext.formats.importers.claude_code_rows import SPEAKERS, TranscriptRow, row_of
from roocontext.formats.importers.claude_code_tree import TranscriptStep, TranscriptTree, TreeUnit
from roocontext.formats.writing import clearing, copy_of, hiding, refused_message
from roocontext.log.entries import Control, Kind, NewMessage, Range, subtract
from roocontext.log.moments import iso_utc
from roocontext.log.readings import read_message, text_of
from roocontext.log.spans import live_ranges, within
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.session import Session
from roocontext.store.sessions.sessions import SessionInfo
from roocontext.store.writing.items import Item, NewNote, Rewind

NAME = "claude-agent-sdk"
"""The kind of the notes, the trigger of the rewinds and plans, and the start of the client ids."""


class Rewinds:
    """The entries of a log that are taken back. It must be given all entries in their order."""

    def __init__(self) -> None:
        self._rewinds: list[Control] = []
        self._moves: list[int] = []
        self._live: tuple[Range, ...] = ()
        self._since = 0

    def take(self, shown: AuditEntry) -> None:
        """Read the next entry."""
        if shown.kind is Kind.REWIND:
            details = shown.entry.details
            self._rewind(shown.seq, details["to"], is_own=details["record"]["trigger"] == NAME)
        if shown.kind is not Kind.NOTE:
            self._moves.append(shown.seq)

    def kept(self, last: int) -> tuple[Range, ...]:
        """The ranges up to this entry that are not taken back."""
        return (*self._live, (self._since + 1, last))

    def _rewind(self, seq: int, to: int, *, is_own: bool) -> None:
        # The next entries may follow the notes after the target of the adapter's rewind.
        until = self._with_notes(to, seq) if is_own else to
        self._rewinds.append(Control(seq, Kind.REWIND, to=until))
        if not is_own:
            self._live, self._since = live_ranges(self._rewinds, until), seq
        elif self._since and to and not within(kept := self.kept(seq), to):
            # A running program continues with entries that were taken back: they are live again.
            back = subtract(live_ranges(self._rewinds, until), kept)
            self._live, self._since = tuple(sorted((*kept, *back))), seq

    def _with_notes(self, seq: int, now: int) -> int:
        """The last of the notes right after an entry."""
        index = bisect_right(self._moves, seq)
        return (self._moves[index] if index < len(self._moves) else now) - 1


_AGAIN = f"{NAME}-again#"
"""The start of the client ids of messages that a compaction keeps, and that are written again."""

Also = Callable[[Session, SessionInfo, list[Any]], list[Item]]
"""Return other items to write with new records, given the session as it is."""


class Transcript:
    """The records of a session since its newest epoch, and the unit that the session is at."""

    def __init__(self, *, of_agent: bool) -> None:
        self._of_agent = of_agent
        self._read = 0
        self._begin(0)

    def _begin(self, epoch: int) -> None:
        self._epoch = epoch
        self._tree, self._calls = TranscriptTree(), Calls()
        self._tip = self._tree.root
        self._tips = [(0, self._tip)]
        self._ends: dict[TreeUnit, int] = {self._tip: 0}
        self._seqs: dict[str, int] = {}
        self._known: set[str] = set()
        self._above: str | None = None

    def append(
        self, session: Session, records: Sequence[Any], also: Also, bound: Collection[int]
    ) -> int:
        """Write the first records in one transaction, and return how many they were.

        It stops before a compaction, which must see the records before it. The messages in `bound`
        stay visible. After an error, the transcript cannot be used again.
        """
        info = self._catch_up(session)
        new: list[_New] = []
        done = 0
        for record in records:
            row = self._row(record)
            if new and _is_compaction(row):
                break
            done += 1
            if row.uuid not in self._known:
                unit, back = self._place(row)
                new.append(_New(row, record, unit, back, self._tip))
        batch = _Batch(info)
        for one in new:
            if one.back is not None:
                end = self._ends[one.back]
                batch.add(Rewind(end, head_seq=batch.head, trigger=NAME), moves=True)
                self._tips.append((batch.last, one.back))
                if _is_compaction(one.row):  # it must see the branch that it follows
                    session.write_batch(batch.items, expected_seq=info.head_seq)
                    info = session.info()
                    batch = _Batch(info)
            for event in self._events(one):
                self._write(session, batch, one, event, bound)
        if new:
            for item in also(session, info, [one.record for one in new]):
                batch.add(item)
            written = session.write_batch(batch.items, expected_seq=info.head_seq)
            # If another writer's note came first, the entries are not where they were expected.
            as_expected = written[-1].seqs[-1] == batch.last
            self._read = batch.last if as_expected else 0
        return done

    def _catch_up(self, session: Session) -> SessionInfo:
        """Read the entries that this process or another one has written since the last time."""
        info = session.info()
        if not self._read:
            self._begin(0)
        if info.last_seq != self._read:
            for shown in session.audit(after=self._read):
                self._take(shown)
                self._read = shown.seq
        return info

    def _take(self, shown: AuditEntry) -> None:
        if shown.entry.note == EPOCH and fits(shown.content, BEGUN):
            self._begin(shown.seq)
        elif is_record(shown):
            row = self._row(transcript_record(shown, self._above))
            self._above = row.uuid or self._above
            self._place(row)
            self._remember(row, shown.seq, self._tip)
            self._calls.learn(row.uuid, shown.content)
        elif shown.kind is Kind.REWIND:
            to = shown.entry.details["to"]
            self._tip = self._tips[bisect_right(self._tips, to, key=itemgetter(0)) - 1][1]
            self._tips.append((shown.seq, self._tip))
        elif shown.kind is Kind.CLEARING and _is_ours(shown.entry.client_id):
            self._ends[self._tip] = shown.seq
        elif (shown.entry.client_id or "").startswith(_AGAIN):
            self._wrote_again(shown.entry.message_id, shown.seq, self._tip)

    def _row(self, record: Any) -> TranscriptRow:
        row = row_of(SourceLine(0, record, 0, 0))
        if row.agent and not self._of_agent:
            row.speaks = False  # a sub-agent within the main transcript
        if row.type not in SPEAKERS:
            row.speaks = False  # the SDK reads its record again, and turns it into text itself
        return row

    def _place(self, row: TranscriptRow) -> tuple[TreeUnit | None, TreeUnit | None]:
        """The unit of a message, and the unit that the session must be rewound to first."""
        if not row.uuid:
            return None, None
        self._known.add(row.uuid)
        unit = self._tree.add(row)
        if unit is None or unit is self._tip:
            return unit, None
        if len(unit.rows) == 1:
            back = self._tree.root if unit.begins else self._tree.parent_of(unit)
        elif self._tree.is_below(self._tip, unit):
            return unit, None  # a late result is read where it arrives
        else:
            back = unit
        left, self._tip = self._tip, unit
        return unit, None if back is left else back

    def _remember(self, row: TranscriptRow, seq: int, tip: TreeUnit) -> None:
        self._tips.append((seq, tip))
        if row.uuid:
            self._seqs[row.uuid] = seq
        if row.speaks:
            self._ends[tip] = seq

    def _wrote_again(self, uuid: str | None, seq: int, tip: TreeUnit) -> None:
        if uuid is not None:
            self._seqs[uuid] = seq
        self._ends[tip] = seq

    def _events(self, new: "_New") -> list[Event]:
        row, unit = new.row, new.unit
        if not row.uuid:
            return [Noted(None, row.type, new.record)]
        step = TranscriptStep(row) if unit is None else self._tree.step(row, unit.end())
        return list(events_of(step, new.record, self._calls))

    def _write(
        self,
        session: Session,
        batch: "_Batch",
        new: "_New",
        event: Event,
        bound: Collection[int],
    ) -> None:
        row = new.row
        name = f"{NAME}#{self._epoch}#{storable(row.uuid)}" if row.uuid else None
        match event:
            case Added(message=message) | Hid(rows=(message,)) if not refused_message(message):
                model, message_id = storable_model(message.model), storable(message.message_id)
                message = replace(message, client_id=name, message_id=message_id, model=model)
                made = None
                if isinstance(event, Hid) and _has_text(message):
                    made = hiding(
                        *(session, event, (message,)),
                        seqs=self._seqs,
                        head=batch.head,
                        by=NAME,
                        bound=bound,
                    )
                batch.add(made.plan if made else message, moves=True)
                self._remember(row, batch.last, new.tip)
                for kept in made.again if made else ():
                    batch.add(copy_of(kept, f"{_AGAIN}{self._epoch}#{batch.last}"), moves=True)
                    self._wrote_again(kept.message_id, batch.last, new.tip)
            case Noted(ts=ts) | Added(message=NewMessage(ts=ts)) | Hid(rows=(NewMessage(ts=ts),)):
                # A message whose content has an unknown shape is a note, too.
                batch.add(NewNote(NAME, {"entry": new.record}, ts=ts, client_id=name))
                self._remember(row, batch.last, new.tip)
            case Cleared():
                plan = clearing(
                    session,
                    event,
                    seqs=self._seqs,
                    head=batch.head,
                    by=NAME,
                    client_id=f"{name}#cleared",
                    ts=event.ts,
                    bound=bound,
                )
                if plan is not None:
                    batch.add(plan, moves=True)
                    self._ends[new.tip] = batch.last


class _New(NamedTuple):
    """A new record, its unit, the unit to rewind to first, and the tip after it."""

    row: TranscriptRow
    record: Any
    unit: TreeUnit | None
    back: TreeUnit | None
    tip: TreeUnit


class _Batch:
    """The items of one transaction, and the seqs that their entries will have."""

    def __init__(self, info: SessionInfo) -> None:
        self.items: list[Item] = []
        self.last, self.head = info.last_seq, info.head_seq

    def add(self, item: Item, *, moves: bool = False) -> None:
        """Add an item. All but notes move the head."""
        self.items.append(item)
        self.last += 1
        self.head = self.last if moves else self.head


def is_record(shown: AuditEntry) -> bool:
    """True if an entry holds a record of the transcript."""
    if shown.kind is Kind.NOTE:
        return shown.entry.note == NAME and fits(shown.content, {"entry": dict})
    return shown.kind in (Kind.MESSAGE, Kind.SUMMARY) and _is_ours(shown.entry.client_id)


def transcript_record(shown: AuditEntry, above: str | None) -> Any:
    """The record as appended, or what a redaction left of it as the successor of `above`."""
    entry = shown.entry
    if shown.kind is Kind.NOTE:
        return shown.content["entry"]
    if shown.redacted:
        message = {"role": entry.role, "content": shown.content}
        return {
            "type": entry.role,
            "uuid": entry.message_id,
            "parentUuid": above,
            "timestamp": iso_utc(entry.happened_at),
            "message": message,
        }
    rest = entry.extra["record"]
    return {**rest, "message": {**rest["message"], "content": shown.content}}


def _is_compaction(row: TranscriptRow) -> bool:
    return row.is_summary or row.subtype == "microcompact_boundary"


def _is_ours(client_id: str | None) -> bool:
    return client_id is not None and client_id.startswith(f"{NAME}#")


def _has_text(message: NewMessage) -> bool:
    """True if the message can be a summary."""
    return bool(text_of(read_message(message)[1]).strip())
