"""Families of any depth: read, exported and restored without recursion, and never in a circle."""

from typing import Any

import pytest

from roocontext import Store
from roocontext.errors import InvalidOption
from roocontext.formats import jsonl
from roocontext.formats.exporter import family_of
from support.dialogue import fill

DEPTH = 1_500
"""Deeper than Python's stack."""


def line_of(store: Any, depth: int) -> list[Any]:
    chats = [store.create()]
    for _ in range(depth - 1):
        chats.append(store.create(parent=chats[-1].id))
    return chats


@pytest.mark.one_leg
def test_deep_family_is_exported_restored_and_counted(tmp_path):
    path = tmp_path / "family.jsonl"
    with Store.open(":memory:") as here, Store.open(":memory:") as there:
        chats = line_of(here, DEPTH)
        chats[-1].append("assistant", "the deepest", usage={"input_tokens": 7}, model="m")
        assert [one.id for one in family_of(here, chats[0])] == [one.id for one in chats]
        path.write_bytes(b"".join(jsonl.export_family(here, chats[0])))
        done = list(jsonl.restore_file(there, path))
        assert [one.problem for one in done] == [None] * DEPTH
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
    entries = list(log.stored())
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
