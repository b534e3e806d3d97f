"""How long the command line takes to start, beside the program `llm`, which lists its own logs.

It is measured in CPU time, because a new process waits for a busy machine's disk and other
processes. `llm` is no requirement: where it is not on the PATH, there are no such lines.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.data import content, role
from bench.report import Line
from bench.sizes import Sizes
from bench.timing import Samples
from roocontext import Store

COMMANDS = ("--help", "sessions", "show last")
USAGE = {"prompt_tokens": 9_000, "completion_tokens": 300}
LISTED = 20
"""How many sessions, and how many conversations of `llm`, there are."""


def starting(sizes: Sizes, commands: Sequence[str] = COMMANDS) -> Iterator[Line]:
    """A line for each command, from its start to its end, if `llm` is there."""
    peer = shutil.which("llm")
    if peer is None:
        return
    with tempfile.TemporaryDirectory(prefix="roocontext-bench-") as folder:
        env = _prepared(Path(folder), peer)
        programs = {
            "": [peer, "logs", "list"],
            **{words: [sys.executable, "-m", "roocontext", *words.split()] for words in commands},
        }
        times: dict[str, list[float]] = {name: [] for name in programs}
        for turn in range(sizes.imports + 1):
            for name, command in programs.items():
                taken = _cpu_time(command, env)
                if turn:  # the first one fills caches
                    times[name].append(taken)
    floor = Samples(times.pop(""))
    for words, values in times.items():
        key = f"start.{words.split()[0].removeprefix('--')}"
        against = "llm logs list, CPU time"
        yield Line(key, f"roocontext {words}", against, Samples(values), floor, 1.5)


def _prepared(folder: Path, peer: str) -> Mapping[str, str]:
    """Databases for both programs, and the environment that names them."""
    ours = folder / "store.db"
    with Store.open(ours) as store:
        for number in range(LISTED):
            chat = store.create(title=f"session {number}")
            for turn in range(5):
                reported = {"model": "gpt-4o", "usage": USAGE} if turn % 2 else {}
                chat.append(role(turn), content(turn), **reported)
    env = {**os.environ, "ROOCONTEXT_DB": str(ours), "LLM_USER_PATH": str(folder)}
    if sys.dont_write_bytecode:  # else every import would compile its modules
        env |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "cache")}
    text = folder / "text"
    text.write_text("one")
    # Of the commands that create its database, this one asks no model.
    subprocess.run([peer, "fragments", "set", "one", text], env=env, check=True)
    _log_conversations(folder / "logs.db")
    return env


def _log_conversations(database: Path) -> None:
    if not database.exists():
        return
    with sqlite3.connect(database) as connection:
        for number in range(LISTED):
            values = (f"{number:026}", f"session {number}", "gpt-4o")
            connection.execute("INSERT INTO conversations VALUES (?, ?, ?)", values)
            said = (*values[::2], values[0], "Hello.", "Hello. " * 100)
            connection.execute(
                "INSERT INTO responses (id, model, conversation_id, prompt, response,"
                " datetime_utc) VALUES (?, ?, ?, ?, ?, '2026-01-01T00:00:00')",
                said,
            )
    connection.close()


def _cpu_time(command: Sequence[str], env: Mapping[str, str]) -> float:
    """The CPU time of a command, whose output is dropped."""
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawnp(command[0], command, env, file_actions=silent)
    _, status, used = os.wait4(process, 0)
    if status:
        msg = f"{' '.join(command)} failed: wait status {status}"
        raise RuntimeError(msg)
    return used.ru_utime + used.ru_stime
