"""Plans and their checks: what to hide or clear, and what to put in its place, as data.

A plan is made from a view and names the version of that view. It changes nothing until it is
committed, when it is checked again under the lock. The checks receive everything that they need to
know about the session; they never read a database.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from msgspec import structs

from roocontext.errors import InvalidPlan
from roocontext.log.budget import Size
from roocontext.log.counting import BYTES, Counter, count_message
from roocontext.log.encoding import MAX_INTEGER, check_id, encode, plain
from roocontext.log.entries import (
    BlockRef,
    Kind,
    NewMessage,
    Range,
    View,
    natural_position,
    ranges_of,
)
from roocontext.log.readings import reader, text_of
from roocontext.log.spans import Span

CLEARED = "[Old tool output cleared to save context]"
"""The default placeholder of a clearing."""

TRUNCATED = "[Earlier messages were left out here to save context]"
"""The default text of a marker."""


class Action(StrEnum):
    """What a plan does to the view."""

    CONDENSE = "condense"
    TRUNCATE = "truncate"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Counts:
    """The size of the context before and after, by one counter on both sides.

    The manager measures the whole request, in all units. A plan made by hand has only tokens.
    """

    counter: str
    before: Size
    after: Size
    exact: bool = False

    @property
    def shrinks(self) -> bool:
        """Whether the context becomes smaller."""
        return self.after.tokens < self.before.tokens

    def record(self) -> dict[str, Any]:
        """The part that is recorded with the plan."""
        before, after = self.before, self.after
        record = {
            "counter": self.counter,
            "exact": self.exact,
            "before": before.tokens,
            "after": after.tokens,
        }
        if not (before.bytes or before.images):
            return record
        return {
            **record,
            "bytes": {"before": before.bytes, "after": after.bytes},
            "images": {"before": before.images, "after": after.images},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a policy wants to do to the session whose last fold entry was `head_seq`.

    `hides` are ascending ranges of seq: every live message in them is hidden. One of the `rows` is
    the summary or marker: the first, unless `lead` companions precede it. `record` is kept with the
    entry as it is. `seen` is the last entry, notes included, that the planner had read. A `compat`
    plan imitates a real program, its defects included, and is checked less. If the plan brings a
    `compaction_id`, it is kept, and no other plan of the session may have it. `client_id` names the
    request: it is stored with the summary, marker or clearing.
    """

    head_seq: int
    action: Action
    hides: tuple[Range, ...] = ()
    rows: tuple[NewMessage, ...] = ()
    clears: tuple[BlockRef, ...] = ()
    placeholder: str = CLEARED
    lead: int = 0
    at_end: bool = False
    counts: Counts | None = None
    compat: bool = False
    policy: str = "manual"
    trigger: str = "manual"
    session_id: str | None = None
    seen: int | None = None
    compaction_id: str | None = None
    client_id: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "action", Action(self.action))
        except ValueError:
            raise InvalidPlan(f"action is one of {', '.join(Action)}.") from None

    @classmethod
    def condense(
        cls,
        view: View,
        hide: Iterable[int],
        summary: str | NewMessage,
        *,
        counter: Counter = BYTES,
        **options: Any,
    ) -> "Plan":
        """A plan to put a summary in the place of these messages of a view."""
        return cls._hide(Action.CONDENSE, view, hide, summary, counter=counter, options=options)

    @classmethod
    def truncate(
        cls,
        view: View,
        hide: Iterable[int],
        marker: str | NewMessage = TRUNCATED,
        *,
        counter: Counter = BYTES,
        **options: Any,
    ) -> "Plan":
        """A plan to hide these messages of a view behind a marker."""
        return cls._hide(Action.TRUNCATE, view, hide, marker, counter=counter, options=options)

    @classmethod
    def clear(
        cls,
        view: View,
        blocks: Iterable[BlockRef],
        placeholder: str = CLEARED,
        *,
        counter: Counter = BYTES,
        **options: Any,
    ) -> "Plan":
        """A plan to show a placeholder in the place of these tool outputs of a view."""
        blocks = _pairs(blocks)
        _check_whole(view)
        by_row = {seq: sorted(b for s, b in blocks if s == seq) for seq, _ in blocks}
        saved = 0
        for message in view.messages:
            if message.seq in by_row:
                content = reader(message.format).clear(
                    message.content, by_row[message.seq], placeholder
                )
                saved += count_message(counter, message)
                saved -= counter.count(message.role, content, message.format)
        before = sum(count_message(counter, message) for message in view.messages)
        return cls(
            head_seq=view.head_seq,
            action=Action.CLEAR,
            clears=tuple(sorted(blocks)),
            placeholder=placeholder,
            counts=Counts(counter.name, Size(before), Size(before - saved), counter.exact),
            session_id=view.session_id,
            seen=view.seq,
            **options,
        )

    @classmethod
    def _hide(
        cls,
        action: Action,
        view: View,
        hide: Iterable[int],
        first: str | NewMessage,
        *,
        counter: Counter,
        options: dict[str, Any],
    ) -> "Plan":
        _check_whole(view)
        away = _seqs(view, hide)
        row = first if isinstance(first, NewMessage) else NewMessage("user", first)
        rows = (row, *options.pop("companions", ()))
        before = sum(count_message(counter, message) for message in view.messages)
        kept = [message for message in view.messages if message.seq not in away]
        after = sum(count_message(counter, message) for message in kept)
        after += sum(counter.count(new.role, new.content, new.format) for new in rows)
        return cls(
            head_seq=view.head_seq,
            action=action,
            hides=ranges_of(sorted(away)),
            rows=rows,
            counts=Counts(counter.name, Size(before), Size(after), counter.exact),
            session_id=view.session_id,
            seen=view.seq,
            **options,
        )

    @property
    def hider(self) -> Kind:
        """The kind of the entry that hides or clears."""
        kinds = {Action.CONDENSE: Kind.SUMMARY, Action.TRUNCATE: Kind.MARKER}
        return kinds.get(self.action, Kind.CLEARING)


