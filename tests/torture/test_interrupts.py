"""Interrupts by a signal: the next caller always gets through, and nothing is lost."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from torture.processes import Nursery

TORTURE = bool(os.environ.get("ROOCONTEXT_TORTURE"))
TIMES = 50_000 if TORTURE else 600
STEP = 1 if TORTURE else 41


@pytest.fixture(params=["file", "memory", "postgres"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store in a file, in memory, or on a server."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_url")
    else:
        yield str(tmp_path / "store.db") if request.param == "file" else ":memory:"


def test_random_interrupts_leave_no_lock(nursery: Nursery, any_url: str) -> None:
    brood = nursery.run(("interrupt_at_random", {"url": any_url, "times": TIMES, "seed": 0}))
    assert brood.ends == [0]
    assert brood.told[0]["interrupts"] == TIMES


def test_interrupt_at_each_line_leaves_no_lock(nursery: Nursery, any_url: str) -> None:
    step = STEP if "postgres" not in any_url else 2 * STEP  # where connecting anew takes long
    brood = nursery.run(("interrupt_everywhere", {"url": any_url, "step": step}))
    assert brood.ends == [0]
    assert all(told["places"] > 50 for told in brood.told)
