"""The two interfaces are one: the same names, parameters and types; and what asyncio adds."""

import asyncio
import inspect
import threading
from itertools import product

import pytest

from roocontext import (
    AsyncChanges,
    AsyncSession,
    AsyncStore,
    Changes,
    NewMessage,
    Plan,
    Session,
    Store,
)
from support.examples import everyday
from support.steady_sources import CountedIds, SetClock

pytestmark = pytest.mark.every_leg

BOTH = [(Store, AsyncStore), (Session, AsyncSession), (Changes, AsyncChanges)]
NOT_AWAITED = {
    ("run", AsyncStore.run),
    ("changes", AsyncStore.changes),
    ("turn", AsyncSession.turn),
}


def public(cls):
    return {
        name: member
        for name, member in inspect.getmembers(cls)
        if callable(member) and not name.startswith("_")
    }


@pytest.mark.parametrize(("plain", "coroutine"), BOTH)
def test_store_and_async_store_have_the_same_names(plain, coroutine):
    assert set(public(coroutine)) - set(public(plain)) <= {"run"}
    assert set(public(plain)) <= set(public(coroutine))


def renamed(annotation):
    """An annotation of the one as the other should have it."""
    text = str(annotation)
    for old, new in (
        ("AsyncSession", "Session"),
        ("AsyncStore", "Store"),
        ("AsyncChanges", "Changes"),
        ("AsyncSessionTurn", "SessionTurn"),
    ):
        text = text.replace(old, new)
    return text.replace("AsyncIterator", "Iterator")


@pytest.mark.parametrize(("plain", "coroutine"), BOTH)
def test_store_and_async_store_have_the_same_signatures(plain, coroutine):
    """A wrapped method is the other's own; only those written by hand can differ."""
    for name, method in public(plain).items():
        twin_method = public(coroutine)[name]
        if hasattr(twin_method, "__wrapped__"):
            assert twin_method.__wrapped__ == method, name
            assert twin_method.__doc__ == method.__doc__, name
            continue
        one, other = inspect.signature(method), inspect.signature(twin_method)
        assert list(one.parameters) == list(other.parameters), name
        for parameter, twin in zip(one.parameters.values(), other.parameters.values(), strict=True):
            assert (parameter.kind, parameter.default) == (twin.kind, twin.default), name
            assert renamed(parameter.annotation) == renamed(twin.annotation), name
        assert renamed(one.return_annotation) == renamed(other.return_annotation), name


def test_wrapped_method_shows_the_signature_of_the_other():
    assert inspect.signature(AsyncSession.append) == inspect.signature(Session.append)
    assert (
        str(inspect.signature(AsyncSession.stats))
        == "(self) -> roocontext.store.sessions.sessions.Stats"
    )


@pytest.mark.parametrize(("plain", "coroutine"), BOTH)
def test_methods_of_the_async_store_are_awaited(plain, coroutine):
    for name, method in public(coroutine).items() - NOT_AWAITED:
        asynchronous = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
        assert asynchronous, name
        assert inspect.isasyncgenfunction(method) is inspect.isgeneratorfunction(
            public(plain)[name]
        ), name


def test_several_calls_run_in_one_thread_over_the_plain_store():
    async def go():
        async with await AsyncStore.open(":memory:") as store:

            def work(plain):
                session = plain.open_session("s")
                session.append("user", "hello")
                return threading.current_thread(), len(session.view().messages)

            return await store.run(work)

    thread, messages = asyncio.run(go())
    assert thread is not threading.current_thread()
    assert messages == 1