def checked(plan: Plan) -> Plan:
    """The plan with its rows as plain data and its client id set, or InvalidPlan."""
    check_rows(plan)
    rows = [structs.replace(row, content=plain(row.content)) for row in plan.rows]
    plan = replace(plan, rows=tuple(rows))
    check_shape(plan)
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
        raise InvalidPlan("rows are a tuple of messages.")
    if not all(isinstance(row, NewMessage) for row in plan.rows):
        raise InvalidPlan("rows are messages: NewMessage.")


def check_shape(plan: Plan) -> None:
    """Refuse a plan that contradicts itself, or makes the context no smaller by its own counts."""
    check_form(plan)
    if not plan.compat:
        _check_smaller(plan)


def check_form(plan: Plan) -> None:
    """Refuse a plan that contradicts itself, whatever the session and the counts."""
    pairs = (*_pairs(plan.hides), *_pairs(plan.clears))
    numbers = (plan.head_seq, plan.seen or 0, *(number for pair in pairs for number in pair))
    if any(type(number) is not int or not 0 <= number <= MAX_INTEGER for number in numbers):
        raise InvalidPlan("A seq or block is not a whole number of 64 bits.")
    if not (isinstance(plan.policy, str) and isinstance(plan.trigger, str)):
        raise InvalidPlan("policy and trigger are strings.")
    if not isinstance(plan.record, Mapping):
        raise InvalidPlan("record is a mapping.")
    counts = plan.counts
    if counts is not None and not (
        isinstance(counts.before, Size) and isinstance(counts.after, Size)
    ):
        raise InvalidPlan("counts hold two sizes: Size(tokens) before and after.")
    _check_ids(plan)
    if plan.action is Action.CLEAR:
        if not plan.clears or plan.hides or plan.rows:
            raise InvalidPlan("A clearing names blocks and neither hides nor inserts rows.")
        if len(set(_pairs(plan.clears))) != len(plan.clears):
            raise InvalidPlan("A clearing names the same block twice.")
        if not _is_text(plan.placeholder):
            raise InvalidPlan("The placeholder is not a text, or contains NUL or a lone surrogate.")
    else:
        _check_ranges(plan)
        _check_new_rows(plan)


def _check_ids(plan: Plan) -> None:
    if plan.client_id is not None:
        check_id("client_id", plan.client_id)
    if plan.compaction_id is not None:
        check_id("compaction_id", plan.compaction_id)
        if plan.action is Action.CLEAR:
            raise InvalidPlan("A clearing has no compaction id.")


