"""The turn of a session: one runner at a time works on it, and a late one writes nothing."""

import asyncio
import multiprocessing
import signal
import time
from contextlib import ExitStack
from threading import Timer

import pytest

from roocontext import AsyncStore, ContextManager, NewMessage, Plan, SetTitle, Store
from roocontext.errors import (
    InvalidIdentifier,
    InvalidOption,
    SessionNotFound,
    SessionPurged,
    TurnLost,
    TurnTaken,
)
from roocontext.store.loop.renewer import Renewer
from roocontext.store.turn import GivenTurn
from support.dialogue import text
from support.replies import claude

pytestmark = pytest.mark.every_leg

WAIT_S = 30
CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}


@pytest.fixture
def chat(lab):
    """A session in which a call waits."""
    chat = lab.store.create("s")
    chat.append("user", "Read it. " + "x" * 500)
    chat.append("assistant", [CALL])
    return chat


def taken_over(lab, name="s"):
    """End the lease, as time does, and let another runner take the turn."""
    lab.sql(f"UPDATE turns SET expires_at = 0 WHERE session_id = '{name}'")
    return lab.store.session(name).turn(holder="other")


def test_second_runner_is_refused_with_the_holder_and_the_end(chat):
    with chat.turn(holder="first"):
        with pytest.raises(TurnTaken) as refused, chat.turn(holder="second"):
            pass
        assert (refused.value.session_id, refused.value.holder) == ("s", "first")
        assert refused.value.expires_at > 0
        assert "first has the turn of session 's' until" in str(refused.value)


def test_turn_ends_with_an_error_too(chat):
    with pytest.raises(ZeroDivisionError), chat.turn():
        raise ZeroDivisionError
    with chat.turn(holder="next"):
        pass


def test_what_a_runner_writes_is_written(chat):
    with chat.turn() as turn:
        assert turn.begin((2, 0)).new
        assert turn.answer((2, 0), "done").new
        assert turn.record(claude(text("Done."))).new
        turn.append_many([{"role": "user", "content": "more"}])
        turn.set_title("t")
        assert turn.waits_for() == "model"
    assert chat.verify().ok
    assert chat.info().title == "t"


def test_late_runner_writes_nothing(lab, chat):
    with chat.turn(holder="first") as turn, taken_over(lab) as other:
        before = chat.head()
        reply = claude(text("x"))
        view = turn.view()
        for write in (
            lambda: turn.record(reply),
            lambda: turn.answer((2, 0), "late"),
            lambda: turn.begin((2, 0)),
            lambda: turn.append("user", "late"),
            lambda: turn.append_many([{"role": "user", "content": "late"}]),
            lambda: turn.write_batch([NewMessage("user", "late"), SetTitle("late")]),
            lambda: turn.commit(Plan.truncate(view, [1])),
            lambda: turn.set_title("late"),
            lambda: turn.note("mine", {}),
            lambda: turn.pin(1),
            lambda: turn.rewind(to=1),
        ):
            with pytest.raises(TurnLost) as lost:
                write()
            assert (lost.value.session_id, lost.value.holder) == ("s", "other")
        assert turn.view() == view
        assert turn.tokens("o200k_base") == chat.tokens("o200k_base")
        assert chat.head() == before
        assert other.answer((2, 0), "mine").new


def test_late_runner_that_ends_leaves_the_turn_to_the_other(lab, chat):
    with ExitStack() as late:
        late.enter_context(chat.turn(holder="first"))
        with taken_over(lab):
            late.close()
            with pytest.raises(TurnTaken) as refused, chat.turn():
                pass
            assert refused.value.holder == "other"


def test_late_runner_manages_nothing(opened):
    with opened("file", "sync") as lab:
        chat = lab.store.create("s")
        for number in range(40):
            chat.append("user" if number % 2 == 0 else "assistant", f"{number} " + "x" * 400)
        context = ContextManager(model="claude-sonnet-4-5", limit=2_000, policy="sliding_window")
        with chat.turn() as turn, taken_over(lab) as other:
            before = chat.head()
            with pytest.raises(TurnLost):
                context.manage(turn)
            assert chat.head() == before
            assert context.manage(other).changed


def test_writers_without_a_turn_are_not_refused(chat):
    with chat.turn() as turn:
        chat.append("user", "Stop!")
        chat.note("mine", {})
        chat.rewind(to=2)
        assert turn.answer((2, 0), "done").new


