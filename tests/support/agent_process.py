"""Runs of the example's agent: each a process, which can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.fake_provider import PATIENCE

TESTS = Path(__file__).parents[1]


class AgentProcess:
    """Runs the agent on a folder, with a database, and with the models that `env` names."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path, store: str) -> None:
        self._process = process
        self.folder = folder
        self.store = store
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "NO_PROXY": "127.0.0.1"}
        self._files = [folder.with_name(name) for name in ("typed.txt", "shown.txt")]

    def __call__(self, *lines: str, options: tuple[str, ...] = ()) -> str:
        """Type these lines, and return what was shown."""
        self.begin(*lines, options=options)
        code = int(self._answer())
        assert code == 0, self.shown
        return self.shown

    def refused(self, *options: str) -> str:
        """Start a run that cannot begin, and return what it showed."""
        self.begin(options=options)
        assert int(self._answer()) != 0
        return self.shown

    @property
    def shown(self) -> str:
        return self._files[1].read_text()

    def begin(self, *lines: str, options: tuple[str, ...] = ()) -> None:
        self._files[0].write_text("".join(f"{line}\n" for line in lines))
        self._files[1].write_text("")
        order = {
            "arguments": [str(self.folder), "--yes", *options],
            "files": [str(file) for file in self._files],
            "env": {"ROOCONTEXT_DB": self.store, **self.env},
        }
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self._pid = int(self._answer())

    def kill(self) -> None:
        """End the run that was begun, as a crash does."""
        os.kill(self._pid, signal.SIGKILL)
        assert int(self._answer()) == -signal.SIGKILL

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process that forks the runs has died"
        return line


def wait_until(condition: Callable[[], Any]) -> None:
    for _ in range(PATIENCE * 100):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


@contextmanager
def preloaded_agent() -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process that forks the runs, and what the agent showed when it was loaded there."""
    command = [sys.executable, "-W", "error", "-m", "support.agent_preloaded"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS
    ) as process:
        assert process.stdin
        assert process.stdout
        yield process, json.loads(process.stdout.readline())
        process.stdin.close()
