"""Committing a plan: check it under the session's lock, write its rows, renew the caches."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select

from roocontext.errors import InvalidPlan, VersionConflict
from roocontext.log.committed import Committed
from roocontext.log.draft import Draft, Salts, control_draft, details_of, message_draft
from roocontext.log.encoding import decode
from roocontext.log.entries import (
    POSITION_BITS,
    BlockRef,
    Control,
    Kind,
    Range,
    common,
    subtract,
)
from roocontext.log.pairs import Links, Tools, bound, links_of, matched, reach, tools_from
from roocontext.log.plan import Action, Plan, check_hides, place
from roocontext.log.readings import reader
from roocontext.log.spans import Span, clearings_of, standing_ranges, within
from roocontext.store.append import Receipt, refuse_taken
from roocontext.store.caches import read_tail, write_controls
from roocontext.store.count import Counted, keep
from roocontext.store.head import SessionHead, lock, read_head
from roocontext.store.notes import (
    Drafted,
    pins_query,
    redactions_query,
    to_pins,
    to_redacted,
    write_note,
)
from roocontext.store.schema import AFTER_SEQ, IN_LOG, entries
from roocontext.store.transaction import Transaction
from roocontext.store.view import IS_MESSAGE, VISIBLE_SPANS, bounds
from roocontext.store.view import counted as messages_in

_in_session = entries.c.session_id == bindparam("session_id")
_LAST_MESSAGE = (
    select(entries.c.seq)
    .where(_in_session, entries.c.seq.between(bindparam("lo"), bindparam("hi")), IS_MESSAGE)
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_TOOLS = (
    select(entries.c.seq, entries.c.tools, entries.c.answers_seq, entries.c.answers_block)
    .where(
        _in_session,
        entries.c.seq.between(bindparam("lo"), bindparam("hi")),
        entries.c.tools.is_not(None),
    )
    .order_by(entries.c.seq)
)
_CONTENT = select(entries.c.format, entries.c.content).where(
    _in_session, entries.c.seq == bindparam("seq"), IS_MESSAGE
)
# Among the control rows, which are few: an index would be paid for by every summary.
_COMPACTION = (
    select(entries.c.seq)
    .where(
        _in_session,
        entries.c.details.is_not(None),
        entries.c.compaction_id == bindparam("compaction_id"),
        IN_LOG,
    )
    .limit(1)
)
_CONTROL_AFTER = (
    select(entries.c.seq).where(_in_session, entries.c.details.is_not(None), AFTER_SEQ).limit(1)
)


def commit(
    tx: Transaction,
    session_id: str,
    plan: Plan,
    *,
    now: int,
    salts: Salts,
    new_id: Callable[[], str],
    dry_run: bool = False,
    new_notes: Sequence[Drafted] = (),
    counted: Counted,
) -> Committed:
    """Write what a plan says, if the session is still what it was planned on, and the notes.

    Counts that the planner has made are kept with it: a transaction of their own would cost as
    much as the plan's.
    """
    if plan.session_id not in (None, session_id):
        raise InvalidPlan(f"The plan was made for session {plan.session_id!r}.")
    head = (read_head if dry_run else lock)(tx, session_id)
    _check_still(tx, session_id, plan, head)
    done, _ = commit_on(
        tx, session_id, plan, head, now=now, salts=salts, new_id=new_id, dry_run=dry_run
    )
    if not dry_run:
        for note in new_notes:
            write_note(tx, session_id, note)
        keep(tx, session_id, counted.at(done.rows))
    return done


def commit_on(
    tx: Transaction,
    session_id: str,
    plan: Plan,
    head: SessionHead,
    *,
    now: int,
    salts: Salts,
    new_id: Callable[[], str],
    dry_run: bool = False,
) -> tuple[Committed, list[Receipt]]:
    """Write what a plan says to a session that is at this head; the receipts of its entries too."""
    state = _State(tx, session_id, head, plan)
    compaction_id = plan.compaction_id
    if compaction_id is not None:
        _check_id_is_new(tx, session_id, compaction_id)
    elif not dry_run and plan.action is not Action.CLEAR:
        compaction_id = new_id()
    if plan.action is Action.CLEAR:
        _check_clears(state, plan)
        hidden = 0
        drafts, placed = [_clearing(plan, head, now)], [_clears(plan, head)]
    else:
        hidden = _check_hiding(state, plan)
        placed = _placed(state, plan)
        drafts = _rows(plan, placed, compaction_id, now, salts)
    committed = Committed(
        session_id,
        plan.action,
        head.last_seq + 1 + plan.lead,
        None,
        head.last_seq + len(drafts),
        compaction_id,
        tuple(control.seq for control in placed if control.kind is not Kind.CLEARING),
        hidden,
        len(plan.clears),
        dry_run=dry_run,
    )
    refuse_taken(tx, session_id, drafts)
    if dry_run:
        return committed, []
    tail = state.tail
    receipts = write_controls(
        tx, session_id, head, drafts, tail=tail, present=tail.followed_by(placed)
    )
    return replace(committed, hash=receipts[-1].hash), receipts


class _State:
    """What the checks of a plan ask of a session: its view, its pins, and the end of its log.

    The end begins before the first row that the plan speaks of: no earlier row is looked at.
    """

    def __init__(self, tx: Transaction, session_id: str, head: SessionHead, plan: Plan) -> None:
        self.tx = tx
        self.session_id = session_id
        self.head = head
        self.tail, (pins, self.redactions, shown) = read_tail(
            tx,
            session_id,
            head.last_seq,
            min(seq for seq, _ in (*plan.hides, *plan.clears)),
            [
                pins_query(session_id, head.last_seq),
                redactions_query(session_id, head.last_seq),
                (VISIBLE_SPANS, {"session_id": session_id}),
            ],
        )
        self.spans = self._spans()
        # Of what is before the end, the cache says what is visible.
        before = [part for row in shown for part in Span(*row).cut([(1, self.tail.since - 1)])]
        visible = [*before, *(span for span in self.spans if span.visible)]
        self.visible = sorted(visible, key=lambda span: span.position)
        self.visible_ranges = tuple(sorted((s.lo, s.hi) for s in visible))
        self.ranges = standing_ranges(self.tail.controls, head.last_seq)
        self.pins = {seq for seq in to_pins(pins) if self.stands(seq)}

    def stands(self, seq: int) -> bool:
        """Whether a row counts now: one that the plan may speak of, or a visible one."""
        known = self.ranges if seq >= self.tail.since else self.visible_ranges
        return within(known, seq)

    @property
    def standing(self) -> list[Span]:
        """Those parts of it that stand somewhere: a rewind goes with the span before it."""
        return [part for span in self.spans for part in span.cut(self.ranges)]

    def from_row(self, first: int) -> None:
        """Let the end begin before this row too."""
        if first <= self.tail.since:
            self.tail, _ = read_tail(self.tx, self.session_id, self.head.last_seq, first)
            self.ranges = standing_ranges(self.tail.controls, self.head.last_seq)
            self.spans = self._spans()

    def _spans(self) -> list[Span]:
        """The spans of the end, up to the last entry."""
        return [part for s in self.tail.spans() for part in s.cut([(1, self.head.last_seq)])]

    def tools(self, parts: Sequence[Span]) -> list["_ToolRow"]:
        """The messages in these parts of the view that call tools or answer calls, in order."""
        queries = bounds(self.session_id, [(part.lo, part.hi) for part in parts])
        found = self.tx.all([(_TOOLS, query) for query in queries])
        return [
            _ToolRow(part.at(seq), seq, tools_from(tools), call and (call, block))
            for part, rows in zip(parts, found, strict=True)
            for seq, tools, call, block in rows
        ]


class _ToolRow(NamedTuple):
    position: int
    seq: int
    tools: Tools
    answers: BlockRef | None


def _links(rows: Sequence[_ToolRow]) -> Links:
    return links_of((row.seq, row.answers) for row in rows)


def _check_still(tx: Transaction, session_id: str, plan: Plan, head: SessionHead) -> None:
    """Only appends may have come since the plan was made."""
    if plan.head_seq == head.head_seq:
        return
    moved = plan.head_seq > head.head_seq
    if moved or tx.row(_CONTROL_AFTER, session_id=session_id, seq=plan.head_seq):
        raise VersionConflict(
            f"The plan was made on head {plan.head_seq}, but it is {head.head_seq}.",
            expected=plan.head_seq,
            actual=head.head_seq,
        )


def _check_id_is_new(tx: Transaction, session_id: str, compaction_id: str) -> None:
    """Refuse an id that another plan has: what it hides could not be told from the other's."""
    row = tx.row(_COMPACTION, session_id=session_id, compaction_id=compaction_id)
    if row:
        raise InvalidPlan(
            f"Compaction id {compaction_id!r} is that of entry {row[0]}.",
            seq=row[0],
            compaction_id=compaction_id,
        )


