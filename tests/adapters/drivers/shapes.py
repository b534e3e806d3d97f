"""Shared by the drivers of frameworks: event loops, places in memory, errors."""

import asyncio
from collections import defaultdict
from typing import Any

TOOL = "probe"


class NoSuchBlock(TypeError):
    """The framework's messages have no place for this block."""


class Changed(ValueError):
    """The session was read and is at another version than the writer expects."""


class Loop:
    """Runs a driver's coroutines, one after the other, on an event loop of its own."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __call__(self, work: Any) -> Any:
        return self._runner.run(work)

    def close(self) -> None:
        self._runner.close()


def kept_in_memory(make: Any) -> Any:
    """Stores that live in the process: the one for each place."""
    return defaultdict(make)
