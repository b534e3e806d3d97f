"""Restoring: what is uncovered for a larger window, what it costs, and where it stops."""

import pytest

from roocontext import Kind, NewMessage, Plan
from roocontext.log.counting import Budget
from roocontext.tokens import counter_for
from support.async_manager import grow, manager
from support.dialogue import fill, shown, state, work

pytestmark = pytest.mark.every_leg

COUNTER = counter_for("gpt-4o")
LARGE = 1_000_000


def condense(chat, hide, **options):
    return chat.commit(Plan.condense(chat.view(), hide, "S", **options)).seq


def covered(chat):
    """A session in which a marker hides a summary, and an output is cleared."""
    fill(chat, 8)
    result = work(chat, ("run",), "word " * 200)[-1]
    summary = condense(chat, [2, 3, 4])
    clearing = chat.commit(Plan.clear(chat.view(), [(result, 0)])).seq
    marker = chat.commit(Plan.truncate(chat.view(), [summary, 5])).seq
    fill(chat, 2)
    return summary, clearing, marker


def test_restore_with_room_uncovers_everything_newest_first(chat):
    summary, clearing, marker = covered(chat)
    whole = chat.view(as_of=summary - 1).messages
    before = chat.tokens(COUNTER)
    done = manager(chat, limit=LARGE).restore(chat)
    assert done.seqs == (marker, clearing, summary)
    assert [step.kind for step in done.steps] == [Kind.MARKER, Kind.CLEARING, Kind.SUMMARY]
    assert (done.tokens_before, done.room, done.window) == (before, LARGE // 2, LARGE)
    assert done.tokens_after == chat.tokens(COUNTER) > before
    assert chat.view().messages[: len(whole)] == whole
    assert (done.changed, done.stopped_at, done.dry_run) == (True, None, False)
    by = [entry for entry in chat.audit() if entry.kind is Kind.UNCOVERING]
    assert [entry.seq for entry in by] == [step.uncovering for step in done.steps]
    assert {entry.entry.details["record"]["trigger"] for entry in by} == {"restore"}
    assert chat.verify().ok


def test_dry_run_says_the_same_and_writes_nothing(chat):
    covered(chat)
    context, before = manager(chat, limit=LARGE), state(chat)
    foreseen = context.restore(chat, system="Be brief.", dry_run=True)
    assert state(chat) == before
    done = context.restore(chat, system="Be brief.")
    assert foreseen.dry_run
    assert [step.tokens_after for step in foreseen.steps] == [s.tokens_after for s in done.steps]
    assert (foreseen.seqs, foreseen.tokens_after) == (done.seqs, done.tokens_after)
    assert {step.uncovering for step in foreseen.steps} == {None}
    assert foreseen.to_dict()["steps"][0]["kind"] == "marker"


def test_restore_stops_at_the_first_that_does_not_fit(chat):
    _, clearing, marker = covered(chat)
    room = manager(chat, limit=LARGE).restore(chat, dry_run=True).steps[0].tokens_after
    done = manager(chat, limit=2 * room + 1).restore(chat)
    assert done.seqs == (marker,)
    assert (done.stopped_at, done.room) == (clearing, room)
    assert done.tokens_needed > room >= done.tokens_after == chat.tokens(COUNTER)
    again = manager(chat, limit=2 * room + 1).restore(chat)
    assert (again.changed, again.stopped_at) == (False, clearing)


def test_system_prompt_tools_and_bytes_count(chat):
    fill(chat, 6)
    seq = condense(chat, [2, 3, 4])
    needed = manager(chat, limit=LARGE).restore(chat, dry_run=True).tokens_after
    small = manager(chat, limit=2 * needed)
    assert small.restore(chat, dry_run=True).seqs == (seq,)
    assert small.restore(chat, system="Be brief.").stopped_at == seq
    few = manager(chat, limit=LARGE, limits=Budget(bytes=10))
    assert few.restore(chat).stopped_at == seq


def test_companions_go_with_their_summary(chat):
    fill(chat, 6)
    seq = condense(chat, [2, 3, 4], companions=[NewMessage("assistant", "ok")])
    done = manager(chat, limit=LARGE).restore(chat)
    assert done.seqs == (seq,)
    assert shown(chat)[:6] == [1, 2, 3, 4, 5, 6]
    assert done.tokens_after == chat.tokens(COUNTER)


def test_restore_leaves_rewound_summaries_alone(chat):
    fill(chat, 6)
    condense(chat, [2, 3])
    chat.rewind(to=6)
    before = state(chat)
    done = manager(chat, limit=LARGE).restore(chat)
    assert (done.changed, done.stopped_at) == (False, None)
    assert done.tokens_before == done.tokens_after
    assert state(chat) == before


def test_restore_uncovers_the_managers_compactions(chat):
    grow(chat)
    whole = chat.view().messages
    manager(chat).manage(chat)
    assert chat.view().messages != whole
    manager(chat, limit=LARGE).restore(chat)
    assert chat.view().messages == whole
