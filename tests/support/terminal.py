"""A pseudo-terminal in which the command line runs as a person has it."""

import fcntl
import os
import pty
import re
import select
import struct
import termios

from support.cli_process import CommandLine

END = "\x04"
"""What ends what is typed."""

LINES = 24

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A pseudo-terminal in which commands run, one after the other."""

    def __init__(self, run: CommandLine, columns: int) -> None:
        self._run = run
        self._run.env |= {"TERM": "xterm-256color"}
        del self._run.env["COLUMNS"]
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        self.code = 0

    def add_variables(self, **env: str) -> None:
        self._run.env |= env

    def __call__(self, *words: str, answer: str = "", **env: str) -> str:
        """Run a command and answer what it asks; what the screen showed."""
        ended = self._run.begin(words, [os.ttyname(self._slave)] * 3, env=env)
        shown, asked = "", bool(answer)
        while True:
            ready = select.select([self._master, ended], [], [])[0]
            if self._master in ready:
                shown += os.read(self._master, 65_536).decode()
            elif ended in ready:
                break
            if asked and "[y/N]" in shown:
                os.write(self._master, answer.encode() + b"\n" * (answer != END))
                asked = False
        self.code = self._run.ended()
        return shown.replace("\r\n", "\n")

    def close(self) -> None:
        os.close(self._master)
        os.close(self._slave)


def plain(shown: str) -> str:
    """The text shown, without colours and other escapes."""
    return _ESCAPE.sub("", shown)