class HeldClock(SetClock):
    """A clock that stops whoever asks for the time, until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()
        self.held = False

    def __call__(self):
        if self.held:
            self.asked.set()
            assert self.go.wait(30)
        return super().__call__()


ENGINES = ("file", "memory", "postgres")


def on_a_session(scene):
    """The scene as a test on each engine: it has a new session, its clock and its store."""

    def test(engine, request, tmp_path):
        async def run():
            clock = HeldClock()
            async with await held_store(engine, request, tmp_path, clock) as store:
                await scene(await store.create(), clock, store)

        asyncio.run(run())

    return test


def held_store(engine, request, tmp_path, clock):
    urls = {
        "file": lambda: tmp_path / "store.db",
        "memory": lambda: ":memory:",
        "postgres": lambda: request.getfixturevalue("postgres_url"),
    }
    return AsyncStore.open(urls[engine](), clock=clock, ids=CountedIds())


OPERATIONS = {
    "append": lambda chat, view: chat.append("user", "held"),
    "append_many": lambda chat, view: chat.append_many([NewMessage("user", "held")] * 3),
    "commit": lambda chat, view: chat.commit(Plan.condense(view, [1, 2], "S")),
    "rewind": lambda chat, view: chat.rewind(to=1),
    "fork": lambda chat, view: chat.fork(),
    "redact": lambda chat, view: chat.redact(1),
}


@pytest.mark.parametrize(
    ("engine", "operation"),
    everyday(
        [*((engine, "append") for engine in ENGINES[1:]), *(("file", name) for name in OPERATIONS)],
        [*product(ENGINES, OPERATIONS)],
    ),
)
def test_cancelled_call_has_ended_when_the_cancellation_is_raised(
    engine, operation, request, tmp_path
):
    """The call is joined before CancelledError is delivered, whatever it did by then."""

    @on_a_session
    async def cancel_in_the_middle(chat, clock, store):
        for number in range(3):
            await chat.append("user", f"message {number} " * 5)
        view = await chat.view()
        clock.held = True
        task = asyncio.create_task(OPERATIONS[operation](chat, view))
        await asyncio.to_thread(clock.asked.wait, 30)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        clock.held = False
        clock.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        then = await chat.head(), await store.sessions()
        await asyncio.sleep(0.05)
        assert (await chat.head(), await store.sessions()) == then
        assert (await chat.verify()).ok
        assert (await chat.append("user", "still usable")).new

    cancel_in_the_middle(engine, request, tmp_path)


@on_a_session
async def test_cancelled_call_that_fails_is_still_cancelled(chat, clock, *_):
    clock.held = True
    task = asyncio.create_task(chat.append("user", "x", expected_seq=9))
    await asyncio.to_thread(clock.asked.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    clock.held = False
    clock.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await chat.head()).seq == 0


@on_a_session
async def test_timeout_is_a_cancellation(chat, clock, *_):
    async def append_too_late():
        async with asyncio.timeout(0.01) as limit:
            # Behind the deadline in the loop's order, however late the loop may be.
            asyncio.get_running_loop().call_at(limit.when() + 0.04, clock.go.set)
            await chat.append("user", "x")

    clock.held = True
    with pytest.raises(TimeoutError):
        await append_too_late()
    clock.held = False
    head = await chat.head()
    await asyncio.sleep(0.05)
    assert await chat.head() == head


@on_a_session
async def test_many_tasks_share_a_store(chat, *_):
    receipts = await asyncio.gather(
        *(chat.append("user", f"message {number}") for number in range(60))
    )
    assert sorted(receipt.seq for receipt in receipts) == list(range(1, 61))
    assert (await chat.verify()).ok


@on_a_session
async def test_one_of_many_tasks_wins_a_version(chat, *_):
    results = await asyncio.gather(
        *(chat.append("user", str(number), expected_seq=0) for number in range(12)),
        return_exceptions=True,
    )
    assert sum(not isinstance(result, Exception) for result in results) == 1
    assert (await chat.head()).seq == 1


@on_a_session
async def test_reading_half_of_a_stream_leaves_the_store_usable(chat, *_):
    await chat.append_many([NewMessage("user", str(number)) for number in range(20)])
    async for page in chat.internals.pages(5):
        assert len(page.messages) == 5
        break
    async for entry in chat.audit():
        assert entry.seq == 1
        break
    assert (await chat.append("user", "on")).seq == 21
