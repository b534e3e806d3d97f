"""The files of other programs, opened for reading.

Only regular files are read: a pipe or a device would wait for a writer. Programs and editors on
Windows write UTF-8 with a byte order mark, and UTF-16: both are read as UTF-8. Such a file is in
memory as a whole.
"""

import os
import stat
from errno import EINVAL
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

NO_FILE: Final = "it is not a regular file"
_MARKS: Final = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_OPENINGS: Final = b"{[ \t\r\n"
"""How JSON begins. Without a mark, the NUL beside it says which UTF-16 it is."""


def opened(path: Path, buffering: int = -1) -> BinaryIO:
    """A file as UTF-8; OSError if it is not a regular one."""
    file = open(path, "rb", buffering, opener=_open_regular)  # noqa: SIM115 - the caller closes it
    try:
        mark, encoding = _encoding(file.read(3))
        file.seek(0)
        if encoding is None:
            return file
        found = os.fstat(file.fileno())
        key = (path, found.st_mtime_ns, found.st_size, mark, encoding)
    except BaseException:
        file.close()
        raise
    file.close()
    return BytesIO(_as_utf8(*key))


def read_bytes(path: Path) -> bytes:
    """All of a file as UTF-8."""
    with opened(path) as file:
        return file.read()


def _open_regular(path: str, flags: int) -> int:
    # Without O_NONBLOCK the open itself waits until somebody writes to a pipe.
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise OSError(EINVAL, NO_FILE, path)
    return handle


def _encoding(begin: bytes) -> tuple[int, str | None]:
    """How long the byte order mark is, and the encoding unless it is plain UTF-8."""
    for mark, encoding in _MARKS.items():
        if begin.startswith(mark):
            return len(mark), encoding
    if len(begin) > 1 and begin[0] in _OPENINGS and not begin[1]:
        return 0, "utf-16-le"
    return 0, "utf-16-be" if len(begin) > 1 and not begin[0] and begin[1] in _OPENINGS else None


# A program that is read line by line is opened several times.
@lru_cache(maxsize=2)
def _as_utf8(path: Path, _changed: int, _size: int, mark: int, encoding: str) -> bytes:
    data = path.read_bytes()[mark:]
    if encoding == "utf-8":
        return data
    whole = data[: len(data) & ~1]  # a program may be writing the last character
    return whole.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
