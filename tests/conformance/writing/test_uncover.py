"""Uncovering: what it brings back, what it leaves alone, and what it refuses."""

from dataclasses import replace

import pytest

from roocontext import Kind, NewMessage, Plan
from roocontext.errors import (
    InvalidPlan,
    MessageNotFound,
    NothingToUndo,
    UncoverRefused,
    UndoRefused,
    VersionConflict,
)
from support.dialogue import at, fill, shown, state, work

OK = NewMessage("assistant", "ok")


def condense(chat, hide, **options):
    return chat.commit(Plan.condense(chat.view(), hide, "S", **options)).seq


def truncate(chat, hide, **options):
    return chat.commit(Plan.truncate(chat.view(), hide, "M", **options)).seq


def refused(chat, seq):
    before = state(chat)
    with pytest.raises(UncoverRefused) as caught:
        chat.uncover(seq)
    assert state(chat) == before
    assert caught.value.seq == seq
    return caught.value


def tags(chat):
    return {entry.seq: entry.uncovered_by for entry in chat.audit() if entry.uncovered_by}


@pytest.mark.every_leg
@pytest.mark.parametrize("hide", [condense, truncate])
def test_uncover_shows_the_hidden_rows_and_keeps_later_ones(chat, hide):
    fill(chat, 6)
    seq = hide(chat, [2, 3, 4])
    fill(chat, 2)
    assert shown(chat) == [1, seq, 5, 6, 8, 9]
    done = chat.uncover(seq)
    assert shown(chat) == [1, 2, 3, 4, 5, 6, 8, 9]
    assert (done.target, done.rows, done.seq, done.head_seq) == (seq, (seq,), 10, 10)
    assert (done.left, done.returned, done.restored, done.changed) == (1, 3, 0, True)
    assert (done.session_id, done.hash) == (chat.id, chat.head().hash)
    assert chat.head_seq() == 10
    assert tags(chat) == {seq: 10}
    assert chat.verify().ok
    assert chat.rebuild() == 0


@pytest.mark.every_leg
def test_uncover_of_a_clearing_shows_the_outputs(chat):
    _, told = work(chat, output="long " * 60)
    before = chat.view().messages
    clearing = chat.commit(Plan.clear(chat.view(), [(told, 0)])).seq
    done = chat.uncover(clearing)
    assert (done.left, done.returned, done.restored) == (0, 0, 1)
    assert chat.view().messages == before
    assert tags(chat) == {clearing: done.seq}
    again = chat.commit(Plan.clear(chat.view(), [(told, 0)])).seq
    assert chat.view().messages[-1].cleared == (0,)
    assert chat.rewind(to=clearing).changed
    assert chat.view().messages[-1].cleared == (0,)
    assert [entry.cleared for entry in chat.audit() if entry.cleared] == [((0, clearing),)]
    chat.rewind(to=again)
    assert [entry.cleared for entry in chat.audit() if entry.cleared] == [((0, again),)]
    assert chat.verify().ok


def test_clearing_of_hidden_rows_is_uncovered_too(chat):
    fill(chat, 2)
    asked, told = work(chat, output="long " * 60)
    clearing = chat.commit(Plan.clear(chat.view(), [(told, 0)])).seq
    summary = condense(chat, [asked, told])
    view = chat.view().messages
    done = chat.uncover(clearing)
    assert (done.changed, done.left, done.returned, done.restored) == (True, 0, 0, 1)
    assert chat.view().messages == view
    chat.uncover(summary)
    assert [message.cleared for message in chat.view().messages] == [()] * 4


def test_uncover_takes_earlier_companions_along(chat):
    fill(chat, 4)
    plan = Plan.condense(chat.view(), [1, 2], "S", companions=[OK])
    summary, ok = plan.rows
    seq = chat.commit(replace(plan, rows=(ok, summary), lead=1)).seq
    assert chat.uncover(seq).rows == (seq, seq - 1)
    assert shown(chat) == [1, 2, 3, 4]
    assert chat.rebuild() == 0


def test_uncover_names_live_companions_only(chat):
    fill(chat, 4)
    seq = condense(chat, [1, 2], companions=[OK, OK])
    chat.rewind(to=seq + 1)
    assert chat.uncover(seq).rows == (seq, seq + 1)
    assert shown(chat) == [1, 2, 3, 4]
    assert chat.rebuild() == 0


def test_repeated_uncover_returns_the_first(chat):
    fill(chat, 4)
    seq = condense(chat, [1, 2])
    first = chat.uncover(seq)
    assert chat.uncover(seq) == replace(first, changed=False)
    assert chat.uncover(seq, expected_seq=seq) == replace(first, changed=False)
    fill(chat, 1)
    assert chat.uncover(seq) == replace(first, changed=False, head_seq=first.seq + 1)


