"""Jobs of the nursery that are interrupted: an exception lands wherever a signal's can."""

import dis
import faulthandler
import gc
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from types import FrameType
from typing import Any, NoReturn

from roocontext import Kind, Session, Store
from roocontext.errors import StoreUnavailable
from roocontext.store.engine.connections import PoolOptions

WRITERS = 2
PATIENCE_S = 60
"""A write that takes longer than this waits for something that nobody will ever give back."""

_PARTS = ("roocontext/store", "contextlib.py", "weakref.py")
_CHECKED = ("CALL", "RESUME", "JUMP_BACKWARD")
"""The instructions after which Python looks whether a signal has come."""

_landed: list[bool] = []
"""Filled by the signal: Python drops an exception that lands in a finaliser."""


class Interrupt(KeyboardInterrupt):
    """The exception that the signal raises."""


def interrupt_at_random(child: Any, url: str, times: int, seed: int) -> None:
    """Interrupt the main thread again and again; other threads always have to get through."""
    faulthandler.dump_traceback_later(300, exit=True)
    child.start()
    chance, over = random.Random(seed), threading.Event()
    kept: list[BaseException] = []
    with Store.open(url, durability="normal") as store:
        chat = store.create("busy")
        workers = [_Worker(chat, f"w{number}", over) for number in range(WRITERS)]
        own = _Worker(chat, "main", over, is_started=False)
        signal.signal(signal.SIGALRM, _raise_interrupt)
        for _ in range(times):
            _landed.clear()
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.002))
                own.write()
            except Interrupt as error:
                kept[:] = [error]  # and with it all frames that it went through
        own.acknowledged |= _get_through(lambda: _append(chat, "afterwards"))
        over.set()
        for worker in workers:
            worker.join()
        for worker in (own, *workers):
            _check(chat, worker.acknowledged)
        child.tell(interrupts=times)
        kept.clear()
        _check_connections(store)


def _raise_interrupt(*_: object) -> NoReturn:
    _landed.append(True)
    raise Interrupt


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
        _check_connections(store)


class _Worker:
    """Writes and reads until it is over, in a thread of its own unless it is not started."""

    def __init__(
        self, chat: Session, name: str, over: threading.Event, *, is_started: bool = True
    ) -> None:
        self._chat, self._name, self._over = chat, name, over
        self._numbers = count()
        self.acknowledged: dict[int, str] = {}
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        if is_started:
            self._thread.start()

    def write(self) -> None:
        while not self._is_over():
            self.acknowledged |= _append(self._chat, f"{self._name}:{next(self._numbers)}")
            self._chat.head_seq()
            assert len(self._chat.view(limit=3).messages) <= 3
            if self._thread.ident is not None:  # the main thread is to get its turns
                time.sleep(0.001)

    def _is_over(self) -> bool:
        return self._over.is_set() or (self._thread.ident is None and bool(_landed))

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        assert self._failure is None

    def _run(self) -> None:
        try:
            self.write()
        except Exception as error:
            self._failure = error
            raise


def _append(chat: Session, text: str) -> dict[int, str]:
    """Append, as soon as a server that is too busy for another connection has one."""
    while True:
        try:
            return {chat.append("user", text).seq: text}
        except StoreUnavailable as error:
            if type(error) is not StoreUnavailable or error.outcome_unknown:
                raise
            time.sleep(0.01)


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
    """Run something up to the n-th place in the store where a signal can land; None at its end."""
    left = place
    before: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if not any(part in frame.f_code.co_filename for part in _PARTS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            is_checked = before.get(frame, "").startswith(_CHECKED)
            before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            left -= is_checked
            if is_checked and left == 0:
                before.clear()
                raise Interrupt(place)
        elif event == "return":
            before.pop(frame, None)
        return trace

    sys.settrace(trace)
    try:
        operation()
    except Interrupt as error:
        return error
    finally:
        sys.settrace(None)
    return None


def _check_connections(store: Store) -> None:
    """That none leaks: a pool keeps so many. A server takes a while to notice that one closed."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := _connections(store)) > PoolOptions().pool_size:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def _connections(store: Store) -> int:
    """The number of connections that this process has to the store."""
    gc.collect()
    database = store._database
    if database.server is None:
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
