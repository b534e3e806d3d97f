"""Fixtures of tests that need no engine but SQLite in memory."""

from collections.abc import Iterator

import pytest

from roocontext import Store
from support.steady_sources import CountedIds, SetClock


@pytest.fixture
def store() -> Iterator[Store]:
    """A store of the test's own in memory, with a clock and ids that are always the same."""
    with Store.open(":memory:", clock=SetClock(), ids=CountedIds()) as opened:
        yield opened
