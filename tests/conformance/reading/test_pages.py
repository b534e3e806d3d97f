"""Pages of lists: each continues with the cursor of the page before, and refuses any other."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roocontext.errors import Category, InvalidOption
from roocontext.reports import history
from support.dialogue import fill
from support.pages import every_page

USED = {"input_tokens": 3, "output_tokens": 5}


@pytest.fixture(scope="module")
def lab(leg: Any, opened: Callable[..., Any]) -> Iterator[Any]:
    """A root with five children of one moment, three purged sessions, and replies with usage."""
    with opened(*leg) as lab:
        yield _filled(lab)


def _filled(lab: Any) -> Any:
    root = lab.store.create("root")
    lab.clock.step = 0
    for number in range(5):
        child = lab.store.create(f"child {number}", parent="root")
        for _ in range(2):
            child.append("assistant", "done", model="m", usage=USED)
    for name in ("x", "y", "z"):
        lab.store.create(name)
        lab.store.purge(name)
    fill(root, 3)
    return lab


def lists(lab: Any) -> dict[str, Any]:
    """Every method that returns pages."""
    root, store = lab.store.session("root"), lab.store
    return {
        "sessions": store.sessions,
        "sessions by recording": lambda **page: store.sessions(recorded=True, **page),
        "overview": store.overview,
        "find": lambda **page: store.find("c", **page),
        "find others": lambda **page: store.find("child", **page),
        "purged": store.purged,
        "children": root.children,
        "usage": lambda **page: root.usage(family=True, **page),
        "usage of all": store.usage,
    }


def test_pages_of_a_list_are_the_whole_list(lab):
    for name, read in lists(lab).items():
        whole = read(limit=1_000)
        assert whole.next is None
        assert len(whole) >= 3, name
        for limit in (1, 2, 3, len(whole)):
            pages = every_page(read, limit=limit)
            assert [item for page in pages for item in page] == whole, name
            assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1), name
            assert 1 <= len(pages[-1]) <= limit, name
        assert read() == whole


def test_page_is_plain_json_with_its_cursor(lab):
    for read in lists(lab).values():
        page = read(limit=1)
        plain = json.loads(json.dumps(page.to_dict()))
        assert plain == {"items": [page[0].to_dict()], "next": page.next}


@pytest.mark.one_leg
def test_cursor_of_another_list_is_refused(lab):
    cursors = {name: read(limit=1).next for name, read in lists(lab).items()}
    cursors["children of another"] = lab.store.session("child 0").usage(limit=1).next
    cursors["search"] = lab.store.search("message", limit=1).next
    cursors["audit"] = history.some_entries(lab.store.session("root"), limit=1).next
    assert None not in cursors.values()
    same = [{"sessions", "overview"}]
    for name, read in lists(lab).items():
        for other, cursor in cursors.items():
            if other != name and {name, other} not in same:
                with pytest.raises(InvalidOption, match="continues another list") as refused:
                    read(after=cursor)
                assert refused.value.category is Category.USAGE
    with pytest.raises(InvalidOption, match="continues another list"):
        lab.store.search("message", order="oldest", after=cursors["search"])
    with pytest.raises(InvalidOption, match="continues another list"):
        history.some_entries(lab.store.session("child 0"), after=cursors["audit"])


WRONG = [
    "",
    "x",
    "session",
    "\ud800",
    "\0",
    "é" * 8,
    5,
    b"x",
    True,
    urlsafe_b64encode(b"[]").decode(),
    urlsafe_b64encode(b"{}").decode(),
    urlsafe_b64encode(b"[[]]").decode(),
    urlsafe_b64encode(b'["sessions",1.5,1,"a"]').decode(),
    urlsafe_b64encode(b'["sessions",true,1,"a"]').decode(),
    urlsafe_b64encode(b'["sessions",99999999999999999999,1,"a"]').decode(),
    urlsafe_b64encode(b'["sessions",1,1,"\\u0000"]').decode(),
    urlsafe_b64encode(b'["sessions",1,1,"\\ud800"]').decode(),
    urlsafe_b64encode(b'["sessions",1,1,"%s"]' % (b"a" * 2_000)).decode(),
]


@pytest.mark.one_leg
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_malformed_cursor_is_refused(lab, wrong):
    for read in lists(lab).values():
        with pytest.raises(InvalidOption, match="is not a cursor") as refused:
            read(after=wrong)
        assert refused.value.category is Category.USAGE


@pytest.mark.one_leg
@pytest.mark.parametrize("place", ["1,1", '"a",1,1', '1,1,"a",1', "1,1,1"])
def test_cursor_with_other_parts_is_refused(lab, place):
    cursor = urlsafe_b64encode(f'["sessions",{place}]'.encode()).decode()
    with pytest.raises(InvalidOption, match="continues another list"):
        lab.store.sessions(after=cursor)


def test_page_continues_where_the_last_one_ended_during_writes(lab):
    """Writes between two pages do not move the entries of the next one."""
    first = lab.store.sessions(limit=3)
    lab.clock.now += 1_000
    lab.store.create("newer").append("user", "hello")
    rest = lab.store.sessions(after=first.next)
    names = [info.session_id for info in (*first, *rest)]
    assert sorted(names) == ["child 0", "child 1", "child 2", "child 3", "child 4", "root"]


def test_pages_of_the_audit_are_of_one_moment(lab):
    chat = lab.store.session("root")
    first = history.some_entries(chat, limit=2)
    chat.rewind(to=1)
    rest = history.some_entries(chat, after=first.next)
    assert [row.seq for row in (*first.entries, *rest.entries)] == [1, 2, 3]
    assert rest.next is None
    assert all(row.visible for row in rest.entries)


def test_page_needs_a_limit_that_is_a_positive_number(lab):
    for read in lists(lab).values():
        for wrong in (0, -1, True, 1.5, 1 << 70):
            with pytest.raises(InvalidOption):
                read(limit=wrong)
