"""The messages of a session: the effective history, the audit, the difference of two views.

Each message has a speaker: its role, or `tool` if it holds only outputs of tools. Providers send
these outputs in messages of the user, but people want to distinguish them from prompts.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from roocontext.log.readings import Holds, Piece, pieces, reader, text_of
from roocontext.reports import gauge
from roocontext.reports.document import Document, Text, Time
from roocontext.reports.gauge import Gauge
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.reading.pages import read_cursor, write_cursor
from roocontext.store.reading.points_in_time import no_entry

if TYPE_CHECKING:
    from roocontext import Message, Session

TOOL: Final = "tool"
UNKNOWN: Final = "(unknown)"
"""The tool of an output whose call was not seen."""


class Speakers:
    """Names the speakers of messages, in their order. It remembers calls by their ids."""

    def __init__(self) -> None:
        self._called: dict[str, str] = {}

    def named(self, role: str, content: Any, form: str) -> tuple[str, list[str]]:
        """The role, or `tool` if the message holds only outputs; and their tools, in order."""
        if isinstance(content, str):
            return role, []
        blocks = pieces(reader(form).blocks(role, content)[1])
        tools = [(block, tool_of(block, self._called)) for block in blocks]
        outputs = [tool or UNKNOWN for block, tool in tools if block.kind is Holds.OUTPUT]
        is_tool = bool(outputs) and len(outputs) == len(blocks)
        return TOOL if is_tool else role, outputs

    def heard(self, entry: AuditEntry) -> tuple[str | None, list[str]]:
        """The speaker of an entry, None if it is no message, and the tools of its outputs."""
        if entry.role is None:
            return None, []
        return self.named(entry.role, entry.content, entry.entry.format or "")


def tool_of(piece: Piece, called: dict[str, str]) -> str | None:
    """The tool of a call or an output; None for another piece. `called` has tools by call id."""
    if piece.kind is Holds.CALL and piece.text is not None:
        called[str(piece.block.get("id"))] = piece.text
        return piece.text
    if piece.kind is Holds.OUTPUT:
        return called.get(str(piece.block.get("tool_use_id")), UNKNOWN)
    return None


CALLED_WITHIN: Final = 50
"""How many earlier entries are searched for the call of a tool's output."""
_NEAR = 10
"""How many earlier messages of the view are searched for it."""
_READ_AT_ONCE: Final = 20
"""How many entries are read at a time. One of them may hold megabytes."""


class MessageRow(Document):
    """A message as the model sees it: cleared blocks hold their placeholder.

    `shortened` blocks are cleared, but keep their head and tail. `speaker` is the message's role,
    or `tool` if it holds only outputs of tools. `tools` names the tool of each output.
    """

    seq: int
    kind: str
    role: str
    speaker: str
    tools: list[Text]
    content: Any
    format: str
    ts: int | None
    happened_at: Time
    recorded_at: Time
    message_id: str | None
    compaction_id: str | None
    cleared: list[int]
    shortened: list[int]


class Shown(Document):
    """The effective history right after entry `seq`: all of its messages, or a selection."""

    session_id: str
    title: str | None
    seq: int
    head_seq: int
    context: Gauge
    visible_messages: int
    messages: list[MessageRow]


class HiderRow(Document):
    """An entry that hides, takes back or clears another.

    `trigger` is manual, auto, or the agent's own word.
    """

    seq: int
    kind: str
    happened_at: Time
    recorded_at: Time
    trigger: Text | None


class EntryRow(Document):
    """An entry of the log as it was written, and whether the model sees it now.

    `kind` is message, summary, marker, companion, covering, clearing, rewind, uncovering or note.
    `note` is the kind of a note: title, metadata, pin, origin, frame, begun, extract, redaction, or
    a word of the agent or the manager. `details` has the entries that an entry hides, clears or
    goes back to. `extra` is the agent's own data. `asked_at` is the last entry that a reply's
    request had read. `answers` is the entry of the call that a message answers, and the call's
    number there, from 0. `cleared` are pairs of a block and the entry that cleared it. `speaker`
    and `tools` are as in a message of the view.
    """

    seq: int
    kind: str
    format: str | None
    role: str | None
    speaker: str | None
    tools: list[Text]
    content: Any
    ts: int | None
    happened_at: Time
    recorded_at: Time
    message_id: str | None
    client_id: str | None
    model: str | None
    usage: Any
    compaction_id: str | None
    note: str | None
    target: int | None
    details: Any
    extra: Any
    asked_at: int | None
    answers: list[int] | None
    visible: bool
    hidden_by: int | None
    hiders: list[HiderRow]
    condense_parent: int | None
    truncation_parent: int | None
    rewound_by: int | None
    uncovered_by: int | None
    cleared: list[list[int]]
    redacted: bool


