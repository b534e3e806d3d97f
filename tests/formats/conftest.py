"""Fixtures of tests that need no engine but SQLite in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roocontext import Store
from support.steady_sources import CountedIds, SetClock
from support.transcripts import Transcript


@pytest.fixture
def store() -> Iterator[Store]:
    """A store of the test's own in memory, with a clock and ids that are always the same."""
    with Store.open(":memory:", clock=SetClock(), ids=CountedIds()) as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Transcript:
    """A transcript of Claude Code."""
    return Transcript(tmp_path / "-work" / "s-1.jsonl")
