"""Committing a plan: check it under the session's lock, write its rows, renew the caches."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import bindparam

from roocontext.errors import InvalidPlan, VersionConflict
from roocontext.log.check_plan import check_hides
from roocontext.log.clearing import measure, output_blocks, shown_by
from roocontext.log.draft import Sources, control_draft, details_of, message_draft
from roocontext.log.encoding import decode
from roocontext.log.entries import POSITION_BITS, Control, Kind, Range, common, subtract
from roocontext.log.plan import Action, Committed, Plan, place_rows
from roocontext.log.readings import reader
from roocontext.log.spans import clearings_of, within
from roocontext.store.engine.schema import AFTER_SEQ, AT_SEQ, IN_LOG, IN_RANGE, entries, log_rows
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import HEAD, LOCKED_HEAD, SessionHead
from roocontext.store.reading.messages import IS_MESSAGE
from roocontext.store.reading.notes import to_redacted
from roocontext.store.reading.totals import totals_of
from roocontext.store.writing.append import Receipt, refuse_taken
from roocontext.store.writing.caches import Decided, write_decided
from roocontext.store.writing.commit_state import CommitState, bound_by_pins, check_no_split
from roocontext.store.writing.kept_counts import Counted, keep_counts
from roocontext.store.writing.notes import Drafted, write_note

_SEQ = log_rows("seq").limit(1)
_LAST_MESSAGE = _SEQ.where(IN_RANGE, IS_MESSAGE).order_by(entries.c.seq.desc())
_CONTENT = log_rows("format", "role", "content").where(AT_SEQ, IS_MESSAGE)
# Among the control rows, which are few: every summary would pay for an index.
_COMPACTION = _SEQ.where(
    entries.c.details.is_not(None), entries.c.compaction_id == bindparam("compaction_id"), IN_LOG
)
_CONTROL_AFTER = _SEQ.where(entries.c.details.is_not(None), AFTER_SEQ)


def commit(
    log: SessionLog,
    plan: Plan,
    sources: Sources,
    *,
    dry_run: bool = False,
    new_notes: Sequence[Drafted] = (),
    counted: Counted,
) -> Committed:
    """Write the rows of a plan, if the session is still what it was planned on, and the notes.

    Counts that the planner has made are kept with it: a transaction of their own would cost as
    much as the plan's.
    """
    query = HEAD if dry_run else LOCKED_HEAD
    state = CommitState(log, plan, query)
    _check_still(log, plan, state.head)
    if dry_run:
        return _decide(state, plan, sources, is_named=False).done
    done, _ = commit_on(state, plan, sources)
    for note in new_notes:
        write_note(log, note)
    keep_counts(log, counted.at(done.rows))
    return done


def commit_on(state: CommitState, plan: Plan, sources: Sources) -> tuple[Committed, list[Receipt]]:
    """Write the rows of a plan to a locked session; their receipts too."""
    decision = _decide(state, plan, sources, is_named=True)
    receipts = write_decided(state.log, decision)
    return replace(decision.done, hash=receipts[-1].hash, dry_run=False), receipts


def _decide(
    state: CommitState, plan: Plan, sources: Sources, *, is_named: bool
) -> Decided[Committed]:
    """Check a plan, and place its rows; unless `is_named`, they get no new id of a compaction."""
    compaction_id = plan.compaction_id
    if compaction_id is not None:
        _check_id_is_new(state.log, compaction_id)
    elif is_named and plan.action is not Action.CLEAR:
        compaction_id = sources.new_id()
    measured = plan.counts.record() if plan.counts else {}
    record = {**plan.record, **measured, "policy": plan.policy, "trigger": plan.trigger}
    if plan.action is Action.CLEAR:
        clearing = _checked_clearing(state, plan)
        hidden, placed = 0, [clearing]
        details = details_of(clearing, record)
        client_id, ts = plan.client_id, plan.ts
        drafts = [
            control_draft(Kind.CLEARING, details, now=sources.now, client_id=client_id, ts=ts)
        ]
    else:
        hidden, hides = _check_hiding(state, plan)
        placed = _placed(state, plan, hides)
        drafts = [
            message_draft(
                message,
                sources,
                kind=control.kind,
                compaction_id=compaction_id,
                # Only the row that hides has the record: the others are its companions.
                details=details_of(control, record if control.kind is plan.hider else {}),
            )
            for message, control in zip(plan.rows, placed, strict=True)
        ]
    refuse_taken(state.log, drafts)
    done = Committed.foreseen(plan, state.log.session_id, state.head.last_seq, hidden)
    done = replace(done, compaction_id=compaction_id)
    return Decided(done, state.head, drafts, state.tail, state.tail.followed_by(placed))


def _check_still(log: SessionLog, plan: Plan, head: SessionHead) -> None:
    """Refuse a plan if anything but messages was appended since it was made.

    New messages do not matter to a plan, which names rows by seq. So an agent may append messages
    while a summary is written.
    """
    if plan.head_seq == head.head_seq:
        return
    is_ahead = plan.head_seq > head.head_seq
    if is_ahead or log.row(_CONTROL_AFTER, seq=plan.head_seq):
        raise VersionConflict(
            f"The plan was made on head {plan.head_seq}, but the head is {head.head_seq} now.",
            expected=plan.head_seq,
            actual=head.head_seq,
        )


def _check_id_is_new(log: SessionLog, compaction_id: str) -> None:
    """Refuse the id of another plan: otherwise two plans would claim the same rows."""
    if row := log.row(_COMPACTION, compaction_id=compaction_id):
        raise InvalidPlan(
            f"Compaction id {compaction_id!r} belongs to entry {row[0]}.",
            seq=row[0],
            compaction_id=compaction_id,
        )


def _check_hiding(state: CommitState, plan: Plan) -> tuple[int, tuple[Range, ...]]:
    """Check which rows a plan hides: the number of visible ones, and the ranges to hide."""
    # A range may span rewound rows, and that of a compat plan hidden ones: only visible ones leave.
    hidden = common(plan.hides, state.visible_ranges)
    remaining = subtract(state.visible_ranges, hidden)
    # Counted in the same statement as the sides: a range must begin and end with a message.
    ends = [end for stretch in plan.hides for end in stretch]
    sides = [
        hidden,
        remaining,
        *([(end, end)] for end in ends),
        *([stretch] for stretch in remaining),
    ]
    here, there, *each = (side.messages for side in totals_of(state.log, sides))
    of_ends, of_kept = each[: len(ends)], each[len(ends) :]
    # Programs do separate pairs, and their policies are compared with them row by row.
    if not plan.compat:
        # A separated pair shows from either side, so the one with fewer messages is read (0013).
        check_no_split(state, hidden, hidden if here <= there else remaining)
    pinned = bound_by_pins(state, partnered=plan.compat)
    messages = {end for end, count in zip(ends, of_ends, strict=True) if count}
    check_hides(plan, state.spans, messages=messages, pinned=pinned)
    # `seen` is the log's last seq that the planner read, notes included: a redaction is a note. A
    # summary made before a redaction may quote the redacted message.
    if plan.seen is not None:
        for seq in sorted(to_redacted(state.redactions, after=plan.seen)):
            if within(plan.hides, seq):
                raise InvalidPlan(
                    f"Entry {seq} was redacted after the plan was made.", redacted=seq
                )
    empty = [stretch for stretch, count in zip(remaining, of_kept, strict=True) if not count]
    return here, _with_enclosed(state, plan.hides, empty)


def _with_enclosed(
    state: CommitState, hides: Sequence[Range], empty: Sequence[Range]
) -> tuple[Range, ...]:
    """The ranges of a plan, joined where no message lies between two of them.

    `empty` are the visible stretches without a message that would stay. A note, clearing or
    uncovering between two hidden messages would be a span of the view for ever, and each makes
    every later read of the view slower.
    """
    last = hides[-1][1]
    ranges = sorted([*hides, *(stretch for stretch in empty if stretch[1] < last)])
    state.from_row(ranges[0][0])
    joined = [ranges[0]]
    for lo, hi in ranges[1:]:
        end = joined[-1][1]
        # Rows between them that rewinds and uncoverings took back do not separate them.
        if common([(end + 1, lo - 1)], state.ranges):
            joined.append((lo, hi))
        else:
            joined[-1] = (joined[-1][0], hi)
    return tuple(joined)


def _checked_clearing(state: CommitState, plan: Plan) -> Control:
    """The clearing of a plan.

    It names only outputs of tools, of live messages that are not pinned, of which less stays than
    now.
    """
    clearing = Control(
        state.head.last_seq + 1,
        Kind.CLEARING,
        clears=tuple(sorted(plan.clears)),
        keeps=tuple(sorted(plan.keeps)),
        placeholder=plan.placeholder,
    )
    # From the control rows, not from the cache: no decision depends on a cache.
    cleared = clearings_of(state.tail.controls, state.head.last_seq)
    pins = bound_by_pins(state, partnered=True)
    before, after = shown_by(cleared), shown_by(dict.fromkeys(clearing.clears, clearing))
    outputs = {seq: _outputs(state, seq) for seq in {seq for seq, _ in plan.clears}}
    for seq, block in plan.clears:
        visible = within(state.visible_ranges, seq)
        if not state.stands(seq) or not (visible or plan.compat):
            raise InvalidPlan(
                f"Entry {seq} is not a {'live' if plan.compat else 'visible'} message."
            )
        if seq in pins:
            raise InvalidPlan(
                f"Entry {seq} is pinned, or shares a tool call with a pinned one.", pinned=[seq]
            )
        if block not in outputs[seq]:
            raise InvalidPlan(f"Block {block} of entry {seq} is not the output of a tool.")
        new = after[seq, block]
        now = before.get((seq, block))
        if now and new.leaves >= now.leaves:
            rest = f" except for {now.leaves} characters" if now.is_part else ""
            raise InvalidPlan(f"Block {block} of entry {seq} is cleared already{rest}.")
        size, more = outputs[seq][block]
        if new.leaves >= size and not more:
            raise InvalidPlan(
                f"Block {block} of entry {seq} has {size} characters: all of them would stay."
            )
    return clearing


def _outputs(state: CommitState, seq: int) -> dict[int, tuple[int, bool]]:
    """The tool outputs of a message: their characters, and whether they hold other than text."""
    row = state.log.row(_CONTENT, seq=seq)
    if row is None:
        return {}
    format_, role, content = row[0], row[1], decode(row[2])
    results = output_blocks(format_, role, content)
    # A reader need not show every output as a result.
    return {
        block: measure(results[block]) if block in results else (0, True)
        for block in reader(format_).outputs(content)
    }


def _placed(state: CommitState, plan: Plan, hides: tuple[Range, ...]) -> list[Control]:
    """The rows of the plan as control rows, with their positions."""
    first = state.head.last_seq + 1
    last_hidden = _last_hidden(state, plan.hides)
    # A row never comes after its natural position, so no row that comes after this one is older.
    state.from_row(last_hidden >> POSITION_BITS)
    positions = place_rows(plan, state.standing, last_hidden, first_seq=first)
    return [
        Control(first + index, plan.hider, hides=hides, position=position)
        if index == plan.lead
        else Control(first + index, Kind.COMPANION, position=position)
        for index, position in enumerate(positions)
    ]


def _last_hidden(state: CommitState, hides: Sequence[Range]) -> int:
    """The largest position of a message in the ranges, whose ends are messages."""
    ends = {hi for _, hi in hides}
    parts = [part for span in state.standing for part in span.cut(hides)]
    last = 0
    # From the end: the first message found there is usually the last one of all.
    for part in sorted(parts, key=lambda part: part.at(part.hi), reverse=True):
        if part.at(part.hi) <= last:
            break
        if part.hi in ends:
            last = part.at(part.hi)
            continue
        # A note may be the last entry of a part, and rows may lie between it and the message.
        row = state.log.row(_LAST_MESSAGE, lo=part.lo, hi=part.hi)
        if row is not None:
            last = max(last, part.at(row[0]))
    return last
