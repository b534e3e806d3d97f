"""Records in a temporary file, for a source whose list of messages may change until its end."""

import json
import pickle
from hashlib import blake2b
from tempfile import SpooledTemporaryFile
from typing import Any

_IN_MEMORY = 1 << 20
_DIGEST_SIZE = 16


class Shelf:
    """Keeps records, each behind a digest of what it says, and names them by their places.

    Only those that are nested too deeply stay in memory.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - see close
        self._end = 0
        self._deep: dict[int, Any] = {}

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def put(self, record: Any) -> int:
        """Keep a record; its place."""
        place = self._end
        try:
            text = json.dumps(record, sort_keys=True).encode()
            kept = pickle.dumps(record)
        except RecursionError:
            self._deep[place] = record
            text, kept = b"", b"-"
        self._file.seek(place)
        self._end += self._file.write(blake2b(text, digest_size=_DIGEST_SIZE).digest() + kept)
        return place

    def get(self, place: int) -> Any:
        """The record at a place."""
        if place in self._deep:
            return self._deep[place]
        self._file.seek(place + _DIGEST_SIZE)
        return pickle.load(self._file)  # noqa: S301 - written by this process

    def is_same(self, one: int, other: int) -> bool:
        """Whether the records at two places are equal."""
        if one == other:
            return True
        is_shallow = not self._deep.keys() & {one, other}
        is_equal = is_shallow and self._digest(one) == self._digest(other)
        return is_equal or bool(self.get(one) == self.get(other))

    def _digest(self, place: int) -> bytes:
        self._file.seek(place)
        return self._file.read(_DIGEST_SIZE)
