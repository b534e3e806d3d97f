"""LangGraph's own conformance suite, in full, on each engine and with each kind of store."""

import asyncio

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from roocontext import AsyncStore, Store
from roocontext.adapters.langgraph import RooContextSaver


@pytest.mark.parametrize(("engine", "kind"), [("file", Store), ("postgres", AsyncStore)])
def test_conformance_suite_passes_in_full(opened, engine, kind):
    with opened(engine, "sync") as lab:

        @checkpointer_test(name="roocontext")
        async def saver():
            if kind is Store:
                yield RooContextSaver(lab.store)
                return
            async with await AsyncStore.open(lab.url, durability="normal") as store:
                yield RooContextSaver(store)

        report = asyncio.run(validate(saver))
        assert [one for result in report.results.values() for one in result.failures or ()] == []
        assert all(result.passed for result in report.results.values())
        assert sum(result.tests_passed for result in report.results.values()) == 81
        assert report.conformance_level() == "FULL"
