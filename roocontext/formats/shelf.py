"""Records in a temporary file, for a source whose list of messages may change until its end."""

import json
import pickle
from hashlib import blake2b
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

_IN_MEMORY = 1 << 20


class Shelved(NamedTuple):
    """Where a record is, and the digest of what it says."""

    place: int
    digest: bytes


class Shelf:
    """Keeps records. Only those that are nested too deeply stay in memory."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - see close
        self._end = 0
        self._deep: dict[int, Any] = {}

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def put(self, record: Any) -> Shelved:
        """Keep a record."""
        place = self._end
        try:
            text = json.dumps(record, sort_keys=True).encode()
            kept = pickle.dumps(record)
        except RecursionError:
            self._deep[place] = record
            text, kept = b"", b"-"
        self._file.seek(place)
        self._end += self._file.write(kept)
        return Shelved(place, blake2b(text, digest_size=16).digest())

    def get(self, shelved: Shelved) -> Any:
        """The record."""
        if shelved.place in self._deep:
            return self._deep[shelved.place]
        self._file.seek(shelved.place)
        return pickle.load(self._file)  # noqa: S301 - written by this process

    def is_same(self, one: Shelved, other: Shelved) -> bool:
        """Whether two records are equal."""
        is_shallow = not self._deep.keys() & {one.place, other.place}
        return (is_shallow and one.digest == other.digest) or self.get(one) == self.get(other)
