"""Entries from an iterator, in a temporary file: a transaction may have to read them again."""

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO

from roocontext.store.restore import StoredEntry

_IN_MEMORY = 1 << 20


@contextmanager
def repeatable(stored: Iterable[StoredEntry]) -> Iterator[Iterable[StoredEntry]]:
    """Entries that can be read several times, however many there are.

    An iterator is read to its end before the block begins.
    """
    if not isinstance(stored, Iterator):
        yield stored
        return
    with SpooledTemporaryFile(_IN_MEMORY) as file:
        for entry in stored:
            pickle.dump(entry, file)
        yield _Spool(file)


class _Spool:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.tell()

    def __iter__(self) -> Iterator[StoredEntry]:
        self._file.seek(0)
        while self._file.tell() < self._size:
            yield pickle.load(self._file)  # noqa: S301 - written by this process
