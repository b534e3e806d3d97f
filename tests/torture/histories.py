"""Random histories of one session, and the check that one order of its log explains them.

An operation is known by its beginning, its end and what it returned. The log gives the order; it
explains a history if an operation that ended before another one began comes before it, and if each
answer is that of the state at some moment between its beginning and its end.
"""

import math
import random
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from roocontext import AsyncSession, Session, Store
from roocontext.errors import VersionConflict


class Operation(NamedTuple):
    """What one writer or reader did; `first` and `last` are the seqs that it wrote, or read up to.

    `visible` are the seqs that a view returned. `expected` is the version that was refused.
    """

    name: str
    begin: int
    end: int
    first: int
    last: int
    visible: Sequence[int] = ()
    expected: int | None = None
    target: int | None = None


AnySession = Session | AsyncSession
Steps = Generator[Any, Any, None]


def work(chat: Session, times: int, seed: int) -> Iterator[Operation]:
    """Do random operations; each as soon as it has returned."""
    chance = random.Random(seed)
    for _ in range(times):
        steps = _operation(chat, chance)
        yield _run(steps)


async def work_in_task(chat: AsyncSession, times: int, seed: int) -> list[Operation]:
    """The same operations in a task."""
    chance, done = random.Random(seed), []
    for _ in range(times):
        steps = _operation(chat, chance)
        outcome: Any = None
        while not isinstance(outcome, Operation):
            call = steps.send(outcome)
            try:
                outcome = call if isinstance(call, Operation) else await call()
            except VersionConflict as conflict:
                outcome = conflict
        done.append(outcome)
    return done


def _run(steps: Steps) -> Operation:
    outcome: Any = None
    while not isinstance(outcome, Operation):
        call = steps.send(outcome)
        try:
            outcome = call if isinstance(call, Operation) else call()
        except VersionConflict as conflict:
            outcome = conflict
    return outcome


def _operation(chat: AnySession, chance: random.Random) -> Steps:
    """The calls of a random operation, and then the operation; a refusal is sent as a result."""
    name = chance.choice(["append", "append", "batch", "guarded", "rewind", "head", "view"])
    version = (yield chat.head_seq) if name in ("guarded", "rewind") else 0
    begin = time.monotonic_ns()
    first, visible, expected, target = 0, [], None, None
    if name == "append":
        last = first = (yield lambda: chat.append("user", name)).seq
    elif name == "batch":
        receipts = yield lambda: chat.append_many([{"role": "user", "content": name}] * 3)
        first, last = receipts[0].seq, receipts[-1].seq
    elif name == "guarded":
        done = yield lambda: chat.append("user", name, expected_seq=version)
        if isinstance(done, VersionConflict):
            last, expected = done.actual, done.expected
        else:
            last = first = done.seq
    elif name == "rewind":
        target = max(0, version - chance.randrange(6))
        done = yield lambda: chat.rewind(target)
        first, last = done.seq or 0, done.head_seq
    elif name == "view":
        view = yield chat.view
        last, visible = view.head_seq, [message.seq for message in view.messages]
    else:
        last = yield chat.head_seq
    yield Operation(name, begin, time.monotonic_ns(), first, last, visible, expected, target)


def work_in_child(child: Any, url: str, session: str, times: int, seed: int) -> None:
    """The job of a process: its operations, told one by one."""
    with Store.open(url, durability="normal") as store:
        chat = store.session(session)
        child.start()
        for operation in work(chat, times, seed):
            child.tell(operation=operation)


def unexplained(history: Sequence[Operation], log: Mapping[int, int | None]) -> list[str]:
    """The reasons why this log cannot be what happened.

    The log names for each seq the target of a rewind, or None for a message.
    """
    writes = [operation for operation in history if operation.first]
    seqs = sorted(seq for write in writes for seq in range(write.first, write.last + 1))
    faults = [] if seqs == sorted(log) else ["a seq was told twice or never, or was not told"]
    faults += [
        f"{write.name} at {write.first} is another entry in the log"
        for write in writes
        if any(log.get(seq, 0) != write.target for seq in range(write.first, write.last + 1))
    ]
    states: dict[int, list[int]] = {0: []}
    for seq in sorted(log):
        target = log[seq]
        states[seq] = [*states[seq - 1], seq] if target is None else states[target]
    faults += [
        f"the view at {read.last} is not the state at {read.last}"
        for read in history
        if read.name == "view" and list(read.visible) != states.get(read.last)
    ]
    inside = {seq for write in writes for seq in range(write.first, write.last)}
    faults += [
        f"{read.name} at {read.last} saw a part of a batch"
        for read in history
        if not read.first and read.last in inside
    ]
    faults += [
        f"version {read.expected} was refused, and it was the version"
        for read in history
        if read.expected is not None and read.expected == read.last
    ]
    return faults + _out_of_order(history)


def _out_of_order(history: Sequence[Operation]) -> list[str]:
    """Operations that began after one that follows them in the log had ended."""
    faults, earliest_end = [], math.inf
    descending = sorted(history, key=_place, reverse=True)
    for place, group in groupby(descending, key=_place):
        operations = list(group)
        faults += [
            f"{operation.name} at {place[0]} began after its successor had ended"
            for operation in operations
            if earliest_end < operation.begin
        ]
        earliest_end = min(earliest_end, *(operation.end for operation in operations))
    return faults


def _place(operation: Operation) -> tuple[int, bool]:
    """A read of the state at a seq comes after the write of it, and reads of one state tie."""
    return operation.last, not operation.first
