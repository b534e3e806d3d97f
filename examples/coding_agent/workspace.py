"""The folder that the agent works in: the tools for it, and its checkpoints in git."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired, run

from anthropic import beta_tool

LIMIT = 20_000  # characters of a file, or bytes of an output
TIMEOUT = 60
KEPT = {it: os.environ[it] for it in ("PATH", "HOME", "LANG", "TMPDIR") if it in os.environ}


class Workspace:
    """A folder, and a second one next to it for the `state`, which no file tool can reach."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).resolve()
        self.state = self.folder.with_name(f"{self.folder.name}.agent")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state.mkdir(mode=0o700, exist_ok=True)
        self._git("init", "--quiet")
        (self.state / "checkpoints.git/index.lock").unlink(missing_ok=True)  # of a killed process
        functions = (self.read, self.write, self.edit, self.search, self.run)
        self._tools = {it.__name__: beta_tool(it) for it in functions}
        self.tools = [it.to_dict() for it in self._tools.values()]

    def call(self, name: str, given: object) -> tuple[str, bool]:
        """Call a tool: its output, or its error for the model to read, and whether it is one."""
        try:
            return self._tools[name].call(given), False
        except Exception as error:  # noqa: BLE001 - the model can correct any
            return f"{type(error).__name__}: {error.__cause__ or error}", True

    def read(self, path: str, first_line: int = 1) -> str:
        """Read a text file, from first_line on."""
        lines = self._path(path).read_bytes().decode().splitlines(keepends=True)
        text = "".join(lines[max(0, first_line - 1) :])
        left = len(text) - LIMIT
        return text if left <= 0 else f"{text[:LIMIT]}\n[{left} more characters]"

    def write(self, path: str, text: str) -> str:
        """Create a file, or replace all that is in it."""
        file = self._path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        return f"{path} has {len(text)} characters now."

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace a text that is in the file exactly once."""
        text = self._path(path).read_bytes().decode()
        if not old or text.count(old) != 1:
            raise ValueError(f"The old text is in {path} {text.count(old)} times, not once.")
        return self.write(path, text.replace(old, new))

    def search(self, text: str) -> str:
        """List the lines of all files that contain a text."""
        return self.run(["git", "grep", "--no-index", "--exclude-standard", "-FIn", "-e", text])

    def run(self, command: list[str]) -> str:
        """Run a program with its arguments, without a shell and without input."""
        own = {"cwd": self.folder, "env": KEPT, "start_new_session": True}  # without the API keys
        with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, **own) as process:
            tail = Popen(["tail", "-c", str(LIMIT)], stdin=process.stdout, stdout=PIPE)  # noqa: S607 - as git
            try:
                end = f"exit code {process.wait(TIMEOUT)}"
            except TimeoutExpired:
                end = f"killed after {TIMEOUT} seconds"
            finally:
                with suppress(ProcessLookupError):  # also what it left running in the background
                    os.killpg(process.pid, signal.SIGKILL)
            output, _ = tail.communicate(timeout=10)  # a daemon may keep it open
        return f"{output.decode(errors='replace')}\n[{end}]"

    def commit(self) -> str:
        """Commit all files, and return the id of the commit."""
        self._git("add", "--all", "--ignore-errors", check=False)  # some may be unreadable
        self._git("commit", "--quiet", "--allow-empty", "--message=checkpoint")
        return self._git("rev-parse", "HEAD")

    def restore(self, commit: str) -> None:
        """Make the files what they were at a commit. What they are now is committed first."""
        self.commit()
        self._git("read-tree", "--reset", "-u", commit)

    def _git(self, *arguments: str, check: bool = True) -> str:
        """Run git, with neither the settings nor the hooks of the user."""
        place = {"GIT_DIR": str(self.state / "checkpoints.git"), "GIT_WORK_TREE": str(self.folder)}
        own = {"PATH": os.environ["PATH"], "HOME": str(self.state), "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", "-c", "user.name=agent", "-c", "user.email=agent@localhost", *arguments]
        done = run(command, cwd=self.folder, env=place | own, capture_output=True, check=check)
        return done.stdout.decode().strip()

    def _path(self, name: str) -> Path:
        """The path of a file in the folder. Links are followed before it is checked."""
        path = (self.folder / name).resolve()
        inside = path.is_relative_to(self.folder) and path.relative_to(self.folder).parts
        # What git finds in its folder can make it run programs.
        if not inside or ".git" in map(str.lower, inside) or (path.exists() and not path.is_file()):
            raise PermissionError(f"{name} is not a file of the folder.")
        return path
