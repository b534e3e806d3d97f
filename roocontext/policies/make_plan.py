"""Builds plans with their counts from the rows to hide and the rows that replace them.

Which rows stay: the newest parts that fit, and what must stay regardless of its age.

A part is a tuple of rows that stay or leave together, held ones apart. Parts are given oldest
first, no group is in two of them, and the last one always stays.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from roocontext.log.clearing import ShownOutput, by_row, shown_in, with_cleared
from roocontext.log.counting import FREE, Budget, Size
from roocontext.log.entries import BlockRef, Kept, Kind, NewMessage, Range, ranges_of
from roocontext.log.plan import LEFT_OUT, Action, Counts, Plan
from roocontext.log.readings import Block, RoleAndBlocks, read_message, reader, text_of
from roocontext.log.summary import (
    OutgoingMessage,
    Summary,
    hidden_in,
    hidden_line,
    without_hidden_line,
)
from roocontext.policies.layout import Layout, joined, total_size
from roocontext.policies.situation import Ready, Refused, Row, Situation, Totals

HEADING: Final = "[Summary of the conversation up to here]"
"""The first line of a summary in the view."""


def say(situation: Situation, role: str, text: str) -> NewMessage:
    """A message of the user or assistant in the format of the newest row."""
    format_ = situation.visible[-1].message.format if situation.visible else "anthropic"
    return NewMessage(*reader(format_).compose(role, text), format_)


def summary_row(situation: Situation, text: str, hides: Collection[int] = ()) -> NewMessage:
    """The row of a summary."""
    words = f"{HEADING}\n\n{without_hidden_line(text).strip()}"
    return say(situation, "user", naming_hidden(situation, words, hides))


def naming_hidden(situation: Situation, text: str, hides: Collection[int]) -> str:
    """The text of a summary. If the model has the tools to read what it hides, the end says so."""
    hidden = _hidden_messages(situation, hides) if situation.recall else None
    return f"{without_hidden_line(text)}\n\n{hidden_line(hidden)}" if hidden else text


def _hidden_messages(situation: Situation, hides: Collection[int]) -> Range | None:
    """From the first to the last message that would be hidden, by earlier summaries too."""
    away = set(hides)
    seqs: list[int] = []
    for row in situation.visible:
        if row.seq not in away:
            continue
        if row.message.kind is Kind.SUMMARY:
            seqs += hidden_in(_text(row)) or ()
        elif row.message.kind is Kind.MESSAGE:
            seqs.append(row.seq)
    return (min(seqs), max(seqs)) if seqs else None


def summarised_before(rows: Iterable[Row]) -> str | None:
    """The text of the summaries among these rows, which the next summary updates."""
    summaries = outgoing(row for row in rows if row.message.kind is Kind.SUMMARY)
    texts = (text_of(summary["content"]).removeprefix(HEADING).strip() for summary in summaries)
    return "\n\n".join(texts) or None


def outgoing(rows: Iterable[Row]) -> tuple[OutgoingMessage, ...]:
    """Rows as a summariser gets them: Anthropic's roles and blocks, whatever their format."""
    return tuple({"role": role, "content": blocks} for role, blocks in map(_reading, rows))


def _reading(row: Row) -> RoleAndBlocks:
    message = row.message
    role, blocks = read_message(message)
    if message.kind is Kind.SUMMARY and hidden_in(_text(row)):
        return role, [_without_line(block) for block in blocks]
    return role, blocks


def _without_line(block: Block) -> Block:
    text = block.get("text")
    return {**block, "text": without_hidden_line(text)} if isinstance(text, str) else block


def _text(row: Row) -> str:
    message = row.message
    return text_of(read_message(message)[1])


def measured(situation: Situation, rows: Iterable[NewMessage]) -> Size:
    """The size of new rows together."""
    total = Size()
    for row in rows:
        total = total.plus(situation.measure(row.role, row.content, row.format))
    return total


def hide_plan(
    situation: Situation,
    action: Action,
    hide: Collection[int],
    rows: Sequence[NewMessage],
    *,
    policy: str,
    compat: bool = False,
    lead: int = 0,
    at_end: bool = False,
    record: Mapping[str, Any] | None = None,
) -> Plan:
    """A plan that hides these live rows and inserts new ones in their place."""
    away = set(hide)
    gone = total_size(row for row in situation.visible if row.seq in away)
    return _plan(
        situation,
        situation.size.minus(gone).plus(measured(situation, rows)),
        action=action,
        hides=ranges_of(sorted(away)),
        rows=tuple(rows),
        lead=lead,
        at_end=at_end,
        compat=compat,
        policy=policy,
        record=record or {},
    )


def shrinks(plan: Plan) -> bool:
    """True if a plan makes the context smaller. Policies that keep the laws make no other."""
    return plan.counts is not None and plan.counts.shrinks


