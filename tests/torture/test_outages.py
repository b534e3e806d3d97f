"""PostgreSQL hangs up on the store: a typed error, no loss, and the same store continues.

`outcome_unknown` says that a repetition with the same client id is the way to find out.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, make_url

from roocontext import Session, Store
from roocontext.errors import StoreUnavailable
from support.examples import TORTURE, everyday, examples
from support.pgbouncer import bouncers, pooled
from support.postgres_server import killable

NAME = "victim"
OUTAGES = 50 if TORTURE else 15
PATIENCE_S = 60
_HANG_UP = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = %s AND datname = current_database()"""
_WAITING = """SELECT count(*) FROM pg_stat_activity
    WHERE application_name = %s AND datname = current_database() AND wait_event_type = 'Lock'"""


@pytest.fixture
def victim_url(postgres_url: str) -> str:
    """A store whose connections can be told from others."""
    url = make_url(postgres_url).update_query_dict({"application_name": NAME})
    return url.render_as_string(hide_password=False)


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection]:
    """Somebody who may end other connections."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def test_connection_lost_while_writing_loses_nothing_acknowledged(victim_url, admin):
    chance = random.Random(0)

    def hang_up() -> None:
        for _ in range(OUTAGES):
            time.sleep(chance.uniform(0, 0.02))
            admin.execute(_HANG_UP, [NAME])

    _write_during(hang_up, victim_url)


@pytest.mark.parametrize("pooler", everyday([None], [None, *bouncers()]))
def test_server_killed_while_writing_loses_nothing_acknowledged(pooler):
    chance = random.Random(0)

    def kill() -> None:
        for _ in range(examples(1)):
            time.sleep(chance.uniform(0.1, 0.3))
            server.kill()
            time.sleep(chance.uniform(0, 0.3))
            server.start()

    with killable() as server, ExitStack() as stack:
        url = server.url
        if pooler:
            url = stack.enter_context(pooled(pooler, url, connections=4))
        _write_during(kill, url)


def _write_during(harm: Callable[[], None], url: str) -> None:
    """Two threads write until the harm is done: what was acknowledged is there, and once."""
    over = threading.Event()
    done: list[dict[str, int]] = [{}, {}]

    def write(number: int) -> None:
        for turn in count():
            if over.is_set():
                return
            for client_id, seq in _persist(chat, f"{number}-{turn}", turn):
                done[number][client_id] = seq

    with Store.open(url) as store:
        chat = store.create("busy")
        with ThreadPoolExecutor(2) as threads:
            writers = [threads.submit(write, number) for number in range(2)]
            try:
                harm()
            finally:
                over.set()
            for writer in writers:
                writer.result()
        acknowledged = done[0] | done[1]
        assert acknowledged
        logged = {entry.entry.client_id: entry.seq for entry in chat.audit()}
        assert logged == acknowledged
        assert len(logged) == chat.head_seq()
        assert chat.verify().ok


def _request(chat: Session, name: str, turn: int) -> list[tuple[str, int]]:
    if turn % 3:
        return [(name, chat.append("user", name, client_id=name).seq)]
    names = [f"{name}-{part}" for part in range(4)]
    batch = [{"role": "user", "content": each, "client_id": each} for each in names]
    receipts = chat.append_many(batch)
    return [(each, receipt.seq) for each, receipt in zip(names, receipts, strict=True)]


def _persist(chat: Session, name: str, turn: int) -> list[tuple[str, int]]:
    """Repeat a request until it is answered, as the guide tells an agent to do."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _request(chat, name, turn)
        except StoreUnavailable:
            assert time.monotonic() < deadline, "the server does not come back"
            time.sleep(0.001)


OPERATIONS: dict[str, Callable[[Session], Any]] = {
    "append": lambda chat: chat.append("user", "late", client_id="late"),
    "append_many": lambda chat: chat.append_many([{"role": "user", "content": "late"}] * 3),
    "rewind": lambda chat: chat.rewind(2),
    "rename": lambda chat: chat.set_title("late"),
    "redact": lambda chat: chat.redact(1),
    "fork": lambda chat: chat.fork(3, session_id="late"),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_connection_lost_during_an_operation_is_a_typed_error(operation, victim_url, admin):
    with Store.open(victim_url) as store:
        chat = store.create("held")
        chat.append_many([{"role": "user", "content": f"{i}"} for i in range(5)])
        before = chat.view(), chat.head()
        with ThreadPoolExecutor(1) as threads, _locked(admin):
            attempt = threads.submit(operation, chat)
            _until(lambda: admin.execute(_WAITING, [NAME]).fetchone() == (1,))
            admin.execute(_HANG_UP, [NAME])
            error = attempt.exception()
        assert type(error) is StoreUnavailable
        assert error.outcome_unknown
        assert (chat.view(), chat.head()) == before
        operation(chat)
        assert chat.verify().ok


def test_idle_connection_that_died_is_replaced(victim_url, admin):
    with Store.open(victim_url) as store:
        chat = store.create("idle")
        for number in range(5):
            assert admin.execute(_HANG_UP, [NAME]).fetchall()
            _until(lambda: admin.execute(_HANG_UP, [NAME]).fetchall() == [])
            assert chat.append("user", f"{number}").seq == number + 1
            admin.execute(_HANG_UP, [NAME])
            _until(lambda: admin.execute(_HANG_UP, [NAME]).fetchall() == [])
            assert len(chat.view().messages) == number + 1


def test_missing_server_is_a_typed_error():
    with pytest.raises(StoreUnavailable) as refused:
        Store.open("postgresql://nobody:secret@127.0.0.1:1/none?connect_timeout=2")
    assert not refused.value.outcome_unknown, "nothing was asked of it"
    assert "secret" not in str(refused.value)


@pytest.fixture(params=["repeatable read", "serializable"])
def strict_url(request: pytest.FixtureRequest, server_url: str) -> URL:
    """An empty database whose transactions see one snapshot, unless they say otherwise."""
    level = request.param.replace(" ", "\\ ")
    options = {"options": f"-c default_transaction_isolation={level}"}
    return make_url(server_url).update_query_dict(options)


def test_writers_on_a_serializable_server_lose_nothing(strict_url):
    start = threading.Barrier(4, timeout=30)

    def write(number: int) -> None:
        start.wait()
        for turn in range(15):
            chat.append("user", f"{number}:{turn}")
            if turn % 5 == 0:
                chat.append_many([{"role": "user", "content": f"{number}:{turn}+"}])

    with Store.open(strict_url) as store:
        chat = store.create("strict")
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(write, range(4)))
        assert chat.head_seq() == 4 * 18
        assert chat.verify().ok


def test_new_database_on_a_serializable_server_is_opened_by_many(strict_url):
    start = threading.Barrier(4, timeout=30)

    def opened(number: int) -> int:
        start.wait()
        with Store.open(strict_url) as store:
            return store.create(f"{number}").append("user", "first").seq

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(opened, range(4))) == [1] * 4


@contextmanager
def _locked(admin: psycopg.Connection) -> Iterator[None]:
    with admin.transaction():
        admin.execute("SELECT 1 FROM sessions WHERE session_id = 'held' FOR UPDATE")
        yield


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it never came to that")
