"""A store in memory: a manager only calls a session, and the engines have tests of their own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="package")
def memory(opened: Callable[..., Any]) -> Iterator[Any]:
    """A store in memory that the tests of this folder share."""
    with opened("memory", "sync") as lab:
        yield lab.store
