"""A process that has everything loaded and forks children, to be killed or to compete.

Loading the library takes longer than most children live. The nursery holds no store, no connection
and no thread when it forks, so that a child is like a process just started. One line of JSON on
stdin is one brood: its jobs, and after how many seconds all of them are killed, if at all. What
the children tell goes to the shared stdout, a line in one write, and is there even when the child
is dead the moment after.
"""

import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import alembic.autogenerate
import alembic.command
import alembic.config  # noqa: F401
import forking  # first of the path of a script is its own folder
import histories
import interrupting
import jobs
import looping
import operating
import psycopg  # noqa: F401

JOBS: dict[str, Callable[..., None]] = {
    **vars(jobs),
    **vars(forking),
    **vars(interrupting),
    **vars(looping),
    # By name: they import helpers that are called like other jobs.
    histories.work_in_child.__name__: histories.work_in_child,
    operating.operate.__name__: operating.operate,
}


class Child:
    """The surroundings of a job."""

    def __init__(self, number: int, ready: int, gate: int, peer: socket.socket) -> None:
        self._number = number
        self._ready = ready
        self._gate = gate
        self._peer = peer

    def tell(self, **facts: Any) -> None:
        """Say something that the parent may rely on."""
        say(child=self._number, **facts)

    def start(self) -> None:
        """Wait until all of the brood are ready."""
        os.write(self._ready, b".")
        os.read(self._gate, 1)

    def meet(self) -> None:
        """Wait for the other one of a brood of two."""
        self._peer.send(b".")
        self._peer.recv(1)


def say(**facts: Any) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


def raise_brood(brood: list[tuple[str, dict[str, Any]]], kill_after: float | None) -> None:
    ready_read, ready_write = os.pipe()
    gate_read, gate_write = os.pipe()
    peers = socket.socketpair()
    pids = []
    for number, (job, options) in enumerate(brood):
        pid = os.fork()
        if pid == 0:
            os.close(gate_write)
            child = Child(number, ready_write, gate_read, peers[number % 2])
            become(JOBS[job], child, options)
        pids.append(pid)
    os.close(ready_write)
    os.close(gate_read)
    with closing(ready_read, *peers):
        for _ in pids:
            os.read(ready_read, 1)
        os.close(gate_write)
        if kill_after is not None:
            time.sleep(kill_after)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        for number, pid in enumerate(pids):
            _, status = os.waitpid(pid, 0)
            say(child=number, ended=os.waitstatus_to_exitcode(status))
    say(done=True)


def become(job: Callable[..., None], child: Child, options: dict[str, Any]) -> None:
    code = 1
    try:
        job(child, **options)
        code = 0
    finally:  # whatever it was, it may not go on in what is the nursery's code
        if code:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)


@contextmanager
def closing(*handles: int | socket.socket) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.close() if isinstance(handle, socket.socket) else os.close(handle)


if __name__ == "__main__":
    for line in sys.stdin:
        order = json.loads(line)
        if any(job == looping.work.__name__ for job, _ in order["jobs"]):
            looping.load_vocabulary()
        raise_brood(order["jobs"], order["kill_after"])
