"""New entries as rows: each once and in order, whatever is cut off."""

import http.client
import re
import subprocess
import sys
from contextlib import closing
from html import unescape
from typing import Any

from roocontext import AsyncStore, NewMessage, Store
from roocontext.errors import StoreUnavailable
from support.empty_files import empty_file
from support.web_server import APPENDS, TOKEN, serving

ENTRIES, CUTS = 300, 10


def test_each_entry_of_another_process_comes_once_while_the_server_is_cut_off(tmp_path):
    path = empty_file(tmp_path / "agent.db")
    with Store.open(path) as store:
        store.create("chat")
        command = [sys.executable, "-c", APPENDS, path, "chat", str(ENTRIES)]
        got: list[int] = []
        with subprocess.Popen(command) as writer:
            for cut in range(CUTS + 1):
                most = (cut + 1) * ENTRIES // (CUTS + 1) if cut < CUTS else ENTRIES
                with serving(store) as web:
                    read_rows(web.port, got, most)
            assert writer.wait(60) == 0
    assert got == list(range(1, ENTRIES + 1))


def read_rows(port: int, got: list[int], most: int) -> None:
    """Read events until so many entries have come, and then cut the connection."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Last-Event-ID": str(got[-1] if got else 0)}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/s/chat/rows?tab=all", headers=headers)
        answer = connection.getresponse()
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        while len(got) < most:
            line = answer.readline().decode()
            assert line, "the stream ended"
            if found := re.fullmatch(r"id: (\d+)\n", line):
                got.append(int(found[1]))


def test_entry_that_changes_the_view_is_a_row_too(tmp_path):
    with Store.open(empty_file(tmp_path / "agent.db")) as store:
        chat = store.create("chat")
        chat.append("user", "one")
        chat.append("user", "two")
        chat.rewind(to=1)
        got: list[int] = []
        with serving(store) as web:
            read_rows(web.port, got, 3)
            followed = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
            with closing(followed):
                headers = {"Authorization": f"Bearer {TOKEN}"}
                followed.request("GET", "/s/chat/follow", headers=headers)
                answer = followed.getresponse()
                text = answer.read1(100_000).decode()
                chat.append("user", "while it is open")
                while "while it is open" not in text:
                    text += answer.read1(100_000).decode()
        assert got == [1, 2, 3]


def test_script_connects_again_unless_nothing_can_follow(tmp_path, monkeypatch):
    with Store.open(empty_file(tmp_path / "agent.db")) as store:
        chat = store.create("chat")
        chat.append_many([NewMessage("user", f"message {number}") for number in range(301)])
        with serving(store) as web:
            assert (rows_of(web.port, 0), rows_of(web.port, 300, store)) == (300, 1)

            def unreadable(*_: Any) -> None:
                raise StoreUnavailable("The database went away.")

            monkeypatch.setattr(AsyncStore, "session", unreadable)
            assert rows_of(web.port, 0) == 0


def rows_of(port: int, after: int, purges: Any = None) -> int:
    """Read all events, and return their number. The last is `end` after a purge, and only then."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Last-Event-ID": str(after)}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/s/chat/rows?tab=all", headers=headers)
        answer = connection.getresponse()
        text = ""
        while line := answer.readline().decode():
            text += line
            if purges is not None and line.startswith("id:"):
                purges.purge("chat")
        assert ("event: end" in text) == (purges is not None)
        return len(re.findall("^id: ", text, re.MULTILINE))


def test_head_leaves_the_connection_to_the_next_request(tmp_path):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with Store.open(empty_file(tmp_path / "agent.db")) as store, serving(store) as web:
        store.create("chat")
        asking = http.client.HTTPConnection("127.0.0.1", web.port, timeout=10)
        with closing(asking):
            for method, path in (("HEAD", "rows"), ("HEAD", "follow"), ("GET", "usage")):
                asking.request(method, f"/s/chat/{path}", headers=headers)
                answer = asking.getresponse()
                answer.read()
                assert answer.status == 200


def test_new_rows_have_the_style_and_the_links_of_their_page(tmp_path):
    with Store.open(empty_file(tmp_path / "agent.db")) as store:
        chat = store.create("chat")
        with serving(store, allow_write=True) as web:
            page = web.get("/s/chat?tab=all&md=0").body.decode()
            (events,) = re.findall('data-events="(.*?)"', page)
            following, tailing = (
                http.client.HTTPConnection("127.0.0.1", web.port, timeout=60) for _ in range(2)
            )
            with closing(following), closing(tailing):
                headers = {"Authorization": f"Bearer {TOKEN}"}
                following.request("GET", "/s/chat/follow?tab=all&md=0", headers=headers)
                answer = following.getresponse()
                chat.append_many([NewMessage("user", f"# {number}") for number in range(300)])
                followed = answer.read().decode()
                tailing.request("GET", unescape(events), headers=headers)
                tail = tailing.getresponse().read().decode()
    for text in (tail, followed):
        assert '<pre class="text" dir="auto">' in text
        assert 'href="/s/chat/e/300/change"' in text
    assert 'href="/s/chat/follow?tab=all&amp;md=0"' in followed
