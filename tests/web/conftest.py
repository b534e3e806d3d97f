"""Servers over the stores of both engines, which the tests of a module share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from roocontext import Session, Store
from support.dialogue import fill, state
from support.web_pages import plain_store
from support.web_server import Answer, WebClient, serving, session_path


@dataclass(frozen=True)
class Web:
    """A server that permits everything, its store, and a client."""

    lab: Any
    client: WebClient

    @property
    def store(self) -> Any:
        return self.lab.store

    def of(self, chat: Any) -> "SessionClient":
        return SessionClient(self.client, chat)


@dataclass(frozen=True)
class SessionClient:
    """Asks for paths below a session."""

    client: WebClient
    chat: Any

    def get(self, rest: str = "", **headers: str) -> Answer:
        return self.client.get(session_path(self.chat.id, rest), **headers)

    def post(self, rest: str, document: Any = None, **headers: str) -> Answer:
        return self.client.post(session_path(self.chat.id, rest), document, **headers)

    def change(self, rest: str, document: Any = None) -> Answer:
        return self.post(rest, document, if_match=f'"{self.chat.head_seq()}"')

    def ask(self, method: str, rest: str, document: Any = None, **headers: str) -> Answer:
        return self.client.ask(method, session_path(self.chat.id, rest), document, **headers)


@pytest.fixture(scope="module", params=["file", "postgres"])
def web(request: pytest.FixtureRequest, opened: Callable[..., Any]) -> Iterator[Web]:
    """A server over a store of its own."""
    with (
        opened(request.param, "sync") as lab,
        serving(lab.store, allow_write=True, admin=True) as client,
    ):
        yield Web(lab, client)


MOST_BYTES = 10_000
"""The largest body that `guarded` accepts."""


@pytest.fixture(scope="module")
def one_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with the session `s` of four messages, which no test changes."""
    with Store.open(tmp_path_factory.mktemp("web") / "store.db") as store:
        fill(store.create("s"), 4)
        yield store


@pytest.fixture(scope="module")
def guarded(one_session: Store) -> Iterator[WebClient]:
    """A client of a server over that store, which permits everything."""
    with serving(one_session, allow_write=True, admin=True, most_bytes=MOST_BYTES) as client:
        yield client


@pytest.fixture
def nothing_changes(one_session: Store) -> Iterator[None]:
    """After the test, the session is what it was before."""
    before = state(one_session.session("s"))
    yield
    assert state(one_session.session("s")) == before


@pytest.fixture
def talk(web: Web) -> SessionClient:
    return web.of(web.store.create())


@pytest.fixture
def kept(store: Any) -> Any:
    """The store, synchronous on every leg."""
    return plain_store(store)


@pytest.fixture
def chat(kept: Any) -> Session:
    """A new session, synchronous on every leg."""
    return kept.create()
