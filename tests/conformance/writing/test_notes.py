"""Notes: what repeats them safely, and which of them counts."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from roocontext.errors import (
    DuplicateMessage,
    InvalidIdentifier,
    InvalidMessage,
    InvalidOption,
    MessageNotFound,
)

CALLS = {
    "note": lambda chat, **given: chat.note("remark", {"a": 1}, target=1, **given),
    "rename": lambda chat, **given: chat.set_title("a title", **given),
    "describe": lambda chat, **given: chat.set_metadata({"a": 1}, **given),
    "pin": lambda chat, **given: chat.pin(1, **given),
    "unpin": lambda chat, **given: chat.unpin(1, **given),
}


@pytest.mark.parametrize("name", CALLS)
def test_repeated_note_is_one_entry(chat, name):
    call = CALLS[name]
    chat.append("user", "hello")
    chat.pin(1)
    first = (
        call(chat, client_id="c") if name != "pin" else chat.unpin(1) and call(chat, client_id="c")
    )
    assert first.new
    chat.append("user", "since")
    chat.set_title("another")
    chat.set_metadata({"b": 2})
    (chat.unpin if name == "pin" else chat.pin)(1)
    head = chat.head()
    again = call(chat, client_id="c")
    assert (again.seq, again.hash, again.head_seq) == (first.seq, first.hash, first.head_seq)
    assert not again.new
    assert chat.head() == head
    assert chat.info().title == "another"


def test_note_is_compared_by_kind_target_and_content(chat):
    chat.append("user", "hello")
    chat.append("user", "there")
    first = chat.note("remark", {"a": 1}, target=1, ts=5, client_id="c")
    again = chat.note("remark", {"a": 1}, target=1, ts=6, client_id="c")  # ts is not compared
    assert (again.new, next(iter(chat.audit(after=2))).entry.ts) == (False, 5)
    head = chat.head()
    for other in (
        lambda: chat.note("remark", {"a": 1.0}, target=1, client_id="c"),
        lambda: chat.note("remark", {"a": 1}, target=2, client_id="c"),
        lambda: chat.note("remark", {"a": 1}, client_id="c"),
        lambda: chat.note("other", {"a": 1}, target=1, client_id="c"),
        lambda: chat.set_title("c", client_id="c"),
        lambda: chat.append("user", {"a": 1}, client_id="c"),
        lambda: chat.append("user", "x", client_id="c"),
    ):
        with pytest.raises((DuplicateMessage, InvalidMessage)) as caught:
            other()
        if isinstance(caught.value, DuplicateMessage):
            assert (caught.value.client_id, caught.value.seq) == ("c", first.seq)
    assert chat.head() == head


def test_messages_and_notes_share_their_client_ids(chat):
    chat.append("user", "hello", client_id="c")
    chat.redact(1)
    for taken in (lambda: chat.pin(1, client_id="c"), lambda: chat.set_title("x", client_id="c")):
        with pytest.raises(DuplicateMessage):
            taken()
    chat.set_title("x", client_id="t")
    with pytest.raises(DuplicateMessage):
        chat.append_many([{"role": "user", "content": "x", "client_id": "t"}])


def test_repeated_pin_returns_the_receipt_of_the_first(chat):
    said = chat.append("user", "Hello").seq
    nothing = chat.unpin(said)
    assert (nothing.seq, nothing.hash, nothing.new) == (said, chat.head().hash, False)
    first = chat.pin(said)
    chat.append("user", "More")
    again = chat.pin(said, client_id="c")
    assert (again.seq, again.hash, again.new) == (first.seq, first.hash, False)
    assert again.head_seq == chat.head_seq()
    assert chat.unpin(said).new
    assert chat.fork().pin(said, client_id="c").new  # the id was not used before
    assert (chat.pins(as_of=first.seq), chat.pins()) == ({said}, frozenset())
    assert not chat.fork(first.seq).pin(said).new
    with pytest.raises(MessageNotFound):
        chat.unpin(first.seq)
    assert chat.verify().ok


def test_repeated_metadata_is_compared_with_its_types(chat):
    chat.set_metadata({"n": 1})
    assert [chat.set_metadata(one).new for one in ({"n": 1}, {"n": True}, {"n": 1.0})] == [
        False,
        True,
        True,
    ]


def test_concurrent_pins_write_one_note(lab):
    chat = lab.store.create()
    said = chat.append("user", "Hello").seq
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda _: lab.store.session(chat.id).pin(said), range(16)))
    assert [receipt.new for receipt in receipts].count(True) == 1
    assert len({(receipt.seq, receipt.hash) for receipt in receipts}) == 1
    assert chat.head().seq == said + 1


def test_wrong_arguments_write_nothing(chat):
    for call, error in (
        (lambda: chat.note("remark", {}, client_id=""), InvalidIdentifier),
        (lambda: chat.note("remark", {}, ts="now"), InvalidMessage),
        (lambda: chat.set_title("x", client_id=5), InvalidIdentifier),
        (lambda: chat.pin(None), InvalidOption),
        (lambda: chat.newest_note("remark", target=0), InvalidOption),
        (lambda: chat.newest_note(""), InvalidIdentifier),
        (lambda: chat.newest_note("remark", as_of=1), MessageNotFound),
    ):
        with pytest.raises(error):
            call()
    assert chat.head().seq == 0


def test_newest_note_counts(chat):
    chat.append("user", "hello")
    assert chat.newest_note("remark") is None
    for number in range(3):
        chat.note("remark", {"n": number})
        chat.note("remark", {"n": number + 10}, target=1)
        chat.note("other", {})
    assert chat.newest_note("remark").content == {"n": 2}
    assert chat.newest_note("remark", target=1).content == {"n": 12}
    assert chat.newest_note("remark", as_of=4).content == {"n": 0}
    assert chat.newest_note("remark", target=1, as_of=2) is None
    assert chat.newest_note("remark", target=1) == chat.notes("remark")[-1]
    assert chat.newest_note("pin", target=1) is None


# Single keys of the metadata


def test_update_changes_single_keys(chat):
    chat.set_metadata({"user": "ann", "branch": "main", "tags": [1]})
    assert chat.update_metadata({"branch": "other", "new": None}, remove=["tags"]).new
    assert chat.info().metadata == {"user": "ann", "branch": "other", "new": None}
    assert chat.verify().ok


def test_update_of_no_metadata_makes_some(chat):
    chat.update_metadata({"user": "ann"})
    assert chat.info().metadata == {"user": "ann"}


def test_update_that_changes_nothing_writes_nothing(chat):
    first = chat.set_metadata({"user": "ann"})
    again = chat.update_metadata({"user": "ann"}, remove=["none"])
    assert (again.seq, again.new) == (first.seq, False)


def test_repeated_update_gets_the_first_receipt(chat):
    first = chat.update_metadata({"a": 1}, client_id="r1")
    chat.update_metadata({"a": 2, "b": 3})
    again = chat.update_metadata({"a": 1}, client_id="r1")
    assert (again.seq, again.new) == (first.seq, False)
    assert chat.info().metadata == {"a": 2, "b": 3}
    with pytest.raises(DuplicateMessage):
        chat.update_metadata({"a": 9}, client_id="r1")
    chat.append("user", "hello", client_id="r2")
    with pytest.raises(DuplicateMessage):
        chat.update_metadata({"a": 9}, client_id="r2")


def test_sessions_are_found_by_updated_metadata(lab):
    chat = lab.store.create("s", metadata={"user": "ann", "branch": "main"})
    chat.update_metadata({"branch": "other"})
    assert [one.session_id for one in lab.store.sessions(where={"branch": "other"})] == ["s"]
    assert [one.session_id for one in lab.store.sessions(where={"user": "ann"})] == ["s"]
    assert lab.store.sessions(where={"branch": "main"}) == []


def test_updates_at_once_keep_each_other(lab):
    if lab.interface == "async":
        return
    lab.store.create("s")

    def update(number):
        lab.store.session("s").update_metadata({f"k{number}": number})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(update, range(8)))
    assert lab.store.session("s").info().metadata == {f"k{n}": n for n in range(8)}


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "given",
    [
        {"changes": ["a"]},
        {"remove": "a"},
        {"remove": [1]},
        {"remove": 5},
        {"remove": iter(["branch"])},
        {"changes": {"a": 1}, "remove": ["a"]},
        {"changes": {"a": {1, 2}}},
        {"changes": {1: 2}},
    ],
)
def test_invalid_updates_are_refused(chat, given):
    before = chat.head()
    with pytest.raises((InvalidOption, InvalidMessage)):
        chat.update_metadata(**given)
    assert chat.head() == before