def _check_hiding(state: _State, plan: Plan) -> int:
    """Refuse what may not be hidden; how many visible messages are."""
    hidden = common(plan.hides, state.visible_ranges)
    kept = subtract(state.visible_ranges, hidden)
    ends = [end for stretch in plan.hides for end in stretch]
    sides = [hidden, kept, *([(end, end)] for end in ends)]
    here, there, *each = (side[0] for side in messages_in(state.tx, state.session_id, sides))
    if not plan.compat:
        _check_no_split(state, hidden, hidden if here <= there else kept)
    pinned = _bound_by_pins(state, partnered=plan.compat)
    messages = {end for end, count in zip(ends, each, strict=True) if count}
    check_hides(plan, state.spans, messages=messages, pinned=pinned)
    _check_not_redacted(state, plan)
    return here


def _check_not_redacted(state: _State, plan: Plan) -> None:
    """A summary made before a redaction may quote what was to go."""
    if plan.seen is None:
        return
    for seq in sorted(to_redacted(state.redactions, after=plan.seen)):
        if within(plan.hides, seq):
            raise InvalidPlan(f"Entry {seq} was redacted after the plan was made.", redacted=seq)


def _bound_by_pins(state: _State, *, partnered: bool) -> set[int]:
    """The live pinned messages, and if a plan might part them, their tool partners."""
    if not state.pins or not partnered:
        return state.pins
    rows = state.tools(state.visible)
    groups = bound(matched([row.tools for row in rows], _links(rows)))
    return state.pins | {
        rows[other].seq
        for index, row in enumerate(rows)
        if row.seq in state.pins
        for other in groups.get(index, ())
    }


