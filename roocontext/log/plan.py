"""Plans, which say as data what to hide or clear and what to insert; and what a plan has done.

A plan is made from a view and names the version of that view. It changes nothing until it is
committed, when `check_plan` checks it again under the lock.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from roocontext.errors import InvalidPlan
from roocontext.log.clearing import by_row, shown_in, with_cleared
from roocontext.log.counting import BYTES, Counter, Size, count_message, counter_named
from roocontext.log.entries import (
    BlockRef,
    Kept,
    Kind,
    NewMessage,
    Range,
    View,
    natural_position,
    ranges_of,
)
from roocontext.log.readings import reader
from roocontext.log.spans import Span
from roocontext.log.values import Value

CLEARED = "[Old tool output cleared to save context]"
"""The default placeholder of a clearing."""

SHORTENED = "[Tool output left out here to save context]"
"""The placeholder of a clearing that keeps the head and tail of some outputs."""

LEFT_OUT = "[Earlier messages were left out here to save context]"
"""The default text of a marker."""


class Action(StrEnum):
    """The ways in which a plan changes the view."""

    CONDENSE = "condense"
    TRUNCATE = "truncate"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Counts(Value):
    """The size of the context before and after, by one counter on both sides.

    The manager measures the whole request, in all units. A plan made by hand has only tokens.
    """

    counter: str
    before: Size
    after: Size
    exact: bool = False

    @property
    def shrinks(self) -> bool:
        """True if the context becomes smaller."""
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
class Plan(Value):
    """A change of the session whose head was `head_seq`.

    `hides` are ascending ranges of seq: every live message in them is hidden. One of the `rows` is
    the summary or marker: the first, unless `lead` companions precede it. They are placed right
    after the last message that they hide, or with `at_end` after the message that was the last when
    the plan was made. The blocks in `clears` show the `placeholder` instead of their content, or in
    the middle of it if `keeps` says how much of the block stays. `record` is stored with the entry
    as it is. `seen` is the last entry, notes included, that the planner had read. A `compat` plan
    imitates a real program, its defects included, and is checked less. A plan may bring its own
    `compaction_id`, which no other plan of the session may have. `client_id` names the request: it
    is stored with the summary, marker or clearing. `ts` is the agent's own time of a clearing; rows
    have their own.
    """

    head_seq: int
    action: Action
    hides: tuple[Range, ...] = ()
    rows: tuple[NewMessage, ...] = ()
    clears: tuple[BlockRef, ...] = ()
    keeps: tuple[Kept, ...] = ()
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
    ts: int | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "action", Action(self.action))
        except ValueError:
            raise InvalidPlan(f"action must be one of {', '.join(Action)}.") from None
        # A plan that was read from JSON has lists. `check_form` refuses what is not a pair, and not
        # this: the manager goes on without a policy that makes such a plan.
        for name in ("hides", "clears"):
            with suppress(InvalidPlan):
                object.__setattr__(self, name, as_pairs(getattr(self, name)))

    @classmethod
    def condense(
        cls,
        view: View,
        hide: Iterable[int],
        summary: str | NewMessage,
        *,
        counter: Counter | str = BYTES,
        **options: Any,
    ) -> "Plan":
        """Make a plan that hides these messages of a view and inserts a summary in their place."""
        return cls._hide(Action.CONDENSE, view, hide, summary, counter=counter, options=options)

    @classmethod
    def truncate(
        cls,
        view: View,
        hide: Iterable[int],
        marker: str | NewMessage = LEFT_OUT,
        *,
        counter: Counter | str = BYTES,
        **options: Any,
    ) -> "Plan":
        """Make a plan that hides these messages of a view and inserts a marker in their place."""
        return cls._hide(Action.TRUNCATE, view, hide, marker, counter=counter, options=options)

    @classmethod
    def clear(
        cls,
        view: View,
        blocks: Iterable[BlockRef],
        placeholder: str = CLEARED,
        *,
        keep: tuple[int, int] | None = None,
        counter: Counter | str = BYTES,
        **options: Any,
    ) -> "Plan":
        """Make a plan that replaces these tool outputs of a view by a placeholder.

        With `keep=(head, tail)`, that many characters of the head and the tail of each output stay.
        """
        blocks = as_pairs(blocks)
        _check_whole(view)
        if not _are_numbers(number for block in blocks for number in block):
            raise InvalidPlan("Ranges and blocks must be pairs of numbers.")
        is_pair = isinstance(keep, tuple | list) and len(keep) == 2 and _are_numbers(keep)
        if not isinstance(placeholder, str):
            raise InvalidPlan("The placeholder is not a text.")
        if keep is not None and not is_pair:
            raise InvalidPlan("keep must be two numbers of characters: of the head and the tail.")
        counter = counter_named(counter)
        keeps = () if keep is None else tuple(Kept(*block, *keep) for block in sorted(blocks))
        sizes = {message.seq: count_message(counter, message) for message in view.messages}
        before = sum(sizes.values())
        cleared = by_row(shown_in(placeholder, blocks, keeps))
        for message in view.messages:
            if outputs := cleared.get(message.seq):
                sizes[message.seq] = count_message(counter, with_cleared(message, outputs))
        counts = Counts(counter.name, Size(before), Size(sum(sizes.values())), counter.exact)
        return cls(
            head_seq=view.head_seq,
            action=Action.CLEAR,
            clears=tuple(sorted(blocks)),
            keeps=keeps,
            placeholder=placeholder,
            counts=counts,
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
        counter: Counter | str,
        options: dict[str, Any],
    ) -> "Plan":
        _check_whole(view)
        away = _seqs(view, hide)
        rows = _inserted(first, options.pop("companions", ()))
        counter = counter_named(counter)
        sizes = {message.seq: count_message(counter, message) for message in view.messages}
        before, hidden = sum(sizes.values()), sum(sizes[seq] for seq in away)
        after = before - hidden + sum(count_message(counter, new) for new in rows)
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


def place_rows(
    plan: Plan, spans: Sequence[Span], last_hidden: int, *, first_seq: int
) -> tuple[int, ...]:
    """Place the rows of a plan: right after the last row that it hides, or at the end.

    `last_hidden` is the position of that row. `spans` cover every current row from there on,
    visible or not; that they also cover notes does no harm. The rows share the gap up to the next
    position evenly, so no two current rows ever have the same position. The end is that of the
    session when the plan was made.
    """
    before, count = last_hidden, len(plan.rows)
    if plan.at_end:
        known = [span for span in spans if span.lo <= plan.head_seq]
        # The end that the planner saw: messages appended since then come after the new rows.
        before = max([before, *(span.at(min(span.hi, plan.head_seq)) for span in known)])
    nexts = [after for span in spans if (after := span.after(before)) is not None]
    if not nexts:
        return tuple(natural_position(first_seq + index) for index in range(count))
    gap = min(nexts) - before
    if gap <= count:
        raise InvalidPlan(
            f"No gap is left for {count} rows after position {before}. Also hide the rows that"
            " earlier plans inserted there, or insert these at the end.",
            position=before,
        )
    # Evenly, so that as many later insertions fit before as after (0025).
    return tuple(before + gap * index // (count + 1) for index in range(1, count + 1))


def as_pairs(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges or blocks as tuples of two; InvalidPlan if they are not pairs."""
    try:
        return tuple((first, second) for first, second in pairs)
    except (TypeError, ValueError):
        raise InvalidPlan("Ranges and blocks must be pairs of numbers.") from None


