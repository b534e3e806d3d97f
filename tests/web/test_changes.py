"""Changes from the page: each is shown first, sent by a form without a script, and refused if the
session has changed meanwhile. A server that was not started for them shows no control."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from roocontext import Plan, Session
from roocontext.errors import SessionPurged
from roocontext.web.compacting import RememberedSummaries
from support.dialogue import call, fill, result
from support.web_pages import WebPage, plain_store, read_page, send_form
from support.web_server import WebClient, serving

MODEL = "claude-sonnet-4-5"


@pytest.fixture(scope="module")
def web(shared: Any) -> Iterator[WebClient]:
    with serving(plain_store(shared.store), allow_write=True, admin=True) as client:
        yield client


@pytest.fixture
def chat(kept: Any) -> Session:
    """A session with a summary that hides entries 3 to 6."""
    chat = kept.create(title="a session")
    fill(chat, 10)
    chat.commit(Plan.condense(chat.view(), range(3, 7), "They talked."))
    return chat


def squeezed(text: str) -> str:
    """A text without what Markdown and HTML add to it."""
    return re.sub(r"[^a-zA-Z0-9]", "", unescape(text))[:400]


def path_of(chat: Session) -> str:
    return f"/s/{quote(chat.id, safe='')}"


def followed(web: WebClient, answer: Any) -> WebPage:
    assert answer.status == 303, answer.body
    location = answer.headers["location"].partition("#")[0]
    if "/e/" in location:
        location = web.get(location).headers["location"].partition("#")[0]
    return read_page(web, location)


class TestRewind:
    def test_difference_is_shown_before_and_nothing_is_written(self, web, chat):
        before = chat.head()
        page = read_page(web, f"{path_of(chat)}/rewind?to=4")
        assert "6 messages would leave the view" in page.text
        assert "2 messages would come into it" in page.text
        assert "undo takes it back" in page.text
        assert chat.head() == before

    def test_form_rewinds_and_the_session_says_so(self, web, chat):
        form = read_page(web, f"{path_of(chat)}/rewind?to=4").form("Rewind to entry 4")
        page = followed(web, send_form(web, form))
        assert [message.seq for message in chat.view().messages] == [2, 3, 4]
        assert "rewind 13" in page.text.replace("</a>", "")
        assert page.link("Undo") == f"{path_of(chat)}/undo"

    def test_session_that_has_grown_since_is_not_rewound(self, web, chat):
        form = read_page(web, f"{path_of(chat)}/rewind?to=4").form("Rewind")
        chat.append("user", "meanwhile")
        answer = send_form(web, form)
        assert answer.status == 412
        assert "The session has changed" in answer.body.decode()
        assert chat.view().messages[-1].content == "meanwhile"

    def test_beginning_and_entries_that_do_not_exist(self, web, chat):
        form = read_page(web, f"{path_of(chat)}/rewind?to=0").form("Rewind to the start")
        followed(web, send_form(web, form))
        assert chat.view().messages == ()
        page = read_page(web, f"{path_of(chat)}/rewind?to={chat.head_seq()}")
        assert [form.method for form in page.forms] == ["get"]
        assert "already" in page.text
        for to, status in (("999", 404), ("x", 400), ("-1", 400), ("", 400)):
            assert web.get(f"{path_of(chat)}/rewind?to={to}").status == status


class TestUndo:
    def test_summary_is_undone_and_its_messages_are_listed(self, web, chat):
        page = read_page(web, f"{path_of(chat)}/undo")
        assert "1 message would leave the view" in page.text
        assert "4 messages would come into it" in page.text
        followed(web, send_form(web, page.form("Undo summary 12")))
        assert len(chat.view().messages) == 10

    def test_entries_that_it_would_hide_are_named_first(self, web, chat):
        chat.rewind(to=2)
        chat.append("user", "after it")
        page = read_page(web, f"{path_of(chat)}/undo")
        assert "1 entry came after rewind" in page.text
        page = read_page(web, page.link("See what it would hide"))
        assert "after it" in page.text
        followed(web, send_form(web, page.form("Undo rewind")))
        assert len(chat.view().messages) == 7

    def test_session_without_a_change_has_nothing_to_undo(self, web, kept):
        chat = kept.create()
        chat.append("user", "hello")
        assert "Nothing has changed" in read_page(web, f"{path_of(chat)}/undo").text
        assert "nothing to undo" in read_page(web, f"{path_of(chat)}/change").text


class TestUncover:
    def test_summary_is_uncovered_from_its_entry(self, web, chat):
        menu = read_page(web, f"{path_of(chat)}/e/12/change")
        page = read_page(web, menu.link("Uncover what this summary hides"))
        assert "4 messages would come into it" in page.text
        followed(web, send_form(web, page.form("Uncover summary 12")))
        assert len(chat.view().messages) == 10
        assert "already" in read_page(web, f"{path_of(chat)}/uncover?seq=12").text

    def test_clearing_is_uncovered(self, web, kept):
        chat = kept.create()
        chat.append("user", "go")
        chat.append("assistant", [call("t1")])
        chat.append("user", [result("t1", "long output " * 40)])
        clearing = chat.commit(Plan.clear(chat.view(), [(3, 0)])).seq
        page = read_page(web, f"{path_of(chat)}/uncover?seq={clearing}")
        assert "1 tool output would be shown again" in page.text
        followed(web, send_form(web, page.form("Uncover")))
        assert "long output" in str(chat.view().messages[-1].content)


class TestPin:
    def test_message_is_pinned_and_unpinned(self, web, chat):
        menu = f"{path_of(chat)}/e/8/change"
        followed(web, send_form(web, read_page(web, menu).form("Pin")))
        assert chat.pins() == {8}
        followed(web, send_form(web, read_page(web, menu).form("Unpin")))
        assert chat.pins() == set()


class TestFork:
    def test_fork_at_an_entry_is_opened(self, web, kept, chat):
        form = read_page(web, f"{path_of(chat)}/e/5/change").form("Fork")
        before = kept.sessions()
        assert send_form(web, form, title="another way " * 90).status == 422
        assert kept.sessions() == before
        answer = send_form(web, form, title="another way")
        assert "another way" in followed(web, answer).headings
        again = send_form(web, form, title="another way")
        assert again.headers["location"] == answer.headers["location"]
        other = send_form(web, form, title="a third way")
        assert other.headers["location"] != answer.headers["location"]
        branch = kept.session(answer.headers["location"].removeprefix("/s/"))
        assert [message.seq for message in branch.view().messages] == [2, 3, 4, 5]


class TestCompact:
    def test_condensing_is_shown_and_then_done_as_it_was_shown(self, web, kept):
        chat = kept.create()
        for number in range(40):
            chat.append("user", f"Question {number}: what does part_{number} do? " * 20)
            chat.append("assistant", f"Part {number} parses words. " * 20, model=MODEL)
        before = chat.head()
        menu = read_page(web, f"{path_of(chat)}/change").form("Show what changes")
        assert menu.action == f"{path_of(chat)}/compact"
        page = read_page(web, f"{menu.action}?aim=condense&policy=hybrid&limit=20000")
        assert "messages hidden" in page.text
        assert "Summaries are written by extractive" in page.text
        assert chat.head() == before
        shown = page.text.partition("What would be written")[2]
        followed(web, send_form(web, page.form("Do this")))
        (summary,) = [one for one in chat.view().messages if one.kind == "summary"]
        assert squeezed(str(summary.content)) in squeezed(
            re.sub("<[^>]*>", "", shown.partition("<section")[2].partition("</header>")[2])
        )

    def test_unit_of_the_window_is_in_its_label(self, web, chat):
        form = web.get(f"{path_of(chat)}/change", accept="text/html").body.decode()
        assert re.search(r"<label>for a window of <input[^>]*> tokens</label>", form)

    def test_window_must_be_known(self, web, chat):
        answer = web.get(f"{path_of(chat)}/compact", accept="text/html")
        assert answer.status == 400
        assert "limit" in answer.body.decode()

    def test_choice_that_does_not_exist_is_refused(self, web, chat):
        for query in ("aim=none", "policy=none&limit=9", "limit=-1"):
            assert web.get(f"{path_of(chat)}/compact?{query}").status == 400

    def test_summary_of_a_preview_is_asked_for_once(self):
        asked = []

        class Counting:
            name = "counting"

            def summarise(self, request: Any) -> Any:
                asked.append(request)
                return object()

        remembered = RememberedSummaries(Counting())
        assert remembered.summarise("one") is remembered.summarise("one")
        assert remembered.summarise("two") is not remembered.summarise("one")
        assert asked == ["one", "two"]
        for number in range(40):
            remembered.summarise(str(number))
        remembered.summarise("one")
        assert len(asked) == 43


class TestErase:
    def test_redaction_shows_what_it_erases_and_what_may_quote_it(self, web, chat):
        content = chat.message(4).content
        page = read_page(web, f"{path_of(chat)}/redact?seq=4")
        assert str(content)[:20] in page.text
        assert page.link("entry 12") == f"{path_of(chat)}/e/12"
        assert chat.message(4).content == content
        page = followed(web, send_form(web, page.form("Erase it for good")))
        assert "Entry 4 is redacted" in page.headings
        assert str(content)[:20] not in page.text
        assert page.link("entry 12") == f"{path_of(chat)}/e/12"

    def test_purge_counts_the_copies_that_it_does_not_list(self, web, chat):
        chat.append("user", "hello")
        for _ in range(42):
            chat.fork()
        assert "and 2 more" in read_page(web, f"{path_of(chat)}/purge").text

    def test_purge_needs_the_id_and_leaves_a_receipt(self, web, kept, chat):
        branch = chat.fork()
        page = read_page(web, f"{path_of(chat)}/purge")
        assert page.link(branch.id) == f"/s/{branch.id}"
        assert send_form(web, page.form("Delete it"), confirmed="yes").status == 400
        page = followed(web, send_form(web, page.form("Delete it"), confirmed=chat.id))
        assert "This session was purged" in page.headings
        assert page.forms[1:] == []
        with pytest.raises(SessionPurged):
            kept.session(chat.id)
        assert web.get(path_of(chat), accept="text/html").status == 404


class TestPermissions:
    PATHS = (
        *("change", "e/4/change", "rewind?to=2", "undo", "uncover?seq=12", "pin", "fork"),
        *("compact?limit=9000", "redact?seq=4", "purge"),
    )

    def test_read_only_server_shows_no_control_and_changes_nothing(self, kept, chat):
        with serving(kept) as web:
            for place in ("", "?tab=all", "?tab=live", "?as_of=5", "?done=12"):
                page = read_page(web, f"{path_of(chat)}{place}")
                assert not [link for link, _ in page.links if "change" in link or "undo" in link]
                assert {form.method for form in page.forms} == {"get"}
            before = chat.head()
            for path in self.PATHS:
                refused = {403, 405} if path in ("pin", "fork") else {403}
                assert web.get(f"{path_of(chat)}/{path}").status in refused
                form = {"content_type": "application/x-www-form-urlencoded"}
                body = b"to=1&head=12&seq=4&pinned=1&at=2"
                answer = web.ask("POST", f"{path_of(chat)}/{path}", body=body, **form)
                assert answer.status == (405 if "change" in path else 403)
            assert chat.head() == before

    def test_erasing_needs_a_server_that_was_started_for_it(self, kept, chat):
        with serving(kept, allow_write=True) as web:
            assert "for good" not in read_page(web, f"{path_of(chat)}/change").text
            assert "for good" not in read_page(web, f"{path_of(chat)}/e/4/change").text
            for path in ("redact?seq=4", "purge"):
                assert web.get(f"{path_of(chat)}/{path}").status == 403
                assert web.post(f"{path_of(chat)}/{path}").status == 403

    def test_other_bodies_than_forms_are_refused(self, web, chat):
        path = f"{path_of(chat)}/rewind"
        kind = "application/x-www-form-urlencoded"
        assert web.post(path, {"to": 1}).status == 415
        assert web.ask("POST", path, body=b"to=1&to=2", content_type=kind).status == 400
        assert web.ask("POST", path, body=b"to=%ff", content_type=kind).status == 400
        assert web.ask("POST", path, body=b"to=1", content_type=kind).status == 400
        assert web.ask("DELETE", path).status == 405
        assert web.get(f"{path_of(chat)}/fork").status == 405

    def test_pages_let_forms_name_their_origin(self, web, chat):
        answer = web.get(f"{path_of(chat)}/rewind?to=2", accept="text/html")
        assert answer.headers["referrer-policy"] == "same-origin"
        assert b'name="referrer"' not in answer.body


def test_every_entry_leads_to_its_changes(web, chat):
    page = read_page(web, f"{path_of(chat)}?tab=all")
    for article in page.articles:
        assert f"{path_of(chat)}/e/{article.seq}/change" in article.links
        read_page(web, f"{path_of(chat)}/e/{article.seq}/change")
    assert "Rewind to here" in read_page(web, f"{path_of(chat)}?as_of=4").text
