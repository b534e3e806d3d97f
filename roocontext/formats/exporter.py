"""The type of an exporter, which writes a session or a family of sessions as other files."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EEXIST
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, TypeAlias

from roocontext.log.entries import Message
from roocontext.store.session import Session
from roocontext.store.store import Store


class NewFile(NamedTuple):
    """A file to write, and its bytes."""

    path: Path
    chunks: Iterator[bytes]


FileOf: TypeAlias = Callable[[Sequence[Session]], Iterator[bytes]]


@dataclass(frozen=True)
class Exporter:
    """A format that sessions are written in.

    `file` makes a single file, `folder` several files; a format may have both. The sessions are
    one, or a family with the parent first, unless it `is_for_one`. `left_out` lists the types of
    the blocks of a message that the files cannot hold.
    """

    name: str
    file: FileOf | None = None
    folder: Callable[[Sequence[Session], Path], Iterator[NewFile]] | None = None
    is_for_one: bool = False
    left_out: Callable[[Message], list[str]] | None = None


def one_by_one(export_session: Callable[[Session], Iterator[bytes]]) -> FileOf:
    """Write the sessions after each other into one file."""
    return lambda sessions: chain.from_iterable(map(export_session, sessions))


def family_of(store: Store, session: Session) -> Iterator[Session]:
    """The session, its sub-agents' sessions and theirs, parents first."""
    # Not by recursion: a family may be deeper than Python's stack. No session comes twice, even if
    # a parent was changed in the database.
    waiting, seen = [session], {session.id}
    while waiting:
        member = waiting.pop()
        yield member
        new = [info.session_id for info in member.children() if info.session_id not in seen]
        seen.update(new)
        waiting += map(store.session, reversed(new))


def write_new(files: Iterable[NewFile]) -> tuple[list[Path], int]:
    """Write files that only their owner can read; return their paths and their bytes.

    Raises FileExistsError if a file exists already. After any failure nothing is left, neither
    files nor folders.
    """
    size = 0
    waiting: list[tuple[Path, Path]] = []
    written: list[Path] = []
    folders: list[Path] = []
    try:
        for target, chunks in files:
            above = (target.parent, *target.parent.parents)
            folders += [folder for folder in above if not folder.exists()][::-1]
            target.parent.mkdir(parents=True, exist_ok=True)
            _check_new(target)
            # Hidden, and in the same folder, because a rename must not cross file systems.
            temporary = target.with_name(f".{token_hex(8)}")
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            written.append(temporary)
            waiting.append((temporary, target))
            with os.fdopen(handle, "wb") as file:
                size += sum(map(file.write, chunks))
        for temporary, target in waiting:
            _check_new(target)
            temporary.rename(target)
            written.append(target)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        for folder in reversed(folders):
            with suppress(OSError):
                folder.rmdir()
        raise
    return [target for _, target in waiting], size


def _check_new(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path))
