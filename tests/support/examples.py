"""The examples of the daily run, and those of `make torture`, which sets ROOCONTEXT_TORTURE.

On a Citus cluster there are fewer: each of their statements takes several times as long there, and
it runs the same logic.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

TORTURE = int(os.environ.get("ROOCONTEXT_TORTURE") or "0")
"""By how much the long run multiplies examples; 0 on any other day."""

FEWER = 4 if "ROOCONTEXT_TEST_CITUS_URL" in os.environ else 1
"""By how much a cluster divides them."""


def examples(everyday: int, *, long: int | None = None) -> int:
    """As many as find faults in seconds, and in the long run so many times more.

    The long run multiplies another number, if it is given one.
    """
    return (long or everyday) * TORTURE if TORTURE else -(-everyday // FEWER)


def everyday(few: Sequence[T], everything: Sequence[T]) -> Sequence[T]:
    """These parameters each day, all of them in the long run."""
    return everything if TORTURE else few
