"""Families: parents and children, sessions opened or created, and lists by parent and metadata."""

import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from roocontext import Store
from roocontext.errors import (
    InvalidIdentifier,
    InvalidOption,
    SessionExists,
    SessionNotFound,
    SessionPurged,
)
from roocontext.formats import jsonl
from roocontext.formats.exporter import family_of
from roocontext.store.sessions.listing import MOST_FACTS
from roocontext.store.writing.shown import LONGEST_INDEXED
from support.dialogue import fill


def ids(found):
    return [info.session_id for info in found]


def listed(lab, **where):
    """The sessions with this metadata, of every list."""
    found = ids(lab.store.sessions(where=where))
    assert ids(one.info for one in lab.store.overview(where=where)) == found
    return found


# Parents


def test_children_come_in_the_order_of_their_creation(lab):
    root = lab.store.create("root")
    assert root.children() == []
    for name in ("b", "a", "c"):
        lab.store.create(name, parent="root")
    lab.store.create("grandchild", parent="a")
    lab.store.session("b").append("user", "the newest entry")
    assert ids(root.children()) == ["b", "a", "c"]
    assert ids(lab.store.sessions(parent="root")) == ["b", "c", "a"]
    assert [one.info.session_id for one in lab.store.overview(parent="root")] == ["b", "c", "a"]
    assert ids(lab.store.session("a").children()) == ["grandchild"]
    assert [info.parent for info in lab.store.sessions(limit=4)] == ["root", "a", "root", "root"]
    lab.store.purge("a")
    assert ids(root.children()) == ["b", "c"]
    assert lab.store.open_session("grandchild", parent="a").parent == "a"
    with pytest.raises(SessionPurged):
        lab.store.open_session("a")
    assert lab.store.session("grandchild").parent == "a"
    assert ids(lab.store.sessions(parent="a")) == ["grandchild"]
    with pytest.raises(SessionPurged):
        lab.store.create(parent="a")


def test_parent_has_to_exist(lab):
    with pytest.raises(SessionNotFound):
        lab.store.create("child", parent="nobody")
    with pytest.raises(SessionNotFound):
        lab.store.create("itself", parent="itself")
    for parent in (5, "", "\0"):
        with pytest.raises(InvalidIdentifier):
            lab.store.create("child", parent=parent)
        with pytest.raises(InvalidIdentifier):
            lab.store.open_session("child", parent=parent)
        with pytest.raises(InvalidIdentifier):
            lab.store.sessions(parent=parent)
    assert lab.store.sessions() == []


def test_fork_may_be_given_a_parent(lab):
    for name in ("origin", "root", "above all"):
        lab.store.create(name)
    origin = lab.store.session("origin")
    fill(origin, 4)
    for number, parent in enumerate(("root", "above all", "origin")):
        fork = origin.fork(2, session_id=f"fork {number}", parent=parent)
        assert fork.parent == fork.info().parent == parent
        assert lab.store.session(fork.id).parent == parent
        assert ids(lab.store.session(parent).children()) == [fork.id]
        assert fork.view().messages == origin.view(as_of=2).messages
        assert fork.verify().ok
    with pytest.raises(SessionNotFound):
        origin.fork(session_id="itself", parent="itself")
    with pytest.raises(InvalidIdentifier):
        origin.fork(parent="\0")
    lab.store.purge("root")
    with pytest.raises(SessionPurged):
        origin.fork(parent="root")
    assert len(lab.store.sessions()) == 5


# Opening


def test_session_is_created_once_and_then_continued(lab):
    lab.store.create("root")
    first = lab.store.open_session("s", parent="root", title="first", metadata={"n": "1"})
    first.append("user", "hello")
    again = lab.store.open_session("s", parent="root", title="second", metadata={"n": "2"})
    assert (again.id, again.parent) == ("s", "root")
    assert again.head() == first.head()
    assert (again.info().title, again.info().metadata) == ("first", {"n": "1"})
    assert lab.store.open_session("s").parent == "root"
    with pytest.raises(SessionExists, match="not 's'") as refused:
        lab.store.open_session("root", parent="s")
    assert refused.value.session_id == "root"


@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_concurrent_opens_create_one_session(opened, kind):
    with opened(kind, "sync") as lab, ThreadPoolExecutor(8) as threads:
        for number in range(5):
            name = f"s{number}"
            made = list(threads.map(lambda _, name=name: lab.store.open_session(name), range(8)))
            receipts = [chat.append("user", "hello") for chat in made]
            assert [receipt.seq for receipt in receipts] == list(range(1, 9))


def test_read_only_store_opens_what_exists(opened):
    with opened("file", "sync") as lab:
        lab.store.create("s")
        with Store.open(lab.url, read_only=True) as store:
            assert store.open_session("s").id == "s"


# Lists by metadata


def test_sessions_are_found_by_the_strings_of_their_metadata(lab):
    for name, metadata in (
        ("one", {"user": "ann", "project": "x", "n": 1}),
        ("two", {"user": "ann", "project": "y", "deep": {"user": "bob"}}),
        ("three", {"user": "bob", "list": ["ann"]}),
        ("none", None),
    ):
        lab.store.create(name, metadata=metadata)
    assert listed(lab, user="ann") == ["two", "one"]
    assert listed(lab, user="ann", project="x") == ["one"]
    assert listed(lab, user="bob") == ["three"]
    assert listed(lab, deep="user") == listed(lab, list="ann") == []
    assert listed(lab, n="1") == listed(lab, user="ANN") == []
    assert len(listed(lab)) == 4


