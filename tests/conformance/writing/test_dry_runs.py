"""A dry run says what the call would do, and needs nothing that can be written to."""

from dataclasses import replace
from typing import Any

import pytest

from roocontext import ContextManager, Plan, Store
from roocontext.errors import StoreReadOnly, UncoverRefused, VersionConflict
from support.dialogue import fill, seqs, shown, state, work


@pytest.fixture
def reading(lab: Any) -> Any:
    """A read-only store on the same database; a store in memory has only one."""
    if lab.engine == "memory":
        yield lab.store
        return
    with Store.open(lab.url, read_only=True, clock=lab.clock) as store:
        yield store


def test_dry_run_of_a_read_only_store_equals_the_call(lab, reading):
    chat = lab.store.create()
    said = fill(chat, 8)
    _, told = work(chat, output="long " * 60)
    chat.append("user", "named", message_id="m")
    nameless = {"hash": None, "compaction_id": None}
    for call, unknown in (
        (
            lambda one, **dry: one.commit(Plan.condense(chat.view(), said[1:4], "S"), **dry),
            nameless,
        ),
        (lambda one, **dry: one.commit(Plan.truncate(chat.view(), said[:1]), **dry), nameless),
        (lambda one, **dry: one.commit(Plan.clear(chat.view(), [(told, 0)]), **dry), nameless),
        (lambda one, **dry: one.uncover(12, **dry), {"hash": None}),
        (lambda one, **dry: one.rewind(to="m", **dry), {"hash": None}),
        (lambda one, **dry: one.rewind(to=said[3], **dry), {"hash": None}),
        (lambda one, **dry: one.rewind(to=said[3], **dry), {}),
        (lambda one, **dry: one.redact(said[0], **dry), {"erased": False}),
    ):
        before = state(chat)
        foreseen = call(reading.session(chat.id), dry_run=True)
        assert state(chat) == before
        assert foreseen == replace(call(chat), **unknown, dry_run=True)
    planned, purged = reading.purge(chat.id, dry_run=True), lab.store.purge(chat.id)
    assert (purged.messages, purged.copies) == (planned.messages, planned.copies) == (13, ())
    assert planned.dry_run


def test_dry_run_of_a_refused_call_is_refused(lab, reading):
    chat = lab.store.create()
    said = fill(chat, 6)
    plan = Plan.condense(chat.view(), said[:2], "S")
    chat.commit(Plan.truncate(chat.view(), said[3:4]))
    with pytest.raises(VersionConflict):
        reading.session(chat.id).commit(plan, dry_run=True)
    with pytest.raises(UncoverRefused):
        reading.session(chat.id).uncover(said[0], dry_run=True)


def test_preview_works_on_a_read_only_store(lab, reading):
    if lab.interface == "async":
        return  # a manager for asyncio is previewed in test_manager
    chat = lab.store.create()
    fill(chat, 12)
    context = ContextManager(limit=10_000, counter="bytes", policy="sliding_window")
    same = reading.session(chat.id)
    outcome = context.preview(same, "truncate")
    assert outcome.changed
    assert seqs(outcome.view) != shown(chat)
    if lab.engine != "memory":
        with pytest.raises(StoreReadOnly, match="To write, open it without read_only"):
            context.truncate(same)
    done = context.truncate(chat)
    assert [step.committed.rows for step in done.steps] == [
        step.committed.rows for step in outcome.steps
    ]
    assert (done.hidden, done.seqs) == (outcome.hidden, outcome.seqs)
