"""Uncovering: its receipt, what it leaves alone, and what it refuses.

`conformance/test_machine.py` compares what it brings back with the oracle.
"""

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
from support.dialogue import at, fill, shown, state

OK = NewMessage("assistant", "ok")


def condense(chat, hide, **options):
    return chat.commit(Plan.condense(chat.view(), hide, "S", **options)).seq


def refused(chat, seq):
    before = state(chat)
    with pytest.raises(UncoverRefused) as caught:
        chat.uncover(seq)
    assert state(chat) == before
    assert caught.value.seq == seq
    return caught.value


def test_uncover_brings_back_and_its_repetition_returns_the_first(chat):
    fill(chat, 4)
    summary, ok = (plan := Plan.condense(chat.view(), [1, 2], "S", companions=[OK])).rows
    seq = chat.commit(replace(plan, rows=(ok, summary), lead=1)).seq
    first = chat.uncover(seq, trigger="larger model")
    assert (first.session_id, first.target, first.rows) == (chat.id, seq, (seq, seq - 1))
    assert (first.left, first.returned, first.restored, first.changed) == (2, 2, 0, True)
    assert (first.seq, first.hash) == (first.head_seq, chat.head().hash)
    assert shown(chat) == shown(chat.fork()) == [1, 2, 3, 4]
    assert chat.uncover(seq, expected_seq=seq) == replace(first, changed=False)
    fill(chat, 1)
    assert chat.uncover(seq) == replace(first, changed=False, head_seq=first.seq + 1)
    hider = next(entry.hider for entry in chat.audit() if entry.seq == seq)
    assert (hider.kind, hider.trigger) == (Kind.UNCOVERING, "larger model")
    assert {row.condense_parent for row in chat.internals.live()} == {None}
    assert [row.message.seq for row in chat.internals.live()] == shown(chat)


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
    second = chat.commit(Plan.truncate(chat.view(), [seq, seq + 1], "M")).seq
    assert refused(chat, seq).hidden_by == second


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
