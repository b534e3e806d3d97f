"""The HTTP API over a store with an owner: no route shows or changes another owner's session."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from roocontext import Store
from roocontext.web.api.events import STREAM
from roocontext.web.api.operations import Operation
from roocontext.web.api.table import OPERATIONS
from support.dialogue import state
from support.empty_files import empty_file
from support.web_server import WebClient, serving
from web.api.test_every_route import ask, path_of

THEIRS, MISSING = "sess-acme-1", "sess-none-1"
WORD = "quetzalcoatl"
OF_A_SESSION = [one for one in OPERATIONS if "{session}" in one.path and one.method != "PUT"]
OF_THE_STORE = [one for one in OPERATIONS if "{session}" not in one.path]


class Served(NamedTuple):
    acme: Store
    client: WebClient


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = empty_file(tmp_path_factory.mktemp("web") / "store.db")
    with ExitStack() as stack:
        acme, mallory = (
            stack.enter_context(Store.open(url, owner=name)) for name in ("acme", "mallory")
        )
        chat = acme.create(THEIRS, title=WORD)
        for text in (WORD, "more", "and more"):
            chat.append("user", text)
        yield Served(acme, stack.enter_context(serving(mallory, allow_write=True, admin=True)))


def named(operation: Operation) -> str:
    return operation.handler.__name__


@pytest.mark.parametrize("operation", OF_A_SESSION, ids=named)
def test_another_owners_session_is_as_if_there_were_none(served, operation):
    before = state(served.acme.session(THEIRS))
    answers = []
    for name in (MISSING, THEIRS):
        answer = ask(served.client, operation, path_of(operation, name))
        answers.append((answer.status, answer.body.replace(name.encode(), b"ID")))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404
    assert state(served.acme.session(THEIRS)) == before


@pytest.mark.parametrize("operation", OF_THE_STORE, ids=named)
def test_no_list_shows_another_owners_session(served, operation):
    if STREAM in operation.media:
        return  # the feed's own tests are those of the store
    # The first letters are enough for the search, and the answer repeats them.
    answer = ask(served.client, operation, path_of(operation).replace("q=x", f"q={WORD[:6]}*"))
    assert answer.status < 500
    assert WORD.encode() not in answer.body
    assert THEIRS.encode() not in answer.body


def test_page_of_another_owners_session_is_not_found(served):
    answer = served.client.get(f"/s/{THEIRS}", accept="text/html")
    assert answer.status == 404
    assert WORD.encode() not in answer.body
    assert THEIRS.encode() not in served.client.get("/", accept="text/html").body
