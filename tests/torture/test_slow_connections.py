"""Each operation leaves the same rows over a connection that is slow and cuts messages apart."""

import pytest
from sqlalchemy import make_url

from roocontext import Store
from support.dumps import dump
from support.examples import everyday
from support.steady_sources import CountedIds, SetClock
from torture.operating import LATER, MAIN, OPERATIONS, prepare
from torture.wire import wire

PIECE = 97
"""Bytes that arrive together: less than any statement, and no part of a message's length."""


@pytest.mark.parametrize("operation", everyday(["condense"], [*OPERATIONS]))
def test_slow_connection_changes_nothing(postgres, tmp_path, operation):
    prepared = postgres.fresh()
    prepare(prepared)
    template = f"TEMPLATE {make_url(prepared).database} STRATEGY file_copy"
    left = []
    for slow in (None, PIECE):
        url = postgres.empty(template)
        with wire(url, tmp_path) as passing:
            passing.slow = slow
            with Store.open(passing.url, clock=SetClock(LATER), ids=CountedIds()) as store:
                OPERATIONS[operation](store, store.session(MAIN))
        left.append(dump(url))
        postgres.drop(url)
    postgres.drop(prepared)
    assert left[0] == left[1]
