"""The threads of an AsyncStore: how many there are, and how they end."""

import asyncio
import gc
import subprocess
import sys
import threading
from functools import wraps
from time import monotonic, sleep

import pytest

from roocontext import Store
from roocontext.errors import InvalidOption, StoreClosed, StoreUnavailable
from roocontext.store.engine.threads import MOST, Threads

UNCLOSED = """
import asyncio, sys
from roocontext import AsyncStore

async def main():
    store = await AsyncStore.open(sys.argv[1])
    chat = await store.create()
    await chat.append("user", "Hello.")

asyncio.run(main())
print("written")
"""

LEFT = """
import asyncio, sys, threading, time
from roocontext import AsyncStore

running = threading.Event()

def call(store):
    running.set()
    time.sleep(0.1)
    store.create("late")

async def main():
    store = await AsyncStore.open(sys.argv[1])
    await store.run(call)

threading.Thread(target=asyncio.run, args=[main()], daemon=True).start()
running.wait()
"""


def _refuse(_thread):
    raise RuntimeError("can't start new thread")


def in_loop(test):
    """The test as a function that runs it to its end."""

    @wraps(test)
    def run(**given):
        asyncio.run(test(**given))

    return run


@pytest.fixture
def crew():
    crew = Threads()
    yield crew
    crew.shut_down()


@in_loop
async def test_as_many_calls_run_at_once_as_there_are_threads(crew):
    together = threading.Barrier(MOST + 1)  # with this thread: too few of them would never pass
    running = [asyncio.create_task(crew.run(together.wait, 10)) for _ in range(MOST)]
    late = asyncio.create_task(crew.run(threading.get_ident))
    await asyncio.to_thread(_wait_until, lambda: together.n_waiting == MOST)
    assert not late.done()
    await asyncio.to_thread(together.wait, 10)
    assert len({await task for task in running}) == MOST
    assert await late


@in_loop
async def test_call_that_is_cancelled_twice_is_still_joined(crew):
    go, done = threading.Event(), threading.Event()

    def call():
        assert go.wait(10)
        done.set()

    task = asyncio.create_task(crew.run(call))
    for _ in range(2):
        await asyncio.sleep(0.01)
        task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


@in_loop
async def test_closed_executor_refuses_calls_and_finishes_running_ones(crew):
    go = threading.Event()
    task = asyncio.create_task(crew.run(go.wait, 10))
    await asyncio.sleep(0)
    crew.shut_down()
    with pytest.raises(StoreClosed, match="closed"):
        await crew.run(int)
    go.set()
    assert await task


def test_loop_that_ends_with_a_call_leaves_the_thread_to_the_next(crew):
    go = threading.Event()
    loop = asyncio.new_event_loop()
    task = loop.create_task(crew.run(go.wait, 10))
    loop.run_until_complete(asyncio.sleep(0))
    task.get_coro().close()
    loop.close()
    go.set()
    assert asyncio.run(crew.run(int)) == 0


def test_threads_that_nobody_ended_end_when_they_are_forgotten():
    forgotten = Threads()
    ended = asyncio.run(forgotten.run(threading.current_thread))
    del forgotten
    gc.collect()
    _wait_until(lambda: not ended.is_alive())


@in_loop
async def test_error_keeps_nothing_of_its_call(crew):
    class Held:
        pass

    async def fails():
        held = Held()
        with pytest.raises(ZeroDivisionError):
            await crew.run(lambda: 1 // 0 if held else 0)

    gc.disable()  # what is left would be found by it
    try:
        await fails()
        await asyncio.sleep(0)  # the loop has callbacks of it
        # The thread lets go of the call right after it has reported it.
        _wait_until(lambda: not any(type(one) is Held for one in gc.get_objects()))
    finally:
        gc.enable()


@in_loop
async def test_thread_that_cannot_be_started_is_a_typed_error(monkeypatch, crew):
    with monkeypatch.context() as refusing:
        refusing.setattr(threading.Thread, "start", _refuse)
        with pytest.raises(StoreUnavailable, match="No thread can be started: can't") as refused:
            await crew.run(int)
        assert refused.value.outcome_unknown  # the executor keeps the call
    assert await crew.run(int) == 0


@pytest.mark.parametrize(
    "call",
    [lambda store: store.session("s").turn().__enter__(), lambda store: store.changes().read(0)],
)
def test_call_whose_thread_could_not_be_started_can_be_repeated(call, tmp_path, monkeypatch):
    with Store.open(tmp_path / "store.db") as store:
        store.create("s")
        with monkeypatch.context() as refusing:
            refusing.setattr(threading.Thread, "start", _refuse)
            with pytest.raises(StoreUnavailable, match="No thread can be started: can't"):
                call(store)
        before = threading.active_count()
        assert call(store)
        assert threading.active_count() == before + 1


def test_process_ends_although_its_store_was_not_closed(tmp_path):
    command = [sys.executable, "-c", UNCLOSED, str(tmp_path / "chat.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "written\n", "")


def test_call_that_runs_when_the_process_ends_is_joined(tmp_path):
    command = [sys.executable, "-c", LEFT, str(tmp_path / "chat.db")]
    assert not subprocess.run(command, timeout=20, check=False).returncode
    with Store.open(tmp_path / "chat.db") as store:
        assert store.session("late").id == "late"


def _wait_until(condition, seconds=10):
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end
        sleep(0.001)


def test_call_outside_of_any_loop_is_refused():
    call = Threads().run(len, "abc")
    with pytest.raises(InvalidOption, match="asyncio or trio"):
        call.send(None)
