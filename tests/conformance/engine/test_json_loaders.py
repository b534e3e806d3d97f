"""A program may change what psycopg makes of JSON, in the whole process."""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.types.json import set_json_loads

from roocontext import Plan, Store
from support.dialogue import fill, work

LOADERS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda text: text,
    "decimals": lambda text: json.loads(text, parse_int=Decimal),
}


@pytest.fixture(params=LOADERS)
def loads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Another loader, until the end of the test."""
    before = {
        name: psycopg.adapters.get_loader(psycopg.adapters.types[name].oid, psycopg.pq.Format.TEXT)
        for name in ("json", "jsonb")
    }
    set_json_loads(LOADERS[request.param])
    yield
    for name, loader in before.items():
        psycopg.adapters.register_loader(name, loader)


def test_cleared_view_needs_no_loader_of_json(postgres_url: str, loads: None) -> None:
    with Store.open(postgres_url) as store:
        chat = store.create()
        fill(chat, 2)
        _, answer = work(chat)
        chat.commit(Plan.clear(chat.view(), [(answer, 0)], 'a "placeholder" \\ \u2028 \x01'))
        assert chat.view().messages == chat.view(limit=100).messages
