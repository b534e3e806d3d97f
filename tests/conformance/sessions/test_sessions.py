"""Sessions: made, found, listed newest first, named, described and forked."""

from datetime import datetime

import pytest

from roocontext.errors import (
    InvalidIdentifier,
    InvalidMessage,
    InvalidOption,
    MessageNotFound,
    SessionExists,
    SessionNotFound,
)
from support.dialogue import fill, shown, state
from support.pages import every_page


def ids(found):
    return [info.session_id for info in found]


def test_new_session_is_empty(store):
    chat = store.create()
    info = chat.info()
    assert (info.session_id, info.title, info.metadata) == (chat.id, None, None)
    assert (info.head_seq, info.last_seq, info.messages, info.bytes) == (0, 0, 0, 0)
    assert chat.view().messages == ()
    assert chat.messages() == []
    assert list(chat.audit()) == []
    assert chat.head().seq == 0
    assert chat.verify().ok


def test_title_and_metadata_are_the_first_notes(store):
    chat = store.create(title="fix the parser", metadata={"cwd": "/src", "n": [1, None]})
    assert chat.info().title == "fix the parser"
    assert chat.info().metadata == {"cwd": "/src", "n": [1, None]}
    assert [entry.entry.note for entry in chat.audit()] == ["title", "metadata"]
    assert chat.head_seq() == 0


def test_session_is_found_by_the_beginning_of_its_id(lab):
    for name in ("tree", "trée", "trellis", "tred", "Tre", "purged-tre"):
        lab.store.create(name)
    lab.store.create("trench")
    lab.store.purge("trench")
    assert [info.session_id for info in lab.store.find("tre")] == ["tred", "tree", "trellis"]
    assert [info.session_id for info in lab.store.find("tre", limit=2)] == ["tred", "tree"]
    assert [info.session_id for info in lab.store.find("tr\u00e9e")] == ["trée"]
    assert lab.store.find("x") == []


def test_unknown_session_is_refused_by_every_operation(store):
    with pytest.raises(SessionNotFound) as caught:
        store.session("nobody")
    assert caught.value.session_id == "nobody"
    with pytest.raises(SessionNotFound):
        store.purge("nobody")
    with pytest.raises(SessionNotFound):
        store.purge("nobody", dry_run=True)


def test_taken_id_is_refused(store):
    chat = store.create(title="first")
    before = state(chat)
    with pytest.raises(SessionExists) as caught:
        store.create(chat.id, title="second")
    assert caught.value.session_id == chat.id
    with pytest.raises(SessionExists):
        chat.fork(session_id=chat.id)
    assert state(chat) == before


def test_title_that_cannot_be_stored_makes_no_session(store):
    for title in ("", "nul\0", "lone \ud800", "x" * 1_001):
        with pytest.raises(InvalidIdentifier):
            store.create("untitled", title=title)
    with pytest.raises(InvalidMessage):
        store.create("untitled", metadata={"n": float("nan")})
    with pytest.raises(SessionNotFound):
        store.session("untitled")


def test_fork_names_its_origin_and_keeps_client_ids(store):
    chat = store.create(title="parent", metadata={"k": 1})
    first = chat.append("user", "hello", client_id="c1")
    before, head = state(chat), chat.head()
    fork = chat.fork()
    (origin,) = fork.notes("origin")
    content = {"session_id": chat.id, "seq": head.seq, "hash": head.hash}
    assert {name: origin.content[name] for name in content} == content
    again = fork.append("user", "hello", client_id="c1")
    assert (again.new, again.seq, again.hash) == (False, first.seq, first.hash)
    fork.append("user", "another way")
    assert state(chat) == before
    assert (fork.verify().ok, fork.rebuild()) == (True, 0)