def condensed(plan: Plan, summary: Summary, status: str = "condensed") -> Ready | Refused:
    """The plan with a summary, unless the summary is empty or larger than what it replaces."""
    if not summary.text.strip():
        return Refused("The summary is empty.", "empty_summary")
    if not shrinks(plan):
        return Refused("The summary is larger than what it replaces.", "inflated_summary")
    return Ready(plan, status)


def clear_plan(
    situation: Situation,
    blocks: Collection[BlockRef],
    placeholder: str,
    *,
    policy: str,
    keeps: Mapping[BlockRef, tuple[int, int]] = MappingProxyType({}),
    compat: bool = False,
    record: Mapping[str, Any] | None = None,
) -> Plan:
    """A plan that replaces these tool outputs by a placeholder.

    `keeps` are how many characters stay of the head and the tail of some of them.
    """
    parts_kept = tuple(Kept(*block, *parts) for block, parts in sorted(keeps.items()))
    return _plan(
        situation,
        size_without(situation, blocks, placeholder, parts_kept),
        action=Action.CLEAR,
        clears=tuple(sorted(blocks)),
        keeps=parts_kept,
        placeholder=placeholder,
        compat=compat,
        policy=policy,
        record=record or {},
    )


def size_without(
    situation: Situation, blocks: Iterable[BlockRef], placeholder: str, keeps: Sequence[Kept] = ()
) -> Size:
    """The size of the request with these tool outputs replaced by a placeholder."""
    return situation.size.minus(saved(situation, blocks, placeholder, keeps))


def saved(
    situation: Situation, blocks: Iterable[BlockRef], placeholder: str, keeps: Sequence[Kept] = ()
) -> Size:
    """The saving of clearing these tool outputs, if these parts of them stay."""
    total, cleared = FREE, by_row(shown_in(placeholder, blocks, keeps))
    for row in situation.visible:
        if outputs := cleared.get(row.seq):
            total = total.plus(row.size).minus(cleared_size(situation, row, outputs))
    return total


def cleared_size(situation: Situation, row: Row, blocks: Mapping[int, ShownOutput]) -> Size:
    """The size of a row after these of its outputs are cleared."""
    message = with_cleared(row.message, blocks)
    return situation.measure(message.role, message.content, message.format)


def _plan(situation: Situation, after: Size, **decided: Any) -> Plan:
    """A plan of this situation that leaves a request of this size."""
    return Plan(
        head_seq=situation.head_seq,
        counts=Counts(situation.counter, situation.size, after, situation.exact),
        trigger=situation.trigger,
        session_id=situation.session_id,
        seen=situation.seen,
        **decided,
    )


Part: TypeAlias = tuple[Row, ...]


def marker(situation: Situation) -> NewMessage:
    """The marker in the place of the rows that were left out."""
    return say(situation, "user", LEFT_OUT)


def budget_of(totals: Totals, limit: int | None, reserve: int, cap: int | None = None) -> Budget:
    """The most that a request may cost: `limit` or the model's window, less what is reserved."""
    tokens = max(min(totals.window, totals.window if limit is None else limit) - reserve, 0)
    others = [other for other in (totals.limits.tokens, cap) if other is not None]
    return Budget(min([tokens, *others]), totals.limits.bytes, totals.limits.images)


def whole_turns(layout: Layout) -> list[Part]:
    """The turns, oldest first; turns that share a group are one part."""
    turns = layout.turns
    place = {row.seq: index for index, turn in enumerate(turns) for row in turn.rows}
    bonds = (
        bond for group in layout.groups for bond in pairwise(place[row.seq] for row in group.rows)
    )
    return [
        tuple(row for index in indices for row in turns[index].rows)
        for indices in joined(len(turns), bonds)
    ]


def narrowest(situation: Situation, parts: Sequence[Part], held: Collection[int]) -> Size:
    """The size of the request if only the last part and the held rows stay."""
    last = {row.seq for part in parts[-1:] for row in part}
    stays = (row for row in situation.visible if row.seq in held or row.seq in last)
    return situation.overhead.plus(total_size(stays))


def leaving(
    parts: Sequence[Part], held: Collection[int], spent: Size, budget: Budget
) -> tuple[Row, ...]:
    """The rows that leave when, from the newest on, as many parts stay as the budget holds.

    `spent` is what the last part, what is held and all else that stays costs already.
    """
    older = without(parts[:-1], held)
    while older:
        more = spent.plus(total_size(older[-1]))
        if budget.exceeded_by(more):
            break
        spent = more
        older.pop()
    return tuple(row for part in older for row in part)


def without(parts: Sequence[Part], seqs: Collection[int]) -> list[Part]:
    """The parts without these rows, and without the parts that held no others."""
    left = (tuple(row for row in part if row.seq not in seqs) for part in parts)
    return [part for part in left if part]


def turns_among(layout: Layout, seqs: Collection[int]) -> int:
    """The number of turns that lose rows when these leave; rows before the first are no turn."""
    asked = (turn for turn in layout.turns if turn.question is not None)
    return sum(not turn.seqs.isdisjoint(seqs) for turn in asked)
