"""Rewind and undo: targets of every kind, what they change, and what they refuse."""

from datetime import UTC, datetime

import pytest

from roocontext import Plan
from roocontext.errors import MessageNotFound, NothingToUndo, UndoRefused, VersionConflict
from support.dialogue import at, fill, shown, state, work


def unknown(chat, **target):
    before = state(chat)
    with pytest.raises(MessageNotFound) as caught:
        chat.rewind(**target)
    assert state(chat) == before
    return caught.value.candidates


def test_rewind_to_a_seq_shows_the_view_of_then(chat):
    fill(chat, 6)
    done = chat.rewind(to=4)
    assert (done.to, done.seq, done.head_seq, done.changed) == (4, 7, 7, True)
    assert (done.left, done.returned, done.undone) == (2, 0, None)
    assert done.hash == chat.head().hash
    assert shown(chat) == [1, 2, 3, 4]
    assert chat.append("user", "go on").seq == 8
    assert shown(chat) == [1, 2, 3, 4, 8]


def test_rewind_without_the_target_goes_before_it(chat):
    fill(chat, 6)
    assert chat.rewind(to=4, keep_target=False).to == 3
    assert shown(chat) == [1, 2, 3]
    assert chat.rewind(to=1, keep_target=False).left == 3
    assert shown(chat) == []
    assert unknown(chat, to=0, keep_target=False) == (0,)


def test_rewind_to_a_message_id_finds_its_message(chat):
    for number in range(4):
        chat.append("user", "x", message_id=f"m{number}")
    assert chat.rewind(to="m2").to == 3
    assert shown(chat) == [1, 2, 3]
    assert chat.rewind(to="m2", keep_target=False).to == 2
    assert shown(chat) == [1, 2]


def test_rewind_to_a_repeated_message_id_takes_the_newest_live_one(chat):
    for _ in range(3):
        chat.append("user", "x", message_id="same")
    chat.append("user", "y")
    chat.rewind(to=2)
    chat.append("user", "z")
    assert chat.rewind(to="same").to == 2


def test_rewind_to_the_id_of_a_rewound_message_is_refused(chat):
    chat.append("user", "x")
    chat.append("user", "y", message_id="gone")
    chat.append("user", "y", message_id="gone")
    chat.rewind(to=1)
    assert unknown(chat, to="gone") == (3, 2)
    assert chat.rewind(to=3).returned == 2


def test_rewind_to_the_id_of_a_hidden_message_works(chat):
    chat.append("user", "x " * 20, message_id="hidden")
    fill(chat, 3)
    chat.commit(Plan.condense(chat.view(), [1, 2], "S"))
    assert chat.rewind(to="hidden").to == 1
    assert shown(chat) == [1]


def test_message_is_found_by_its_id(chat):
    for name in ("same", "same", "other"):
        chat.append("user", "x", message_id=name)
    assert (chat.message("same").seq, chat.message("other").seq) == (2, 3)
    chat.rewind(to=1)
    assert (chat.message("same").seq, chat.message("other").seq) == (1, 3)
    with pytest.raises(MessageNotFound, match="No message has the id 'some'") as caught:
        chat.message("some")
    assert caught.value.facts["candidates"][0] == "same"


def test_rewind_to_unknown_id_lists_nearest(chat):
    for name in ("apple", "pear", "banana"):
        chat.append("user", "x", message_id=name)
    found = unknown(chat, to="aple")
    assert found[0] == "apple"
    assert unknown(chat, to="zzz")


def test_rewind_to_unknown_id_without_any_ids_says_so(chat):
    assert unknown(chat, to=at(5)) == unknown(chat, ts=5) == ()
    fill(chat, 2)
    assert unknown(chat, to="m") == ()


@pytest.mark.parametrize("target", [4, 99])
def test_rewind_to_unknown_seq_names_the_bounds(chat, target):
    fill(chat, 3)
    assert unknown(chat, to=target) == (0, 3)


def test_rewind_to_ts_takes_the_first_live_match(chat):
    for ts in (100, 200, 200, None, 300):
        chat.append("user", "x", ts=ts)
    assert chat.rewind(ts=200).to == 2
    assert shown(chat) == [1, 2]
    chat.undo()
    assert chat.rewind(ts=300, keep_target=False).to == 4
    assert unknown(chat, ts=301) == (200, 200)
    assert unknown(chat, ts=-5)[0] == 100


