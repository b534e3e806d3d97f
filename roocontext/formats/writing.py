"""The items and plans that an import writes, and its result."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace as with_fields

from roocontext.errors import InvalidIdentifier, InvalidMessage, InvalidPlan
from roocontext.formats.events import Cleared, Event, Hid, Noted, Place, Problem, TitleSet
from roocontext.formats.imported import storable_title
from roocontext.log.clearing import cleared_whole
from roocontext.log.encoding import check_id, encode
from roocontext.log.entries import Message, NewMessage, ranges_of
from roocontext.log.plan import Action, Plan
from roocontext.log.readings import reader
from roocontext.log.summary import TYPED, typed_in
from roocontext.store.session import Session
from roocontext.store.writing.items import Item, NewNote, SetTitle

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SessionImport:
    """The outcome for one session. A `failed` session was left as it was.

    The numbers count new entries. `again` of the messages were hidden and written again, because
    the source sends what a compaction kept in an order that only this gives. `redacted` messages,
    here and in other sessions, were erased because another copy of them is redacted.
    """

    session_id: str
    tool: str
    path: Place
    messages: int = 0
    notes: int = 0
    controls: int = 0
    again: int = 0
    created: bool = False
    rewound: bool = False
    forked_from: str | None = None
    redacted: int = 0
    failed: bool = False
    problems: tuple[Problem, ...] = ()

    @property
    def new(self) -> int:
        """The number of entries that were written, or would be."""
        return self.messages + self.notes + self.controls

    @property
    def status(self) -> str:
        """The outcome: failed, created, forked, rewound, continued or unchanged."""
        if self.failed:
            return "failed"
        if self.created:
            return "created"
        if self.forked_from is not None:
            return "forked"
        if self.rewound:
            return "rewound"
        return "continued" if self.new else "unchanged"


NOTE: Final = "imported"
SKIPPED: Final = "skipped"


def fitting_item(
    report: Callable[[Event | None, str], None], event: Event | None, key: str, item: Item
) -> Item:
    """The item, or as much of it as the store takes: its text, or a message without its record."""
    match item:
        case NewNote(content=content) if why := _refused(content):
            report(event, f"it is kept as text: {why}")
            record = {"kind": content["kind"], **_kept(content["record"])}
            return NewNote(NOTE, record, ts=item.ts, client_id=item.client_id)
        case NewMessage(content=content, extra=extra) if why := refused_message(item):
            report(event, why)
            record = {"kind": "refused", **_kept({"content": content, "extra": extra})}
            return NewNote(NOTE, record, ts=item.ts, client_id=note_id(f"{SKIPPED}#{key}"))
        case NewMessage(usage=usage) if why := _refused(usage):
            report(event, f"it was imported without its usage: {why}")
            return fitting_item(report, event, key, with_fields(item, usage=None))
        case NewMessage(extra=extra) if why := _refused(extra):
            report(event, f"only its content was taken: {why}")
            words = {name: value for name, value in (extra or {}).items() if name == TYPED}
            return with_fields(item, extra={**_kept(extra), **words})
    return item


def refused_message(message: NewMessage) -> str | None:
    """The reason for which the store would refuse a message; None if it would not."""
    try:
        check_id("role", message.role)
        reader(message.format).check(message.role, message.content)
    except (InvalidIdentifier, InvalidMessage) as error:
        return error.fact
    return _refused(message.content)


def _refused(value: Any) -> str | None:
    try:
        encode(value)
    except InvalidMessage as error:
        return error.fact
    return None


def note_id(key: str) -> str:
    """The client id of a note, which no branch of the import changes."""
    return f"import#0#{key}"


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
        return SetTitle(storable_title(event.title), client_id)
    content = {"kind": event.kind, "record": event.record}
    return NewNote(NOTE, content, ts=event.ts, client_id=client_id)


def _kept(record: Any) -> dict[str, Any]:
    """The record as it is, or its JSON if the store refuses the record."""
    if _refused(record) is None:
        return {"record": record}
    try:
        return {"text": json.dumps(record)}
    except (RecursionError, TypeError, ValueError):
        return {"text": None}


class PlannedHide(NamedTuple):
    """A condensation or truncation, and the kept messages that are written again after it.

    `lost` counts those that it keeps and that stay hidden.
    """

    plan: Plan
    again: tuple[Message, ...] = ()
    lost: int = 0


def hiding(
    session: Session,
    event: Hid,
    rows: tuple[NewMessage, ...],
    *,
    seqs: Mapping[str, int],
    head: int,
    by: str,
    bound: Collection[int],
) -> PlannedHide | None:
    """The plan of a condensation or truncation; None if the session shows nothing that it hides.

    `seqs` are the entries of the source's ids, `rows` those of the event as the store takes them.
    Pinned messages stay, and so do those in `bound`.
    """
    named, pinned = _entries(event.keeps, seqs), {*session.pins(), *bound}
    keeps = {*named, *pinned}
    chosen = None if event.hides is None else set(_entries(event.hides, seqs))
    kept_after = [seq for seq in _entries(event.kept_after, seqs) if seq not in pinned]
    # All that is visible may be very long, so of most messages only the place is kept.
    order: list[int] = []
    hidden: list[int] = []
    kept: dict[int, Message] = {}
    for message in _visible(session):
        order.append(message.seq)
        if message.seq in kept_after:
            kept[message.seq] = message
        if message.seq not in keeps and (chosen is None or message.seq in chosen):
            hidden.append(message.seq)
    after = order[order.index(hidden[-1]) + 1 :] if hidden else []
    again: tuple[Message, ...] = ()
    if [seq for seq in after if seq in kept] != kept_after:
        # What an earlier compaction hides is written again too.
        again = tuple(kept.get(seq) or session.message(seq) for seq in kept_after)
    hides = sorted({*hidden, *(message.seq for message in again if message.seq in kept)})
    if not hides:
        return None
    plan = Plan(
        head_seq=head,
        action=Action.TRUNCATE if event.truncates else Action.CONDENSE,
        hides=ranges_of(hides),
        rows=rows,
        lead=event.lead,
        at_end=event.at_end,
        compat=True,
        policy=by,
        trigger=by,
        record=event.record,
    )
    return PlannedHide(plan, again, len({*named}.difference(order, kept_after)))


def clearing(
    session: Session,
    event: Cleared,
    *,
    seqs: Mapping[str, int],
    head: int,
    by: str,
    client_id: str,
    ts: int | None,
    bound: Collection[int],
) -> Plan | None:
    """The plan of a clearing; None if the session shows nothing that it clears.

    Pinned messages are not cleared, and neither are those in `bound`.
    """
    pinned = {*session.pins(), *bound}
    wanted: defaultdict[int | None, set[int]] = defaultdict(set)
    for name, block in event.blocks:
        wanted[seqs.get(name)].add(block)
    blocks = tuple(
        sorted(
            (message.seq, block)
            for message in _visible(session)
            if message.seq in wanted and message.seq not in pinned
            for block in wanted[message.seq] - cleared_whole(message)
        )
    )
    if not blocks:
        return None
    return Plan(
        head_seq=head,
        action=Action.CLEAR,
        clears=blocks,
        placeholder=event.placeholder,
        compat=True,
        policy=by,
        trigger=by,
        record=event.record,
        client_id=client_id,
        ts=ts,
    )


def around_pins(write: Callable[[Collection[int]], Result]) -> Result:
    """Write a plan, and again without the messages for which it is refused.

    `write` gets the messages that are bound to pins, as far as refusals have named them.
    """
    bound: set[int] = set()
    while True:
        try:
            return write(bound)
        except InvalidPlan as error:
            pinned = getattr(error, "pinned", ())
            if bound.issuperset(pinned):
                raise
            bound |= {*pinned}


def _entries(names: Iterable[str], seqs: Mapping[str, int]) -> list[int]:
    return list(dict.fromkeys(seqs[name] for name in names if name in seqs))


def _visible(session: Session) -> Iterator[Message]:
    return (message for page in session.internals.pages() for message in page.messages)
