"""Where the exports of a session are imported again."""

from collections.abc import Iterator
from typing import Any

import pytest

from roocontext import Store


@pytest.fixture(scope="module")
def fresh(leg: Any) -> Iterator[Any]:
    """The store into which the exports are imported again."""
    with Store.open(":memory:") as store:
        yield store
