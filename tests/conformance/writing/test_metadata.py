"""Single keys of the metadata are changed, and the others are left alone."""

import threading

import pytest

from roocontext.errors import DuplicateMessage, InvalidMessage, InvalidOption


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

    threads = [threading.Thread(target=update, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
