"""The documents of answers that no command prints. The others are those of `roocontext.reports`."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from roocontext.reports.document import Document, Text, Time
from roocontext.reports.history import (
    CALLED_WITHIN,
    EntryRow,
    MessageRow,
    rows_from,
    spoken_rows,
    within_bytes,
)
from roocontext.reports.tree import Tree, tree_of
from roocontext.web.api.queries import EntriesQuery

if TYPE_CHECKING:
    from roocontext import Session

_READ_AT_ONCE: Final = 100


class HeadReport(Document):
    """The version of a session. If-Match takes `head_seq`; `seq` is the last entry, notes included.

    A saved `seq` and `hash` reveal that a log was cut off or rewritten.
    """

    session_id: str
    head_seq: int
    seq: int
    hash: str


class SessionReport(Document):
    """A session: its title and metadata, its times and sizes, and whose turn it is.

    `waits_for` is user, tools or model. The other fields are as in the list of sessions.
    """

    session_id: str
    title: str | None
    metadata: Any
    parent: str | None
    created_at: Time
    happened_at: Time
    updated_at: Time
    head_seq: int
    last_seq: int
    waits_for: str
    first_prompt: str | None
    messages: int
    bytes: int
    visible_messages: int
    visible_bytes: int
    hidden_messages: int
    hidden_bytes: int
    rewound_messages: int
    rewound_bytes: int


class TurnReport(Document):
    """The turn of a session: its token, who holds it, and when it ends unless it is renewed."""

    session_id: str
    token: str
    holder: str
    expires_at: Time


class EndedTurn(Document):
    """A turn that was given back."""

    session_id: str


class EntryPage(Document):
    """Some entries of the log, oldest first.

    `previous` is the `before` of the page of older entries, and `next` the `after` of the page of
    newer ones. Either is null if the log has no such entries now.
    """

    entries: list[EntryRow]
    previous: int | None
    next: int | None


class ViewReport(Document):
    """The messages that the model sees right after entry `seq`, or a part of them.

    A request that is based on it sends `head_seq` as If-Match.
    """

    session_id: str
    seq: int
    head_seq: int
    messages: list[MessageRow]


class RepairRow(Document):
    """A change that a provider's rules required, and the message and the block that it concerns."""

    seq: int
    rule: str
    block: int | None


class MessagesReport(Document):
    """The messages that the model sees, as a provider accepts them."""

    session_id: str
    form: str
    model: str | None
    messages: list[Any]
    repairs: list[RepairRow]


class RequestReport(Document):
    """The arguments of the provider's call, in `body`, without the model.

    Give `seq`, `form`, `model`, `names` and `requested` with the reply. `seq` is the last entry
    that was read, `names` are those of tools that the provider refuses, by the names that are sent
    instead, and `requested` is the model's name as it was given. A model with thinking enabled
    would refuse the request if it is `thinking_off`.
    """

    body: dict[str, Any]
    seq: int
    form: str
    model: str | None
    names: dict[str, str]
    requested: str | None
    repairs: list[RepairRow]
    thinking_off: bool


class PendingRow(Document):
    """A tool call that waits for its answer.

    `block` counts the calls of the entry from 0. If it has `begun`, the tool may have run although
    no answer is recorded. If it was `cut_off`, the end of its input may be missing.
    """

    seq: int
    block: int
    id: Text
    name: Text
    input: Any
    begun: bool
    cut_off: bool


class PendingReport(Document):
    """Whose turn it is, user, tools or model, and the tool calls that wait for an answer."""

    session_id: str
    waits_for: str
    pending: list[PendingRow]


class ChangeReceipt(Document):
    """The receipt of what was written, as that of a message."""

    session_id: str
    seq: int
    hash: str
    head_seq: int
    new: bool
    rewound_by: int | None


class ReplyReport(ChangeReceipt):
    """The receipt of a reply.

    If the provider compacted the history in it, `covering` is the entry that hides the messages
    that the provider had read, `hidden` is their number, and `unread` are later messages.
    """

    compacted: bool
    covering: int | None
    hidden: int
    unread: list[int]


class CompactionReceipt(ChangeReceipt):
    """The receipt of a plan of the agent's own.

    `seq` is the summary, marker or clearing, and `seqs` are all entries that were written.
    """

    seqs: list[int]


class CommittedReport(Document):
    """The effect of an agent's own plan: the view loses `hidden` messages and gains `rows`.

    `seq` is the summary, marker or clearing, and `cleared` the number of cleared blocks.
    """

    session_id: str
    action: str
    seq: int
    hash: str | None
    head_seq: int
    compaction_id: str | None
    rows: list[int]
    hidden: int
    cleared: int
    dry_run: bool


class FrameReport(Document):
    """The system prompt and the tool definitions that were recorded last, in `frame`.

    It is null if none were, and has neither if they were redacted.
    """

    session_id: str
    frame: Any