def test_uncover_of_other_entries_is_refused(chat):
    fill(chat, 4)
    seq = condense(chat, [1, 2], companions=[OK])
    note = chat.pin(3).seq
    rewind = chat.rewind(to=seq + 1, expected_seq=seq + 1)
    assert not rewind.changed
    assert "a message" in str(refused(chat, 3))
    assert "a companion" in str(refused(chat, seq + 1))
    assert "a note" in str(refused(chat, note))
    uncovering = chat.uncover(seq).seq
    assert "an uncovering" in str(refused(chat, uncovering))
    back = chat.rewind(to=seq - 1).seq
    assert "a rewind" in str(refused(chat, back))
    assert str(back) in str(refused(chat, seq))
    with pytest.raises(MessageNotFound):
        chat.uncover(99)
    chat.rewind(to=seq + 1)
    with pytest.raises(VersionConflict):
        chat.uncover(seq, expected_seq=1)


def test_uncover_of_a_hidden_summary_names_the_hiding_one(chat):
    fill(chat, 6)
    first = condense(chat, [1, 2])
    second = truncate(chat, [first, 3])
    assert refused(chat, first).hidden_by == second
    chat.uncover(second)
    chat.uncover(first)
    assert shown(chat) == [1, 2, 3, 4, 5, 6]


def test_undo_never_takes_back_an_uncovering(chat):
    fill(chat, 4)
    seq = condense(chat, [1, 2])
    done = chat.uncover(seq)
    with pytest.raises(NothingToUndo, match=rf"rewind\(to={seq}\)"):
        chat.undo()
    rewind = chat.rewind(to=seq).seq
    chat.undo()
    done = chat.rewind(to=rewind)
    done = chat.uncover(seq)
    for options in ({}, {"of": done.seq}, {"of": done.seq, "force": True}):
        with pytest.raises(UndoRefused, match=rf"rewind\(to={done.seq - 1}\)") as caught:
            chat.undo(**options)
        assert caught.value.uncovering == done.seq
    chat.rewind(to=done.seq - 1)
    assert seq in shown(chat)


def test_plan_made_before_an_uncovering_is_refused(chat):
    fill(chat, 6)
    seq = condense(chat, [1, 2])
    plan = Plan.condense(chat.view(), [3, 4], "T")
    chat.uncover(seq)
    with pytest.raises(VersionConflict):
        chat.commit(plan)


def test_plan_that_hides_an_uncovered_summary_is_refused(chat):
    fill(chat, 6)
    seq = condense(chat, [2, 3])
    chat.pin(seq)
    chat.uncover(seq)
    with pytest.raises(InvalidPlan, match="is not live"):
        chat.commit(
            replace(Plan.condense(chat.view(), [1], "T"), hides=((1, 1), (seq, seq)), compat=True)
        )
    # Its pin binds nothing any more: a range over it stands for the others.
    plan = replace(Plan.condense(chat.view(), [5, 6], "T"), hides=((5, 6),))
    fill(chat, 1)
    chat.commit(plan)
    wide = Plan.condense(chat.view(), [2, 3, 4], "U")
    assert chat.commit(wide).hidden == 3
    assert chat.rebuild() == 0


def test_uncovered_summary_is_no_target_of_a_rewind_by_id_or_time(chat):
    fill(chat, 4)
    summary = NewMessage("user", "S", message_id="sum", ts=77_000)
    seq = chat.commit(Plan.condense(chat.view(), [1, 2], summary)).seq
    chat.uncover(seq)
    for target in ({"to": "sum"}, {"ts": 77_000}):
        with pytest.raises(MessageNotFound):
            chat.rewind(**target)
    assert chat.rewind(to=at(40_000 * 86_400_000)).target == 4


def test_uncovered_summary_is_not_live_for_policies_and_counts(chat):
    fill(chat, 4)
    seq = condense(chat, [1, 2])
    assert [row.message.seq for row in chat.internals.live()] == [1, 2, seq, 3, 4]
    chat.uncover(seq)
    assert [row.message.seq for row in chat.internals.live()] == [1, 2, 3, 4]
    assert {row.condense_parent for row in chat.internals.live()} == {None}


def test_stats_and_audit_show_uncovered_rows(chat):
    fill(chat, 4)
    seq = condense(chat, [1, 2])
    done = chat.uncover(seq, trigger="larger model")
    stats = chat.stats()
    assert (stats.messages, stats.visible_messages, stats.hidden_messages) == (5, 4, 1)
    entry = next(entry for entry in chat.audit() if entry.seq == seq)
    assert (entry.visible, entry.hidden_by, entry.condense_parent) == (False, done.seq, None)
    assert entry.hider is not None
    assert (entry.hider.kind, entry.hider.trigger) == (Kind.UNCOVERING, "larger model")
    fork = chat.fork()
    assert shown(fork) == shown(chat)
    assert shown(chat.fork(seq)) == [seq, 3, 4]


def test_rows_at_the_end_are_placed_at_the_end_of_the_planned_view(chat):
    fill(chat, 4)
    plan = Plan.condense(chat.view(), [1, 2], "S", at_end=True)
    fill(chat, 2)
    seq = chat.commit(plan).seq
    assert shown(chat) == [3, 4, seq, 5, 6]
    assert chat.rebuild() == 0
