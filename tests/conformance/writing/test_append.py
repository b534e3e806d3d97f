"""Appending: receipts, batches that are all or nothing, versions, and repeating a request."""

import pytest
from msgspec.structs import replace

from roocontext import NewMessage
from roocontext.errors import DuplicateMessage, InvalidMessage, VersionConflict
from support.dialogue import fill, shown, state

pytestmark = pytest.mark.every_leg


def test_receipt_names_the_place_and_the_hash(chat):
    for number in range(1, 4):
        receipt = chat.append("user", "hello")
        assert (receipt.session_id, receipt.seq, receipt.head_seq) == (chat.id, number, number)
        assert (receipt.new, receipt.rewound_by) == (True, None)
        assert chat.head().hash == receipt.hash
        assert chat.head().seq == number


def test_all_facts_of_a_message_are_stored(chat, clock):
    clock.now = 1_000
    chat.append(
        "assistant",
        [{"type": "text", "text": "hi"}],
        ts=-5,
        message_id="m",
        client_id="c",
        model="some-model",
        usage={"input_tokens": 3, "z": [1.0, None]},
    )
    (entry,) = chat.audit()
    written = entry.entry
    assert (written.ts, written.message_id, written.client_id) == (-5, "m", "c")
    assert (written.model, written.recorded_at) == ("some-model", 1_000)
    assert written.usage == {"input_tokens": 3, "z": [1.0, None]}
    (message,) = chat.view().messages
    assert (message.ts, message.message_id, message.recorded_at) == (-5, "m", 1_000)
    assert message == chat.message(1)


def test_one_bad_message_stores_none(chat):
    fill(chat, 2)
    before = state(chat)
    bad = [
        {"role": "user", "content": float("inf")},
        {"role": "nobody", "content": "x"},
        {"role": "user"},
        {"role": "user", "content": "x", "colour": "red"},
        5,
    ]
    for message in bad:
        with pytest.raises(InvalidMessage, match=r"^messages\[1\]: ") as caught:
            chat.append_many([NewMessage("user", "good"), message])
        assert caught.value.index == 1
        assert state(chat) == before
    assert chat.append("user", "good").seq == 3


def test_stale_version_names_the_current_one(chat):
    chat.append("user", "x", expected_seq=0)
    fill(chat, 2)
    before = state(chat)
    for expected in (0, 2, 4, 99):
        with pytest.raises(VersionConflict) as caught:
            chat.append("user", "x", expected_seq=expected)
        assert (caught.value.expected, caught.value.actual) == (expected, 3)
        with pytest.raises(VersionConflict):
            chat.append_many([NewMessage("user", "x")], expected_seq=expected)
    assert state(chat) == before
    assert chat.append("user", "x", expected_seq=3).seq == 4


def test_repeated_append_returns_the_first_receipt_and_what_became_of_it(chat):
    fill(chat, 1)
    first = chat.append("user", "hello", client_id="c", ts=1, model="a")
    before = state(chat)
    again = chat.append("user", "hello", client_id="c", ts=2, model="b", expected_seq=0)
    assert (again.seq, again.hash, again.new, again.rewound_by) == (2, first.hash, False, None)
    assert state(chat) == before
    rewind = chat.rewind(to=1)
    again = chat.append("user", "hello", client_id="c")
    assert (again.seq, again.new, again.rewound_by) == (2, False, rewind.seq)
    chat.redact(2)
    again = chat.append("user", "anything", client_id="c")  # a skeleton answers by the id alone
    assert (again.seq, again.hash, again.new) == (2, first.hash, False)


HELLO = {"role": "user", "content": "hello", "parts": []}


@pytest.mark.parametrize(
    ("said", "other"),
    [
        (("user", "hello", "anthropic"), ("user", "other", "anthropic")),
        (("user", "hello", "anthropic"), ("assistant", "hello", "anthropic")),
        (
            ("user", [{"type": "x", "n": 1}], "anthropic"),
            ("user", [{"type": "x", "n": 1.0}], "anthropic"),
        ),
        (("user", HELLO, "openai"), ("user", HELLO, "gemini")),
    ],
    ids=["content", "role", "integer and float", "format"],
)
def test_client_id_is_taken_by_its_content(chat, said, other):
    def append(role, content, form):
        return chat.append(role, content, format=form, client_id="c")

    append(*said)
    before = state(chat)
    with pytest.raises(DuplicateMessage) as caught:
        append(*other)
    assert caught.value.client_id == "c"
    assert "hello" not in str(caught.value)
    assert state(chat) == before


