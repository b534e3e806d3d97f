"""The audit, the difference of two points, the counts, notes and pins."""

import pytest

from roocontext import Plan
from roocontext.errors import MessageNotFound
from roocontext.log.counting import BYTES
from support.dialogue import fill, result, seqs, shown, state, work


def test_audit_says_what_hides_a_row_since_when_and_why(chat, clock):
    said = fill(chat, 8)
    clock.now = 50_000
    plan = Plan.condense(chat.view(), said[:2], "S", trigger="auto")
    summary = chat.commit(plan).seq
    clock.now = 60_000
    plan = Plan.truncate(chat.view(), said[2:4], "M", trigger="overflow")
    marker = chat.commit(plan).seq
    clock.now = 70_000
    rewind = chat.rewind(to=marker, trigger="user")
    assert not rewind.changed
    later = fill(chat, 1)
    clock.now = 80_000
    rewind = chat.rewind(to=marker, trigger="user")
    entries = {entry.seq: entry for entry in chat.audit()}
    for seqs_, hider in (
        (said[:2], (summary, "summary", 50_000, "auto")),
        (said[2:4], (marker, "marker", 60_000, "overflow")),
        (later, (rewind.seq, "rewind", 80_000, "user")),
    ):
        for seq in seqs_:
            assert entries[seq].hidden_by == hider[0]
            assert entries[seq].hider[:4] == hider
            assert not entries[seq].visible
    for seq in said[4:]:
        assert entries[seq].visible
        assert entries[seq].hider is entries[seq].hidden_by is None


def test_audit_is_streamed_in_pages_of_one_moment(chat):
    fill(chat, 25)
    pages = iter(chat.internals.audit_pages(10))
    first = next(pages)
    chat.rewind(to=3)
    fill(chat, 5)
    rest = list(pages)
    assert [len(page) for page in (first, *rest)] == [10, 10, 5]
    assert [entry.seq for page in (first, *rest) for entry in page] == list(range(1, 26))
    assert all(entry.visible for page in rest for entry in page)
    assert seqs(chat.audit(after=28)) == [29, 30, 31]
    assert len(list(chat.audit())) == 31


def test_long_audit_is_whole(chat):
    chat.append_many([{"role": "user", "content": str(number)} for number in range(1_203)])
    assert [entry.content for entry in chat.audit()] == [str(number) for number in range(1_203)]


def test_diff_of_two_points_lists_rows_that_left_and_came(chat):
    said = fill(chat, 6)
    _, told = work(chat, output="long " * 60)
    chat.commit(Plan.condense(chat.view(), said[1:4], "S"))
    summary = chat.head_seq()
    chat.commit(Plan.clear(chat.view(), [(told, 0)]))
    found = chat.diff(told)
    assert (found.old, found.new) == (told, chat.head().seq)
    assert seqs(found.left) == said[1:4]
    assert seqs(found.came) == [summary]
    assert (found.cleared, found.restored) == (((told, 0),), ())
    back = chat.diff(chat.head().seq, told)
    assert (seqs(back.left), seqs(back.came)) == ([summary], said[1:4])
    assert (back.cleared, back.restored) == ((), ((told, 0),))
    same = chat.diff(4, 4)
    assert same.left == same.came == same.cleared == same.restored == ()
    assert seqs(chat.diff(0, 3).came) == [1, 2, 3]


def test_block_that_left_the_view_is_neither_cleared_nor_restored(chat):
    fill(chat, 1)
    asked, told = work(chat, output="long " * 60)
    chat.commit(Plan.clear(chat.view(), [(told, 0)], "c"))
    chat.rewind(to=1)
    found = chat.diff(told + 1)
    assert seqs(found.left) == [asked, told]
    assert found.left[1].content == [result("t1", "c")]
    assert (found.cleared, found.restored) == ((), ())


def test_diff_is_in_view_order(chat):
    said = fill(chat, 6)
    chat.commit(Plan.condense(chat.view(), said[3:5], "S"))
    chat.commit(Plan.condense(chat.view(), said[:2], "T"))
    assert seqs(chat.diff(0).came) == shown(chat) == [8, 3, 7, 6]


def test_tokens_of_the_past_leave_out_what_is_cleared_and_hidden(chat):
    said = fill(chat, 4)
    called, told = work(chat, output="long " * 60)
    chat.commit(Plan.clear(chat.view(), [(told, 0)]))
    chat.commit(Plan.condense(chat.view(), [said[0], called, told], "S"))
    last = chat.head().seq
    assert chat.tokens(BYTES, as_of=last) == chat.tokens(BYTES)
    for seq in range(last + 1):
        shown = chat.view(as_of=seq).messages
        expected = sum(BYTES.count(m.role, m.content, m.format) for m in shown)
        assert chat.tokens(BYTES, as_of=seq) == expected


def test_only_messages_are_pinned(chat):
    said = fill(chat, 3)
    chat.set_title("t")
    summary = chat.commit(Plan.condense(chat.view(), said[:2], "S")).seq
    chat.rewind(to=2)
    before = state(chat)
    for seq in (4, 6, 99):
        with pytest.raises(MessageNotFound):
            chat.pin(seq)
        with pytest.raises(MessageNotFound):
            chat.unpin(seq)
    assert state(chat) == before
    chat.pin(summary)
    chat.pin(said[2])
    assert chat.pins() == {summary, said[2]}


def test_notes_are_kept_and_seen_by_no_model(chat, clock):
    fill(chat, 1)
    clock.now = 9_000
    receipt = chat.note("failure", {"why": ["timeout", 3]}, target=1)
    assert (receipt.seq, receipt.head_seq) == (2, 1)
    (note,) = chat.notes("failure")
    assert (note.seq, note.note, note.target) == (2, "failure", 1)
    assert (note.content, note.recorded_at) == ({"why": ["timeout", 3]}, 9_000)
    assert chat.notes("nothing") == []
    assert shown(chat) == [1]
    chat.rewind(to=0)
    assert chat.notes("failure") == [note]
    entry = list(chat.audit())[1]
    assert (entry.kind, entry.visible, entry.rewound_by) == ("note", False, None)
