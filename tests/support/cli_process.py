"""Running the command line: each command a process, from one that has everything loaded."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).parents[1]
LARGE_PAGES = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""A fork copies the table of its parent's pages, which is short if they are large."""


class Done(NamedTuple):
    """A finished command: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        """The JSON documents it printed, one to a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def refused(done: Done, code: int, *words: str) -> None:
    """Nothing was answered, and one line says why, with these words in it."""
    assert (done.code, done.out) == (code, ""), done
    assert done.err.startswith("roocontext: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err, done.err


def ran(*command: str | Path, folder: Path, **env: str) -> Done:
    """Run a program as it is started, in a folder that is also its home, and wait for its end."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class CommandLine:
    """Runs commands in a folder, on a database that the environment names."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path, url: str | None) -> None:
        self._process = process
        self._folder = folder
        self._numbers = count(1)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "80", "TZ": "UTC"}
        if url is not None:
            self.env["ROOCONTEXT_DB"] = url

    def __call__(
        self,
        *arguments: str,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        user: int | None = None,
    ) -> Done:
        files = [self._folder / f".{name}" for name in ("stdin", "stdout", "stderr")]
        for file in files:
            file.write_text("")
        files[0].write_text(stdin, "utf-8", "surrogateescape")
        self.begin(arguments, [str(file) for file in files], env=env, user=user)
        code = self.ended()
        return Done(code, files[1].read_text("utf-8"), files[2].read_text("utf-8"))

    def begin(
        self,
        arguments: Sequence[str],
        files: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        user: int | None = None,
    ) -> int:
        """Start a command on these standard files; what becomes readable when it has ended."""
        order = {
            "number": next(self._numbers),
            "arguments": arguments,
            "env": {**self.env, **(env or {})},
            "cwd": str(self._folder),
            "files": files,
            "user": user,
        }
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.fileno()

    def ended(self) -> int:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process that forks the commands has died"
        return int(line)


CommandLines = Callable[..., CommandLine]
"""Makes command lines, each in a folder: on the database of a URL, or on none."""


@contextmanager
def preloaded() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-W", "error", "-m", "support.cli_preloaded"]
    env = {**os.environ, **LARGE_PAGES}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS, env=env
    ) as process:
        yield process
        assert process.stdin
        process.stdin.close()
