"""Jobs of the nursery that are interrupted: exceptions land in them at any moment."""

import ctypes
import faulthandler
import gc
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

from roocontext import Kind, Session, Store

WRITERS = 4
PATIENCE_S = 30
"""A write that takes longer than this waits for something that nobody will ever give back."""

_PARTS = ("roocontext/store", "threading.py", "contextlib.py", "weakref.py")


class Interrupt(BaseException):
    """What lands in a thread."""


def interrupt_at_random(child: Any, url: str, times: int, seed: int) -> None:
    """Interrupt writers and readers again and again; between bursts, others have to get through."""
    faulthandler.dump_traceback_later(600, exit=True)
    child.start()
    chance, over = random.Random(seed), threading.Event()
    acknowledged: dict[int, str] = {}
    with Store.open(url, durability="normal") as store:
        chat = store.create("busy")
        workers = [_Worker(chat, f"w{number}", acknowledged, over) for number in range(WRITERS)]
        for _ in range(times // 100):
            for _ in range(100):
                chance.choice(workers).interrupt()
                time.sleep(chance.choice((0, 0, 0.0001, 0.0003, 0.001)))
            acknowledged |= _get_through(lambda: _append(chat, "between bursts"))
        over.set()
        for worker in workers:
            worker.join()
        _check(chat, acknowledged)
        child.tell(interrupts=sum(worker.interrupts for worker in workers))
        workers.clear()  # and with them the interrupts and the frames that these went through
        _check_connections(store, WRITERS + 2)


def interrupt_everywhere(child: Any, url: str, step: int) -> None:
    """Interrupt writes and reads at one place after another, and let the next caller go on.

    Whether an interrupted append was stored, its client id tells: repeated, it is stored once.
    """
    faulthandler.dump_traceback_later(1200, exit=True)
    child.start()
    said = [{"role": "user", "content": "first"}, {"role": "user", "content": "second"}]
    again = [{**message, "content": f"{n}", "client_id": f"{n}"} for n, message in enumerate(said)]
    operations: list[Callable[[Session], object]] = [
        lambda chat: chat.append("user", "0", client_id="0"),
        lambda chat: chat.append_many(again),
        lambda chat: chat.rewind(1),
        lambda chat: chat.view(),
    ]
    with Store.open(url, durability="normal") as store:
        for operation in operations:
            for place in count(1, step):
                chat = store.create()
                acknowledged = {receipt.seq: "first" for receipt in chat.append_many(said[:1])}
                acknowledged |= {receipt.seq: "second" for receipt in chat.append_many(said[1:])}
                error = _interrupted_at(place, partial(operation, chat))
                if error is None:
                    child.tell(places=place)
                    break
                acknowledged |= _get_through(partial(_append, chat, f"after {error}"))
                _get_through(partial(_repeat, chat, operation))
                _check(chat, acknowledged)
        _check_connections(store, 3)


class _Worker:
    """A thread that writes and reads until it is over, whatever interrupts it."""

    def __init__(
        self, chat: Session, name: str, acknowledged: dict[int, str], over: threading.Event
    ) -> None:
        self._chat, self._name = chat, name
        self._acknowledged, self._over = acknowledged, over
        self._kept: BaseException | None = None
        self.failure: Exception | None = None
        self.interrupts = 0
        self._begin()

    def interrupt(self) -> None:
        if not self._thread.is_alive():
            self._begin()
        ident = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Interrupt))

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        assert self.failure is None

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                for number in range(1_000_000):
                    if self._over.is_set():
                        return
                    self._acknowledged |= _append(self._chat, f"{self._name}:{number}")
                    self._chat.head_seq()
                    assert len(self._chat.view(limit=3).messages) <= 3
            except Interrupt as error:
                self.interrupts += 1
                self._kept = error  # and with it all frames that it went through
            except Exception as error:
                self.failure = error
                raise


def _append(chat: Session, text: str) -> dict[int, str]:
    return {chat.append("user", text).seq: text}


def _repeat(chat: Session, operation: Callable[[Session], object]) -> dict[int, str]:
    """Repeat what was interrupted; each message has to be there once, then."""
    operation(chat)
    contents = [entry.content for entry in chat.audit() if entry.kind is Kind.MESSAGE]
    assert len(set(contents)) == len(contents), contents
    return {}


def _get_through(call: Callable[[], dict[int, str]]) -> dict[int, str]:
    done: list[dict[int, str]] = []
    thread = threading.Thread(target=lambda: done.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert done, "the write is blocked, or failed"
    return done[0]


def _interrupted_at(place: int, operation: Callable[[], object]) -> Interrupt | None:
    """Run something up to its n-th instruction in the store; None if it has fewer."""
    left = place

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if not any(part in frame.f_code.co_filename for part in _PARTS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            left -= 1
            if left == 0:
                raise Interrupt(place)
        return trace

    sys.settrace(trace)
    try:
        operation()
    except Interrupt as error:
        return error
    finally:
        sys.settrace(None)
    return None


def _check_connections(store: Store, most: int) -> None:
    """That none leaks. A server takes a while to notice that one was closed."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := _connections(store)) > most:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def _connections(store: Store) -> int:
    """How many connections this process has to the store."""
    gc.collect()
    database = store._database
    if database.dialect == "sqlite":
        found = [each for each in gc.get_objects() if isinstance(each, sqlite3.Connection)]
        return sum(map(_is_open, found))
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    return int(database.single(lambda tx: tx.command(query))[0])


def _is_open(connection: sqlite3.Connection) -> bool:
    with suppress(sqlite3.ProgrammingError):
        return connection.total_changes >= 0
    return False


def _check(chat: Session, acknowledged: dict[int, str]) -> None:
    stored = {entry.seq: entry.content for entry in chat.audit() if entry.kind is Kind.MESSAGE}
    lost = acknowledged.items() - stored.items()
    assert not lost, sorted(lost)[:5]
    found = chat.verify()
    assert found.ok, found.problem
