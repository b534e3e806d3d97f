"""The agent of the demo: its story, and the folder in which it works.

The story is `demo_data/story.toml`. The tools are real: files are written, read and changed, and
commands are run.
"""

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec


class ScriptedStep(msgspec.Struct, frozen=True):
    """One call of a tool, and what the agent says with it."""

    says: str
    tool: str
    given: Mapping[str, str] = msgspec.field(default_factory=dict)

    def message(self, call_id: str) -> list[dict[str, Any]]:
        """The content of the agent's message."""
        call = {"type": "tool_use", "id": call_id, "name": self.tool, "input": dict(self.given)}
        return [{"type": "text", "text": self.says}, call]

    def shown(self) -> str:
        """The call in short."""
        return " ".join((self.tool, *list(self.given.values())[:1])).strip()


class Task(msgspec.Struct, frozen=True):
    """What the user asks, what the agent does about it, and what it answers."""

    name: str
    asked: str
    steps: tuple[ScriptedStep, ...]
    answer: str


class Story(msgspec.Struct, frozen=True):
    """The agent's system prompt, the files that it finds, and its tasks."""

    system: str
    files: Mapping[str, str]
    tasks: tuple[Task, ...]


@cache
def story() -> Story:
    """The story of the demo."""
    text = (files("roocontext.cli") / "demo_data" / "story.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Story)


class Workshop:
    """A folder with a small project, and the tools that work in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in story().files.items():
            (folder / name).write_text(text)

    def do(self, step: ScriptedStep) -> str:
        """Do a step; the output of its tool."""
        output: str = getattr(self, step.tool)(**step.given)
        return output

    def list_files(self) -> str:
        """The files and their sizes."""
        files = sorted(path for path in self._folder.iterdir() if path.is_file())
        return "\n".join(f"{path.stat().st_size:>6} {path.name}" for path in files)

    def read_file(self, path: str) -> str:
        """A file with numbered lines."""
        lines = (self._folder / path).read_text().splitlines()
        return "\n".join(f"{number:>4}  {line}" for number, line in enumerate(lines, 1))

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that the file has once."""
        text = (self._folder / path).read_text()
        found = text.count(old)
        if found != 1:
            return f"Nothing was changed: the text occurs {found} times."
        (self._folder / path).write_text(text.replace(old, new))
        return f"{path}: 1 place was changed."

    def write_file(self, path: str, text: str) -> str:
        """Write a new file."""
        (self._folder / path).write_text(text)
        return f"{path}: {len(text.splitlines())} lines were written."

    def add_to_file(self, path: str, text: str) -> str:
        """Write at the end of a file."""
        with (self._folder / path).open("a") as file:
            file.write(text)
        return f"{path}: {len(text.splitlines())} lines were added."

    def search(self, text: str) -> str:
        """The lines with a text in them."""
        found = [
            f"{path.name}:{number}: {line.strip()}"
            for path in sorted(self._folder.glob("*.py"))
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if text in line
        ]
        return "\n".join(found) or "Nothing was found."

    def run(self, command: str, code: str = "") -> str:
        """Run Python; its output and exit code."""
        words = [sys.executable if word == "python" else word for word in command.split()]
        words += [code] if code else []
        done = subprocess.run(  # noqa: S603 - commands of the script above, in a folder of its own
            words, cwd=self._folder, capture_output=True, text=True, timeout=60, check=False
        )
        output = f"{done.stdout}{done.stderr}exit code {done.returncode}"
        # The tokens of the context must not depend on where the folder is.
        return output.replace(f"{self._folder.resolve()}/", "")
