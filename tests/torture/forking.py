"""Jobs of the nursery that fork while a store is open. Each side reports what was acknowledged."""

import asyncio
import ctypes
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from roocontext import AsyncStore, Session, Store
from roocontext.errors import StoreForked
from roocontext.store.engine.clock_and_ids import RandomIds


def append(chat: Session, text: str) -> None:
    """Append, and report it like `child.tell`, in processes that do not have the child."""
    receipt = chat.append("user", text)
    os.write(1, json.dumps({"child": 0, "seq": receipt.seq, "text": text}).encode() + b"\n")


def append_numbered(chat: Session, who: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        append(chat, f"{who}:{number}")


@contextmanager
def begun(child: Any, url: str, session: str, **options: Any) -> Iterator[tuple[Store, Session]]:
    """The store and the session that a job works on, once all of the brood are ready."""
    child.start()
    with Store.open(url, **options) as store:
        yield store, store.session(session)


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


def is_file(url: str) -> bool:
    """True if the store is an SQLite file, which a forked child refuses while it is open."""
    return not url.startswith("postgresql")


def write_on_both_sides(
    child: Any, url: str, session: str, times: int, seed: int, writers: int = 2
) -> None:
    """Fork again and again while threads write; each side that may continues, opens and closes."""
    chance, over = random.Random(seed), threading.Event()
    store = Store.open(url)
    chat = store.session(session)

    def write_until_over(who: str) -> None:
        append_numbered(chat, who, takewhile(lambda _: not over.is_set(), count()))

    def live(who: str, depth: int) -> None:
        if is_file(url):
            _check_refused(store.sessions, lambda: Store.open(url))
        else:
            append_numbered(store.session(session), who, range(times))
            append_as(url, session, f"{who}-another", 3)
        if depth:
            below = forked(lambda: live(f"{who}-below", depth - 1))
            if not is_file(url):
                append_numbered(chat, f"{who}-later", range(3))
            store.close()
            ended(below)

    threads = [threading.Thread(target=write_until_over, args=(f"t{n}",)) for n in range(writers)]
    for thread in threads:
        thread.start()
    child.start()
    pids = []
    for number in range(4):
        pids.append(forked(lambda number=number: live(f"c{number}", number % 2)))
        append_numbered(chat, f"p{number}", range(chance.randint(0, 5)))
        append_as(url, session, f"p{number}-another", 2)
    over.set()
    for thread in threads:
        thread.join()
    store.close()
    ended(*pids)
    if is_file(url):  # which nobody has open any more
        ended(forked(lambda: append_as(url, session, "late", times)))


def fork_from_threads(child: Any, url: str, session: str, times: int) -> None:
    """Several threads fork at once; each child writes, or is refused."""
    with begun(child, url, session) as (_, chat):

        def live_below(who: str) -> None:
            live = partial(append_numbered, chat, who, range(times))
            _check_refused(live) if is_file(url) else live()

        def fork_twice(who: str) -> None:
            append_numbered(chat, who, range(times))
            ended(*(forked(lambda n=n: live_below(f"{who}-{n}")) for n in range(2)))

        threads = [threading.Thread(target=fork_twice, args=(f"t{n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def append_as(url: str, session: str, who: str, times: int) -> None:
    """Append, as a process of `multiprocessing`."""
    with Store.open(url) as store:
        append_numbered(store.session(session), who, range(times))


def be_refused(url: str) -> None:
    """Expect the refusal, as a process of `multiprocessing` that was forked with an open file."""
    _check_refused(lambda: Store.open(url))


def multiply(child: Any, url: str, session: str, times: int, method: str) -> None:
    """Start processes in one of Python's ways while the store is open and in use."""
    context = multiprocessing.get_context(method)
    with begun(child, url, session) as (_, chat):
        chat.head_seq()
        if is_file(url) and method == "fork":
            workers = [context.Process(target=be_refused, args=(url,))]
        else:
            workers = [
                context.Process(target=append_as, args=(url, session, f"{method}{n}", times))
                for n in range(2)
            ]
        for worker in workers:
            worker.start()
        append_numbered(chat, "parent", range(times))
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


def fork_in_a_transaction(child: Any, url: str, session: str) -> None:
    """The child can use neither the transaction nor the file, by any name; the parent can."""
    ids, path = ForkingIds(), Path(url)
    link, other = path.with_name("link.db"), path.with_name("other.db")
    link.hardlink_to(path)
    Store.open(other).close()
    with begun(child, url, session, ids=ids) as (store, chat):
        chat.append_many([{"role": "user", "content": f"{n}"} for n in range(4)])
        ids.armed = True
        try:
            chat.fork(2, session_id="copy")
        except StoreForked:
            if ids.pid:
                raise
            _check_refused(chat.head_seq, lambda: Store.open(url), lambda: Store.open(link))
            with Store.open(other) as free:
                free.create("in the child")
            store.close()
            ended(forked(lambda: _check_refused(lambda: Store.open(link))))
            os._exit(0)
        assert ids.pid > 0
        ended(ids.pid)
        assert len(store.session("copy").view().messages) == 2
        append(chat, "goes on")
    with Store.open(other) as free:
        assert [info.session_id for info in free.sessions()] == ["in the child"]


def fork_amid_an_audit(child: Any, url: str, session: str) -> None:
    """Nobody waits for the end of an audit that was open; each side that may continues it."""
    with begun(child, url, session) as (_, chat):
        chat.append_many([{"role": "user", "content": f"{n}"} for n in range(9)])
        pages = chat.internals.audit_pages(2)
        read = [next(pages)]

        def read_on() -> None:
            chat.append("user", "meanwhile")
            read.extend(pages)
            assert [entry.seq for page in read for entry in page] == [*range(1, 10)]

        ended(forked(lambda: _check_refused(read_on) if is_file(url) else read_on()))
        read_on()


def fork_beside_a_transaction(child: Any, url: str, session: str) -> None:
    """A transaction of another thread continues; the child does not wait for it."""
    inside, go_on = threading.Event(), threading.Event()

    class WaitingIds(RandomIds):
        def salt(self) -> bytes:
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                go_on.wait()
            return super().salt()

    options = {"ids": WaitingIds(), "lock_timeout": 3_600}
    with begun(child, url, session, **options) as (store, chat):
        chat.append_many([{"role": "user", "content": f"{n}"} for n in range(4)])
        thread = threading.Thread(target=chat.fork, args=(2,))
        thread.start()
        inside.wait()
        write = partial(chat.append, "user", "below")
        ended(forked(lambda: _check_refused(chat.head_seq, write, lambda: Store.open(url))))
        go_on.set()
        thread.join()
        assert len(store.sessions()) == 2


def fork_after_the_file_moved(child: Any, url: str, session: str) -> None:
    """The child refuses the file that is open, whatever its name is by now."""
    path = Path(url)
    moved = path.with_name("moved.db")
    with begun(child, url, session) as (_, chat):
        chat.append("user", "before")
        path.rename(moved)
        ended(forked(lambda: _check_refused(lambda: Store.open(moved))))
        moved.rename(path)
        append(chat, "after")


def fork_and_execute(child: Any, url: str, session: str) -> None:
    """A child that executes a new program may open the file, also while its parent has it open."""
    program = (
        "import sys; from roocontext import Store\n"
        "with Store.open(sys.argv[1]) as store: store.session(sys.argv[2]).append('user', 'new')"
    )

    def execute() -> None:
        _check_refused(lambda: Store.open(url))
        subprocess.run([sys.executable, "-c", program, url, session], check=True)

    with begun(child, url, session) as (_, chat):
        chat.append("user", "before")
        ended(forked(execute))
        assert [message.content for message in chat.view().messages] == ["before", "new"]


def fork_without_hooks(child: Any, url: str, session: str) -> None:
    """A library that forks past Python: the child notices when it uses the store."""
    with begun(child, url, session) as (store, chat):
        chat.append("user", "before")
        pid = ctypes.PyDLL(None).fork()
        if pid == 0:
            code = 1
            try:
                _check_refused(store.sessions, lambda: Store.open(url))
                code = 0
            finally:
                os._exit(code)
        ended(pid)
        chat.append("user", "after")


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


def fork_an_async_store(child: Any, url: str, session: str) -> None:
    """The child has threads of its own."""
    child.start()
    store = asyncio.run(AsyncStore.open(url))

    async def write(text: str) -> None:
        receipt = await (await store.session(session)).append("user", text)
        child.tell(seq=receipt.seq, text=text)

    asyncio.run(write("before"))
    ended(forked(lambda: asyncio.run(write("child"))))
    asyncio.run(write("parent"))
    asyncio.run(store.close())


def fork_with_a_server(child: Any, url: str, session: str) -> None:
    """A child leaves its parent's connections alone, also when it closes the store."""

    def backend() -> Any:
        return store._database.single(lambda tx: tx.command("SELECT pg_backend_pid()"))

    with begun(child, url, session) as (store, chat):
        before = backend()

        def live() -> None:
            assert backend() != before
            store.session(session).append("user", "child")
            store.close()

        ended(forked(live), forked(store.close))
        assert backend() == before
        chat.append("user", "parent")


def _check_refused(*calls: Callable[[], object]) -> None:
    for call in calls:
        try:
            call()
        except StoreForked as refused:
            assert "fork" in str(refused)  # noqa: PT017
        else:
            raise AssertionError("it was not refused")
