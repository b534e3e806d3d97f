"""Runs of the manager, held against what must be true of every one, whatever the session.

`judge` foresees a run, runs it, and reads in the log what it did: nothing here trusts what the
manager says of itself, except to compare it with the log.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import pytest

from roocontext import Plan, Session
from roocontext.context import Outcome
from roocontext.context.settings import frame_of
from roocontext.errors import BudgetExceeded, InvalidPlan
from roocontext.log.counting import BYTES, Size
from roocontext.log.entries import Kind, View
from roocontext.log.readings import reader
from roocontext.log.spans import within
from roocontext.tokens.usage import IMAGES
from support.async_driver import Driven
from support.dialogue import shown, state
from support.provider_rules.anthropic import violations
from support.separated import split

MOST_ASKED = 3
SETTLED = 8
"""After so many runs on a session that nobody writes to there is nothing left to do."""

_SAME = ("status", "detail", "reason", "tokens_before", "tokens_after", "window", "calls", "cost")
_DONE = ("hidden", "cleared", "seqs")
_METHODS = {"clear": "prune"}

Ended: TypeAlias = Outcome | BudgetExceeded


class Trial(NamedTuple):
    """A manager for one run, and the requests that its summariser was asked, as they come."""

    context: Any
    requests: Collection[Any]


class Watched(Session):
    """A session that fails a test when a plan of ours is refused; a run would only note it."""

    def __init__(self, chat: Session) -> None:
        vars(self).update(vars(chat))

    def commit(self, plan: Plan, **options: Any) -> Any:
        try:
            return super().commit(plan, **options)
        except InvalidPlan as refusal:
            pytest.fail(f"The store refused a plan: {refusal.fact}")


@dataclass(frozen=True)
class Change:
    """An entry that a run wrote to hide or to clear, with the views right before and after it."""

    kind: Kind
    hides: tuple[int, ...]
    clears: tuple[tuple[int, int], ...]
    record: dict[str, Any]
    before: View
    after: View


@dataclass(frozen=True)
class Verdict:
    """The end of a run and its changes; it has passed every check."""

    ended: Ended
    changes: tuple[Change, ...]
    asked: int

    @property
    def status(self) -> str:
        return "refused" if isinstance(self.ended, BudgetExceeded) else self.ended.status.value


def judge(chat: Any, make: Callable[[], Trial], aim: str = "manage", **frame: Any) -> Verdict:
    """Foresee a run of a new manager, run another one, and hold it against every law."""
    if aim == "manage" and frame:  # else the run writes a note of them, which a preview does not
        chat.internals.keep_frame(system=frame.get("system"), tools=frame.get("tools") or None)
    before, notes = state(chat), chat.notes("compaction")
    seen = chat if isinstance(chat, Driven) else Watched(chat)
    foreseen = _end(lambda: make().context.preview(seen, aim, **frame))
    assert state(chat) == before
    trial = make()
    ended = _end(lambda: getattr(trial.context, _METHODS.get(aim, aim))(seen, **frame))
    changes = changes_since(chat, before[0].seq)
    _is_as_foreseen(chat, foreseen, ended)
    assert len(trial.requests) <= MOST_ASKED
    assert len(changes) <= MOST_ASKED
    written = [note.content for note in chat.notes("compaction")[len(notes) :]]
    _keeps_the_budget(chat, trial, ended, aim, frame)
    _fails_without_a_trace(chat, ended, before, changes, written)
    _tells_the_truth(ended, changes)
    for change in changes:
        is_lawful(chat, trial, change)
    is_sound(chat)
    return Verdict(ended, changes, len(trial.requests))


def settle(chat: Any, make: Callable[[], Trial], **frame: Any) -> list[Verdict]:
    """Run again and again on a session that does not change: it only shrinks, and comes to rest."""
    verdicts: list[Verdict] = []
    for _ in range(SETTLED):
        before = chat.head()
        verdicts.append(judge(chat, make, **frame))
        if chat.head() == before and not verdicts[-1].asked:
            return verdicts
    raise AssertionError([verdict.status for verdict in verdicts])


def changes_since(chat: Any, seq: int) -> tuple[Change, ...]:
    """Entries since another that hid or cleared anything, oldest first."""
    entries = [audited.entry for audited in chat.audit(after=seq)]
    return tuple(
        _change(chat, entry, entries)
        for entry in entries
        if entry.kind in (Kind.SUMMARY, Kind.MARKER, Kind.CLEARING)
    )


def _change(chat: Any, entry: Any, entries: Collection[Any]) -> Change:
    rows = [entry.seq]
    if entry.compaction_id is not None:
        rows = [other.seq for other in entries if other.compaction_id == entry.compaction_id]
    before = chat.view(as_of=min(rows) - 1)
    ranges = [(lo, hi) for lo, hi in entry.details.get("hides", ())]
    return Change(
        kind=entry.kind,
        hides=tuple(row.seq for row in before.messages if within(ranges, row.seq)),
        clears=tuple((row, block) for row, block in entry.details.get("clears", ())),
        record=entry.details["record"],
        before=before,
        after=chat.view(as_of=max(rows)),
    )


def _end(run: Callable[[], Outcome]) -> Ended:
    try:
        return run()
    except BudgetExceeded as refusal:
        return refusal


def _is_as_foreseen(chat: Any, foreseen: Ended, ended: Ended) -> None:
    assert type(foreseen) is type(ended)
    if isinstance(ended, BudgetExceeded) or isinstance(foreseen, BudgetExceeded):
        assert vars(foreseen) == vars(ended)
        return
    for name in (*_SAME, *_DONE):
        assert (name, getattr(foreseen, name)) == (name, getattr(ended, name))
    assert foreseen.view is not None
    view = chat.view().messages
    assert [(m.seq, m.role, m.content, m.cleared) for m in foreseen.view] == [
        (m.seq, m.role, m.content, m.cleared) for m in view
    ]


def _keeps_the_budget(
    chat: Any, trial: Trial, ended: Ended, aim: str, frame: dict[str, Any]
) -> None:
    """The request fits, by our own sum; or it was refused with numbers that say why."""
    if isinstance(ended, BudgetExceeded):
        assert ended.needed > ended.limit >= 0
        assert str(ended.needed) in str(ended).replace(",", "")
        assert str(ended.limit) in str(ended).replace(",", "")
        return
    settings = trial.context.settings
    sizes = [chat.tokens(counter) for counter in (settings.counter, BYTES, IMAGES)]
    around = frame_of(settings.measure, frame.get("system"), frame.get("tools")).overhead
    size = Size(*sizes).plus(around)
    assert ended.tokens_after == size.tokens
    if aim == "manage":
        limits = replace(settings.limits, tokens=settings.window().context)
        assert not limits.exceeded_by(size), ended


def _fails_without_a_trace(
    chat: Any,
    ended: Ended,
    before: tuple[Any, ...],
    changes: Collection[Change],
    written: list[Any],
) -> None:
    """Where nothing was done the view is what it was, and one note says why, if anything failed."""
    events = [note["event"] for note in written]
    assert events.count("failed") <= 1
    if isinstance(ended, BudgetExceeded):
        assert not changes
        assert events.count("refused") <= 1
    else:
        assert "refused" not in events
        assert ended.changed is bool(changes)
    if not changes:
        assert (chat.head_seq(), chat.view().messages) == (before[1], before[2].messages)
    if not isinstance(ended, BudgetExceeded) and ended.status == "failed":
        assert events == ["failed"]
        assert ended.reason
    if not isinstance(ended, BudgetExceeded) and ended.status == "noop":
        assert chat.head() == before[0]


def _tells_the_truth(ended: Ended, changes: tuple[Change, ...]) -> None:
    """Assert that the outcome describes what is in the log."""
    if isinstance(ended, BudgetExceeded) or not changes:
        return
    assert ended.tokens_before == changes[0].record["before"]
    assert ended.tokens_after == changes[-1].record["after"]
    assert ended.hidden == sum(len(change.hides) for change in changes)
    assert ended.cleared == sum(len(change.clears) for change in changes)


def is_lawful(chat: Any, trial: Trial, change: Change) -> None:
    """Smaller by one counter on both sides; no pair parted; no pin, no living summary hidden."""
    counter = trial.context.settings.counter
    before, after = (
        {(row.seq, row.cleared, row.shortened): row for row in view.messages}
        for view in (change.before, change.after)
    )
    went, came = (
        sum(
            counter.count(one[key].role, one[key].content, one[key].format)
            for key in one.keys() - other
        )
        for one, other in ((before, after), (after, before))
    )
    record = change.record
    assert came < went
    assert record["counter"] == counter.name
    assert record["before"] - record["after"] == went - came
    seqs = [row.seq for row in change.before.messages]
    readings = [reader(m.format).blocks(m.role, m.content) for m in change.before.messages]
    assert not split(readings, {seqs.index(seq) for seq in change.hides})
    gone = set(seqs) - {row.seq for row in change.after.messages}
    assert gone == set(change.hides)
    touched = gone | {seq for seq, _ in change.clears}
    assert not touched & chat.pins()
    if change.kind is Kind.MARKER:
        assert not [
            row for row in change.before.messages if row.seq in gone and row.kind is Kind.SUMMARY
        ]


def is_sound(chat: Any) -> None:
    found = chat.verify()
    assert found.ok, found.problem
    assert violations(chat.messages()) == []
    assert shown(chat) == [row.seq for row in chat.view().messages]
