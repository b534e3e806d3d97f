"""The service under load: 50 users, workers that are killed, requests that are cancelled."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import psycopg

from roocontext import Store
from support.fake_provider import Broken
from support.next_release import next_release
from support.pages import every_page
from support.service_workers import GONE, PATIENCE, Client, Service

USERS = 50
TURNS = 2


class Tail:
    """Follows a user's chats as they change, and goes on from its cursor when a worker has gone."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.seen: Counter[str] = Counter()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self) -> None:
        path = "/live"
        while not self.ended.is_set():
            with suppress(*GONE), closing(self.client.stream("GET", path)) as events:
                for event in events:
                    self.seen[event["chat"]] += 1
                    path = f"/live?after={event['cursor']}"
                    if self.ended.is_set():
                        return
            time.sleep(0.5)


def users_of(service: Service) -> dict[str, Client]:
    return {f"user-{n:02}": service.client(f"user-{n:02}", n) for n in range(USERS)}


def use(client: Client, chat: str, foreign: str, number: int, upgraded: threading.Event) -> None:
    """A user's day: every third comes back after the upgrade, every fourth leaves, fifth stops."""
    for turn in range(TURNS):
        if turn == 1 and number % 3 == 0:
            assert upgraded.wait(PATIENCE)
        listed = client.surely("GET", "/chats")
        assert [one["chat"] for one in listed["chats"]] == [chat]
        assert client.answered("GET", f"/chats/{foreign}").status == 404
        key = f"{client.user}-{turn}"
        if turn == 1 and number % 5 == 0:
            stop_in_the_middle(client, chat, key)
        client.talk(chat, key, f"Where is order {key}?", leaves=number % 4 == 0)


def stop_in_the_middle(client: Client, chat: str, key: str) -> None:
    said = {"key": key, "text": f"Where is order {key}?"}
    with suppress(*GONE), closing(client.stream("POST", f"/chats/{chat}/messages", said)) as events:
        for event in events:
            if "text" in event:
                client.surely("POST", f"/chats/{chat}/stop")


def checked(store: Store, chat: str, user: str) -> list[str]:
    """The calls of a user's only chat, in which nothing is lost or doubled."""
    session = store.session(chat)
    assert [(info.session_id, info.owner) for info in store.sessions()] == [(chat, user)]
    assert {hit.session_id for hit in store.search("order", limit=100)} == {chat}
    assert session.verify().ok
    rows = [row for row in session.audit() if row.kind.value == "message"]
    typed = [row.content for row in rows if row.role == "user" and isinstance(row.content, str)]
    assert typed == [f"Where is order {user}-{turn}?" for turn in range(TURNS)]
    replies = [row.entry.message_id for row in rows if row.role == "assistant"]
    assert len(replies) == len({*replies})
    blocks = [it for row in rows if isinstance(row.content, list) for it in row.content]
    calls = [it["id"] for it in blocks if it["type"] == "tool_use"]
    results = [it["tool_use_id"] for it in blocks if it["type"] == "tool_result"]
    assert sorted(calls) == sorted(results)
    assert len(calls) == len({*calls})
    assert session.waits_for() == "user"
    return calls


