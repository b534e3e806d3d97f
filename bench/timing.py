"""Operations that take turns, and the times each of them took."""

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


class Samples:
    """What was measured, in seconds unless its line says otherwise."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = sorted(values)

    def at(self, share: float) -> float:
        """The value below which this share of them lies."""
        return self.values[min(len(self.values) - 1, math.floor(share * len(self.values)))]

    @property
    def p10(self) -> float:
        """The value when nothing was in the way."""
        return self.at(0.1)

    @property
    def p50(self) -> float:
        """The median."""
        return self.at(0.5)


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do; timed under its name, if it has one. Its argument counts its calls."""

    name: str | None
    call: Callable[[int], Any]


def alternate(steps: Sequence[Step], *, rounds: int, batch: int = 1) -> dict[str, Samples]:
    """The times of steps that take turns: `batch` calls of each in every round.

    A first round, which fills caches and prepares statements, is not counted. No step ever sees
    the same count twice.
    """
    times: dict[str, list[float]] = {step.name: [] for step in steps if step.name is not None}
    # What was built for the measurements is not the garbage of what is measured, nor of any later.
    gc.collect()
    gc.freeze()
    for turn in range(rounds + 1):
        for step in steps:
            taken = [_time(step.call, turn * batch + number) for number in range(batch)]
            if step.name is not None and turn:
                times[step.name] += taken
    return {name: Samples(values) for name, values in times.items()}


def _time(call: Callable[[int], Any], number: int) -> float:
    begun = time.perf_counter()
    call(number)
    return time.perf_counter() - begun
