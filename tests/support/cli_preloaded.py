"""A process that has the command line loaded, and forks a child for each command.

Loading takes longer than most commands do. A child has standard files, an environment and a folder
of its own, and nothing is open when it begins, so that it is like a process just started. One line
of JSON on stdin is one command; one line on stdout is how it ended.
"""

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import alembic.autogenerate
import alembic.command
import alembic.config
import alembic.script  # noqa: F401
import psycopg  # noqa: F401
import pydantic.types
import rich.progress  # noqa: F401
import typer.completion
import typer.rich_utils  # noqa: F401

import roocontext
import roocontext.reports.catalogue
import roocontext.store.engine.health
from roocontext.cli import main
from roocontext.cli.app import commands
from roocontext.tokens import counter_for
from support.python_preloaded import compile_statements
from support.steady_sources import CountedIds, SetClock

START = 1_769_904_000_000
MINUTE = 60_000

commands().commands["sessions"].make_context("sessions", [])
for kind in (bool, int, str, Path, list[str]):
    pydantic.TypeAdapter(kind | None).validate_python(None)
with roocontext.Store.open(":memory:") as warm:
    roocontext.ContextManager("gpt-4o").manage(warm.create())
    counter_for("gpt-4o").count("user", "loads the vocabulary", "anthropic")
compile_statements()
# What is loaded stays: a child that looks through it for garbage would copy every page of it.
gc.collect()
gc.freeze()


def become(order: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    os.chdir(order["cwd"])
    for number, flags in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        os.dup2(os.open(order["files"][number], flags), number)
    if order["user"] is not None:
        os.setgid(order["user"])
        os.setuid(order["user"])
    encoding = order["env"].get("PYTHONIOENCODING", "utf-8")
    sys.stdin = open(0, encoding=encoding)  # noqa: SIM115 - a descriptor, for good
    sys.stdout = open(1, "w", encoding=encoding)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace")  # noqa: SIM115


def ended(order: dict[str, Any]) -> int:
    try:
        become(order)
        number = order["number"]
        clock = SetClock(START + number * MINUTE, step=1)
        main(order["arguments"], clock=clock, ids=CountedIds(1_000 * number))
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0


def run(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            code = ended(order)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # whatever it was, it may not go on in what is this process's code
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        os.write(1, f"{run(json.loads(line))}\n".encode())