def test_repeated_batch_returns_the_first_receipts(chat):
    batch = [NewMessage("user", str(n), client_id=f"c{n}") for n in range(3)]
    first = chat.append_many(batch)
    again = chat.append_many(batch)
    assert again == [replace(receipt, new=False) for receipt in first]
    assert {receipt.head_seq for receipt in again} == {3}
    assert shown(chat) == [1, 2, 3]


def test_batch_that_is_partly_stored_writes_nothing(chat):
    chat.append("user", "1", client_id="c1")
    before = state(chat)
    for batch in (
        [NewMessage("user", "1", client_id="c1"), NewMessage("user", "2", client_id="c2")],
        [NewMessage("user", "1", client_id="c1"), NewMessage("user", "2")],
        [NewMessage("user", "2", client_id="c2"), NewMessage("user", "3", client_id="c2")],
    ):
        with pytest.raises(DuplicateMessage):
            chat.append_many(batch)
        assert state(chat) == before


def test_skip_stored_appends_only_new_messages(chat):
    fill(chat, 1)
    chat.append("user", "2", client_id="c2")
    chat.append("user", "3", client_id="c3")
    chat.rewind(2)
    batch = [NewMessage("user", str(n), client_id=f"c{n}") for n in (5, 3, 6, 2)]
    receipts = chat.append_many([*batch, NewMessage("user", "7")], skip_stored=True)
    assert [(one.seq, one.new) for one in receipts] == [
        *((5, True), (3, False), (6, True), (2, False), (7, True))
    ]
    assert [one.rewound_by for one in receipts] == [None, 4, None, None, None]
    assert shown(chat) == [1, 2, 5, 6, 7]
    before = state(chat)
    again = chat.append_many(batch, skip_stored=True, expected_seq=0)  # all of it: no conflict
    assert [one.seq for one in again] == [5, 3, 6, 2]
    refused = [
        [NewMessage("user", "8", client_id="c8"), NewMessage("user", "other", client_id="c2")],
        [NewMessage("user", "8", client_id="c8"), NewMessage("user", "9", client_id="c8")],
    ]
    for one in refused:
        with pytest.raises(DuplicateMessage):
            chat.append_many(one, skip_stored=True)
    with pytest.raises(VersionConflict):
        chat.append_many([batch[0], NewMessage("user", "8")], skip_stored=True, expected_seq=2)
    assert state(chat) == before
    assert chat.append_many([], skip_stored=True) == []
    assert chat.verify().ok


def test_texts_of_a_class_of_their_own_are_stored_as_texts(chat):
    class Text(str):
        __slots__ = ()

    facts = {"message_id": Text("m"), "client_id": Text("c"), "model": Text("some-model")}
    chat.append(Text("user"), Text("hi"), format=Text("anthropic"), **facts)
    chat.note(Text("remark"), {"said": Text("hi")}, client_id=Text("n"))
    assert not chat.append("user", "hi", client_id="c").new
    message, note = (entry.entry for entry in chat.audit())
    assert (message.role, message.content, message.format) == ("user", "hi", "anthropic")
    assert (message.message_id, message.client_id, message.model) == ("m", "c", "some-model")
    assert (note.note, note.content, note.client_id) == ("remark", {"said": "hi"}, "n")
    assert chat.verify().ok


def test_client_id_given_twice_is_found_without_comparing_all_with_all(chat):
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    ids = [f"c{number}" for number in range(200)] + ["c199"]
    with pytest.raises(DuplicateMessage, match="c199"):
        chat.append_many([NewMessage("user", "x", client_id=Counted(name)) for name in ids])
    assert compared < len(ids)


def test_client_ids_beyond_one_statement_are_found(chat):
    batch = [NewMessage("user", str(n), client_id=f"c{n}") for n in range(300)]
    first = chat.append_many([*batch, NewMessage("user", "without an id")])
    again = chat.append_many(batch)
    assert [(r.seq, r.hash) for r in again] == [(r.seq, r.hash) for r in first[:-1]]
    changed = NewMessage("user", "other", client_id=batch[-1].client_id)
    with pytest.raises(DuplicateMessage) as caught:
        chat.append_many([NewMessage("user", "new", client_id="new"), *batch[1:-1], changed])
    assert (caught.value.client_id, caught.value.seq) == (changed.client_id, len(batch))


def test_client_id_is_of_its_session(store):
    one, other = store.create(), store.create()
    one.append("user", "x", client_id="c")
    assert other.append("user", "y", client_id="c").new
