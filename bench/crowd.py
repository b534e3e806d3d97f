"""Many threads of one process that append at once, each to a session of its own."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from bench.data import content, encoded, role
from bench.report import Line
from bench.sites import SqliteSite
from bench.timing import Samples

THREADS = 16

Write = Callable[[int], object]


def lines(site: SqliteSite, rounds: int) -> Iterator[Line]:
    """What a commit takes of the whole, and how long one of them waits."""
    each = 10
    store = site.store("crowd")
    chats = [store.create() for _ in range(THREADS)]
    floors = [site.floor("crowd_floor", threads=True) for _ in range(THREADS)]
    texts = [encoded(number) for number in range(each)]
    ours: list[Write] = [lambda n, c=chat: c.append(role(n), content(n)) for chat in chats]
    raw: list[Write] = [lambda n, f=floor: f.append(texts[n]) for floor in floors]
    walls: dict[str, list[float]] = {"raw": [], "ours": []}
    waits: dict[str, list[float]] = {"raw": [], "ours": []}
    for turn in range(rounds + 1):
        for name, writes in (("raw", raw), ("ours", ours)):
            wall, waited = _together(writes, each)
            if turn:
                walls[name].append(wall / (THREADS * each))
                waits[name] += waited
    times = {name: Samples(values) for name, values in walls.items()}
    yield Line(
        "sqlite.threads",
        f"SQLite: {THREADS} threads, {THREADS} sessions, FULL, a commit",
        "a commit of raw connections, as many threads",
        times["ours"],
        times["raw"],
        1.0,
        0.5,
        note=f"{1 / times['ours'].p50:,.0f} and {1 / times['raw'].p50:,.0f} commits a second",
    )
    single, others = Samples(waits["ours"]), Samples(waits["raw"])
    yield Line(
        "sqlite.threads.wait",
        "SQLite: the same, p99 of a wait",
        "its p50",
        Samples([single.at(0.99)]),
        Samples([single.p50]),
        10.0,
        note=f"raw connections: {others.at(0.99) / others.p50:.0f}",
    )


def _together(writes: Sequence[Write], each: int) -> tuple[float, list[float]]:
    """How long all of them took, and each of their calls."""
    start = threading.Barrier(len(writes) + 1)
    waited: list[float] = []

    def work(write: Write) -> None:
        start.wait()
        for number in range(each):
            begun = time.perf_counter()
            write(number)
            waited.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=work, args=(write,)) for write in writes]
    for thread in threads:
        thread.start()
    start.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begun, waited
