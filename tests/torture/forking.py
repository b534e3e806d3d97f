"""Jobs of the nursery that fork while a store is open. Each side reports what was acknowledged."""

import ctypes
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from roocontext import Store
from roocontext.errors import StoreForked
from roocontext.store.engine import processes
from roocontext.store.engine.clock_and_ids import RandomIds


def report(child: Any, **facts: Any) -> None:
    """Like `child.tell`, for processes that do not have the child."""
    os.write(1, json.dumps({"child": child, **facts}).encode() + b"\n")


def forked(run: Callable[[], object]) -> int:
    """Run something in a forked child that then ends; its process id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run()
            code = 0
        finally:  # nothing may go on in what is the parent's code
            if code:
                traceback.print_exc()
            os._exit(code)
    return pid


def ended(*pids: int) -> None:
    """Wait for children, all of which have to end well."""
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [0] * len(pids), codes


def write_on_both_sides(
    child: Any, url: str, session: str, times: int, seed: int, writers: int = 2
) -> None:
    """Fork again and again while threads write; all sides write, open and close."""
    chance, over = random.Random(seed), threading.Event()
    store = Store.open(url)

    def append(using: Store, who: str, numbers: Iterable[int]) -> None:
        chat = using.session(session)
        for number in numbers:
            receipt = chat.append("user", f"{who}:{number}")
            report(0, seq=receipt.seq, text=f"{who}:{number}")

    def write_until_over(who: str) -> None:
        append(store, who, takewhile(lambda _: not over.is_set(), count()))

    def live(who: str, depth: int) -> None:
        append(store, who, range(times))
        with Store.open(url) as another:
            append(another, f"{who}-another", range(3))
        if depth:
            below = forked(lambda: live(f"{who}-below", depth - 1))
            append(store, f"{who}-later", range(3))
            store.close()
            ended(below)

    threads = [threading.Thread(target=write_until_over, args=(f"t{n}",)) for n in range(writers)]
    for thread in threads:
        thread.start()
    child.start()
    pids = []
    for number in range(4):
        pids.append(forked(lambda number=number: live(f"c{number}", number % 2)))
        append(store, f"p{number}", range(chance.randint(0, 5)))
        with Store.open(url) as another:
            append(another, f"p{number}-another", range(2))
    over.set()
    for thread in threads:
        thread.join()
    store.close()
    ended(*pids)


def fork_from_threads(child: Any, url: str, session: str, times: int) -> None:
    """Several threads fork at once, each child writes."""
    child.start()
    with Store.open(url) as store:
        chat = store.session(session)

        def live(who: str) -> None:
            for number in range(times):
                receipt = chat.append("user", f"{who}:{number}")
                report(0, seq=receipt.seq, text=f"{who}:{number}")

        def fork_twice(who: str) -> None:
            live(who)
            ended(forked(lambda: live(f"{who}-first")), forked(lambda: live(f"{who}-second")))

        threads = [threading.Thread(target=fork_twice, args=(f"t{n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def append_as(url: str, session: str, who: str, times: int) -> None:
    """What a process of `multiprocessing` does."""
    with Store.open(url) as store:
        chat = store.session(session)
        for number in range(times):
            receipt = chat.append("user", f"{who}:{number}")
            report(0, seq=receipt.seq, text=f"{who}:{number}")


def multiply(child: Any, url: str, session: str, times: int, method: str) -> None:
    """Start processes in one of Python's ways while the store is open and in use."""
    child.start()
    context = multiprocessing.get_context(method)
    with Store.open(url) as store:
        chat = store.session(session)
        chat.head_seq()
        workers = [
            context.Process(target=append_as, args=(url, session, f"{method}{n}", times))
            for n in range(2)
        ]
        for worker in workers:
            worker.start()
        for number in range(times):
            receipt = chat.append("user", f"parent:{number}")
            report(0, seq=receipt.seq, text=f"parent:{number}")
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


class ForkingIds(RandomIds):
    """Ids that fork where a transaction asks for a salt."""

    armed = False
    pid = -1

    def salt(self) -> bytes:
        if self.armed:
            self.armed = False
            self.pid = os.fork()
        return super().salt()


def die_waiting() -> None:
    """End this process if a fork waits for what the forking thread itself holds."""
    processes.PATIENCE_S = 1_000
    signal.alarm(60)


def fork_in_a_transaction(child: Any, url: str, session: str) -> None:
    """The child can use neither the transaction nor the file, by any name; the parent can."""
    die_waiting()
    child.start()
    ids, path = ForkingIds(), Path(url)
    link = path.with_name("link.db")
    link.hardlink_to(path)
    with Store.open(url, ids=ids) as store, Store.open(path.with_name("other.db")) as other:
        chat = store.session(session)
        chat.append_many([{"role": "user", "content": f"{n}"} for n in range(4)])
        ids.armed = True
        try:
            chat.fork(2, session_id="copy")
        except StoreForked:
            if ids.pid:
                raise
            _check_refused(chat.head_seq, lambda: Store.open(url), lambda: Store.open(link))
            other.create("in the child")
            store.close()
            ended(forked(lambda: _check_refused(lambda: Store.open(link))))
            os._exit(0)
        assert ids.pid > 0
        ended(ids.pid)
        assert len(store.session("copy").view().messages) == 2
        receipt = chat.append("user", "goes on")
        child.tell(seq=receipt.seq, text="goes on")
        assert [info.session_id for info in other.sessions()] == ["in the child"]