class TestUnderLoad:
    def test_nothing_is_lost_or_doubled_while_workers_die_and_are_upgraded(self, service, tmp_path):
        upgraded = threading.Event()
        users = users_of(service)
        chats = {name: client.surely("POST", "/chats")["chat"] for name, client in users.items()}
        tails = {name: Tail(service.client(name)) for name in [*users][:3]}
        with ThreadPoolExecutor(USERS) as pool:
            days = [
                pool.submit(use, client, chats[name], foreign, number, upgraded)
                for number, ((name, client), foreign) in enumerate(
                    zip(users.items(), [*chats.values()][1:] + [*chats.values()][:1], strict=True)
                )
            ]
            for number in range(3):
                time.sleep(2)
                worker = service.workers[number % 2]
                worker.kill()
                worker.start()
            with next_release(tmp_path) as release:
                release.upgrade(service.url)
            service.role.may("GRANT INSERT ON stamps TO agent")
            for worker in service.workers:  # what it runs is finished first
                worker.end()
                worker.start(PYTHONPATH=str(tmp_path))
            upgraded.set()
            for day in days:
                day.result(240)
        for tail in tails.values():
            tail.ended.set()
        calls: list[str] = []
        for name, chat in chats.items():
            with Store.open(service.role.url, owner=name, upgrade=False) as store:
                calls += checked(store, chat, name)
                store.session(chat).note("end", {})  # so that a tail sees something and ends
        with psycopg.connect(service.url) as server:
            assert server.execute("SELECT count(*) > 0 FROM stamps").fetchone() == (True,)
        ran = Counter(service.ran)
        assert ran.keys() <= {*calls}
        assert set(ran.values()) == {1}
        for name, tail in tails.items():
            tail.thread.join(60)
            assert {*tail.seen} == {chats[name]}

    def test_call_whose_worker_died_is_begun(self, service):
        chat = service.client("ada").surely("POST", "/chats")["chat"]
        slow, other = service.workers
        slow.end()
        slow.start(TOOL_SECONDS="60")
        said = {"key": "1", "text": "Where is order 7?"}
        with closing(Client([slow], "ada").stream("POST", f"/chats/{chat}/messages", said)) as it:
            call = next(event["begun"] for event in it if "begun" in event)
            while not service.ran:
                time.sleep(0.01)
            slow.kill()
        here = Client([other], "ada")
        shown = here.ask("GET", f"/chats/{chat}").json
        assert (shown["waits_for"], shown["pending"]) == ("tools", [{"id": call, "begun": True}])
        events = [*here.stream("POST", f"/chats/{chat}/resume")]
        assert {"interrupted": call} in events
        assert events[-1] == {"done": True}
        assert service.ran == [call]
        after = here.ask("GET", f"/chats/{chat}").json
        assert (after["waits_for"], after["pending"]) == ("user", [])


class TestUsers:
    def test_user_sees_no_chat_of_another(self, service):
        ada, bob = service.client("ada"), service.client("bob")
        chat = ada.surely("POST", "/chats")["chat"]
        ada.talk(chat, "1", "Where is order 7?")
        said = {"key": "2", "text": "And mine?"}
        for method, path, document in (
            ("GET", f"/chats/{chat}", None),
            ("POST", f"/chats/{chat}/messages", said),
            ("POST", f"/chats/{chat}/resume", None),
            ("POST", f"/chats/{chat}/stop", None),
        ):
            refused = bob.ask(method, path, document)
            unknown = bob.ask(method, path.replace(chat, "no-such-chat"), document)
            assert refused.status == unknown.status == 404
            assert refused.json["error"] == unknown.json["error"].replace("no-such-chat", chat)
        assert bob.ask("GET", "/chats").json == {"chats": [], "next": None}
        assert ada.ask("GET", f"/chats/{chat}").json["waits_for"] == "user"
        assert service.client("").ask("GET", "/chats").status == 401

    def test_error_at_the_beginning_of_a_reply_is_reported(self, service):
        client = service.client("ada")
        chat = client.surely("POST", "/chats")["chat"]
        service.model.script.append(Broken(events=0))
        said = {"key": "1", "text": "Where is order 7?"}
        *_, last = client.stream("POST", f"/chats/{chat}/messages", said)
        assert last == {"failed": "APIStatusError"}
        client.talk(chat, "1", "Where is order 7?")

    def test_list_comes_in_pages(self, service):
        ada = service.client("ada")
        made = [ada.surely("POST", "/chats")["chat"] for _ in range(5)]
        service.client("bob").surely("POST", "/chats")

        def read(after: str | None = None) -> Any:
            more = f"&after={after}" if after else ""
            return _Page(**ada.ask("GET", f"/chats?limit=2{more}").json)

        pages = every_page(read)
        assert [len(page.chats) for page in pages] == [2, 2, 1]
        assert sorted(one["chat"] for page in pages for one in page.chats) == sorted(made)
        for path in ("/chats", "/live"):
            assert ada.ask("GET", f"{path}?after=nonsense").status == 400


class _Page:
    def __init__(self, chats: list[Any], next: str | None) -> None:  # noqa: A002 - as the service says
        self.chats, self.next = chats, next
