"""The situation that a plan would leave behind, without committing it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from roocontext.log.clearing import shown_in, with_cleared
from roocontext.log.entries import Kind, Message, NewMessage, natural_position
from roocontext.log.plan import Action, Plan, place
from roocontext.log.spans import Span, within
from roocontext.policies.make_plan import blocks_by_row
from roocontext.policies.situation import Row, Situation


def situation_after(situation: Situation, plan: Plan, *, last_seq: int) -> Situation:
    """The situation that a plan leaves behind, the log having ended at `last_seq`."""
    if plan.action is Action.CLEAR:
        by_row = blocks_by_row(plan.clears)
        rows = tuple(_cleared(situation, plan, by_row, row) for row in situation.rows)
        return replace(situation, rows=rows, head_seq=last_seq + 1)
    name = f"plan-{last_seq + 1 + plan.lead}"
    new = list(_new_rows(situation, plan, name, last_seq))
    rows = tuple(_tagged(row, plan, name) for row in situation.rows)
    at = _place(rows, plan, last_seq)
    return replace(
        situation, rows=(*rows[:at], *new, *rows[at:]), head_seq=last_seq + len(plan.rows)
    )


def _cleared(
    situation: Situation, plan: Plan, by_row: Mapping[int, Sequence[int]], row: Row
) -> Row:
    blocks = by_row.get(row.seq)
    if not blocks:
        return row
    shown = shown_in(plan.placeholder, blocks, plan.keeps, row.seq)
    message = with_cleared(row.message, shown)
    size = situation.measure(message.role, message.content, message.format)
    return replace(row, message=message, size=size)


def _tagged(row: Row, plan: Plan, name: str) -> Row:
    if not within(plan.hides, row.seq):
        return row
    if plan.action is Action.CONDENSE:
        return replace(row, condense_parent=name)
    return replace(row, truncation_parent=name)


def _place(rows: Sequence[Row], plan: Plan, last_seq: int) -> int:
    """The index of the plan's first row, by the rule that a commit places it by."""
    spans = [Span(row.seq, row.seq, natural_position(index)) for index, row in enumerate(rows)]
    hidden = [span.position for span in spans if within(plan.hides, span.lo)]
    if not hidden:  # no row that is known: the commit will refuse it, a preview shows it at the end
        return len(rows)
    first, *_ = place(plan, spans, max(hidden), first_seq=last_seq + 1)
    return sum(span.position < first for span in spans)


def _new_rows(situation: Situation, plan: Plan, name: str, last_seq: int) -> Iterator[Row]:
    for index, row in enumerate(plan.rows):
        kind = plan.hider if index == plan.lead else Kind.COMPANION
        message = _message(row, kind, name, last_seq + 1 + index, situation.now)
        yield Row(message, situation.measure(row.role, row.content, row.format))


def _message(row: NewMessage, kind: Kind, name: str, seq: int, now: int) -> Message:
    """A row of a plan; the plan's name binds it to the others, as the compaction id will."""
    return Message(seq, kind, row.role, row.content, row.format, row.ts, now, row.message_id, name)
