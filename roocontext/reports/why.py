"""Why the model does or does not see an entry, and what would bring it back."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.reports.document import Document, Text, Time
from roocontext.reports.history import EntryRow, one_entry, text_in

if TYPE_CHECKING:
    from roocontext import Session


class Reason(Document):
    """An entry that hides, clears or takes back another, and how that is reversed.

    `text` is that of a summary or marker, which the model sees instead; `policy` made it. `trigger`
    is manual, auto, or what the agent recorded. A clearing that is `partial` leaves the head and
    the tail of the output. The entry is reversed by uncovering entry `uncover`, or else by a rewind
    to entry `rewind_to`, the last one before it.
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
    """Whether the model sees an entry now, and if not, or not as it was written, why.

    The `reasons` come in the order in which they have to be reversed: a summary may itself be
    hidden by another. An entry that is not `shown_to_models` is no message, so no model ever sees
    it.
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
    """Why the model does or does not see an entry."""
    row = one_entry(chat, seq)
    reasons = {one.seq: one for one in _reasons(chat, row)}
    return Why(
        session_id=chat.id,
        title=chat.info().title,
        seq=seq,
        kind=row.kind,
        speaker=row.speaker,
        shown_to_models=row.kind in MESSAGE_KINDS,
        visible=row.visible,
        redacted=row.redacted,
        reasons=list(reasons.values()),
    )


def _reasons(chat: "Session", row: EntryRow) -> Iterator[Reason]:
    """What hides or clears a row, each after what hides that one in turn."""
    for hider in row.hiders:
        acting = one_entry(chat, hider.seq)
        is_uncovered = hider.kind in (Kind.SUMMARY, Kind.MARKER, Kind.COVERING, Kind.CLEARING)
        if is_uncovered and hider.kind != Kind.CLEARING:
            yield from _reasons(chat, acting)
        record = acting.details.get("record", {})
        yield Reason(
            seq=hider.seq,
            kind=hider.kind,
            happened_at=hider.happened_at,
            recorded_at=hider.recorded_at,
            trigger=hider.trigger,
            policy=record.get("policy") if isinstance(record.get("policy"), str) else None,
            text=text_in(acting),
            partial=any(kept[0] == row.seq for kept in acting.details.get("keeps", ())),
            uncover=hider.seq if is_uncovered else None,
            rewind_to=None if is_uncovered else hider.seq - 1,
        )
