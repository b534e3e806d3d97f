"""The number of transactions in a run of the manager, and of those that write durably."""

from dataclasses import dataclass
from typing import Any

import pytest

from roocontext.store.engine.connections import Hold
from roocontext.store.engine.database import Operations
from support.async_manager import Scripted, manager
from support.dialogue import counts_of, fill

pytestmark = pytest.mark.every_leg

USAGE = {"input_tokens": 700, "output_tokens": 30}


@dataclass
class Taken:
    """The transactions since the last reset."""

    transactions: int = 0
    writes: int = 0

    def reset(self) -> None:
        """Begin again."""
        self.transactions = self.writes = 0

    @property
    def both(self) -> tuple[int, int]:
        """Reads and durable writes."""
        return self.transactions - self.writes, self.writes


@pytest.fixture
def taken(chat: Any, monkeypatch: pytest.MonkeyPatch) -> Taken:
    """Counts the transactions of `chat`'s database."""
    counted = Taken()
    begin, repeated = Hold.begin, Operations._repeated

    def beginning(hold: Hold, *asked: Any) -> Any:
        counted.transactions += 1
        return begin(hold, *asked)

    def writing(operations: Any, *args: Any, **kwargs: Any) -> Any:
        counted.writes += 1
        return repeated(operations, *args, **kwargs)

    monkeypatch.setattr(Hold, "begin", beginning)
    monkeypatch.setattr(Operations, "_repeated", writing)
    return counted


def resumed(chat: Any, messages: int = 60) -> None:
    """A session with a past of which nothing was ever counted."""
    for number in range(messages // 2):
        chat.append("user", f"And {number}? " + "word " * 40)
        chat.append("assistant", "Done. " + "word " * 40, model="m", usage=USAGE)


def test_first_check_of_a_resumed_session_takes_few_transactions(chat, taken):
    resumed(chat)
    context = manager(chat, limit=100_000, drift_ratio=1e9)
    taken.reset()
    assert context.manage(chat).status == "noop"
    assert taken.both == (1, 1)
    assert all(call.estimates for call in chat.internals.calls())


def test_check_that_finds_nothing_to_do_only_reads(chat, taken):
    resumed(chat)
    context = manager(chat, limit=100_000, drift_ratio=1e9)
    context.manage(chat)
    for _ in range(2):
        taken.reset()
        assert context.manage(chat).status == "noop"
        assert taken.both == (1, 0)


def test_frame_costs_a_transaction_when_it_is_new(chat, taken):
    resumed(chat)
    context = manager(chat, limit=100_000, drift_ratio=1e9)
    context.manage(chat)
    for system, writes in (("Be brief.", 1), ("Be brief.", 0), ("Be long.", 1)):
        taken.reset()
        assert context.manage(chat, system=system, tools=[{"name": "run"}]).status == "noop"
        assert taken.both == (1 + writes, writes)


def test_first_check_that_condenses_takes_few_transactions(chat, taken):
    """Its notes, counts and estimates travel in the commit."""
    resumed(chat)
    context = manager(chat, summariser=Scripted(), drift_ratio=1e9)
    taken.reset()
    assert context.manage(chat).status == "condensed"
    assert taken.both == (3, 1)
    assert all(call.estimates for call in chat.internals.calls())
    taken.reset()
    counts_of(chat, context.settings.counter)
    assert taken.both == (1, 0)


def test_state_changed_by_a_compaction_is_in_its_commit(chat, taken):
    resumed(chat)
    failing = manager(chat, summariser=Scripted(RuntimeError()), drift_ratio=1e9, limit=4_500)
    assert failing.manage(chat).status == "failed"
    context = manager(chat, summariser=Scripted(), drift_ratio=1e9, limit=4_500)
    taken.reset()
    assert context.manage(chat).status == "condensed"
    assert taken.both == (3, 1)
    newest = chat.newest_note("compaction").content
    assert newest == {"event": "committed", "failures": 0, "stalled": None}


def test_plan_that_is_refused_takes_its_notes_with_it(chat):
    """A refused plan is not in the log, and neither are notes that follow from it."""
    fill(chat, 100)
    failing = manager(chat, summariser=Scripted(RuntimeError()), limit=100_000)
    assert failing.condense(chat).status == "failed"
    notes = chat.notes("compaction")
    plain = chat.target._plain if hasattr(chat, "target") else chat
    context = manager(chat, summariser=Scripted(lambda _: plain.rewind(3) and "In short."))
    assert context.condense(chat).status == "conflict"
    assert chat.notes("compaction") == notes


def test_recovery_is_noted_in_the_commit_that_cut(chat, taken):
    resumed(chat)
    context = manager(chat, summariser=Scripted(), limit=100_000, drift_ratio=1e9)
    context.manage(chat)
    refused = ValueError("prompt is too long: 9000 tokens > 8000 maximum")
    taken.reset()
    outcome = context.recover(chat, refused)
    assert outcome.changed
    assert taken.writes == len(outcome.steps)
    assert [note.content["attempt"] for note in chat.notes("recovery")] == [1]
