"""Writes the pictures of docs/cli from real runs: python tools/screenshots.py.

Each picture is what the commands above it print in a terminal. Sessions, times and ids are those of
the tests, so that the same release makes the same pictures.
"""  # noqa: INP001 - a script, not a package

import io
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from roocontext.cli import main  # noqa: E402
from support import showcase  # noqa: E402 - the tests' sessions
from support.steady_sources import SetClock  # noqa: E402

FOLDER = ROOT / "docs" / "cli"
WIDTH = 96
NOW = 1_769_904_000_000

PICTURES = {
    "sessions": ["sessions"],
    "show": ["show parser"],
    "audit": ["audit parser"],
    "tree": ["tree parser"],
    "rewind": ["rewind parser --to m8", "diff parser 27", "undo parser"],
    "preview": ["preview build condense --limit 900"],
    "usage": ["usage parser --all"],
    "keep": ["verify", "redact parser 5 --dry-run", "head parser"],
    "demo": ["demo demo"],
}
LINES = {"demo": 40}
"""How much of a long screen is shown; what follows differs from run to run."""


class _Ids:
    def __init__(self, number: int) -> None:
        self._ids = count(1_000 * number)

    def new_id(self) -> str:
        return f"id-{next(self._ids):06}"

    def salt(self) -> bytes:
        return next(self._ids).to_bytes(16, "big")


def pictures(names: Iterable[str] = PICTURES) -> Iterator[tuple[str, str]]:
    """The name and the SVG of each picture."""
    for name in names:
        commands = PICTURES[name]
        with tempfile.TemporaryDirectory() as folder:
            showcase.build(str(Path(folder) / "agent.db"))
            screens = [_screen(folder, words, number) for number, words in enumerate(commands, 1)]
        lines = "\n".join(screens).splitlines()[: LINES.get(name)]
        yield name, _svg(name, lines)


def _screen(folder: str, words: str, number: int) -> str:
    """The output of a command in a terminal, under the line that runs it."""
    path = Path(folder) / f"{number}.txt"
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(ROOCONTEXT_DB="agent.db", COLUMNS=str(WIDTH), FORCE_COLOR="1")
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", TZ="UTC")
        time.tzset()
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY), 1)
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
        code = 1
        try:
            main(shlex.split(words), clock=SetClock(NOW + number), ids=_Ids(number))
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"roocontext {words} ended with {status}.")
    return f"\x1b[2m$ roocontext {words}\x1b[0m\n{path.read_text()}"


def _svg(name: str, lines: list[str]) -> str:
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    svg = console.export_svg(title="roocontext", unique_id=f"roocontext-{name}")
    # Nothing is fetched when a picture is looked at: the reader's own fonts do.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    title = f"<title>{', '.join(PICTURES[name])}</title>"
    return re.sub(r"(<svg[^>]*>)", rf"\1{title}", svg, count=1)


if __name__ == "__main__":
    for shot, picture in pictures():
        (FOLDER / f"{shot}.svg").write_text(picture)
