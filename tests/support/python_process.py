"""Scripts in processes of their own, forked from one that has the library loaded."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

TESTS = Path(__file__).parents[1]


class Script:
    """The process of a script with its pipes: as much of a `Popen` as the tests need."""

    def __init__(self, stdin: IO[str], stdout: IO[str], stderr: IO[str] | None, told: int) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._told = os.fdopen(told)
        self._pid = self._number()

    def poll(self) -> int | None:
        """The exit code; None if it has not ended."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        """Wait until it has ended; the exit code."""
        if self.returncode is None:
            with self._told:
                self.returncode = self._number()
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """All that it prints until it has ended, and its errors if they are kept."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        with self.stdout:
            out = self.stdout.read()
        err = ""
        if self.stderr is not None:  # at most what a pipe holds, or it would wait for ever
            with self.stderr:
                err = self.stderr.read()
        self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self._pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        line = self._told.readline()
        assert line, "the process that forks the scripts has died"
        return int(line)


class Python:
    """Starts scripts."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    def start(self, script: str, *arguments: str, keeps_errors: bool = False) -> Script:
        """Start a script with these arguments. Its errors are printed, if they are not kept."""
        order = {"script": script, "arguments": arguments, "env": dict(os.environ)}
        its_in, to_it = os.pipe()
        from_it, its_out = os.pipe()
        errors, its_err = os.pipe() if keeps_errors else (None, os.dup(2))
        told, tells = os.pipe()
        files = [its_in, its_out, its_err, tells]
        socket.send_fds(self._orders, [json.dumps(order).encode()], files)
        for file in files:
            os.close(file)
        return Script(
            os.fdopen(to_it, "w"),
            os.fdopen(from_it),
            None if errors is None else os.fdopen(errors),
            told,
        )


@contextmanager
def python(path: Path | None = None) -> Iterator[Python]:
    """The process that forks the scripts; they import what is in this folder first."""
    folders = [str(path)] if path else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, str(TESTS), str(TESTS.parent)])}
    command = [sys.executable, "-W", "error", "-m", "support.python_preloaded"]
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with subprocess.Popen(command, stdin=its, cwd=path or TESTS, env=env), ours:
        its.close()
        yield Python(ours)
