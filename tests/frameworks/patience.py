"""A pytest plugin for tests that are repeated alone: they wait until a store has answered.

Some tests give a store a number of turns of the event loop. One in memory answers in the same turn,
and one on a disk never does, so each turn lasts 10 ms here.
"""

from typing import Final

import anyio

_TURN: Final = 0.01
_sleep: Final = anyio.sleep


async def _patient(delay: float) -> None:
    await _sleep(delay or _TURN)


anyio.sleep = _patient
