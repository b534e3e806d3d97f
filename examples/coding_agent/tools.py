"""What the model may call: read, write, edit, search and run, in one folder."""

import inspect
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from select import select
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from typing import IO, Any

from workspace import Workspace

LIMIT = 20_000
"""How much of a file or an output the model gets at most."""
LARGEST = 1_000_000
TIMEOUT = 60
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
"""What programs get of the environment. API keys are not among it."""
READING = ("read", "search")
"""The tools that change nothing, so that an interrupted call can be repeated."""
WORDS = {"type": "array", "items": {"type": "string"}}
SCHEMAS = {str: {"type": "string"}, int: {"type": "integer"}, list[str]: WORDS}


@dataclass
class Tools:
    """The tools of one folder. The signature of a method is the definition of the tool."""

    workspace: Workspace

    def call(self, name: str, given: Any) -> tuple[str, bool]:
        """Call a tool. Its output, and whether that is an error, which the model reads too."""
        try:
            return TOOLS[name](self, **given), False
        except (LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}", True

    def read(self, path: str, first_line: int = 1) -> str:
        """Read a text file, from first_line on."""
        text = "".join(self._text(path).splitlines(keepends=True)[max(0, first_line - 1) :])
        return text[:LIMIT] + f"\n[{len(text) - LIMIT} more characters]" * (len(text) > LIMIT)

    def write(self, path: str, text: str) -> str:
        """Create a file, or replace all that is in it."""
        file = self.workspace.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        return f"{path} has {len(text)} characters now."

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace a text that is in the file exactly once."""
        text = self._text(path)
        if not old or text.count(old) != 1:
            raise ValueError(f"The old text is in {path} {text.count(old)} times, not once.")
        return self.write(path, text.replace(old, new))

    def search(self, text: str) -> str:
        """List the lines of all files that contain a text."""
        return self.run([*self.workspace.git, "grep", "--untracked", "-FInI", "-e", text])

    def run(self, command: list[str]) -> str:
        """Run a program with its arguments, without a shell and without input."""
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        files = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT}
        place = {"cwd": self.workspace.folder, "env": environment, "start_new_session": True}
        output, deadline = b"", time.monotonic() + TIMEOUT
        with Popen(command, **files, **place) as process:
            try:
                while part := read_until(deadline, process.stdout):
                    output = (output + part)[-LIMIT:]
                end = f"exit code {process.wait(max(0, deadline - time.monotonic()))}"
            except TimeoutExpired:
                end = f"killed after {TIMEOUT} seconds"
            finally:
                with suppress(ProcessLookupError):  # what it left running in the background
                    os.killpg(process.pid, signal.SIGKILL)
        return f"{output.decode(errors='replace')}\n[{end}]"

    def _text(self, path: str) -> str:
        file = self.workspace.path(path)
        if file.stat().st_size > LARGEST:
            raise ValueError(f"{path} has more than {LARGEST} bytes. Read a part of it by `run`.")
        return file.read_bytes().decode()


def read_until(deadline: float, pipe: IO[bytes]) -> bytes:
    """Read what comes next; nothing at the end and after the deadline."""
    is_ready, _, _ = select([pipe], [], [], max(0, deadline - time.monotonic()))
    return os.read(pipe.fileno(), LIMIT) if is_ready else b""


def definition(tool: Callable[..., str]) -> dict[str, Any]:
    """A method as the model is offered it."""
    _, *parameters = inspect.signature(tool).parameters.values()
    properties = {it.name: SCHEMAS[it.annotation] for it in parameters}
    required = [it.name for it in parameters if it.default is it.empty]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": tool.__name__, "description": tool.__doc__, "input_schema": schema}


TOOLS = {it.__name__: it for it in (Tools.read, Tools.write, Tools.edit, Tools.search, Tools.run)}
DEFINITIONS = [definition(tool) for tool in TOOLS.values()]
