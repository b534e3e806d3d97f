"""Batches: many items in one transaction, all or none, and safe to repeat."""

import pytest
from msgspec.structs import replace

from roocontext import Counts, NewMessage, NewNote, Pin, Plan, Rewind, SetMetadata, SetTitle, Unpin
from roocontext.errors import (
    DuplicateMessage,
    InvalidIdentifier,
    InvalidMessage,
    InvalidOption,
    InvalidPlan,
    MessageNotFound,
    VersionConflict,
)
from roocontext.log.counting import Size
from roocontext.log.plan import Action
from roocontext.store.writing.batch import Written


def said(count, start=1):
    return [
        NewMessage("user", f"message {n} " * 9, client_id=f"m{n}")
        for n in range(start, count + start)
    ]


def condensed(head_seq, hides, **options):
    counts = Counts("given", Size(10), Size(5))
    rows = options.pop("rows", (NewMessage("user", "the summary"),))
    return Plan(
        head_seq=head_seq, action=Action.CONDENSE, hides=hides, rows=rows, counts=counts, **options
    )


def imported():
    """A whole history: every kind of item, each with a client id."""
    call = [{"type": "tool_use", "id": "t1", "name": "run", "input": {}}]
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "much output " * 9}]
    companion = NewMessage("assistant", "Understood.")
    return [
        SetTitle("imported", client_id="title"),  # 1
        SetMetadata({"from": "elsewhere"}, client_id="metadata"),  # 2
        *said(4),  # 3-6
        NewNote("foreign", {"row": 1}, target=3, ts=77, client_id="foreign"),  # 7
        condensed(
            6,
            ((3, 5),),
            rows=(NewMessage("user", "S"), companion),
            client_id="plan",
            compaction_id="condense-1",
        ),  # 8-9
        NewMessage("assistant", call, client_id="call"),  # 10
        NewMessage("user", result, client_id="result"),  # 11
        Plan(
            head_seq=11,
            action=Action.CLEAR,
            clears=((11, 0),),
            counts=Counts("given", Size(9), Size(5)),
            client_id="clearing",
        ),  # 12
        NewMessage("user", "a wrong turn", client_id="wrong"),  # 13
        Rewind(12, head_seq=13, client_id="rewind"),  # 14
        Pin(6, client_id="pin"),  # 15
        Unpin(6, client_id="unpin"),  # 16
        Pin(6, client_id="pin again"),  # 17
        *said(2, start=5),  # 18-19
    ]


def test_batch_writes_messages_notes_plans_and_rewinds(chat):
    done = chat.write_batch(imported(), expected_seq=0)
    assert all(isinstance(receipt, Written) and receipt.new for receipt in done)
    assert [receipt.seqs for receipt in done] == [
        *((seq,) for seq in range(1, 8)),
        (8, 9),
        *((seq,) for seq in range(10, 20)),
    ]
    heads = [0, 0, 3, 4, 5, 6, 6, 9, 10, 11, 12, 13, 14, 14, 14, 14, 18, 19]
    assert [receipt.head_seq for receipt in done] == heads
    assert (done[-1].seq, done[-1].hash) == (chat.head().seq, chat.head().hash)
    audit = {entry.seq: entry for entry in chat.audit()}
    assert [receipt.seq for receipt in done] == [receipt.seqs[0] for receipt in done]
    assert len({entry.entry.recorded_at for entry in audit.values()}) == 1
    assert audit[7].entry.ts == 77
    view = chat.view()
    assert [m.seq for m in view.messages] == [8, 9, 6, 10, 11, 18, 19]
    assert view.messages[0].compaction_id == view.messages[1].compaction_id == "condense-1"
    assert view.messages[4].cleared == (0,)
    info = chat.info()
    assert (info.title, info.metadata) == ("imported", {"from": "elsewhere"})
    assert (info.last_seq, info.head_seq) == (19, 19)
    assert chat.pins() == {6}
    assert chat.verify().ok
    assert chat.rebuild() == 0
    assert [m.seq for m in chat.view(as_of=13).messages] == [8, 9, 6, 10, 11, 13]