def _are_numbers(values: Iterable[object]) -> bool:
    return all(isinstance(value, int) for value in values)


def _inserted(first: str | NewMessage, companions: Any) -> tuple[NewMessage, ...]:
    row = first if isinstance(first, NewMessage) else NewMessage("user", first)
    rows = (row, *companions) if isinstance(companions, Iterable) else (row, companions)
    if not all(isinstance(row, NewMessage) for row in rows):
        raise InvalidPlan("companions must be messages: NewMessage.")
    for new in rows:
        reader(new.format)  # InvalidMessage if there is none
    return rows


def _check_whole(view: View) -> None:
    if not isinstance(view, View):
        raise InvalidPlan("A plan must be made from a view.")
    if not view.whole:
        raise InvalidPlan("This is a page of a view. Make the plan from the whole view.")


def _seqs(view: View, hide: Iterable[int]) -> set[int]:
    """The seqs to hide, all of them in the view."""
    seqs = list(hide) if isinstance(hide, Iterable) else None
    # By the type: True and 1.0 are equal to 1, and a set would hold only one of them.
    if seqs is None or any(type(seq) is not int for seq in seqs):
        raise InvalidPlan("The messages to hide must be given by their seqs.")
    away = set(seqs)
    if unknown := away - {message.seq for message in view.messages}:
        raise InvalidPlan(f"Entry {min(unknown)} is not in this view.")
    return away


@dataclass(frozen=True, slots=True)
class Committed(Value):
    """The result of a plan, or of a dry run: the view lost `hidden` messages and gained `rows`.

    `seq` is the summary, marker or clearing, `compaction_id` the condense or truncation id, and
    `cleared` the number of cleared blocks.
    """

    session_id: str
    action: Action
    seq: int
    hash: str | None
    head_seq: int
    compaction_id: str | None
    rows: tuple[int, ...]
    hidden: int
    cleared: int
    dry_run: bool = False

    @classmethod
    def foreseen(cls, plan: Plan, session_id: str, last_seq: int, hidden: int) -> "Committed":
        """The result that a plan has if it is committed when the log ends at `last_seq`."""
        first = last_seq + 1
        rows = tuple(range(first, first + len(plan.rows)))
        return cls(
            session_id,
            plan.action,
            first + plan.lead,
            None,
            last_seq + (len(rows) or 1),
            None,
            rows,
            hidden,
            len(plan.clears),
            dry_run=True,
        )