class NoteRow(Document):
    """A note: its kind, the message that it is about, and what it says."""

    seq: int
    note: str
    target: int | None
    content: Any
    recorded_at: Time


class NotesReport(Document):
    """Some notes of a kind, oldest first. `next` is the `after` of the next page."""

    session_id: str
    notes: list[NoteRow]
    next: int | None


class TokensReport(Document):
    """The tokens of a view or of a part of it, and whether the counter is exact."""

    session_id: str
    counter: str
    exact: bool
    tokens: int


class TimelineReport(Tree):
    """The tree of a session, or of a long session the part that its picture shows.

    These are the largest stretches, and the newest of the entries that hide others and of the
    rewinds. `left_out` is the number of those that are not shown.
    """

    left_out: int


class RestoredRow(Document):
    """An entry that was uncovered by the entry `uncovering`, and the tokens of the request then.

    A dry run has no `uncovering`.
    """

    seq: int
    kind: str
    uncovering: int | None
    tokens_after: int


class RestoredReport(Document):
    """The entries that were uncovered, newest first, or would be in a dry run.

    Tokens are those of the whole request, and `room` is how many of them may be used. `stopped_at`
    is the entry that does not fit, and `tokens_needed` the size of the request with it.
    """

    session_id: str
    steps: list[RestoredRow]
    counter: str
    exact: bool
    window: int
    window_source: str
    room: int
    tokens_before: int
    tokens_after: int
    stopped_at: int | None
    tokens_needed: int | None
    reason: str
    dry_run: bool


def head_report(chat: "Session") -> HeadReport:
    """The version of a session, at one moment."""
    while True:
        head, info = chat.head(), chat.info()
        if head.seq == info.last_seq:
            return HeadReport.of(head, head_seq=info.head_seq)


def session_report(chat: "Session") -> SessionReport:
    """A session."""
    return SessionReport.of(chat.info(), chat.stats(), waits_for=chat.waits_for())


def page_of_entries(chat: "Session", query: EntriesQuery) -> EntryPage:
    """A page of the log, as of one moment."""
    last = chat.info().last_seq
    if query.after is not None:
        members = rows_from(chat, query.after + 1, as_of=last) if query.after < last else iter(())
        rows = [*_page(members, query)]
    else:
        end = last if query.before is None else min(query.before - 1, last)
        rows = [*_page(_backwards(chat, end, last), query)][::-1]
    if rows:
        first, end = rows[0].seq, rows[-1].seq
    elif query.after is not None:
        first, end = min(query.after, last) + 1, last
    else:
        first = 1
    return EntryPage(
        entries=rows, previous=first if first > 1 else None, next=end if end < last else None
    )


def _page(rows: Iterator[EntryRow], query: EntriesQuery) -> Iterator[EntryRow]:
    """The first of the rows that are asked for."""
    return within_bytes(islice((row for row in rows if _is_wanted(row, query)), query.limit))


def _is_wanted(row: EntryRow, query: EntriesQuery) -> bool:
    if query.kind and row.kind not in query.kind:
        return False
    if query.role and row.speaker not in query.role:
        return False
    if not query.state:
        return True
    if row.visible:
        return "visible" in query.state
    if row.hidden_by is None:  # notes and rewinds are never visible, and nothing hides them
        return False
    return ("hidden" if row.rewound_by is None else "rewound") in query.state


def _backwards(chat: "Session", end: int, as_of: int) -> Iterator[EntryRow]:
    """The entries from one on, newest first."""
    read = chat.internals.audited(as_of=as_of)
    while end > 0:
        first = max(1, end - _READ_AT_ONCE + 1)
        before = max(0, first - 1 - CALLED_WITHIN)
        yield from reversed([*spoken_rows(read(before, end - before), first)])
        end = first - 1


def timeline_report(chat: "Session", most: int) -> TimelineReport:
    """The tree of a session, of at most so many marks."""
    tree = tree_of(chat)
    acts = sorted([*(act.seq for act in tree.hidings), *(act.seq for act in tree.rewinds)])
    room = max(most // 4, most - len(acts))
    largest = sorted(tree.stretches, key=lambda one: one.lo - one.hi)[:room]
    stretches = sorted(largest, key=lambda one: one.lo)
    newest = {*acts[max(0, len(acts) + len(stretches) - most) :]}
    hidings = [hiding for hiding in tree.hidings if hiding.seq in newest]
    rewinds = [rewind for rewind in tree.rewinds if rewind.seq in newest]
    marks = len(stretches) + len(hidings) + len(rewinds)
    left_out = len(tree.stretches) + len(acts) - marks
    parts = {"stretches": stretches, "hidings": hidings, "rewinds": rewinds}
    return TimelineReport.of(tree, **parts, left_out=left_out)