def test_rewind_to_a_datetime_cuts_before_the_first_later_message(chat, clock):
    clock.now, clock.step = 5_000, 0
    for ts in (1_000, 2_000, 4_000, 3_000, None, 6_000):
        chat.append("user", "x", ts=ts)
    clock.step = 1
    done = chat.rewind(to=at(2_500))
    assert (done.to, shown(chat)) == (2, [1, 2])
    chat.undo()
    assert chat.rewind(to=at(5_000)).to == 5
    chat.undo()
    assert chat.rewind(to=at(4_999)).to == 4
    chat.undo()
    assert chat.rewind(to=at(2_500), keep_target=False).to == 1


def test_rewind_to_a_datetime_before_everything_is_refused(chat, clock):
    clock.now = 5_000
    fill(chat, 2)
    assert unknown(chat, to=at(4_999)) == (1,)
    assert unknown(chat, to=datetime.min.replace(tzinfo=UTC)) == (1,)


def test_rewind_to_a_datetime_after_everything_writes_nothing(chat):
    fill(chat, 2)
    chat.set_title("note")
    before = state(chat)
    done = chat.rewind(to=datetime.max.replace(tzinfo=UTC))
    assert not done.changed
    assert state(chat) == before


def test_rewind_without_effect_writes_nothing(chat):
    fill(chat, 4)
    before = state(chat)
    done = chat.rewind(to=4)
    assert (done.seq, done.hash, done.head_seq, done.changed) == (None, None, 4, False)
    assert (done.left, done.returned, done.to) == (0, 0, 4)
    chat.set_title("a note is no change")
    after = state(chat)
    assert not chat.rewind(to=4).changed
    assert not chat.rewind(to=5).changed
    assert state(chat) == after != before
    chat.rewind(to=2)
    again = state(chat)
    assert not chat.rewind(to=2).changed
    assert not chat.rewind(to=6).changed
    assert state(chat) == again


def test_rewind_with_a_stale_version_is_refused(chat):
    fill(chat, 3)
    with pytest.raises(VersionConflict):
        chat.rewind(to=1, expected_seq=2)
    assert chat.rewind(to=1, expected_seq=3).changed
    with pytest.raises(VersionConflict):
        chat.undo(expected_seq=3)
    assert chat.undo(expected_seq=4).undone == 4


def test_undo_gives_back_exactly_the_view(chat):
    said = fill(chat, 4)
    _, told = work(chat, output="long " * 60)
    chat.commit(Plan.clear(chat.view(), [(told, 0)]))
    chat.commit(Plan.condense(chat.view(), said[:3], "S"))
    before = chat.view()
    rewind = chat.rewind(to=2)
    done = chat.undo()
    assert (done.undone, done.to, done.changed) == (rewind.seq, rewind.seq - 1, True)
    assert (done.left, done.returned) == (rewind.returned, rewind.left)
    assert chat.view().messages == before.messages
    assert [entry.rewound_by for entry in chat.audit()] == [None] * chat.head().seq


def test_undo_without_a_rewind_is_refused(chat):
    with pytest.raises(NothingToUndo):
        chat.undo()
    fill(chat, 2)
    chat.rewind(to=2)
    before = state(chat)
    for options in ({}, {"force": True}, {"of": 1}):
        with pytest.raises(NothingToUndo):
            chat.undo(**options)
    assert state(chat) == before


def test_undo_with_later_entries_is_refused(chat):
    fill(chat, 5)
    rewind = chat.rewind(to=2)
    chat.set_title("notes do not count")
    fill(chat, 3)
    before = state(chat)
    with pytest.raises(UndoRefused) as caught:
        chat.undo()
    assert (caught.value.rewind, caught.value.since) == (rewind.seq, 3)
    assert state(chat) == before
    done = chat.undo(force=True)
    assert (done.undone, done.left, done.returned) == (rewind.seq, 3, 3)
    assert shown(chat) == [1, 2, 3, 4, 5]
    chat.undo()
    assert shown(chat) == [1, 2, 8, 9, 10]


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