def _check_no_split(state: _State, hidden: Sequence[Range], smaller: Sequence[Range]) -> None:
    """No tool call may be separated from its result.

    A separated pair shows from either side, so the smaller one is read. Of the other side only
    those stretches are, where a loose call or result of the smaller may have its partner.
    """
    larger = subtract(state.visible_ranges, smaller)
    here, there = (
        [part for span in state.visible for part in span.cut(side)] for side in (smaller, larger)
    )
    starts = [part.position for part in there]
    rows = state.tools(here)
    before = [bisect_left(starts, row.position) for row in rows]
    stretches = reach([row.tools for row in rows], before, len(there), _links(rows))
    if not stretches:
        return
    rows = sorted([*rows, *state.tools(there[stretches.start : stretches.stop])])
    for pair in matched([row.tools for row in rows], _links(rows)):
        call, result = rows[pair.call[0]].seq, rows[pair.result[0]].seq
        if within(hidden, call) != within(hidden, result):
            raise InvalidPlan(
                f"It would separate the tool call in entry {call} from its result in {result}.",
                call=call,
                result=result,
            )


def _check_clears(state: _State, plan: Plan) -> None:
    """Only outputs of tools, of live messages that are not pinned, and not cleared before."""
    cleared = clearings_of(state.tail.controls, state.head.last_seq)
    pins = _bound_by_pins(state, partnered=True)
    outputs = {seq: _outputs(state, seq) for seq in {seq for seq, _ in plan.clears}}
    for seq, block in plan.clears:
        visible = within(state.visible_ranges, seq)
        if not state.stands(seq) or not (visible or plan.compat):
            raise InvalidPlan(f"Entry {seq} is not a {'live' if plan.compat else 'visible'} row.")
        if seq in pins:
            raise InvalidPlan(f"Entry {seq} is pinned, or bound to a pin.", pinned=[seq])
        if block not in outputs[seq]:
            raise InvalidPlan(f"Block {block} of entry {seq} is not the output of a tool.")
        if (seq, block) in cleared:
            raise InvalidPlan(f"Block {block} of entry {seq} is cleared already.")


