"""The messages of a session: the effective history, the audit, the difference of two views."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from roocontext.reports import gauge
from roocontext.reports.document import Document, as_json
from roocontext.reports.gauge import Gauge

if TYPE_CHECKING:
    from roocontext import AuditEntry, Message, Session
    from roocontext.store.verify import Progress


class MessageRow(Document):
    """A message as the model sees it: cleared blocks hold their placeholder."""

    seq: int
    kind: str
    role: str
    content: Any
    format: str
    ts: int | None
    recorded_at: int
    message_id: str | None
    compaction_id: str | None
    cleared: list[int]


class Shown(Document):
    """The effective history right after entry `seq`."""

    session_id: str
    title: str | None
    seq: int
    head_seq: int
    context: Gauge
    messages: list[MessageRow]


class HiderRow(Document):
    """An entry that hides, takes back or clears another.

    `trigger` is manual, auto, or what the agent recorded.
    """

    seq: int
    kind: str
    recorded_at: int
    trigger: str | None


class EntryRow(Document):
    """An entry of the log as it was written, and whether the model sees it now.

    `kind` is message, summary, marker, companion, clearing, rewind, uncovering or note. `note` is
    what a note is about: title, metadata, pin, origin, frame, begun, redaction, or a word of the
    agent's or the manager's.
    `details` is what an entry hides, clears or goes back to. `extra` is the agent's own data,
    `asked_at` the last entry that a reply's request had read, `answers` the call that an answer
    answers: its entry and its block. `cleared` are pairs of a block and the entry that cleared it.
    """

    seq: int
    kind: str
    format: str | None
    role: str | None
    content: Any
    ts: int | None
    recorded_at: int
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


class Difference(Document):
    """How the view after entry `new` differs from that after entry `old`.

    `cleared` and `restored` are pairs of a seq and a block.
    """

    session_id: str
    old: int
    new: int
    left: list[MessageRow]
    came: list[MessageRow]
    cleared: list[list[int]]
    restored: list[list[int]]


def effective_history(
    chat: "Session",
    model: str | None,
    *,
    as_of: int | datetime | None = None,
    progress: "Progress" = gauge.silent,
) -> Shown:
    """The effective history at some time."""
    view = chat.view(as_of=as_of)
    then = None if as_of is None else view.seq
    return Shown(
        session_id=chat.id,
        title=chat.info().title,
        seq=view.seq,
        head_seq=view.head_seq,
        context=gauge.counted_gauge(chat, model, as_of=then, progress=progress),
        messages=[message_row(message) for message in view.messages],
    )


def audit_rows(chat: "Session", *, after: int = 0) -> Iterator[EntryRow]:
    """The rows of the audit, one after the other."""
    return map(entry_row, chat.audit(after=after))


def difference(chat: "Session", old: int | datetime, new: int | datetime | None) -> Difference:
    """The difference of two views."""
    found = chat.diff(old, new)
    return Difference(
        session_id=chat.id,
        old=found.old,
        new=found.new,
        left=[message_row(message) for message in found.left],
        came=[message_row(message) for message in found.came],
        cleared=[list(block) for block in found.cleared],
        restored=[list(block) for block in found.restored],
    )


# Rows are not validated: there may be 100,000 of them, and what an agent recorded as a plan's
# trigger need not be text.


def message_row(message: "Message") -> MessageRow:
    """A message of a view."""
    return MessageRow.model_construct(**as_json(message))


def entry_row(found: "AuditEntry") -> EntryRow:
    """An entry of the audit."""
    row = as_json(found)
    hiders = [HiderRow.model_construct(**one) for one in row.pop("hiders")]
    del row["hider"]
    return EntryRow.model_construct(**{**row.pop("entry"), **row, "hiders": hiders})
