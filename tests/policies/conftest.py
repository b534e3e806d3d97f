"""A session in memory, which is enough: a policy is a pure function of what the session holds."""

from collections.abc import Iterator

import pytest

from roocontext import Session, Store


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """A store in memory that all tests of policies share."""
    with Store.open(":memory:", durability="normal") as opened:
        yield opened


@pytest.fixture
def chat(store: Store) -> Session:
    """An empty session."""
    return store.create()
