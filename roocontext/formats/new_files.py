"""New files, all of them or none: nothing is overwritten, and no part of a file stays behind."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from errno import EEXIST
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple


class NewFile(NamedTuple):
    """A file to write, and its bytes."""

    path: Path
    chunks: Iterator[bytes]


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
