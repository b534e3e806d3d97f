"""An SQLite file from outside: the files beside it, who owns them, and what prevents its use.

Files are examined, never opened: closing one drops the locks that SQLite holds on it in this
process.
"""

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

PathKind: TypeAlias = Literal["file", "folder", "neither", "nothing", "hidden"]

SETTLED_NS = 50_000_000
"""Longer than a tick of a file system's clock: two changes within one tick look like one."""

_COARSE_NS = 2_100_000_000
"""The same where the clock may count whole seconds, or two of them."""

_SECOND_NS = 1_000_000_000

_DESCRIPTORS = "/dev/fd"
# `/dev/fd` is there on Linux and macOS. Elsewhere a process rarely has more open files than this.
_MOST_DESCRIPTORS = 4096

_LOGS = ("-wal", "-journal")
_INDEX = "-shm"


@dataclass(frozen=True, slots=True)
class PathStatus:
    """What a path names, who owns it, and what this user may do with it.

    `hidden` is anything inside a folder that this user may not enter.
    """

    path: Path
    kind: PathKind
    owner: str = ""
    mode: int = 0
    size: int = 0
    readable: bool = False
    writable: bool = False

    @property
    def rights(self) -> str:
        """Its owner and mode, in words."""
        return f"it belongs to {self.owner}, with the rights {self.mode:04o}"


class Obstacle(NamedTuple):
    """Why a file cannot be read or written, and what helps."""

    fact: str
    advice: str


class Identity(NamedTuple):
    """What a file is, whatever its name."""

    device: int
    inode: int


class FileState(NamedTuple):
    """What shows that a file was changed."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


def status_of(path: Path) -> PathStatus:
    """What a path names."""
    try:
        found = path.stat()
    except PermissionError:
        return PathStatus(path, "hidden")
    except OSError:
        return PathStatus(path, "nothing")
    kind: PathKind = "neither"
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "folder"
    return PathStatus(
        path=path,
        kind=kind,
        owner=_user(found.st_uid),
        mode=stat.S_IMODE(found.st_mode),
        size=found.st_size,
        readable=_may(path, os.R_OK),
        writable=_may(path, os.W_OK),
    )


def companion_file(path: Path, suffix: str) -> Path:
    """A file that SQLite keeps beside a database."""
    return path.with_name(path.name + suffix)


def surroundings(path: Path) -> list[PathStatus]:
    """The folder, the file, and the files that SQLite keeps beside it, if there are any."""
    sides = [status_of(companion_file(path, suffix)) for suffix in (*_LOGS, _INDEX)]
    return [status_of(path.parent), status_of(path), *(one for one in sides if one.kind == "file")]


def is_writable(path: Path) -> bool:
    """Whether this user may write the file."""
    return _may(path, os.W_OK)


def leaves_nothing(path: Path) -> bool:
    """Whether the files that SQLite makes beside it would be the owner's, and removed at the end.

    Otherwise they would stay, belong to somebody else, and lock the owner out.
    """
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    if not hasattr(os, "geteuid"):  # Windows has no owners of this kind
        return True
    return os.geteuid() in (0, owner) and all(place.writable for place in surroundings(path))


def state_of(path: Path) -> FileState | None:
    """What shows whether the file changed; None if the file cannot be examined."""
    try:
        found = path.stat()
    except OSError:
        return None
    return FileState(
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def identity(path: Path) -> Identity | None:
    """Which file a path names; None if there is none, or it cannot be examined."""
    try:
        found = path.stat()
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino)


def open_files() -> set[Identity]:
    """The regular files that this process has open."""
    try:
        numbers: Iterable[int] = [int(name) for name in os.listdir(_DESCRIPTORS)]  # noqa: PTH208
    except OSError:  # no such folder on this system: try each number
        numbers = range(_MOST_DESCRIPTORS)
    found = set()
    for number in numbers:
        with suppress(OSError):
            status = os.fstat(number)
            if stat.S_ISREG(status.st_mode):
                found.add(Identity(status.st_dev, status.st_ino))
    return found


def settling(state: FileState) -> int:
    """How long a file has to be left alone until another change would show, in nanoseconds."""
    return SETTLED_NS if state.changed % _SECOND_NS else _COARSE_NS


def at_rest(path: Path) -> FileState | None:
    """The state of a file that holds every commit; None while a log beside it holds some.

    As long as the state is the same, the file may be read without locks. If it was changed just
    now, this waits: another change within the same clock tick would not show in its times.
    """
    while True:
        state = state_of(path)
        if state is None or any(_holds_something(companion_file(path, suffix)) for suffix in _LOGS):
            return None
        age = time.time_ns() - state.changed
        settled = settling(state)
        # An age below 0 is a clock that was set back, or that of another machine: waiting does not
        # help.
        if not 0 <= age < settled:
            return state
        time.sleep((settled - age) / 1e9)


def obstacle(path: Path, *, read_only: bool) -> Obstacle | None:
    """What prevents this user from reading or writing the file, if that shows from outside."""
    folder, file, *sides = surroundings(path)
    if file.kind == "nothing":
        gone = f"There is no file {_name(path)} any more."
        return Obstacle(gone, "Somebody moved or deleted it.")
    if not file.readable:
        fact = f"You may not read {_name(path)}: {file.rights}."
        return Obstacle(fact, "Ask its owner for the right to read it.")
    for side in sides:
        if side.size and not side.readable:
            fact = f"You may not read {_name(side.path)}, in which the newest entries wait."
            return Obstacle(fact, "Its owner has to give it the rights of the database file.")
    waiting = [side for side in sides if side.size and side.path.name.endswith(_LOGS)]
    if read_only and waiting:
        fact = f"The newest entries wait in {_name(waiting[0].path)}, which only its owner can use."
        return Obstacle(fact, "Let its owner look at the database once.")
    return None if read_only else _obstacle_to_writing(folder, file, sides)


def _obstacle_to_writing(
    folder: PathStatus, file: PathStatus, sides: list[PathStatus]
) -> Obstacle | None:
    if not file.writable:
        fact = f"You may read {_name(file.path)}, but not write it: {file.rights}."
        return Obstacle(fact, "Ask its owner for the right to write it.")
    for side in sides:
        if not side.writable:
            fact = f"You may not write {_name(side.path)}: {side.rights}."
            return Obstacle(fact, "Give it to the owner of the database file; never delete it.")
    if not folder.writable:
        fact = (
            f"You may not write {_name(folder.path)}, where SQLite keeps its log: {folder.rights}."
        )
        return Obstacle(fact, "Ask its owner for the right to write it.")
    return None


def _holds_something(log: Path) -> bool:
    try:
        return log.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError:  # unknown: it may hold commits
        return True


def _may(path: Path, right: int) -> bool:
    # By the ids that opening would use; `access` asks for the real ones unless it can do otherwise.
    return os.access(path, right, effective_ids=os.access in os.supports_effective_ids)


def _name(path: Path) -> str:
    return repr(str(path))


def _user(number: int) -> str:
    try:
        import pwd  # noqa: PLC0415 - Windows has none

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"user {number}"