def test_turn_is_no_part_of_the_log(lab, chat):
    before = chat.head()
    with chat.turn():
        assert chat.head() == before
        fork = chat.fork(session_id="fork")
        with fork.turn():
            pass
        lab.store.restore("copy", list(chat.internals.stored()))
        assert lab.sql("SELECT session_id FROM turns") == [("s",)]
        assert chat.verify().ok
        assert chat.rebuild() == 0


def test_purge_ends_a_turn(lab, chat):
    with chat.turn() as turn:
        lab.store.purge("s")
        assert lab.sql("SELECT count(*) FROM turns") == [(0,)]
        with pytest.raises(SessionPurged):
            turn.append("user", "late")


def test_runner_can_wait_for_the_turn(lab, chat):
    with chat.turn(lease=60, holder="first"):
        begun = time.monotonic()
        with pytest.raises(TurnTaken), chat.turn(wait=0.3):
            pass
        assert time.monotonic() - begun >= 0.3
    with chat.turn(wait=WAIT_S):
        pass


def test_wait_for_the_turn_begins_with_the_block(chat, monkeypatch):
    late = chat.turn(wait=WAIT_S)
    monkeypatch.setattr("roocontext.store.turn.monotonic", lambda: time.monotonic() + WAIT_S)
    first = chat.turn(holder="first")
    first.__enter__()
    Timer(0.2, first.__exit__, (None, None, None)).start()
    with late:
        late.append("user", "mine")


def test_lease_is_renewed(lab, chat):
    with chat.turn(lease=2.4) as turn:
        [(begun,)] = lab.sql("SELECT expires_at FROM turns")
        lab.clock.now += 100
        renewed = begun
        while renewed == begun and turn.is_held:
            time.sleep(0.02)
            [(renewed,)] = lab.sql("SELECT expires_at FROM turns")
        assert renewed > begun
        assert turn.is_held
        with pytest.raises(TurnTaken) as refused, chat.turn():
            pass
        assert refused.value.expires_at >= renewed
        turn.append("user", "still here")


def test_runner_learns_from_a_renewal_that_it_was_replaced(lab, chat):
    with chat.turn(lease=0.6) as turn:
        lab.sql("UPDATE turns SET token = 'other'")
        end = time.monotonic() + WAIT_S
        while turn.is_held and time.monotonic() < end:
            time.sleep(0.05)
        assert not turn.is_held


def test_clock_of_the_host_that_jumps(lab, chat):
    """Forward it ends a lease early on SQLite; backward it prolongs it by one lease at most."""
    held = chat.turn(lease=60, holder="first")
    held.__enter__()
    lab.clock.now += 3_600_000
    if lab.engine == "postgres":  # the server's clock counts
        with pytest.raises(TurnTaken), chat.turn():
            pass
        held.__exit__(None, None, None)
        return
    with chat.turn(lease=60, holder="second") as second:
        with pytest.raises(TurnLost):
            held.append("user", "late")
        second.append("user", "mine")
        lab.clock.now -= 7_200_000
        with pytest.raises(TurnTaken) as refused, chat.turn():
            pass
        assert lab.clock.now < refused.value.expires_at <= lab.clock.now + 60_000
        lab.clock.now += 60_001
        with chat.turn(holder="third"):
            pass
    held.__exit__(None, None, None)


def test_lease_that_ends_too_late_ends_one_lease_from_now(opened):
    """The server's clock was set back: its holder may be dead, so the lease must end some time."""
    with opened("postgres", "sync") as lab:
        chat = lab.store.create("s")
        lab.sql("INSERT INTO turns VALUES ('s', 'token', 'dead', 1000, 9000000000000)")
        with chat.turn(wait=WAIT_S):
            assert lab.sql("SELECT holder = 'dead' FROM turns") == [(False,)]


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "options", [{"lease": 0}, {"lease": "x"}, {"wait": -1}, {"holder": ""}, {"holder": "a\0"}]
)
def test_invalid_options_are_refused(chat, options):
    with pytest.raises((InvalidIdentifier, InvalidOption)), chat.turn(**options):
        pass


def test_turn_of_an_unknown_session(lab, chat):
    with lab.store.create("gone").turn():
        pass
    turn = lab.store.session("gone").turn()
    lab.store.purge("gone")
    with pytest.raises(SessionNotFound), turn:
        pass


def test_turn_that_has_not_begun_writes_nothing(chat):
    turn = chat.turn()
    with pytest.raises(TurnLost):
        turn.append("user", "x")
    with turn:
        pass
    with pytest.raises(TurnLost):
        turn.append("user", "x")


