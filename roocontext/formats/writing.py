"""The items that an import writes, and its result."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace as with_fields

from roocontext.errors import InvalidMessage
from roocontext.formats.events import Event, Noted, Place, Problem, TitleSet
from roocontext.formats.imported import storable_title
from roocontext.log.encoding import encode
from roocontext.log.entries import Message, NewMessage
from roocontext.log.readings import reader
from roocontext.log.summary import TYPED, typed_in
from roocontext.store.writing.items import Item, NewNote, SetTitle


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
        case NewMessage(extra=extra) if why := _refused(extra):
            report(event, f"only its content was taken: {why}")
            words = {name: value for name, value in (extra or {}).items() if name == TYPED}
            return with_fields(item, extra={**_kept(extra), **words})
    return item


def refused_message(message: NewMessage) -> str | None:
    """The reason for which the store would refuse a message; None if it would not."""
    try:
        reader(message.format).check(message.role, message.content)
    except InvalidMessage as error:
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