def test_repeated_batch_gives_its_first_receipts(chat):
    first = chat.write_batch(imported(), expected_seq=0)
    chat.append("user", "and on")
    chat.set_title("since")
    head = chat.head()
    again = chat.write_batch(imported(), expected_seq=0)
    assert chat.head() == head
    assert not any(receipt.new for receipt in again)
    assert [replace(one, new=True, rewound_by=None) for one in again] == first
    assert [receipt.seq for receipt in again if receipt.rewound_by] == [13]
    (one,) = chat.write_batch([imported()[7]], expected_seq=7)
    assert (one.seqs, one.new) == ((8, 9), False)


def test_items_stored_before_are_skipped_if_asked(chat):
    first = chat.write_batch([NewNote("fact", {"n": 1}, client_id="n1")], skip_stored=True)
    items = [
        NewNote("fact", {"n": 2}),
        NewNote("fact", {"n": 1}, client_id="n1"),
        NewMessage("user", "hello", client_id="m"),
        SetTitle("a title", client_id="t"),
    ]
    written = chat.write_batch(items, skip_stored=True)
    assert [(one.seq, one.new) for one in written] == [
        *((2, True), (1, False), (3, True), (4, True))
    ]
    assert written[1].hash == first[0].hash
    assert chat.info().title == "a title"
    again = chat.write_batch([*items[1:], NewNote("fact", {"n": 3})], skip_stored=True)
    assert [(one.seq, one.new) for one in again] == [
        *((1, False), (3, False), (4, False), (5, True))
    ]
    head = chat.head()
    assert [one.seq for one in chat.write_batch(items[1:], skip_stored=True)] == [1, 3, 4]
    other = [NewNote("fact", {"n": 4}), NewNote("fact", {"n": 9}, client_id="n1")]
    with pytest.raises(DuplicateMessage):
        chat.write_batch(other, skip_stored=True)
    with pytest.raises(InvalidOption):  # it names a seq, and what is skipped shifts them
        chat.write_batch([Rewind(0)], expected_seq=3, skip_stored=True)
    for target in (6, 7):
        about_itself = [NewMessage("user", "mine"), NewNote("fact", {}, target=target)]
        with pytest.raises(MessageNotFound):
            chat.write_batch(about_itself, skip_stored=True)
    assert chat.head() == head
    assert chat.verify().ok


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "changed",
    [
        lambda items: [*items, NewMessage("user", "one more", client_id="more")],
        lambda items: [*items, NewMessage("user", "one more")],
        lambda items: [*items[:2], NewMessage("user", "other", client_id="m1"), *items[3:]],
        lambda items: [SetTitle("other", client_id="title"), *items[1:]],
        lambda items: [NewNote("title2", {"title": "imported"}, client_id="title"), *items[1:]],
        lambda items: [Rewind(12, client_id="title")],
        lambda items: [Rewind(11, client_id="rewind")],
        lambda items: [Rewind(12, client_id="clearing")],
        lambda items: [NewMessage("user", "x", client_id="rewind")],
        lambda items: [NewMessage("user", "x", client_id="clearing")],
        lambda items: [Unpin(6, client_id="pin")],
        lambda items: [Pin(5, client_id="pin")],
        lambda items: [condensed(6, ((3, 4),), client_id="plan")],
        lambda items: [condensed(6, ((3, 5),), rows=(NewMessage("user", "S"),), client_id="plan")],
        lambda items: [condensed(6, ((3, 5),), client_id="clearing")],
        lambda items: [condensed(6, ((3, 5),), client_id="m1")],
    ],
)
def test_repeated_batch_with_other_content_or_in_part_is_refused(chat, changed):
    chat.write_batch(imported(), expected_seq=0)
    head = chat.head()
    with pytest.raises(DuplicateMessage):
        chat.write_batch(changed(imported()), expected_seq=19)
    assert chat.head() == head


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Pin(9), MessageNotFound),
        (NewNote("remark", {}, target=2), MessageNotFound),
        (condensed(4, ((2, 3),)), VersionConflict),
        (condensed(6, ((2, 3),)), VersionConflict),
        (condensed(5, ((2, 3),)), InvalidPlan),
        (condensed(5, ((3, 4),), session_id="another"), InvalidPlan),
        (Rewind(7), MessageNotFound),
        (Rewind(2, head_seq=4), VersionConflict),
        (NewMessage("user", float("nan")), InvalidMessage),
        (SetTitle("\0"), InvalidIdentifier),
        (SetMetadata("text"), InvalidOption),
        (NewNote("pin", {}), InvalidOption),
        (Rewind("1"), InvalidOption),
        (Rewind(1, client_id=""), InvalidIdentifier),
        ({"role": "user", "content": "x"}, InvalidOption),
        (None, InvalidOption),
    ],
)
def test_batch_with_one_bad_item_writes_nothing(chat, bad, error):
    chat.append("user", "before")
    chat.note("remark", {})
    head, info = chat.head(), chat.info()
    items = [*said(3), SetTitle("never"), bad, NewMessage("user", "behind")]
    with pytest.raises(error) as caught:
        chat.write_batch(items, expected_seq=1)
    assert type(caught.value) is error
    if error is InvalidMessage:
        assert caught.value.index == items.index(bad)
    assert (chat.head(), chat.info().title) == (head, info.title)
    assert [m.seq for m in chat.view().messages] == [1]


