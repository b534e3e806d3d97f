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


def test_dry_run_of_a_plan_equals_the_commit(lab: Any, reading: Any) -> None:
    chat = lab.store.create()
    said = fill(chat, 8)
    _, told = work(chat, output="long " * 60)
    plans = (
        lambda: Plan.condense(chat.view(), said[1:4], "S"),
        lambda: Plan.truncate(chat.view(), said[:1]),
        lambda: Plan.clear(chat.view(), [(told, 0)]),
    )
    for make in plans:
        plan, before = make(), state(chat)
        foreseen = reading.session(chat.id).commit(plan, dry_run=True)
        assert state(chat) == before
        done = chat.commit(plan)
        assert foreseen == replace(done, hash=None, compaction_id=None, dry_run=True)


def test_dry_run_of_a_refused_plan_is_refused(lab: Any, reading: Any) -> None:
    chat = lab.store.create()
    said = fill(chat, 6)
    plan = Plan.condense(chat.view(), said[:2], "S")
    chat.commit(Plan.truncate(chat.view(), said[3:4]))
    with pytest.raises(VersionConflict):
        reading.session(chat.id).commit(plan, dry_run=True)


def test_dry_run_of_a_rewind_equals_the_rewind(lab: Any, reading: Any) -> None:
    chat = lab.store.create()
    said = fill(chat, 6)
    chat.append("user", "named", message_id="m")
    same = reading.session(chat.id)
    for target in (said[3], "m", said[0]):
        foreseen = same.rewind(to=target, dry_run=True)
        done = chat.rewind(to=target)
        assert foreseen == replace(done, hash=None, dry_run=True)
        chat.undo()
    unchanged = same.rewind(to=chat.head_seq(), dry_run=True)
    assert (unchanged.changed, unchanged.seq, unchanged.dry_run) == (False, None, True)


def test_dry_run_of_an_uncovering_equals_the_uncovering(lab: Any, reading: Any) -> None:
    chat = lab.store.create()
    said = fill(chat, 6)
    done = chat.commit(Plan.condense(chat.view(), said[:3], "S"))
    same = reading.session(chat.id)
    foreseen = same.uncover(done.seq, dry_run=True)
    assert seqs(chat.view().messages)[0] == done.seq
    assert foreseen == replace(chat.uncover(done.seq), hash=None, dry_run=True)
    with pytest.raises(UncoverRefused):
        same.uncover(said[0], dry_run=True)


def test_dry_run_of_an_erasure_equals_the_erasure_and_takes_no_lock(lab: Any, reading: Any) -> None:
    chat = lab.store.create()
    said = fill(chat, 4)
    summary = chat.commit(Plan.condense(chat.view(), said[:2], "S")).seq
    before = state(chat)
    redacted = reading.session(chat.id).redact(said[0], dry_run=True)
    purged = reading.purge(chat.id, dry_run=True)
    assert state(chat) == before
    done = chat.redact(said[0])
    assert done.summaries == ((chat.id, summary),)
    assert redacted == replace(done, dry_run=True, erased=False)
    gone = lab.store.purge(chat.id)
    assert gone.messages == purged.messages == 5
    assert (gone.copies, purged.copies, purged.dry_run) == ((), (), True)


def test_preview_works_on_a_read_only_store(lab: Any, reading: Any) -> None:
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
        with pytest.raises(StoreReadOnly):
            context.truncate(same)
    done = context.truncate(chat)
    assert [step.committed.rows for step in done.steps] == [
        step.committed.rows for step in outcome.steps
    ]
    assert (done.hidden, done.seqs) == (outcome.hidden, outcome.seqs)
