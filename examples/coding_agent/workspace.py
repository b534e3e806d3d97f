"""The folder that the agent works in: which paths are in it, and its checkpoints in git."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Workspace:
    """A folder, and a git repository outside of it that keeps what its files were.

    The `mark` exists after a process died while it moved the conversation and the files.
    """

    def __init__(self, folder: Path, repository: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        # The person's own settings and hooks are not those of the checkpoints.
        clean = (f"PATH={os.environ['PATH']}", "GIT_CONFIG_GLOBAL=", "GIT_CONFIG_NOSYSTEM=1")
        place = (f"--git-dir={repository.resolve()}", f"--work-tree={self.folder}")
        author = ("-c", "user.name=agent", "-c", "user.email=agent@localhost")
        self.git = ("env", "-i", *clean, "git", *place, *author)
        self.mark = repository / "moving"
        self._run("init", "--quiet")
        (repository / "index.lock").unlink(missing_ok=True)  # of a process that was killed

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Hold the changes of the conversation and of the files. A crash in it leaves a mark."""
        self.mark.touch()
        try:
            yield
        finally:
            self.mark.unlink()

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