def test_version_is_needed_where_seqs_are_named(chat):
    assert chat.write_batch([]) == []
    chat.write_batch([*said(2), Pin(2)])
    for item in (Rewind(1), condensed(2, ((1, 2),))):
        with pytest.raises(InvalidOption) as caught:
            chat.write_batch([item])
        assert caught.value.name == "expected_seq"
    with pytest.raises(VersionConflict):
        chat.write_batch([Rewind(1)], expected_seq=1)
    with pytest.raises(InvalidOption):
        chat.write_batch(5)


def test_note_since_the_planning_refuses_a_batch_with_seqs(chat):
    """It moves no head, so that the version alone would not show it."""
    items = [*said(3), condensed(3, ((1, 2),))]
    chat.set_title("meanwhile")
    with pytest.raises(VersionConflict) as caught:
        chat.write_batch(items, expected_seq=0)
    assert (caught.value.expected, caught.value.actual) == (3, 4)
    assert chat.head().seq == 1


def test_client_ids_within_a_batch_differ(chat):
    companion = NewMessage("assistant", "ok", client_id="m9")
    plan = condensed(2, ((1, 2),), rows=(NewMessage("user", "S"), companion))
    for items in (
        [*said(2), *said(1)],
        [*said(2), SetTitle("t", client_id="m1")],
        [*said(2), plan, *said(1, start=9)],
    ):
        with pytest.raises(DuplicateMessage):
            chat.write_batch(items, expected_seq=0)
    assert chat.head().seq == 0


def test_plan_and_its_summary_have_one_client_id(chat):
    row = NewMessage("user", "S", client_id="row")
    with pytest.raises(InvalidPlan):
        chat.write_batch(
            [*said(2), condensed(2, ((1, 2),), rows=(row,), client_id="plan")], expected_seq=0
        )
    batch = [*said(2), condensed(2, ((1, 2),), rows=(row,))]
    chat.write_batch(batch, expected_seq=0)
    assert [receipt.new for receipt in chat.write_batch(batch, expected_seq=0)] == [False] * 3


def test_plan_in_a_batch_has_its_own_compaction_id(chat):
    chat.append_many(said(4))
    done = chat.commit(condensed(4, ((1, 2),), compaction_id="condense-1"))
    assert done.compaction_id == chat.view().messages[0].compaction_id == "condense-1"
    head = chat.head()
    for dry_run in (True, False):
        with pytest.raises(InvalidPlan) as caught:
            chat.commit(condensed(5, ((3, 4),), compaction_id="condense-1"), dry_run=dry_run)
        assert caught.value.seq == 5
    for bad in ("", "\0", 5):
        with pytest.raises(InvalidIdentifier):
            chat.commit(condensed(5, ((3, 4),), compaction_id=bad))
    clear = Plan(head_seq=5, action=Action.CLEAR, clears=((1, 0),), compat=True, compaction_id="c")
    with pytest.raises(InvalidPlan):
        chat.commit(clear)
    assert chat.head() == head
    assert chat.commit(condensed(5, ((3, 4),))).compaction_id != "condense-1"


def test_committed_plan_keeps_its_client_id(chat):
    chat.append_many(said(3))
    chat.commit(condensed(3, ((1, 2),), client_id="plan"))
    (entry,) = [entry.entry for entry in chat.audit(after=3)]
    assert entry.client_id == "plan"
    with pytest.raises(DuplicateMessage):
        chat.append("user", "x", client_id="plan")
    assert not chat.append("user", "the summary", client_id="plan").new
