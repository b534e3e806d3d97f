"""Why the model does or does not see an entry, and what would bring it back."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from roocontext.log.compactions import compactions_in
from roocontext.log.draft import UNCOVERED
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.reports.document import Document, Text, Time
from roocontext.reports.history import EntryRow, one_entry, text_in
from roocontext.store.reading.notes import EXTRACT

if TYPE_CHECKING:
    from roocontext import Session


class Reason(Document):
    """An entry that hides, clears or takes back another, and how to reverse it.

    `text` is the text of a summary, marker or compaction, which the model sees instead; `policy`
    made it. Of a compaction that only its model can read, it is the extract of what it hides.
    `trigger` is manual, auto, or the agent's own word. A `partial` clearing leaves the head and the
    tail of the output. To reverse the entry, uncover entry `uncover`, or rewind to entry
    `rewind_to`, the last entry before it.
    """

    seq: int
    kind: str
    happened_at: Time
    recorded_at: Time
    trigger: Text | None
    policy: Text | None
    text: Text | None
    partial: bool
    uncover: int | None
    rewind_to: int | None


class Why(Document):
    """The reasons why the model does not see an entry now, or not as it was written.

    The `reasons` come in the order in which they have to be reversed: a summary may itself be
    hidden by another. If an entry is not `shown_to_models`, it is not a message, and no model ever
    sees it.
    """

    session_id: str
    title: str | None
    seq: int
    kind: str
    speaker: str | None
    shown_to_models: bool
    visible: bool
    redacted: bool
    reasons: list[Reason]


def why(chat: "Session", seq: int) -> Why:
    """Explain why the model does or does not see an entry."""
    row = one_entry(chat, seq)
    reasons = {reason.seq: reason for reason in _reasons(chat, row)}
    return Why.of(
        *(row, chat.info()),
        shown_to_models=row.kind in MESSAGE_KINDS,
        reasons=list(reasons.values()),
    )


def _reasons(chat: "Session", row: EntryRow) -> Iterator[Reason]:
    """The entries that hide or clear a row, each after the entries that hide it in turn."""
    for hider in row.hiders:
        acting = one_entry(chat, hider.seq)
        is_uncovered = hider.kind in UNCOVERED
        if is_uncovered and hider.kind != Kind.CLEARING:
            yield from _reasons(chat, acting)
        record = acting.details.get("record", {})
        yield Reason.of(
            hider,
            policy=record.get("policy") if isinstance(record.get("policy"), str) else None,
            text=_text(chat, acting),
            partial=any(kept[0] == row.seq for kept in acting.details.get("keeps", ())),
            uncover=hider.seq if is_uncovered else None,
            rewind_to=None if is_uncovered else hider.seq - 1,
        )


def _text(chat: "Session", acting: EntryRow) -> str | None:
    """The text that replaces what an entry hides, or an extract of what it hides."""
    if acting.kind != Kind.COVERING:
        return text_in(acting)
    seq, block = acting.details["source"]
    reply = one_entry(chat, seq)
    for compaction in compactions_in(reply.format or "", reply.content):
        if compaction.block == block and compaction.text is not None:
            return compaction.text
    extract = chat.newest_note(EXTRACT, target=seq)
    return None if extract is None else str(extract.content["text"]) or None
