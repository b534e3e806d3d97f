"""The parent's side of the nursery."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Brood(NamedTuple):
    """The reports of a brood's children, in order, and how each child ended."""

    told: list[dict[str, Any]]
    ends: list[int]

    def of(self, child: int) -> list[dict[str, Any]]:
        """The reports of one child."""
        return [facts for facts in self.told if facts["child"] == child]


class Nursery:
    """Runs jobs in processes of their own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, *jobs: tuple[str, dict[str, Any]], kill_after: float | None = None) -> Brood:
        """Run jobs side by side, until they end or are killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"jobs": jobs, "kill_after": kill_after}) + "\n")
        self._process.stdin.flush()
        told: list[dict[str, Any]] = []
        ends: dict[int, int] = {}
        for line in self._process.stdout:
            facts = json.loads(line)
            if "done" in facts:
                return Brood(told, [ends[number] for number in range(len(jobs))])
            if "ended" in facts:
                ends[facts["child"]] = facts["ended"]
            else:
                told.append(facts)
        raise AssertionError("the nursery is gone")


@contextmanager
def nursery() -> Iterator[Nursery]:
    """A nursery; it goes when its stdin is closed."""
    script = Path(__file__).with_name("nursery.py")
    with subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, script.parents[1:3]))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Nursery(process)
