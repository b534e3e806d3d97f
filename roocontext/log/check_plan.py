"""The checks of a plan before it is committed.

A caller gives them the facts of the session: the checks read no database.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from roocontext.errors import InvalidPlan
from roocontext.log.counting import Size
from roocontext.log.encoding import MAX_INTEGER, MIN_INTEGER, check_id, encode, plain, whole
from roocontext.log.entries import Kept, NewMessage, are_distinct, are_kept_of
from roocontext.log.plan import Action, Counts, Plan, as_pairs
from roocontext.log.readings import read_message, reader, text_of
from roocontext.log.spans import Span


def checked(plan: Plan) -> Plan:
    """Check a plan; return it with its rows as plain data and its client id set."""
    check_rows(plan)
    rows = [structs.replace(row, content=plain(row.content)) for row in plan.rows]
    plan = replace(plan, rows=tuple(rows))
    check_form(plan)
    if not plan.compat:
        _check_smaller(plan)
    if plan.action is Action.CLEAR:
        return plan
    lead = rows[plan.lead]
    if None not in (plan.client_id, lead.client_id) and plan.client_id != lead.client_id:
        raise InvalidPlan("The plan and its summary or marker have different client ids.")
    client_id = plan.client_id or lead.client_id
    rows[plan.lead] = structs.replace(lead, client_id=client_id)
    return replace(plan, rows=tuple(rows), client_id=client_id)


def check_rows(plan: Plan) -> None:
    """Refuse rows that are not messages."""
    if not isinstance(plan.rows, tuple | list):
        raise InvalidPlan("rows must be a tuple of messages.")
    if not all(isinstance(row, NewMessage) for row in plan.rows):
        raise InvalidPlan("rows must be messages: NewMessage.")


def check_form(plan: Plan) -> None:
    """Refuse a plan that contradicts itself, whatever the session and the counts."""
    are_kept = isinstance(plan.keeps, tuple | list)
    if not (are_kept and all(isinstance(kept, Kept) for kept in plan.keeps)):
        raise InvalidPlan("keeps must hold Kept: an entry, a block, a head and a tail.")
    pairs = (*as_pairs(plan.hides), *as_pairs(plan.clears), *plan.keeps)
    numbers = (plan.head_seq, plan.seen or 0, *(number for pair in pairs for number in pair))
    if any(type(number) is not int or not 0 <= number <= MAX_INTEGER for number in numbers):
        raise InvalidPlan("A seq or block is not a whole number of 64 bits.")
    counts, ts = plan.counts, plan.ts
    is_time = type(ts) is int and MIN_INTEGER <= ts <= MAX_INTEGER
    are_sizes = isinstance(counts, Counts) and all(
        isinstance(size, Size) and all(isinstance(number, int | float) for number in size)
        for size in (counts.before, counts.after)
    )
    for is_right, fact in (
        (isinstance(plan.policy, str), "policy must be a string."),
        (isinstance(plan.trigger, str), "trigger must be a string."),
        (isinstance(plan.record, Mapping), "record must be a mapping."),
        (ts is None or is_time, "ts must be an integer of 64 bits."),
        (counts is None or are_sizes, "counts must hold two sizes: Size(tokens) before and after."),
    ):
        if not is_right:
            raise InvalidPlan(fact)
    for name, value in (("client_id", plan.client_id), ("compaction_id", plan.compaction_id)):
        if value is not None:
            check_id(name, value)
    if plan.action is Action.CLEAR:
        _check_clears(plan)
    else:
        _check_ranges(plan)
        _check_new_rows(plan)


def _check_clears(plan: Plan) -> None:
    if plan.compaction_id is not None:
        raise InvalidPlan("A clearing has no compaction id.")
    if not plan.clears or plan.hides or plan.rows:
        raise InvalidPlan("A clearing names blocks and neither hides nor inserts rows.")
    if not are_distinct(plan.clears):
        raise InvalidPlan("A clearing names the same block twice.")
    if not are_kept_of(plan.keeps, plan.clears):
        raise InvalidPlan("A clearing keeps parts of a block that it does not clear, or twice.")
    placeholder = plan.placeholder
    # An engine may refuse a text with NUL or a lone surrogate.
    if (
        not isinstance(placeholder, str)
        or "\0" in placeholder
        or whole(placeholder) is not placeholder
    ):
        raise InvalidPlan("The placeholder is not a text, or contains NUL or a lone surrogate.")


def check_hides(
    plan: Plan, spans: Sequence[Span], *, messages: Collection[int], pinned: Collection[int]
) -> None:
    """Refuse ranges that hide what may not be hidden.

    `messages` holds those ends of the ranges that are messages of the log, `pinned` the pinned
    seqs and their tool partners.
    """
    own_tag = f"{plan.action.replace('truncate', 'truncation')}_parent"
    for lo, hi in plan.hides:
        # A range that ended at a note or a rewind would say nothing about what it hides.
        if not {lo, hi} <= set(messages):
            raise InvalidPlan(f"The range {lo}-{hi} does not begin and end at a message.")
        for span in spans:
            if span.hi < lo or span.lo > hi:
                continue
            if not span.standing:
                _check_not_an_end(span, lo, hi)
            # A row has one tag of each kind: the second summary would take the place of the first
            # in the audit.
            elif getattr(span, own_tag) is not None:
                raise InvalidPlan(f"Rows of {lo}-{hi} have a {own_tag} already.")
            elif not (plan.compat or span.visible):
                raise InvalidPlan(f"Rows of {lo}-{hi} are hidden already.")
        held = sorted(seq for seq in pinned if lo <= seq <= hi)
        if held:
            raise InvalidPlan(
                f"Entry {held[0]} is pinned, or shares a tool call with a pinned one.", pinned=held
            )


def _check_ranges(plan: Plan) -> None:
    if plan.keeps:
        raise InvalidPlan(f"A plan to {plan.action} keeps no parts of blocks.")
    if not plan.hides:
        raise InvalidPlan(f"A plan to {plan.action} must hide at least one message.")
    last = 0
    for lo, hi in plan.hides:
        if not last < lo <= hi:
            raise InvalidPlan(f"The range {lo}-{hi} is not ascending, or overlaps another.")
        last = hi
    if last > plan.head_seq:
        raise InvalidPlan(f"It hides entry {last}, but was planned on version {plan.head_seq}.")


def _check_new_rows(plan: Plan) -> None:
    if not plan.rows or plan.clears:
        raise InvalidPlan(f"A plan to {plan.action} must insert at least one row and clear none.")
    if type(plan.lead) is not int or not 0 <= plan.lead < len(plan.rows):
        raise InvalidPlan("`lead` leaves no row to be the summary or marker.")
    row = plan.rows[plan.lead]
    encode(row.content)
    reader(row.format).check(row.role, row.content)
    if not text_of(read_message(row)[1]).strip():
        raise InvalidPlan("The summary or marker has no text.")


def _check_smaller(plan: Plan) -> None:
    counts = plan.counts
    if counts is None:
        raise InvalidPlan("The plan carries no counts of the context before and after.")
    if not counts.shrinks:
        before, after = counts.before.tokens, counts.after.tokens
        raise InvalidPlan(
            f"The context would not shrink: {before} to {after} by {counts.counter}.",
            before=before,
            after=after,
        )


def _check_not_an_end(span: Span, lo: int, hi: int) -> None:
    for end in (lo, hi):
        if span.lo <= end <= span.hi:
            took = f"rewind {span.rewound_by}" if span.rewound_by else f"entry {span.uncovered_by}"
            raise InvalidPlan(f"Entry {end} is not live: {took} took it back.")
