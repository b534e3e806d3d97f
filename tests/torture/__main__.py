"""Run the long tests, part by part: `make torture`.

`python -m torture [PART ...]` runs the parts that have no result yet for this code, so that an
interrupted run is continued. `--anew` runs them all, and `--write` also puts the results into
docs/guarantees.md.
"""

import argparse
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from support import postgres_server
from torture.parts import PARTS, Part

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
RESULTS = ROOT / ".torture"
PAGE = ROOT / "docs" / "guarantees.md"
BEGIN, END = "<!-- torture -->\n", "<!-- /torture -->\n"
CODE = ("roocontext", "migrations", "tests")
VERSIONS = (
    ("commit", "commit"),
    ("Python", "python"),
    ("SQLite", "sqlite"),
    ("PostgreSQL", "postgres"),
)


def main(arguments: list[str]) -> int:
    """The exit code: 0 if no test of any part failed."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="all parts by default")
    parser.add_argument("--anew", action="store_true", help="run parts that have a result, too")
    parser.add_argument("--write", action="store_true", help="write docs/guarantees.md")
    asked = parser.parse_args(arguments)
    known = {part.name: part for part in PARTS}
    if unknown := set(asked.parts) - set(known):
        parser.error(f"no part is called {min(unknown)}; there are {', '.join(known)}")
    RESULTS.mkdir(exist_ok=True)
    code = _digest()
    for part in [known[name] for name in asked.parts or known]:
        result = _result(part)
        if asked.anew or result is None or result["code"] != code:
            result = _run(part, code)
        sys.stdout.write(f"{part.name}: {_words(result)}\n")
        sys.stdout.flush()
    results = {part: _result(part) for part in PARTS}
    table = _table(results)
    sys.stdout.write(f"\n{table}")
    if asked.write:
        text = PAGE.read_text()
        head, _, rest = text.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")
    return int(any(result is not None and result["failures"] for result in results.values()))


def _run(part: Part, code: str) -> dict[str, Any]:
    """Run the tests of a part, and keep what came of it."""
    if part.needs and not os.environ.get(part.needs):
        return {"code": code, "runs": 0, "failures": 0, "seconds": 0, "missing": part.needs}
    with postgres_server.running() as server:
        postgres = server.version
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal"]
        command += ["--timeout", "0", f"--junitxml={report}"]
        command += ["--distributed"] if part.needs else []
        command += [str(TESTS / tests) for tests in part.tests]
        environment = {**os.environ, "ROOCONTEXT_TORTURE": str(part.times)}
        begin = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        seconds = time.perf_counter() - begin
        runs, failures = _counted(report)
    result = {
        "code": code,
        "runs": runs,
        "failures": max(failures, int(done.returncode != 0)),
        "seconds": round(seconds),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "sqlite": sqlite3.sqlite_version,
        "postgres": postgres,
    }
    _file(part).write_text(json.dumps(result))
    return result


def _commit() -> str:
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _counted(report: Path) -> tuple[int, int]:
    """The runs, which are tests or what a test counts itself, and the failures."""
    if not report.exists():
        return 0, 1
    runs = failures = 0
    for case in ET.parse(report).iter("testcase"):
        counted = case.find("properties/property[@name='runs']")
        runs += 1 if counted is None else int(counted.attrib["value"])
        failures += any(case.find(kind) is not None for kind in ("failure", "error"))
    return runs, failures


def _digest() -> str:
    """A digest of the code and of its tests: a result counts for these only."""
    whole = hashlib.sha256()
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            whole.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


def _file(part: Part) -> Path:
    return RESULTS / f"{part.name}.json"


def _result(part: Part) -> dict[str, Any] | None:
    try:
        result: dict[str, Any] = json.loads(_file(part).read_text())
    except FileNotFoundError:
        return None
    return result


def _words(result: dict[str, Any]) -> str:
    if missing := result.get("missing"):
        return f"NOT RUN, because {missing} is not set"
    return f"{result['runs']:,} runs, {result['failures']} failures, {result['seconds']:,} s"


def _table(results: dict[Part, dict[str, Any] | None]) -> str:
    lines = [
        "| promise | command | runs | failures | seconds | date | versions |",
        "|---|---|--:|--:|--:|---|---|",
    ]
    for part, result in results.items():
        facts = ["not run", "", "", "", ""]
        if result is not None:
            facts = [f"{result[name]:,}" for name in ("runs", "failures", "seconds")]
            facts += [result["date"], ", ".join(f"{name} {result[key]}" for name, key in VERSIONS)]
        cells = [part.promise, f"`python -m torture {part.name}`", *facts]
        lines.append(f"| {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
