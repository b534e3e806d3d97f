"""Streams of events: each entry once and in order, whatever happens to the connection."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from roocontext import Plan
from support.dialogue import fill
from support.web_server import APPENDS, TOKEN, WebClient, serving, session_path


@contextmanager
def stream(
    client: WebClient, path: str, last: str | None = None
) -> Iterator[Iterator[dict[str, Any]]]:
    """Connect, and yield the events as they come."""
    with closing(http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)) as connection:
        headers = {"authorization": f"Bearer {TOKEN}", "accept": "text/event-stream"}
        if last is not None:
            headers["last-event-id"] = last
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as response:
            assert response.status == 200
            assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
            assert response.readline() == b"retry: 1000\n"
            yield events(response)


def events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    for line in response:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            found[name] = value
        elif "event" in found:
            yield found | {"data": json.loads(found["data"])}
            found = {}
        else:
            found = {}


def events_path(chat: Any, after: int | None = None) -> str:
    return session_path(chat.id, "/events") + ("" if after is None else f"?after={after}")


class TestEntries:
    def test_each_entry_of_another_process_comes_once_while_the_server_is_cut_off(self, web):
        chat, count, cuts = web.store.create(), 1_000, 10
        seen: list[int] = []
        with subprocess.Popen(
            [sys.executable, "-c", APPENDS, web.lab.url, chat.id, str(count)]
        ) as process:
            for cut in range(cuts + 1):
                most, last = count * (cut + 1) // (cuts + 1), str(seen[-1] if seen else 0)
                with ExitStack() as connection:
                    with serving(web.store) as client:
                        found = connection.enter_context(stream(client, events_path(chat), last))
                        while len(seen) < most:
                            seen.append(next(found)["data"]["seq"])
                        if cut % 2:  # the reader is cut off, and not the server
                            connection.close()
                    # What the server had sent before it ended still comes.
                    rest = [] if cut % 2 else [*found]
                    seen += [event["data"]["seq"] for event in rest if event["event"] != "end"]
        assert process.returncode == 0
        assert seen == [*range(1, count + 1)]

    def test_change_of_the_view_is_named_and_no_content_is_sent(self, web):
        chat = web.store.create()
        fill(chat, 4)
        chat.commit(Plan.condense(chat.view(), [1, 2], "the summary"))
        chat.set_title("T")
        chat.rewind(2)
        with stream(web.client, events_path(chat, 2)) as found:
            got = [next(found) for _ in range(5)]
        assert [event["id"] for event in got] == [*"34567"]
        assert [event["event"] for event in got] == ["entry", "entry", "view", "entry", "view"]
        assert [event["data"]["kind"] for event in got][2:] == ["summary", "note", "rewind"]
        assert "content" not in got[0]["data"]

    def test_without_a_place_it_begins_now(self, web):
        chat = web.store.create()
        fill(chat, 2)
        with stream(web.client, events_path(chat)) as found:
            chat.append("user", "new")
            assert next(found)["id"] == "3"

    def test_it_ends_when_the_session_is_purged(self, web):
        chat = web.store.create()
        fill(chat, 1)
        with stream(web.client, events_path(chat, 0)) as found:
            assert next(found)["id"] == "1"
            web.store.purge(chat.id)
            assert [event["event"] for event in found] == ["end"]

    @pytest.mark.parametrize("place", ["x", "-1", "1.5", "9" * 30])
    def test_place_that_is_no_entry_is_refused(self, talk, place):
        assert talk.get("/events", last_event_id=place, accept="text/event-stream").status == 400

    def test_unknown_session_is_not_found(self, web):
        answer = web.client.get("/api/v1/sessions/none/events", accept="text/event-stream")
        assert answer.status == 404

    def test_head_does_not_wait(self, talk):
        assert talk.ask("HEAD", "/events").status == 200


class TestSessions:
    def test_sessions_that_any_process_writes_are_named(self, web):
        with stream(web.client, "/api/v1/events") as found:
            chat = web.store.create()
            subprocess.run([sys.executable, "-c", APPENDS, web.lab.url, chat.id, "3"], check=True)
            seen = {}
            while seen.get(chat.id) != 3:
                event = next(found)
                assert event["event"] == "session"
                seen[event["data"]["session_id"]] = event["data"]["last_seq"]
                cursor = event["id"]
        other = web.store.create()
        with stream(web.client, "/api/v1/events", cursor) as found:
            assert any(event["data"]["session_id"] == other.id for event in found)

    def test_cursor_of_something_else_is_refused(self, web):
        assert web.client.get("/api/v1/events", last_event_id="x").status == 400


def test_streams_end_when_the_server_stops(opened):
    with opened("file", "sync") as lab:
        chat = lab.store.create()
        with serving(lab.store) as client:
            connections = [stream(client, events_path(chat)) for _ in range(3)]
            found = [connection.__enter__() for connection in connections]
        assert [[event["event"] for event in events] for events in found] == [["end"]] * 3
        for connection in connections:
            connection.__exit__(None, None, None)
