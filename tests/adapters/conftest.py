"""Fixtures of several test files, of which each names the classes of its own framework."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.transcripts import Transcript


@pytest.fixture
def driver(request: pytest.FixtureRequest, lab: Any) -> Iterator[Any]:
    """The DRIVER of a file: its adapter on a store of the test's own, driven synchronously."""
    made = request.module.DRIVER(lab.url)
    yield made
    made.close()


@pytest.fixture
def quick(request: pytest.FixtureRequest, opened: Any) -> Iterator[Any]:
    """A driver on a file, for what no engine changes."""
    with opened("file", "sync") as lab:
        made = request.module.DRIVER(lab.url)
        yield made
        made.close()


@pytest.fixture(scope="module", params=["file", "postgres"])
def shared_store(request: pytest.FixtureRequest, opened: Any) -> Iterator[Any]:
    """A store that the tests of a file share."""
    with opened(request.param, "sync") as lab:
        yield lab.store


@pytest.fixture
def saver(request: pytest.FixtureRequest, shared_store: Any) -> Any:
    """A checkpointer of LangGraph."""
    return request.module.RooContextSaver(shared_store)


@pytest.fixture
def thread(request: pytest.FixtureRequest, saver: Any, shared_store: Any) -> Any:
    """A thread of LangGraph that no other test uses."""
    return request.module.Thread(saver, shared_store.create().id)


@pytest.fixture
def file(tmp_path: Any) -> Transcript:
    """A transcript of Claude Code."""
    return Transcript(tmp_path / "-work" / "s-1.jsonl")
