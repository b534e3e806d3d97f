"""Entries from an iterator, in a temporary file: a transaction may have to read them again."""

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import IO

from roocontext.errors import InvalidOption, StoreUnavailable
from roocontext.store.restore import StoredEntry, check_types

_IN_MEMORY = 1 << 20


@contextmanager
def repeatable(stored: Iterable[StoredEntry]) -> Iterator[Iterable[StoredEntry]]:
    """Entries that can be read several times, however many there are.

    An iterator is read to its end before the block begins.
    """
    if not isinstance(stored, Iterable):
        raise InvalidOption("A log is restored from its entries, in a list.", name="entries")
    if not isinstance(stored, Iterator):
        yield stored
        return
    file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed below
    try:
        for entry in stored:
            check_types(entry)  # only what is one can be pickled
            with _written():
                pickle.dump(entry, file)
        with _written():
            file.flush()
        yield _Spool(file)
    finally:
        with suppress(OSError):  # what could not be written is written once more
            file.close()


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"The entries cannot be kept in a temporary file: {error.strerror}.",
            advice="Set TMPDIR to a folder with room for them, or give a list instead of an"
            " iterator.",
        ) from None


class _Spool:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.tell()

    def __iter__(self) -> Iterator[StoredEntry]:
        self._file.seek(0)
        while self._file.tell() < self._size:
            yield pickle.load(self._file)  # noqa: S301 - written by this process