def check_hides(
    plan: Plan, spans: Sequence[Span], *, messages: Collection[int], pinned: Collection[int]
) -> None:
    """Refuse ranges that hide what may not be hidden.

    `messages` are the ends of ranges that are messages of the log. `pinned` are the pinned seqs and
    their tool partners.
    """
    own_tag = f"{plan.action.replace('truncate', 'truncation')}_parent"
    for lo, hi in plan.hides:
        if not {lo, hi} <= set(messages):
            raise InvalidPlan(f"The range {lo}-{hi} does not begin and end at a message.")
        for span in spans:
            if span.hi < lo or span.lo > hi:
                continue
            if not span.stands:
                _check_not_an_end(span, lo, hi)
            elif getattr(span, own_tag) is not None:
                raise InvalidPlan(f"Rows of {lo}-{hi} have a {own_tag} already.")
            elif not (plan.compat or span.visible):
                raise InvalidPlan(f"Rows of {lo}-{hi} are hidden already.")
        held = sorted(seq for seq in pinned if lo <= seq <= hi)
        if held:
            raise InvalidPlan(f"Entry {held[0]} is pinned, or bound to a pin.", pinned=held)


def place(plan: Plan, spans: Sequence[Span], behind: int, *, first_seq: int) -> tuple[int, ...]:
    """Place the rows of a plan: right behind the last row that it hides, or at the end.

    `behind` is the position of that row. `spans` cover every current row from there on, visible or
    not; that they also cover notes does no harm. The rows share the gap up to the next position
    evenly, so no two current rows ever have the same position. The end is that of the session when
    the plan was made.
    """
    count = len(plan.rows)
    if plan.at_end:
        known = [span for span in spans if span.lo <= plan.head_seq]
        behind = max([behind, *(span.at(min(span.hi, plan.head_seq)) for span in known)])
    nexts = [after for span in spans if (after := span.after(behind)) is not None]
    if not nexts:
        return tuple(natural_position(first_seq + index) for index in range(count))
    gap = min(nexts) - behind
    if gap <= count:
        raise InvalidPlan(
            f"No gap is left for {count} rows behind position {behind}: also hide the rows that"
            " earlier plans put there, or put these at the end.",
            position=behind,
        )
    return tuple(behind + gap * index // (count + 1) for index in range(1, count + 1))


def _check_whole(view: View) -> None:
    if not isinstance(view, View):
        raise InvalidPlan("A plan is made from a view.")
    if not view.whole:
        raise InvalidPlan("A page of a view is not the context: make the plan from the whole view.")


def _seqs(view: View, hide: Iterable[int]) -> set[int]:
    """The seqs to hide, all of them in the view."""
    try:
        away = set(hide)
    except TypeError:
        raise InvalidPlan("Name what to hide by its seqs.") from None
    unknown = away - {message.seq for message in view.messages}
    if unknown:
        seqs = [one for one in unknown if isinstance(one, int)]
        raise InvalidPlan(
            f"Entry {min(seqs)} is not in this view." if seqs else "Name what to hide by its seqs."
        )
    return away


def _pairs(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((one, other) for one, other in pairs)
    except (TypeError, ValueError):
        raise InvalidPlan("Ranges and blocks are pairs of numbers.") from None


def _is_text(value: object) -> bool:
    """Whether every engine can store it in a text column."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_ranges(plan: Plan) -> None:
    if not plan.hides:
        raise InvalidPlan(f"A plan to {plan.action} hides at least one message.")
    last = 0
    for lo, hi in plan.hides:
        if not last < lo <= hi:
            raise InvalidPlan(f"The range {lo}-{hi} is not ascending, or overlaps another.")
        last = hi
    if last > plan.head_seq:
        raise InvalidPlan(f"It hides entry {last}, planned on version {plan.head_seq}.")


def _check_new_rows(plan: Plan) -> None:
    if not plan.rows or plan.clears:
        raise InvalidPlan(f"A plan to {plan.action} inserts at least one row and clears none.")
    if type(plan.lead) is not int or not 0 <= plan.lead < len(plan.rows):
        raise InvalidPlan("`lead` leaves no row to be the summary or marker.")
    _check_not_blank(plan.rows[plan.lead])


def _check_not_blank(row: NewMessage) -> None:
    encode(row.content)
    reader(row.format).check(row.role, row.content)
    _, blocks = reader(row.format).blocks(row.role, row.content)
    if not text_of(blocks).strip():
        raise InvalidPlan("The summary or marker has no text.")


def _check_smaller(plan: Plan) -> None:
    counts = plan.counts
    if counts is None:
        raise InvalidPlan("It carries no counts of the context before and after.")
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