def test_list_by_parent_and_metadata_has_pages(lab):
    lab.store.create("root")
    for number in range(7):
        lab.store.create(f"s{number}", parent="root", metadata={"even": str(number % 2 == 0)})
    wanted = {"parent": "root", "where": {"even": "True"}}
    first = lab.store.sessions(limit=2, **wanted)
    second = lab.store.sessions(limit=2, after=first.next, **wanted)
    assert ids(first + second) == ["s6", "s4", "s2", "s0"]
    assert second.next is None


NASTY = {
    "NUL": "a\0b",
    "a lone surrogate": "\ud800",
    "quotation marks": '"',
    "an apostrophe": "it's",
    "dots": "a.b.c",
    "a path of JSON": "$.user[0]",
    "wildcards": "%_*?\\",
    "a number": "1",
    "empty": "",
    "long": "x" * 100_000,
    "nearly as long": "x" * 99_999,
    "just indexed whole": "x" * (LONGEST_INDEXED - 2),
    "no longer": "x" * (LONGEST_INDEXED - 1),
    "of another script": "名前",
}


def test_condition_may_be_any_string(lab):
    for name, text in NASTY.items():
        lab.store.create(f"value {name}", metadata={"key": text})
        lab.store.create(f"key {name}", metadata={text: "value"})
    for name, text in NASTY.items():
        assert ids(lab.store.sessions(where={"key": text})) == [f"value {name}"]
        assert ids(lab.store.sessions(where={text: "value"})) == [f"key {name}"]


def test_later_metadata_and_redactions_change_the_list(lab):
    """In the session itself; a fork from before has its own, and goes with the redaction."""
    chat = lab.store.create("s", metadata={"user": "ann"})
    early = chat.fork(session_id="early")
    seq = chat.set_metadata({"user": "bob"}).seq
    late = chat.fork(session_id="late")
    assert listed(lab, user="ann") == ["early"]
    assert sorted(listed(lab, user="bob")) == ["late", "s"]
    chat.redact(seq)
    assert listed(lab, user="bob") == []
    lab.store.purge("s")
    assert listed(lab, user="ann") == ["early"]
    assert all(one.verify().ok and one.rebuild() == 0 for one in (early, late))


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "where", [5, "user", [("user", "ann")], {"user": 1}, {1: "ann"}, {"user": None}]
)
def test_only_strings_are_compared(store, where):
    with pytest.raises(InvalidOption):
        store.sessions(where=where)
    with pytest.raises(InvalidOption):
        store.overview(where=where)


def test_number_of_conditions_is_bounded(lab):
    metadata = {f"k{number}": "v" for number in range(MOST_FACTS)}
    lab.store.create("s", metadata=metadata)
    assert listed(lab, **metadata) == ["s"]
    with pytest.raises(InvalidOption):
        lab.store.sessions(where={**metadata, "one more": "v"})


FRAMES = 200
"""As many calls within each other as one call of the store needs, and more."""


@pytest.fixture
def depth():
    """The depth of a family that is deeper than what is left of Python's stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    yield FRAMES + 50
    sys.setrecursionlimit(limit)


def line_of(store: Any, depth: int) -> list[Any]:
    chats = [store.create()]
    for _ in range(depth - 1):
        chats.append(store.create(parent=chats[-1].id))
    return chats


@pytest.mark.one_leg
def test_deep_family_is_exported_restored_and_counted(tmp_path, depth):
    path = tmp_path / "family.jsonl"
    with Store.open(":memory:") as here, Store.open(":memory:") as there:
        chats = line_of(here, depth)
        chats[-1].append("assistant", "the deepest", usage={"input_tokens": 7}, model="m")
        assert [one.id for one in family_of(here, chats[0])] == [one.id for one in chats]
        path.write_bytes(b"".join(jsonl.export_family(here, chats[0])))
        done = list(jsonl.restore_file(there, path))
        assert [one.problem for one in done] == [None] * depth
        top = there.session(chats[0].id)
        assert [one.session_id for one in top.usage(family=True)] == [chats[-1].id]
        (hit,) = there.search("deepest", family=top.id)
        assert hit.session_id == chats[-1].id


@pytest.mark.one_leg
def test_family_comes_parents_first_and_children_in_order():
    with Store.open(":memory:") as store:
        store.create("a")
        for name, parent in (("b", "a"), ("c", "a"), ("d", "b"), ("e", "d"), ("f", "c")):
            store.create(name, parent=parent)
        order = [one.id for one in family_of(store, store.session("a"))]
    assert order == ["a", "b", "d", "e", "c", "f"]


def test_restore_that_would_make_a_session_its_own_ancestor_is_refused(store):
    log = store.create()
    fill(log, 2)
    entries = list(log.internals.stored())
    one, two, three = (f"{log.id} {name}" for name in ("one", "two", "three"))
    with pytest.raises(InvalidOption, match="its own ancestor"):
        store.restore(one, entries, parent=one)
    # Children may come before their parents, which are not there yet.
    store.restore(two, entries, parent=one)
    store.restore(three, entries, parent=two)
    for parent in (three, two):
        for dry_run in (True, False):
            with pytest.raises(InvalidOption, match="its own ancestor"):
                store.restore(one, entries, parent=parent, dry_run=dry_run)
    assert store.find(one) == []
    store.restore(one, entries, parent=log.id)
    assert [one.session_id for one in store.session(two).children()] == [three]