def fork_amid_an_audit(child: Any, url: str, session: str) -> None:
    """Both sides go on with an audit that was open, and nobody waits for its end."""
    die_waiting()
    child.start()
    with Store.open(url) as store:
        chat = store.session(session)
        chat.append_many([{"role": "user", "content": f"{n}"} for n in range(9)])
        pages = chat.internals.audit_pages(2)
        read = [next(pages)]

        def read_on() -> None:
            chat.append("user", "meanwhile")
            read.extend(pages)
            assert [entry.seq for page in read for entry in page] == [*range(1, 10)]

        ended(forked(read_on))
        read_on()


def fork_beside_a_long_transaction(child: Any, url: str, session: str) -> None:
    """What another thread does not finish in time is refused in the child, and goes on here."""
    processes.PATIENCE_S = 0.2
    child.start()
    inside, go_on = threading.Event(), threading.Event()

    class WaitingIds(RandomIds):
        def salt(self) -> bytes:
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                go_on.wait()
            return super().salt()

    with Store.open(url, ids=WaitingIds()) as store:
        chat = store.session(session)
        chat.append_many([{"role": "user", "content": f"{n}"} for n in range(4)])
        thread = threading.Thread(target=chat.fork, args=(2,))
        thread.start()
        inside.wait()
        pid = forked(lambda: _check_refused(chat.head_seq, lambda: Store.open(url)))
        ended(pid)
        go_on.set()
        thread.join()
        assert len(store.sessions()) == 2
        ended(forked(lambda: chat.append("user", "nothing is in the way now")))


def fork_while_a_store_closes(child: Any, url: str, session: str) -> None:
    """A fork waits until another thread is through with closing a connection."""
    child.start()
    inside, forks, closed = threading.Event(), threading.Event(), threading.Event()

    def dawdle(_frame: Any, event: str, called: Any) -> None:
        """Stop right before the connection closes, until a fork is under way and has had time."""
        if not event.startswith("c_") or called.__qualname__ != "Connection.close":
            return
        if event == "c_call":
            inside.set()
            forks.wait()
            time.sleep(0.2)
        else:
            closed.set()

    def close() -> None:
        sys.setprofile(dawdle)
        store.close()
        sys.setprofile(None)

    store = Store.open(url)
    store.session(session).append("user", "before")
    thread = threading.Thread(target=close)
    thread.start()
    inside.wait()
    forks.set()
    child_of_fork = forked(lambda: append_as(url, session, "child", 3))
    was_closed = closed.is_set()
    thread.join()
    ended(child_of_fork)
    assert was_closed, "the fork did not wait"


def fork_beside_another_library(child: Any, url: str, session: str) -> None:
    """A connection that is not ours is seen by its descriptor."""
    child.start()
    with Store.open(url) as store:
        with closing(sqlite3.connect(url)) as connection:
            connection.execute("SELECT count(*) FROM sessions").fetchone()
            ended(forked(lambda: _check_refused(store.sessions)))
        ended(forked(lambda: store.session(session).append("user", "fine")))


def fork_without_hooks(child: Any, url: str, session: str) -> None:
    """A library that forks past Python: the child notices when it uses the store."""
    child.start()
    with Store.open(url) as store:
        store.session(session).append("user", "before")
        pid = ctypes.PyDLL(None).fork()
        if pid == 0:
            code = 1
            try:
                _check_refused(store.sessions, lambda: Store.open(url))
                code = 0
            finally:
                os._exit(code)
        ended(pid)
        store.session(session).append("user", "after")


def fork_with_a_store_in_memory(child: Any) -> None:
    """The parent keeps it, the child refuses it."""
    child.start()
    with Store.open(":memory:") as store:
        chat = store.create("kept")
        chat.append("user", "kept")

        def live() -> None:
            _check_refused(chat.view, store.sessions, lambda: chat.append("user", "no"))
            store.close()
            with Store.open(":memory:") as own:
                own.create("kept").append("user", "own")

        ended(forked(live), forked(live))
        chat.append("user", "and more")
        assert [message.content for message in chat.view().messages] == ["kept", "and more"]
        assert chat.verify().ok


def fork_with_a_server(child: Any, url: str, session: str) -> None:
    """A child leaves its parent's connections alone, also when it closes the store."""
    child.start()

    def backend() -> Any:
        return store._database.single(lambda tx: tx.command("SELECT pg_backend_pid()"))

    with Store.open(url) as store:
        before = backend()

        def live() -> None:
            assert backend() != before
            store.session(session).append("user", "child")
            store.close()

        ended(forked(live), forked(store.close))
        assert backend() == before
        store.session(session).append("user", "parent")


def _check_refused(*calls: Callable[[], object]) -> None:
    for call in calls:
        try:
            call()
        except StoreForked as refused:
            assert "fork" in str(refused)  # noqa: PT017
        else:
            raise AssertionError("it was not refused")
