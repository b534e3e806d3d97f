"""Where time, ids and salts come from. Given as parameters, two runs write identical logs."""

import os
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch."""


class Ids(Protocol):
    """Makes ids and salts."""

    def new_id(self) -> str:
        """A new unique id: of a session, a condensation or a truncation."""
        ...

    def salt(self) -> bytes:
        """Random bytes that cannot be guessed."""
        ...


class RandomIds:
    """Ids and salts from the system's source of randomness."""

    def new_id(self) -> str:
        """32 hexadecimal digits."""
        return os.urandom(16).hex()

    def salt(self) -> bytes:
        """16 bytes."""
        return os.urandom(16)


def system_clock() -> int:
    """The time of day."""
    return time.time_ns() // 1_000_000
