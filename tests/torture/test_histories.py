"""Processes, threads and tasks on one session: one order of its log explains what each was told."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from roocontext import AsyncStore, Session, Store
from roocontext.log.entries import Entry, Kind
from support.examples import TORTURE, examples
from torture.histories import Operation, unexplained, work, work_in_child, work_in_task

WORKERS = 6 if TORTURE else 4
STEPS = 40 if TORTURE else 10
SESSION = "shared"
seeds = pytest.mark.parametrize("seed", range(examples(1)))
Recorder = Callable[[str, object], None]


@seeds
def test_order_explains_the_histories_of_processes(nursery, url, seed, record_property):
    with Store.open(url) as store:
        chat = store.create(SESSION)
        options = {"url": url, "session": SESSION, "times": STEPS}
        jobs = [
            (work_in_child.__name__, {**options, "seed": seed * 100 + number})
            for number in range(WORKERS)
        ]
        brood = nursery.run(*jobs)
        assert brood.ends == [0] * WORKERS
        history = [Operation(*facts["operation"]) for facts in brood.told]
        record_property("runs", len(history))
        assert unexplained(history, _log(chat)) == []
        assert chat.verify().ok


@seeds
def test_order_explains_the_histories_of_threads(any_url, seed, record_property):
    start = threading.Barrier(WORKERS, timeout=60)

    def run(number: int) -> list[Operation]:
        start.wait()
        return list(work(chat, STEPS, seed * 100 + number))

    with Store.open(any_url, durability="normal") as store:
        chat = store.create(SESSION)
        with ThreadPoolExecutor(WORKERS) as threads:
            histories = list(threads.map(run, range(WORKERS)))
        history = [operation for told in histories for operation in told]
        record_property("runs", len(history))
        assert unexplained(history, _log(chat)) == []


@seeds
def test_order_explains_the_histories_of_tasks(any_url, seed, record_property):
    async def run() -> tuple[list[Operation], dict[int, int | None]]:
        async with await AsyncStore.open(any_url, durability="normal") as store:
            chat = await store.create(SESSION)
            tasks = [work_in_task(chat, STEPS, seed * 100 + number) for number in range(WORKERS)]
            histories = await asyncio.gather(*tasks)
            log = {entry.seq: _target(entry.entry) async for entry in chat.audit()}
        return [operation for told in histories for operation in told], log

    history, log = asyncio.run(run())
    record_property("runs", len(history))
    assert unexplained(history, log) == []


class TestUnexplained:
    """The check itself notices each kind of fault."""

    LOG = {1: None, 2: None, 3: 1}
    GOOD = (
        Operation("append", 0, 10, 1, 1),
        Operation("append", 20, 30, 2, 2),
        Operation("view", 22, 32, 0, 2, (1, 2)),
        Operation("rewind", 40, 50, 3, 3, target=1),
        Operation("view", 60, 70, 0, 3, (1,)),
    )

    def test_history_in_order_is_explained(self):
        assert unexplained(self.GOOD, self.LOG) == []

    @pytest.mark.parametrize(
        ("place", "wrong"),
        [
            (4, Operation("head", 60, 70, 0, 2)),
            (4, Operation("view", 60, 70, 0, 3, (1, 2))),
            (1, Operation("append", 0, 5, 2, 2)),
            (1, Operation("append", 20, 30, 3, 3)),
            (3, Operation("rewind", 40, 50, 3, 3, target=2)),
            (4, Operation("guarded", 60, 70, 0, 3, expected=3)),
            (0, Operation("append", 45, 55, 1, 1)),
        ],
        ids=[
            "stale head",
            "view of another state",
            "ended before its predecessor began",
            "seq told twice",
            "other target",
            "refused in vain",
            "began after its successor",
        ],
    )
    def test_fault_is_noticed(self, place, wrong):
        history = [*self.GOOD[:place], wrong, *self.GOOD[place + 1 :]]
        if wrong.end == 5:
            history[0] = history[0]._replace(begin=6)
        assert unexplained(history, self.LOG)

    def test_part_of_a_batch_is_noticed(self):
        history = [Operation("batch", 0, 10, 1, 3), Operation("head", 5, 8, 0, 2)]
        assert unexplained(history, dict.fromkeys([1, 2, 3]))


def _log(chat: Session) -> dict[int, int | None]:
    return {entry.seq: _target(entry.entry) for entry in chat.audit()}


def _target(entry: Entry) -> int | None:
    return entry.details["to"] if entry.kind is Kind.REWIND else None
