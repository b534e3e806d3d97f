"""Ctrl-C, wherever it comes, and the bar of long work: what a person at a terminal meets.

Commands run as they do for a person: the console script, in a terminal that sends the signal to all
that runs in it.
"""

import json
import os
import pty
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.cli.exit_codes import Code
from support.empty_files import empty_file

SCRIPT = Path(sys.executable).with_name("roocontext")
CTRL_C = b"\x03"

PAGER = """\
import os, signal, sys, termios
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"(interrupted)\\n"))
keys = open("/dev/tty", "rb", buffering=0)
before = termios.tcgetattr(keys)
raw = termios.tcgetattr(keys)
raw[3] &= ~(termios.ICANON | termios.ECHO)
termios.tcsetattr(keys, termios.TCSANOW, raw)
print(sys.stdin.readline(), end="")
print("(more)", flush=True)
while keys.read(1) != b"q":
    pass
termios.tcsetattr(keys, termios.TCSANOW, before)
print("(left)", flush=True)
"""
"""Pages as `less` does: keys come from the terminal, and Ctrl-C does not end it."""


class Sitting:
    """A person at a terminal, in which a command runs."""

    def __init__(self, words: Sequence[str], folder: Path, **env: str) -> None:
        variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color"}
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execve(SCRIPT, [str(SCRIPT), *words], variables | env)
        self.before = termios.tcgetattr(self._terminal)
        self.shown = ""

    def until(self, text: str) -> str:
        """The text shown up to and including this one."""
        while text not in self.shown:
            self.shown += os.read(self._terminal, 65_536).decode()
        return self.shown

    def press(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def ended(self) -> int:
        """Read all that comes until the command ends; its exit code."""
        try:
            while data := os.read(self._terminal, 65_536):
                self.shown += data.decode()
        except OSError:  # what Linux says when nobody is left in the terminal
            pass
        _, status = os.waitpid(self._pid, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a long session, to be copied."""
    path = tmp_path_factory.mktemp("long") / "store.db"
    with Store.open(str(path), durability="normal") as store:
        chat = store.create("long")
        chat.append_many([{"role": "user", "content": f"Message {n}"} for n in range(5_000)])
    return path


@pytest.fixture
def sit(long_store: Path, tmp_path: Path) -> Callable[..., Sitting]:
    """Sits down at a terminal, before a store with a long session."""
    shutil.copy(long_store, tmp_path)
    (tmp_path / "pager.py").write_text(PAGER)

    def begin(*words: str, **env: str) -> Sitting:
        pager = {"PAGER": f"{sys.executable} pager.py", "ROOCONTEXT_DB": "store.db"}
        return Sitting(words, tmp_path, **(pager | env))

    return begin


@pytest.mark.parametrize("words", ["audit long", "show long"])
def test_interrupt_in_the_pager_belongs_to_the_pager(words, sit):
    """Rows still stream when it comes: there are more than a pipe holds."""
    person = sit(*words.split())
    person.until("(more)")
    for _ in range(2):
        person.press(CTRL_C)
        person.until("(interrupted)")
        person.shown = ""
    person.press(b"q")
    assert person.ended() == 0
    assert person.shown.strip() == "(left)"


def test_interrupt_that_ends_the_pager_ends_the_command(sit, tmp_path):
    (tmp_path / "pager.py").write_text(
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "print('(more)', flush=True)\nsignal.pause()\n"
    )
    person = sit("audit", "long")
    person.until("(more)")
    person.press(CTRL_C)
    assert person.ended() == Code.INTERRUPTED
    assert person.shown.endswith("roocontext: Interrupted.\r\n")


def test_interrupt_of_a_question_is_no_answer(sit, tmp_path):
    person = sit("purge", "long")
    person.until("[y/N]: ")
    person.press(CTRL_C)
    assert person.ended() == Code.INTERRUPTED
    assert person.shown.splitlines()[-1] == "roocontext: Interrupted."
    with Store.open(str(tmp_path / "store.db"), read_only=True) as store:
        assert store.session("long").stats().messages == 5_000


@pytest.mark.parametrize(
    ("start", "loaded"),
    [
        *(("script", loaded) for loaded in ("rich.console", "typer", "sqlalchemy.sql", "psycopg")),
        ("module", "rich.console"),
    ],
)
def test_interrupt_during_the_start_prints_nothing(start, loaded, tmp_path):
    """The moment is told by what Python has loaded; the database never answers."""
    began = [str(SCRIPT)] if start == "script" else ["-m", "roocontext"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/none"
        with subprocess.Popen(
            [sys.executable, "-X", "importtime", *began, "sessions", "--db", url],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr
            for line in process.stderr:
                if line.split("|")[-1].strip() == loaded:
                    break
            process.send_signal(signal.SIGINT)
            told = [line for line in process.stderr if not line.startswith("import time:")]
    assert (process.returncode, told) == (Code.INTERRUPTED, ["roocontext: Interrupted.\n"])


def test_interrupt_ends_long_work_and_its_bar(sit, tmp_path):
    with Store.open(str(tmp_path / "store.db")) as store:
        store.create("huge").append("user", "".join(map(chr, range(97, 123))) * 400_000)
    person = sit("show", "huge", "--model", "gpt-4o")
    person.until("Counting tokens")
    person.press(CTRL_C)
    assert person.ended() == Code.INTERRUPTED
    assert re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", person.shown).count("Interrupted.") == 1


def test_long_work_on_a_terminal_shows_a_bar(sit, tmp_path):
    """A command that waits for a lock takes long, whatever it is."""
    lock = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    lock.execute("begin immediate")
    person = sit("title", "long", "mend it")
    person.until("Working")
    lock.close()
    assert person.ended() == 0
    assert "mend it" in person.shown


def test_interrupt_of_follow_in_a_pipe_ends_it(tmp_path):
    with Store.open(str(tmp_path / "store.db")) as store:
        store.create("s").append("user", "Follow me.")
    with subprocess.Popen(
        [str(SCRIPT), "audit", "s", "--follow", "--db", str(tmp_path / "store.db")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert any("Follow me." in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        shown = process.stderr.read()
    assert (process.returncode, shown) == (Code.INTERRUPTED, "roocontext: Interrupted.\n")


def test_interrupt_of_an_mcp_server_with_a_silent_client_ends_it(tmp_path):
    client = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    hello["params"] = {"protocolVersion": "2025-06-18", **client}
    with subprocess.Popen(
        [str(SCRIPT), "mcp", "--db", empty_file(tmp_path / "store.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(json.dumps(hello) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGINT)
        shown = process.stderr.read()
        assert process.wait(60) == Code.INTERRUPTED
    assert shown == "roocontext: Interrupted.\n"


def test_ignored_interrupt_stays_ignored(tmp_path):
    """Whoever starts a command in the background has its interrupts ignored."""
    with Store.open(str(tmp_path / "store.db")) as store:
        store.create("s").append("user", "still here")
    command = [str(SCRIPT), "show", "s", "--db", str(tmp_path / "store.db")]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        assert process.stdout
        assert "still here" in process.stdout.read()
    assert process.returncode == 0


def test_name_is_no_markup_of_a_bar(sit, tmp_path):
    with Store.open(str(tmp_path / "store.db"), durability="normal") as store:
        store.create("[/x]").append_many([{"role": "user", "content": "x"}] * 2_000)
    person = sit("verify", "=[/x]")
    person.until("Verifying [/x]")
    assert person.ended() == 0
    assert "[/x]  2,000 entries" in person.shown
