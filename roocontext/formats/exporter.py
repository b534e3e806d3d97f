"""What an exporter is: a session, or a family of sessions, as files of another program."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EEXIST
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from roocontext.log.entries import Message
from roocontext.store.session import Session
from roocontext.store.store import Store


class NewFile(NamedTuple):
    """A file to write, and its bytes."""

    path: Path
    chunks: Iterator[bytes]


@dataclass(frozen=True)
class Exporter:
    """A format that sessions are written in.

    `file` makes a single file, `folder` several files; a format may have both. The sessions are
    one, or a family with the parent first, unless it `is_for_one`. `left_out` lists the types of
    what a message holds and the files do not.
    """

    name: str
    file: Callable[[Sequence[Session]], Iterator[bytes]] | None = None
    folder: Callable[[Sequence[Session], Path], Iterator[NewFile]] | None = None
    is_for_one: bool = False
    left_out: Callable[[Message], list[str]] | None = None


def family_of(store: Store, session: Session) -> Iterator[Session]:
    """The session, its sub-agents' sessions and theirs, parents first."""
    # A stack of its own: a family may be deeper than Python's. No session comes twice, even if
    # somebody has changed a parent in the database.
    waiting, seen = [session.id], {session.id}
    while waiting:
        one = session if waiting[-1] == session.id else store.session(waiting[-1])
        waiting.pop()
        yield one
        new = [info.session_id for info in one.children() if info.session_id not in seen]
        seen.update(new)
        waiting += reversed(new)


def write_new(files: Iterable[NewFile]) -> tuple[list[Path], int]:
    """Write the files, which only their owner can read; return their paths and how many bytes.

    Raises FileExistsError if there is one already. After any failure nothing is left, neither files
    nor folders.
    """
    size = 0
    waiting: list[tuple[Path, Path]] = []
    ours: list[Path] = []
    folders: list[Path] = []
    try:
        for target, chunks in files:
            folders += _make_folders(target.parent)
            _check_new(target)
            # Hidden, and in the same folder, because a rename must not cross file systems.
            temporary = target.with_name(f".{target.name[:100]}.{token_hex(4)}")
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            ours.append(temporary)
            waiting.append((temporary, target))
            with os.fdopen(handle, "wb") as file:
                size += sum(map(file.write, chunks))
        for temporary, target in waiting:
            _check_new(target)
            temporary.rename(target)
            ours.append(target)
    except BaseException:
        for one in ours:
            one.unlink(missing_ok=True)
        for made in reversed(folders):
            with suppress(OSError):
                made.rmdir()
        raise
    return [target for _, target in waiting], size


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; return the new ones, outermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _check_new(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path))
