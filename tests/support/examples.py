"""The examples of the daily run, and those of `make torture`, which sets ROOCONTEXT_TORTURE."""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

TORTURE = int(os.environ.get("ROOCONTEXT_TORTURE") or "0")
"""By how much the long run multiplies examples; 0 on any other day."""


def examples(everyday: int) -> int:
    """As many as find faults in seconds, and in the long run so many times more."""
    return everyday * (TORTURE or 1)


def everyday(few: Sequence[T], everything: Sequence[T]) -> Sequence[T]:
    """These parameters each day, all of them in the long run."""
    return everything if TORTURE else few
