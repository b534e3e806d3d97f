"""A process that has the library loaded, and forks a child for each script.

Loading takes longer than most scripts do. A child has standard files, arguments and an environment
of its own, and no store and no thread is there when it begins, so that it is like a process just
started. Stdin is a socket: one message is one script, with the files of its child and a pipe which
tells the child's process id and, when it has ended, its exit code.
"""

import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

import alembic.command
import alembic.config  # noqa: F401
import psycopg  # noqa: F401
from sqlalchemy import SelectBase, UpdateBase

import roocontext
import roocontext.testing.processes
from roocontext.log.counting import BYTES
from roocontext.store.engine.engines import engine_of
from roocontext.store.engine.statements import ALL, compilers

LONGEST = 1 << 17
"""Bytes of the longest message."""


def compile_statements() -> None:
    """Compile each statement of the store that is made when its module is imported."""
    for url in (":memory:", "postgresql://"):
        compiled = compilers(engine_of(url).dialect)(ALL.shape)
        for name, module in list(sys.modules.items()):
            if name.startswith("roocontext.store."):
                for statement in vars(module).values():
                    if isinstance(statement, UpdateBase | SelectBase):
                        compiled(statement)


def load() -> None:
    """Have everything ready that a script may need: the statements too, compiled."""
    with roocontext.Store.open(":memory:") as store:
        roocontext.ContextManager(limit=10_000, counter=BYTES).manage(store.create())
    compile_statements()
    # What is loaded stays: a child that looks through it for garbage would copy every page of it.
    gc.collect()
    gc.freeze()


def run(order: dict[str, Any], files: Sequence[int]) -> int:
    """Be the process of a script; its exit code."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(len(files), max(files) + 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    sys.argv = ["-c", *order["arguments"]]
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115 - descriptors, for good
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115 - likewise
    code = 0
    try:
        exec(compile(order["script"], "<script>", "exec"), {"__name__": "__main__"})
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    except BaseException:  # noqa: BLE001 - whatever it was, the test shows it
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    return code


def supervise(order: dict[str, Any], files: Sequence[int], told: int) -> None:
    """Fork the process of a script, and tell its id and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(told)
        code = 255
        try:
            code = run(order, files)
        finally:  # it may not go on in what is this process's code
            os._exit(code)
    for file in files:
        os.close(file)
    os.write(told, f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(told, f"{code}\n".encode())


def serve(orders: socket.socket) -> None:
    """Run scripts until nobody can send any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the supervisors
    while True:
        message, received, _, _ = socket.recv_fds(orders, LONGEST, 4)
        if not message:
            return
        if os.fork() == 0:
            try:
                supervise(json.loads(message), received[:3], received[3])
            finally:
                os._exit(0)
        for file in received:
            os.close(file)


if __name__ == "__main__":
    load()
    with socket.socket(fileno=0) as stdin:
        serve(stdin)
