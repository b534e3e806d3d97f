"""The list of sessions: families folded, forks named, tool, title, age, how full, and the cost."""

from typing import Any

import pytest

from roocontext import Store
from roocontext.web.pages import sessions
from support.dialogue import fill
from support.web_pages import WebPage, plain_store, read_page
from support.web_server import serving

MODEL = "claude-sonnet-4-5"
USAGE = {"input_tokens": 1_000_000, "output_tokens": 100_000}
COST = "$4.50"
"""What the table of prices makes of it."""


@pytest.fixture
def plain(lab: Any) -> Store:
    """A store of its own, synchronous on every leg."""
    return plain_store(lab.store)


def row_of(page: WebPage, session_id: str) -> str:
    """The markup from the name of a session to the next one."""
    return page.text.split(f'href="/s/{session_id}" class="name"')[1].split('class="name"')[0]


def list_of(store: Store) -> WebPage:
    with serving(store) as web:
        return read_page(web, "/")


def test_session_has_its_tool_title_age_model_fill_and_cost(plain):
    chat = plain.create("a", title="Parser", metadata={"tool": "aider"})
    chat.append("user", "hello")
    chat.append("assistant", "done", model=MODEL, usage=USAGE | {"input_tokens": 100_000})
    row = row_of(list_of(plain), "a")
    for fact in (">Parser</a>", ">aider<", " ago<", MODEL, "<meter", " % full", "$1.80"):
        assert fact in row


def test_cost_is_that_of_the_calls_and_says_if_prices_are_missing(plain):
    for name, models in (("all", [MODEL]), ("some", [MODEL, "nobody-knows"]), ("none", [])):
        chat = plain.create(name)
        fill(chat, 1)
        for model in models:
            chat.append("assistant", "done", model=model, usage=USAGE)
    page = list_of(plain)
    assert f"{COST}<" in row_of(page, "all")
    assert f"{COST} or more<" in row_of(page, "some")
    assert "$" not in row_of(page, "none")


def test_cost_is_that_of_the_session_as_it_has_grown(plain):
    chat = plain.create("a")
    chat.append("user", "hello")
    chat.append("assistant", "done", model=MODEL, usage=USAGE)
    with serving(plain) as web:
        assert f"{COST}<" in row_of(read_page(web, "/"), "a")
        chat.append("assistant", "done", model=MODEL, usage=USAGE)
        assert "$9.00<" in row_of(read_page(web, "/"), "a")


def test_cost_of_a_session_too_long_to_sum_is_a_link(plain, monkeypatch):
    monkeypatch.setattr(sessions, "_READ", 4)
    for name in ("a", "b"):
        fill(plain.create(name), 3)
    page = list_of(plain)
    links = [address for address, words in page.links if words == "cost"]
    assert links == ["/s/a/usage"] or links == ["/s/b/usage"]


def test_fork_is_named_by_its_origin_and_its_entry(plain):
    chat = plain.create("a", title="Parser")
    fill(chat, 4)
    chat.fork(3, session_id="b").fork(2, session_id="c")
    page = list_of(plain)
    assert 'fork of <a href="/s/a/e/3">Parser</a> at entry 3' in row_of(page, "b")
    assert 'fork of <a href="/s/b/e/2">Parser</a> at entry 2' in row_of(page, "c")
    assert "fork of" not in row_of(page, "a")
    plain.purge("a")
    assert "fork of <code>a</code> at entry 3" in row_of(list_of(plain), "b")


def test_origin_of_a_fork_on_another_page_of_the_list_is_named(plain, monkeypatch):
    fill(plain.create("a", title="Parser"), 2)
    plain.session("a").fork(1, session_id="b")
    monkeypatch.setattr(sessions, "_SESSIONS", 1)
    assert 'fork of <a href="/s/a/e/1">Parser</a>' in row_of(list_of(plain), "b")


def test_family_is_one_fold_under_its_parent(plain):
    plain.create("a", title="Parser")
    plain.create("b", parent="a")
    plain.create("c", parent="b")
    page = list_of(plain)
    assert page.text.count("<details>") == 2
    assert "<summary>1 sub-agent</summary>" in row_of(page, "a")
    assert 'sub-agent of <a href="/s/a">Parser</a>' in row_of(page, "b")