def _outputs(state: _State, seq: int) -> tuple[int, ...]:
    row = state.tx.row(_CONTENT, session_id=state.session_id, seq=seq)
    return reader(row[0]).outputs(decode(row[1])) if row else ()


def _clears(plan: Plan, head: SessionHead) -> Control:
    blocks: tuple[BlockRef, ...] = tuple(sorted(plan.clears))
    return Control(head.last_seq + 1, Kind.CLEARING, clears=blocks, placeholder=plan.placeholder)


def _clearing(plan: Plan, head: SessionHead, now: int) -> Draft:
    details = details_of(_clears(plan, head), _record(plan))
    return control_draft(Kind.CLEARING, details, now=now, client_id=plan.client_id)


def _placed(state: _State, plan: Plan) -> list[Control]:
    """The rows of the plan as control rows, with their positions."""
    first = state.head.last_seq + 1
    behind = _last_hidden(state, plan.hides)
    # A row never stands behind its natural position, so what stands behind this one is not older.
    state.from_row(behind >> POSITION_BITS)
    controls = []
    for index, position in enumerate(place(plan, state.standing, behind, first_seq=first)):
        if index == plan.lead:
            hider = Control(first + index, plan.hider, hides=plan.hides, position=position)
            controls.append(hider)
        else:
            controls.append(Control(first + index, Kind.COMPANION, position=position))
    return controls


def _last_hidden(state: _State, hides: Sequence[Range]) -> int:
    """The largest position of a message in the ranges, whose ends are messages."""
    ends = {hi for _, hi in hides}
    parts = [part for span in state.standing for part in span.cut(hides)]
    last = 0
    for part in sorted(parts, key=lambda part: part.at(part.hi), reverse=True):
        if part.at(part.hi) <= last:
            break
        if part.hi in ends:
            last = part.at(part.hi)
        # A note may be the last entry of a part, and rows may stand between it and the message.
        elif row := state.tx.row(
            _LAST_MESSAGE, **bounds(state.session_id, [(part.lo, part.hi)])[0]
        ):
            last = max(last, part.at(row[0]))
    return last


def _rows(
    plan: Plan, placed: Sequence[Control], compaction_id: str | None, now: int, salts: Salts
) -> list[Draft]:
    record = _record(plan)
    return [
        message_draft(
            message,
            now=now,
            salts=salts,
            kind=control.kind,
            compaction_id=compaction_id,
            details=details_of(control, record if control.kind is plan.hider else {}),
        )
        for message, control in zip(plan.rows, placed, strict=True)
    ]


def _record(plan: Plan) -> dict[str, Any]:
    """What is kept of a plan beside what it decides."""
    measured = plan.counts.record() if plan.counts else {}
    return {**plan.record, **measured, "policy": plan.policy, "trigger": plan.trigger}
