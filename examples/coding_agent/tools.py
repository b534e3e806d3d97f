"""What the model may call: read, write, edit, search and run, in one folder."""

import inspect
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from select import select
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from typing import Any

from workspace import Workspace

LIMIT = 20_000
"""How much of a file or an output the model gets at most."""
TIMEOUT = 60
KEPT = {it: os.environ[it] for it in ("PATH", "HOME", "LANG", "TMPDIR") if it in os.environ}
"""The environment that programs get. No API key is in it."""
READING = ("read", "search")
"""The tools that change nothing, so that an interrupted call can be repeated."""
WORDS = {"type": "array", "items": {"type": "string"}}
SCHEMAS = {str: {"type": "string"}, int: {"type": "integer"}, list[str]: WORDS}


def read(place: Workspace, path: str, first_line: int = 1) -> str:
    """Read a text file, from first_line on."""
    lines = place.path(path).read_bytes().decode().splitlines(keepends=True)
    text = "".join(lines[max(0, first_line - 1) :])
    return text[:LIMIT] + f"\n[{len(text) - LIMIT} more characters]" * (len(text) > LIMIT)


def write(place: Workspace, path: str, text: str) -> str:
    """Create a file, or replace all that is in it."""
    file = place.path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return f"{path} has {len(text)} characters now."


def edit(place: Workspace, path: str, old: str, new: str) -> str:
    """Replace a text that is in the file exactly once."""
    text = place.path(path).read_bytes().decode()
    if not old or text.count(old) != 1:
        raise ValueError(f"The old text is in {path} {text.count(old)} times, not once.")
    return write(place, path, text.replace(old, new))


def search(place: Workspace, text: str) -> str:
    """List the lines of all files that contain a text."""
    return run(place, [*place.git, "grep", "--untracked", "-FInI", "-e", text])


def run(place: Workspace, command: list[str]) -> str:
    """Run a program with its arguments, without a shell and without input."""
    own = {"cwd": place.folder, "env": KEPT, "start_new_session": True}
    output, deadline = b"", time.monotonic() + TIMEOUT
    with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, **own) as process:
        pipe = process.stdout.fileno()
        try:
            while select([pipe], [], [], left(deadline))[0] and (part := os.read(pipe, LIMIT)):
                output = (output + part)[-LIMIT:]
            end = f"exit code {process.wait(left(deadline))}"
        except TimeoutExpired:
            end = f"killed after {TIMEOUT} seconds"
        finally:
            with suppress(ProcessLookupError):  # also what it left running in the background
                os.killpg(process.pid, signal.SIGKILL)
    return f"{output.decode(errors='replace')}\n[{end}]"


def left(deadline: float) -> float:
    """The seconds until a deadline."""
    return max(0, deadline - time.monotonic())


def definition(tool: Callable[..., str]) -> dict[str, Any]:
    """The definition of a tool that the model is sent."""
    _, *given = inspect.signature(tool).parameters.values()
    properties = {it.name: SCHEMAS[it.annotation] for it in given}
    required = [it.name for it in given if it.default is it.empty]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": tool.__name__, "description": tool.__doc__, "input_schema": schema}


TOOLS = {tool.__name__: tool for tool in (read, write, edit, search, run)}
DEFINITIONS = [definition(tool) for tool in TOOLS.values()]


def call_tool(place: Workspace, name: str, given: Any) -> tuple[str, bool]:
    """Call a tool: its output or its error for the model to read, and whether it is an error."""
    try:
        return TOOLS[name](place, **given), False
    except (LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}", True
