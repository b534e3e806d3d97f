"""The folder that the agent works in: which paths are in it, and its checkpoints in git."""

import os
import subprocess
from pathlib import Path


class Workspace:
    """A folder, and a second one beside it for the `state`, which no file tool can reach.

    The `mark` is a file that exists while the conversation and the files are moved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.state = self.folder.with_name(f"{self.folder.name}.agent")
        repository = self.state / "checkpoints.git"
        self.mark = self.state / "moving"
        # The checkpoints use neither the settings nor the hooks of the user.
        clean = (f"PATH={os.environ['PATH']}", "GIT_CONFIG_GLOBAL=", "GIT_CONFIG_NOSYSTEM=1")
        place = (f"--git-dir={repository}", f"--work-tree={self.folder}")
        author = ("-c", "user.name=agent", "-c", "user.email=agent@localhost")
        self.git = ("env", "-i", *clean, "git", *place, *author)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state.mkdir(mode=0o700, exist_ok=True)
        self._run("init", "--quiet")
        (repository / "index.lock").unlink(missing_ok=True)  # of a process that was killed

    def path(self, name: str) -> Path:
        """The path of a file in the folder. Links are followed before it is checked."""
        path = (self.folder / name).resolve()
        inside = path.is_relative_to(self.folder) and path.relative_to(self.folder).parts
        # What git finds in its folder can make it run programs.
        if not inside or ".git" in map(str.lower, inside) or (path.exists() and not path.is_file()):
            raise PermissionError(f"{name} is not a file of the folder.")
        return path

    def checkpoint(self) -> str:
        """Commit all files, and return the id of the commit."""
        self._run("add", "--all", "--ignore-errors", check=False)  # some may be unreadable
        self._run("commit", "--quiet", "--allow-empty", "--message=checkpoint")
        return self._run("rev-parse", "HEAD")

    def restore(self, commit: str) -> None:
        """Make the files what they were at a commit. What they are now is committed first."""
        self.checkpoint()
        self._run("read-tree", "--reset", "-u", commit)

    def _run(self, *arguments: str, check: bool = True) -> str:
        command = [*self.git, *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=check)
        return done.stdout.strip()