def test_fork_at_0_is_empty_and_at_an_unknown_seq_refused(store):
    chat = store.create()
    fill(chat, 2)
    assert shown(chat.fork(0)) == []
    before = state(chat)
    for at in (3, 99):
        with pytest.raises(MessageNotFound) as caught:
            chat.fork(at, session_id="never")
        assert caught.value.candidates == (0, 2)
    with pytest.raises(SessionNotFound):
        store.session("never")
    assert state(chat) == before


def test_list_is_exact_within_a_minute_and_when_the_clock_goes_back(lab):
    times = [120_000, 59_999, 60_000, 179_999, 60_001, 59_999, 0, -1, 119_999, 120_000, -60_001]
    chats = [lab.store.create() for _ in times]
    expected = []
    for moment, chat in zip([*times, *reversed(times)], chats * 2, strict=True):
        lab.clock.now = moment
        chat.append("user", "hello")
        expected = sorted((-chat.info().updated_at, chat.id) for chat in chats)
        listed = [(-info.updated_at, info.session_id) for info in lab.store.sessions()]
        assert listed == expected
    for size in (1, 2, 3, 4):
        pages = every_page(lab.store.sessions, limit=size)
        found = [info for page in pages for info in page]
        assert [info.session_id for info in found] == [name for _, name in expected]
        assert found[0] == lab.store.session(found[0].session_id).info()
    assert all(chat.verify().ok for chat in chats)


# Lists


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("wrong", [5, "yesterday", datetime(2026, 1, 1)])  # noqa: DTZ001
def test_list_filter_without_a_zone_is_refused(lab, wrong):
    for filters in ({"since": wrong}, {"until": wrong}):
        with pytest.raises(InvalidOption, match="time zone"):
            lab.store.sessions(**filters)


@pytest.mark.every_leg
def test_purged_sessions_are_listed_by_their_receipts(lab):
    assert lab.store.purged() == []
    receipts = []
    for name in ("a", "b", "c"):
        fill(lab.store.create(name), 2)
        receipts.append(lab.store.purge(name))
    lab.store.create("d")
    found = lab.store.purged()
    assert [(one.session_id, one.messages) for one in found] == [("c", 2), ("b", 2), ("a", 2)]
    assert [one.last_hash for one in found] == [one.last_hash for one in reversed(receipts)]
    assert lab.store.purged(limit=1) == found[:1]
    with pytest.raises(InvalidOption):
        lab.store.purged(limit=0)


def test_overview_of_some_sessions_obeys_the_other_filters(lab):
    for name in ("a", "b", "c"):
        fill(lab.store.create(name, parent=None if name == "a" else "a"), 2)

    def shown(*names, **filters):
        return [one.stats.session_id for one in lab.store.overview(ids=names, **filters)]

    assert shown("b", "a", "unknown") == ["b", "a"]
    assert shown("b", "a", limit=1) == ["b"]
    assert shown("a", "c", parent="a") == ["c"]
    assert shown() == []
    lab.store.purge("b")
    assert shown("b") == []
    with pytest.raises(InvalidOption):
        shown("b", limit=0)
    with pytest.raises(InvalidIdentifier):
        shown("")
    for wrong in (5, "abc"):
        with pytest.raises(InvalidOption, match="a list of ids"):
            lab.store.overview(ids=wrong)


def test_short_id_is_the_shortest_unique_prefix(lab):
    for name in ("tree", "treehouse", "trée", "trellis", "a", "zero", "purged-one", "purged-two"):
        lab.store.create(name)
    lab.store.purge("purged-two")
    found = {one.info.session_id: one.beginning for one in lab.store.overview()}
    assert found == {
        "tree": "tree",
        "treehouse": "treeh",
        "trée": "tré",
        "trellis": "trel",
        "a": "a",
        "zero": "z",
        "purged-one": "purged-o",
    }
    for whole, beginning in found.items():
        try:
            assert lab.store.session(beginning).id == whole
        except SessionNotFound:
            assert ids(lab.store.find(beginning)) == [whole]