RUNNER = """
import sys
from roocontext import Store
from roocontext.errors import TurnLost
url, lease = sys.argv[1:]
with Store.open(url) as store:
    with store.session("s").turn(lease=float(lease), holder="process") as turn:
        print("held", flush=True)
        sys.stdin.readline()
        try:
            print(turn.append("user", "from the process").seq, flush=True)
        except TurnLost as lost:
            print("lost to", lost.holder, flush=True)
        print(turn.is_held, flush=True)
        sys.stdin.readline()
"""


@pytest.fixture(params=["file", "postgres"])
def runner(request, opened, python):
    """A store, and a process that has the turn of its session for a second at a time."""
    with opened(request.param, "sync") as lab:
        lab.store.create("s")
        process = python.start(RUNNER, str(lab.url), "1")
        assert process.stdout.readline() == "held\n"
        yield lab, process
        process.kill()
        process.communicate()


def test_process_that_was_paused_writes_nothing_after_its_expiry(runner):
    lab, process = runner
    process.send_signal(signal.SIGSTOP)
    with taken_over(lab) as turn:
        turn.append("user", "hello")
        process.send_signal(signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "lost to other\n"
        assert turn.append("user", "again").seq == 2


def test_forked_child_that_leaves_the_block_ends_no_turn(postgres_url):
    with Store.open(postgres_url) as store, store.create("s").turn() as turn:
        child = multiprocessing.get_context("fork").Process(target=turn.__exit__)
        child.start()
        child.join(WAIT_S)
        assert child.exitcode == 0
        assert turn.append("user", "still here").seq == 1


def test_turn_of_a_killed_process_ends_with_its_lease(runner):
    lab, process = runner
    with Store.open(lab.url) as store:
        chat = store.session("s")
        with pytest.raises(TurnTaken, match="process has the turn"), chat.turn():
            pass
        process.kill()
        with chat.turn(wait=WAIT_S) as turn:
            turn.append("user", "hello")


def test_tasks_take_turns(lab):
    if lab.engine == "memory":
        return

    async def go():
        async with await AsyncStore.open(lab.url) as store:
            chat = await store.create("s")
            active = []

            async def work(number):
                async with chat.turn(wait=WAIT_S, holder=str(number)) as turn:
                    active.append(number)
                    assert len(active) == 1
                    await turn.append("user", f"{number}")
                    await asyncio.sleep(0.01)
                    active.remove(number)

            await asyncio.gather(*map(work, range(3)))
            assert len(await chat.messages()) >= 1
            assert await chat.head_seq() == 3

    asyncio.run(go())


@pytest.mark.parametrize(("kind", "step"), [(Renewer, "remove"), (GivenTurn, "end")])
def test_turn_is_given_back_although_that_is_interrupted(tmp_path, monkeypatch, kind, step):
    plain, interrupts = getattr(kind, step), [KeyboardInterrupt]

    def interrupted(*arguments):
        if interrupts:
            raise interrupts.pop()
        return plain(*arguments)

    with Store.open(tmp_path / "s.db") as store:
        chat = store.create("s")
        monkeypatch.setattr(kind, step, interrupted)
        with pytest.raises(KeyboardInterrupt), chat.turn():
            pass
        with chat.turn(holder="next"):
            pass


def test_turn_ends_with_its_lease_when_the_store_is_closed_in_it(tmp_path):
    async def go():
        store = await AsyncStore.open(tmp_path / "store.db")
        async with (await store.create("s")).turn():
            await store.close()

    asyncio.run(go())
    with Store.open(tmp_path / "store.db") as store:
        with pytest.raises(TurnTaken), store.session("s").turn():
            pass
        with store.create("t").turn():
            store.close()


def test_cancelled_task_leaves_no_turn(lab):
    if lab.engine == "memory":
        return

    async def go():
        async with await AsyncStore.open(lab.url) as store:
            chat = await store.create("s")

            async def work():
                async with chat.turn(wait=WAIT_S):
                    await asyncio.sleep(WAIT_S)

            for delay in (0, 0.001, 0.02):
                task = asyncio.create_task(work())
                waiting = asyncio.create_task(work())
                await asyncio.sleep(delay)
                waiting.cancel()
                task.cancel()
                await asyncio.wait([task, waiting])
                async with chat.turn(wait=WAIT_S) as turn:
                    assert turn.is_held

    asyncio.run(go())
