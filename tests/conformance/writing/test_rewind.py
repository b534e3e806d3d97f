"""Rewind and undo: targets of every kind, and what they refuse.

`conformance/test_machine.py` compares what they change, at any seq and any moment, with the oracle.
"""

from datetime import UTC, datetime

import pytest

from roocontext import Plan
from roocontext.errors import MessageNotFound, NothingToUndo, UndoRefused, VersionConflict
from support.dialogue import at, fill, shown, state


def unknown(chat, **target):
    before = state(chat)
    with pytest.raises(MessageNotFound) as caught:
        chat.rewind(**target)
    assert state(chat) == before
    return caught.value.candidates


def test_rewind_without_the_target_goes_before_it(chat):
    fill(chat, 6)
    done = chat.rewind(to=4, keep_target=False)
    assert (done.to, done.seq, done.head_seq, done.left, done.returned) == (3, 7, 7, 3, 0)
    assert (done.changed, done.undone, done.hash) == (True, None, chat.head().hash)
    assert shown(chat) == [1, 2, 3]
    assert chat.append("user", "go on").seq == 8


def test_rewind_to_a_message_id_takes_the_newest_live_match(chat):
    for name in ("hidden", "same", "same", "same", "gone", "gone"):
        chat.append("user", "x " * 20, message_id=name)
    chat.commit(Plan.condense(chat.view(), [1, 2], "S"))
    assert chat.rewind(to="hidden", dry_run=True).to == 1
    chat.rewind(to=3)
    assert chat.rewind(to="same", keep_target=False).to == 2
    assert chat.rewind(to="same").changed is False
    assert unknown(chat, to="gone") == (6, 5)
    assert chat.rewind(to=6).returned == 4


def test_message_is_found_by_its_id(chat):
    for name in ("same", "same", "other"):
        chat.append("user", "x", message_id=name)
    assert (chat.message("same").seq, chat.message("other").seq) == (2, 3)
    chat.rewind(to=1)
    assert (chat.message("same").seq, chat.message("other").seq) == (1, 3)
    with pytest.raises(MessageNotFound, match="No message has the id 'some'") as caught:
        chat.message("some")
    assert caught.value.facts["candidates"][0] == "same"


def test_rewind_to_an_unknown_target_names_candidates(chat, clock):
    assert unknown(chat, to=at(5)) == unknown(chat, ts=5) == ()
    clock.now = 5_000
    fill(chat, 2)
    assert unknown(chat, to="m") == ()
    for name in ("apple", "pear", "banana"):
        chat.append("user", "x", message_id=name)
    assert unknown(chat, to="aple")[0] == "apple"
    assert unknown(chat, to="zzz")
    assert unknown(chat, to=6) == unknown(chat, to=99) == (0, 5)
    assert unknown(chat, to=0, keep_target=False) == (0,)
    for moment in (at(4_999), datetime.min.replace(tzinfo=UTC)):
        assert unknown(chat, to=moment) == (1,)


def test_rewind_to_ts_takes_the_first_live_match(chat):
    for ts in (100, 200, 200, None, 300):
        chat.append("user", "x", ts=ts)
    assert chat.rewind(ts=200).to == 2
    assert shown(chat) == [1, 2]
    chat.undo()
    assert chat.rewind(ts=300, keep_target=False).to == 4
    assert unknown(chat, ts=301) == (200, 200)
    assert unknown(chat, ts=-5)[0] == 100


@pytest.mark.parametrize("to", [4, 5, 2, datetime.max.replace(tzinfo=UTC)], ids=str)
def test_rewind_without_effect_writes_nothing(chat, to):
    fill(chat, 4)
    chat.set_title("a note is no change")
    if to == 2:
        chat.rewind(to=2)
    before = state(chat)
    done = chat.rewind(to=to)
    assert (done.seq, done.hash, done.head_seq, done.changed) == (None, None, before[1], False)
    assert (done.left, done.returned) == (0, 0)
    assert state(chat) == before


@pytest.mark.parametrize("target", [{"to": 1}, {"to": "m"}, {"ts": 7}], ids=str)
def test_rewind_with_a_stale_version_is_refused(chat, target):
    chat.append("user", "x", message_id="m", ts=7)
    fill(chat, 2)
    with pytest.raises(VersionConflict):
        chat.rewind(**target, expected_seq=2)
    assert chat.rewind(**target, expected_seq=3).changed
    with pytest.raises(VersionConflict):
        chat.undo(expected_seq=3)
    assert chat.undo(expected_seq=4).undone == 4


@pytest.mark.parametrize("options", [{}, {"force": True}, {"of": 1}], ids=str)
def test_undo_without_a_rewind_is_refused(chat, options):
    for said in (0, 2):
        chat.rewind(to=len(fill(chat, said)))
        before = state(chat)
        with pytest.raises(NothingToUndo):
            chat.undo(**options)
        assert state(chat) == before


def test_undo_of_another_rewind_is_refused(chat):
    fill(chat, 4)
    first = chat.rewind(to=3).seq
    second = chat.rewind(to=1).seq
    before = state(chat)
    for of in (first, 1, 99):
        with pytest.raises(UndoRefused) as caught:
            chat.undo(of=of)
        assert caught.value.rewind == second
    assert state(chat) == before
    assert chat.undo(of=second).undone == second
    assert shown(chat) == [1, 2, 3]


def test_rewind_records_its_trigger(chat):
    fill(chat, 3)
    chat.rewind(to=1, trigger="user")
    chat.undo(trigger="mistake")
    triggers = [entry.entry.details["record"]["trigger"] for entry in chat.audit(after=3)]
    assert triggers == ["user", "mistake"]
