"""A suite of a framework, and runs of its tests over our store or over the framework's own."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from frameworks.sources import FOLDER, HERE

KINDS: Final = {"private attributes", "private tables", "raw rows"}
"""What of the framework's own store a test may read so that it may fail over ours."""
_SECONDS: Final = 120
"""How long one test may run: some defects are loops without an end."""


class SuiteFailed(Exception):
    """A run did not get as far as the outcomes of its tests."""


@dataclass(frozen=True)
class Suite:
    """Tests of a package, from `suites/NAME.toml`."""

    name: str
    package: str
    plugin: str
    """Which module of `ours` puts our store in place of the framework's."""
    engine: str
    """Where our stores are: on sqlite or on postgres."""
    files: tuple[str, ...]
    options: tuple[str, ...]
    collected: int
    """How many tests these files have, so that none is lost unseen."""
    on_ours: int
    """How many of them open a store of ours at least: else the plugin replaced nothing."""
    expected: frozenset[str]
    """The ids of tests that fail over our store, because of what they read of the framework's."""

    @classmethod
    def read(cls, path: Path) -> "Suite":
        found = tomllib.loads(path.read_text())
        expected = [test for one in found.get("expected", []) for test in one["tests"]]
        assert len(expected) == len(set(expected)), path
        assert all(one["reads"] in KINDS and one["reason"] for one in found.get("expected", [])), (
            path
        )
        return cls(
            name=path.stem,
            package=found["package"],
            plugin=found["plugin"],
            engine=found.get("engine", "sqlite"),
            files=tuple(found["files"]),
            options=tuple(found.get("options", ())),
            collected=found["collected"],
            on_ours=found["on_ours"],
            expected=frozenset(expected),
        )


@dataclass(frozen=True)
class Outcomes:
    """The outcome of each test: passed, skipped or failed."""

    of: dict[str, str]
    on_ours: int

    def which(self, outcome: str) -> set[str]:
        return {test for test, found in self.of.items() if found == outcome}


def suites() -> list[Suite]:
    """All suites, in the order of their names."""
    return [Suite.read(path) for path in sorted((HERE / "suites").glob("*.toml"))]


def run(
    suite: Suite,
    source: Path,
    store: Literal["ours", "own"],
    *,
    only: Collection[str] = (),
    alone: bool = False,
) -> Outcomes:
    """Run the suite's files, or only these tests: two at once, or each alone."""
    log = FOLDER / f"{suite.name}-{store}{'-alone' if alone else ''}.log"
    found, chosen = log.with_suffix(".json"), log.with_suffix(".tests")
    found.unlink(missing_ok=True)
    chosen.write_text("\n".join(sorted(only) or suite.files))
    plugins = ["frameworks.outcomes"]
    if store == "ours":
        plugins += ["frameworks.ours.stores", f"frameworks.ours.{suite.plugin}"]
    if alone:
        plugins.append("frameworks.patience")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--timeout={_SECONDS}"]
    command += [f"--outcomes={found}", *(option for name in plugins for option in ("-p", name))]
    command += ["-n", "0"] if alone else ["-n", "2", "--dist", "worksteal"]
    command += [*suite.options, f"@{chosen}"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent),
        "ROOCONTEXT_FRAMEWORKS_ENGINE": suite.engine,
    }
    with log.open("wb") as output:
        ended = subprocess.run(
            command,
            check=False,  # its code says whether tests failed
            cwd=source,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    if ended.returncode not in (0, 1) or not found.exists():
        raise SuiteFailed(f"pytest ended with {ended.returncode}:\n{log.read_text()[-3000:]}")
    outcomes = json.loads(found.read_text())
    return Outcomes(outcomes["outcomes"], len(outcomes["ours"]))
