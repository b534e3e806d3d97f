"""Requests that fail, as a browser shows them: in the style of the pages, and without details."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import unquote

import pytest

from roocontext.web.app import create_app
from roocontext.web.safety import ServerSettings
from support.dialogue import fill
from support.web_pages import plain_store
from support.web_server import TOKEN, WebClient, serving

HTML = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture(scope="module")
def web(shared: Any) -> Iterator[WebClient]:
    with serving(plain_store(shared.store)) as client:
        yield client


def failed(web: WebClient, path: str, **headers: str) -> tuple[int, str]:
    """The status and the text of a page, whose style its policy permits, and nothing else."""
    answer = web.raw("GET", path, {"authorization": f"Bearer {TOKEN}", **HTML, **headers})
    page = answer.body.decode()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    style = re.search("<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert "script" not in answer.headers["content-security-policy"]
    body = page.partition("</head>")[2]
    assert "<script" not in body
    assert "<h1>" in body
    return answer.status, unescape(body)


class TestNotFound:
    def test_entry_beyond_the_end_leads_to_the_last(self, web, kept):
        chat = kept.create()
        fill(chat, 4)
        for path in (f"/s/{chat.id}/e/9", f"/s/{chat.id}/e/9/whole", f"/s/{chat.id}?as_of=9"):
            status, body = failed(web, path)
            assert status == 404
            assert "<h1>The entry or message is not in the session" in body
            assert "Entry 9 does not exist" in body
            assert f'href="/s/{chat.id}/e/4"' in body
            assert f'href="/s/{chat.id}"' in body

    def test_session_with_a_similar_id_is_named(self, web, kept):
        number = kept.create().id
        beginning, tool = f"near-{number}-session", f"codex:{number}-tail"
        for name in (beginning, tool):
            kept.create(name)
        status, body = failed(web, f"/s/near-{number}")
        assert status == 404
        assert f'href="/s/{beginning}"' in body
        assert f'href="/s/{beginning}"' in failed(web, f"/s/near-{number}-sessions-of-today")[1]
        for asked in (f"{number}-t", f"codex%3A{number}-t"):
            assert f'href="/s/codex%3A{number}-tail"' in failed(web, f"/s/{asked}")[1]
        assert 'class="nearest"' not in failed(web, "/s/zzzzzzzz")[1]

    def test_path_that_leads_nowhere(self, web):
        status, body = failed(web, "/nothing")
        assert (status, "There is nothing at this path" in body) == (404, True)

    @pytest.mark.parametrize("rest", ["", "/usage", "/follow", "/e/1/whole", "/export?to=html"])
    def test_id_that_no_session_can_have_is_not_found(self, web, rest):
        for name in ("%00", "%ED%A0%80", "a" * 2000):
            assert failed(web, f"/s/{name}{rest}")[0] == 404

    def test_hostile_id_is_text(self, web):
        path = "/s/%3Cscript%3Ealert(1)%3C%2Fscript%3E%E2%80%AE"
        assert failed(web, path)[0] == 404
        body = web.get(path, **HTML).body.decode()
        assert "<script" not in body
        assert "\u202e" not in body

    def test_program_gets_a_problem_document(self, web):
        assert web.get("/s/nothing").headers["content-type"] == "application/problem+json"


class TestRefused:
    def test_other_host_name_learns_nothing_of_the_sessions(self, web, kept):
        chat = kept.create(title="a secret title")
        status, body = failed(web, f"/s/{chat.id}", host=f"evil.test:{web.port}")
        assert status == 421
        assert f"This server is http://127.0.0.1:{web.port}" in body
        assert "secret" not in body
        assert "href" not in body

    def test_page_of_another_site(self, web):
        status, body = failed(web, "/", origin="http://evil.test")
        assert (status, "a page of another origin" in body) == (403, True)

    def test_browser_without_the_cookie_is_told_how_to_get_in(self, web):
        status, body = failed(web, "/", authorization="")
        assert status == 401
        assert "roocontext serve" in body

    def test_change_on_a_server_that_only_reads_names_the_option(self, web, kept):
        status, body = failed(web, f"/s/{kept.create().id}/change")
        assert status == 403
        assert "--allow-write" in body


class TestFailed:
    def test_defect_is_named_without_its_text(self, kept, monkeypatch):
        def broken(*_: Any, **__: Any) -> Any:
            raise ValueError("the words of a message")

        chat = kept.create()
        with serving(kept) as web:
            monkeypatch.setattr("roocontext.web.pages.session.session_body", broken)
            status, body = failed(web, f"/s/{chat.id}")
        assert status == 500
        assert "The server failed" in body
        assert "words" not in body
        assert "ValueError" not in body


class TestCutOff:
    """Requests and answers that end before they are complete, as the application meets them."""

    def test_client_that_goes_away_is_no_failure_of_the_server(self, kept, caplog):
        path = f"/s/{kept.create().id}/fork"
        form = [(b"content-type", b"application/x-www-form-urlencoded")]
        assert parts_of(kept, "POST", path, [{"type": "http.disconnect"}], headers=form) == []
        assert caplog.records == []

    def test_purge_during_a_download_ends_it_and_is_named(self, kept, caplog):
        chat = kept.create()
        fill(chat, 300)
        purge = partial(kept.purge, chat.id)
        assert parts_of(kept, "GET", f"/s/{chat.id}/export?to=jsonl", sent=purge)[-1]["more_body"]
        (record,) = caplog.records
        assert record.getMessage() == "SessionPurged while answering GET"


def parts_of(
    store: Any,
    method: str,
    path: str,
    received: Sequence[Any] = (),
    *,
    headers: Sequence[tuple[bytes, bytes]] = (),
    sent: Callable[[], object] = bool,
) -> list[Any]:
    """The parts of an answer. After the first part of its body, `sent` is called."""
    app = create_app(store, ServerSettings(port=80, allow_write=True))
    raw, _, query = path.encode().partition(b"?")
    incoming = iter([*received, {"type": "http.request", "body": b""}])
    parts: list[Any] = []

    async def receive() -> Any:
        return next(incoming, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        parts.append(message)
        if len(parts) == 2:
            sent()

    scope = {"type": "http", "method": method, "path": unquote(raw.decode()), "raw_path": raw}
    scope |= {"query_string": query, "headers": [(b"host", b"127.0.0.1"), *headers]}
    asyncio.run(app(scope, receive, send))
    return parts