class Entries(Document):
    """A page of the log, all pages as of one moment. `next` is the `after` of the next page."""

    entries: list[EntryRow]
    next: str | None


class Difference(Document):
    """The differences between the view after entry `old` and the view after entry `new`.

    `cleared` and `restored` are pairs of a seq and a block.
    """

    session_id: str
    old: int
    new: int
    left: list[MessageRow]
    came: list[MessageRow]
    cleared: list[list[int]]
    restored: list[list[int]]


RowT = TypeVar("RowT", bound=MessageRow | EntryRow)


PAGE_BYTES: Final = 1_000_000
"""The most bytes of content that a page holds, unless its first row alone holds more."""


def within_bytes(rows: Iterable[RowT], most: int = PAGE_BYTES) -> Iterator[RowT]:
    """The first rows whose contents together take at most so many bytes of JSON; at least one."""
    total = 0
    for row in rows:
        size = len(json.dumps(row.content))
        if total and total + size > most:
            return
        total += size
        yield row


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The `newest` rows, or all, of those after entry `after` with one of these roles and kinds.

    Roles are compared with the speaker, so `tool` selects the outputs of tools. Without roles or
    kinds, all of them are selected. The contents of the newest rows take at most `most_bytes`,
    unless the newest row alone takes more.
    """

    newest: int | None = None
    most_bytes: int | None = None
    after: int = 0
    roles: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    reverse: bool = False

    def of(self, rows: Iterable[RowT]) -> Iterator[RowT]:
        """The selected rows. They are read one by one unless the order or number needs them all."""
        selected: Iterator[RowT] = filter(self._has, rows)
        if self.newest is None:
            return reversed([*selected]) if self.reverse else selected
        newest: Iterator[RowT] = reversed(deque(selected, maxlen=self.newest))
        if self.most_bytes is not None:
            newest = within_bytes(newest, self.most_bytes)
        return newest if self.reverse else reversed([*newest])

    def _has(self, row: "MessageRow | EntryRow") -> bool:
        return (
            row.seq > self.after
            and (not self.roles or row.speaker in self.roles)
            and (not self.kinds or row.kind in self.kinds)
        )


EVERYTHING = Selection()


def effective_history(
    chat: "Session",
    model: str | None,
    *,
    as_of: int | datetime | None = None,
    recorded: bool = False,
    selection: Selection = EVERYTHING,
) -> Shown:
    """The effective history, now or at an earlier point, or a selection of it."""
    view = chat.view(as_of=as_of, recorded=recorded)
    then = None if as_of is None else view.seq
    return Shown.of(
        view,
        session_id=chat.id,
        title=chat.info().title,
        context=gauge.counted_gauge(chat, model, as_of=then),
        visible_messages=len(view.messages),
        messages=list(selection.of(message_rows(view.messages))),
    )


def streamed_history(chat: "Session", model: str | None) -> tuple[Shown, Iterator[MessageRow]]:
    """The whole effective history now, with its messages as an iterator."""
    start = chat.view(limit=1)
    header = Shown.of(
        start,
        session_id=chat.id,
        title=chat.info().title,
        context=gauge.counted_gauge(chat, model),
        visible_messages=chat.stats().visible_messages,
        messages=[],
    )
    pages = chat.internals.pages(as_of=start.seq)
    return header, message_rows(message for page in pages for message in page.messages)


def message_rows(messages: Iterable["Message"]) -> Iterator[MessageRow]:
    """The messages of a view, each with its speaker."""
    speakers = Speakers()
    return (message_row(message, speakers) for message in messages)


def audit_rows(chat: "Session", selection: Selection = EVERYTHING) -> Iterator[EntryRow]:
    """The selected rows of the audit, one after the other."""
    after = selection.after
    if selection.newest is not None and not (selection.roles or selection.kinds):
        after = max(after, chat.info().last_seq - selection.newest)
    entries = chat.audit(after=max(0, after - CALLED_WITHIN))
    return selection.of(spoken_rows(entries, after + 1))


def some_entries(
    chat: "Session", first: int = 1, limit: int = 20, *, after: str | None = None
) -> Entries:
    """A page: at most so many entries from one on, and no more than `PAGE_BYTES` of content.

    `after` is the `next` of the page before, which replaces `first`.
    """
    name, moment = f"audit of {chat.id}", None
    if after is not None:
        moment, last = read_cursor(name, after, int, int)
        first = max(1, last + 1)
    moment = chat.info().last_seq if moment is None else moment
    rows = [*islice(within_bytes(rows_from(chat, first, as_of=moment)), limit)]
    is_last = not rows or rows[-1].seq >= moment
    following = None if is_last else write_cursor(name, moment, rows[-1].seq)
    return Entries(entries=rows, next=following)


def rows_from(chat: "Session", first: int, *, as_of: int) -> Iterator[EntryRow]:
    """The entries from one on, as of a moment, read a few at a time."""
    before = max(0, first - 1 - CALLED_WITHIN)
    pages = chat.internals.audit_pages(_READ_AT_ONCE, after=before, as_of=as_of)
    return spoken_rows((entry for page in pages for entry in page), first)


def spoken_rows(entries: Iterable[AuditEntry], first: int) -> Iterator[EntryRow]:
    """The entries from one on. In those before it, only calls of tools are looked for."""
    speakers = Speakers()
    for entry in entries:
        if entry.seq < first:
            speakers.heard(entry)
        else:
            yield entry_row(entry, speakers)


def one_entry(chat: "Session", seq: int) -> EntryRow:
    """One entry; MessageNotFound if there is none with this number."""
    last = chat.info().last_seq
    if not 1 <= seq <= last:
        raise no_entry(seq, last)
    return next(rows_from(chat, seq, as_of=last))


def text_in(row: EntryRow | MessageRow | AuditEntry) -> str | None:
    """The text of a message or a summary; None for an entry of another kind."""
    if row.role is None:
        return None
    form = row.entry.format if isinstance(row, AuditEntry) else row.format
    return text_of(reader(form or "").blocks(row.role, row.content)[1])


def difference(
    chat: "Session", old: int | datetime, new: int | datetime | None, *, recorded: bool = False
) -> Difference:
    """The difference of two views."""
    diff = chat.diff(old, new, recorded=recorded)
    left = _named_rows(chat, diff.left, diff.old)
    came = _named_rows(chat, diff.came, diff.new)
    return Difference.of(diff, session_id=chat.id, left=left, came=came)


def last_row(chat: "Session", *, as_of: int | None = None) -> MessageRow | None:
    """The last message of a view."""
    rows = [*message_rows(chat.view(as_of=as_of, last=_NEAR).messages)]
    return rows[-1] if rows else None


def _named_rows(chat: "Session", messages: Sequence["Message"], as_of: int) -> list[MessageRow]:
    """Messages of a view. The calls of their outputs may be in earlier messages."""
    speakers = Speakers()
    if messages:
        for message in chat.view(as_of=as_of, before=messages[0].seq, last=_NEAR).messages:
            speakers.named(message.role, message.content, message.format)
    return [message_row(message, speakers) for message in messages]


def message_row(message: "Message", speakers: Speakers) -> MessageRow:
    """A message of a view. The speakers have seen the messages before it."""
    speaker, tools = speakers.named(message.role, message.content, message.format)
    shortened = [part.block for part in message.shortened]
    return MessageRow.of(message, speaker=speaker, tools=tools, shortened=shortened)


def entry_row(audited: AuditEntry, speakers: Speakers) -> EntryRow:
    """An entry of the audit. The speakers have seen the entries before it."""
    speaker, tools = speakers.heard(audited)
    return EntryRow.of(audited, audited.entry, speaker=speaker, tools=tools)
