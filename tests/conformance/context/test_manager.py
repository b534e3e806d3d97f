"""The manager: what it does to a session, what it leaves alone, and what it says of both."""

import json

import pytest

from roocontext import ContextManager, Hooks, Plan
from roocontext.context import (
    AfterCompact,
    BeforeCheck,
    BeforeCompact,
    BudgetPassed,
    CompactionFailed,
    Drifted,
)
from roocontext.errors import InvalidOption, RecoveryExhausted, SystemPromptTooLarge, TurnTooLarge
from roocontext.programs.roo.policy import roo_events
from roocontext.tokens import counter_for
from support.async_manager import WINDOW, Scripted, grow, manager, talk
from support.dialogue import WORDS, fill, seqs, shown, state, work

pytestmark = pytest.mark.every_leg

COUNTER = counter_for("gpt-4o")


def test_manage_below_the_threshold_writes_nothing(chat):
    fill(chat, 6)
    before = state(chat)
    context = manager(chat)
    outcome = context.manage(chat)
    assert (outcome.status, outcome.changed, outcome.steps) == ("noop", False, ())
    assert outcome.tokens_before == outcome.tokens_after == chat.tokens(COUNTER)
    assert not context.will_manage(chat)
    assert state(chat) == before


def test_old_outputs_are_cleared_first(chat):
    grow(chat)
    summariser = Scripted()
    context = manager(chat, summariser=summariser)
    assert context.will_manage(chat)
    outcome = context.manage(chat)
    assert (outcome.status, outcome.hidden) == ("cleared", 0)
    assert outcome.cleared > 3
    assert summariser.requests == []
    assert outcome.tokens_after == chat.tokens(COUNTER) < outcome.tokens_before
    assert not context.will_manage(chat)


def test_manage_condenses_old_messages(chat):
    said = fill(chat, 100)
    question = chat.append("user", "And the last token?").seq
    summariser = Scripted()
    context = manager(chat, summariser=summariser)
    outcome = context.manage(chat)
    assert outcome.status == "condensed"
    assert (outcome.cost, outcome.calls) == (0.25, 1)
    assert outcome.tokens_after == chat.tokens(COUNTER) <= WINDOW // 2
    view = chat.view().messages
    assert view[0].content.endswith("What was done so far.")
    assert view[0].seq == outcome.seqs[0]
    assert outcome.compaction_ids == (view[0].compaction_id,)
    assert shown(chat)[-1] == question
    assert shown(chat)[1:] == [seq for seq in [*said, question] if seq in shown(chat)]
    assert len(summariser.requests[0].messages) == outcome.hidden
    record = next(iter(chat.audit(after=outcome.seqs[0] - 1))).entry.details["record"]
    assert (record["before"], record["after"]) == (outcome.tokens_before, outcome.tokens_after)
    assert (record["counter"], record["exact"]) == (COUNTER.name, True)
    assert record["bytes"] == {"before": outcome.bytes_before, "after": outcome.bytes_after}
    assert (record["policy"], record["trigger"]) == ("default", "auto")
    assert record["summary"]["cost"] == 0.25
    json.dumps(outcome.to_dict())


def test_second_summary_takes_the_place_of_the_first(chat):
    summariser = Scripted("first", "second")
    context = manager(chat, summariser=summariser)
    for _ in range(2):
        fill(chat, 110)
        assert context.manage(chat).status == "condensed"
    assert "first" in summariser.requests[1].previous
    kinds = [message.kind for message in chat.view().messages]
    assert kinds.count("summary") == 1
    assert chat.verify().ok


def test_latch_is_set_after_three_failures_and_a_request_resets_it(chat):
    summariser = Scripted(ValueError(), ValueError(), ValueError(), "at last")
    context = manager(chat, summariser=summariser)
    talk(chat, 2_700, COUNTER)
    for asked in (1, 2, 3):
        assert context.manage(chat).status == "failed"
        assert len(summariser.requests) == asked
    assert context.manage(chat).status == "truncated"
    assert len(summariser.requests) == 3
    fill(chat, 60)
    assert context.condense(chat).status == "condensed"
    assert chat.notes("compaction")[-1].content["failures"] == 0


def test_uncovering_ends_the_stall_but_not_the_latch(chat):
    said = talk(chat, 2_700, COUNTER)
    marker = chat.commit(Plan.truncate(chat.view(), said[:2], "M")).seq
    summariser = Scripted()
    context = manager(chat, summariser=summariser)
    chat.note("compaction", {"failures": 3, "stalled": chat.tokens(COUNTER)})
    outcome = context.manage(chat)
    assert (outcome.status, outcome.reason) == ("noop", "The last run did not help.")
    chat.uncover(marker)
    assert context.manage(chat).status == "truncated"
    assert summariser.requests == []
    assert chat.verify().ok


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("aim", ["manage", "condense", "truncate", "clear"])
def test_preview_equals_the_run(chat, aim):
    grow(chat, 2_000)
    fill(chat, 60)
    work(chat, ("last",))
    context = manager(chat, summariser=Scripted())
    before = state(chat)
    foreseen = context.preview(chat, aim)
    assert state(chat) == before
    assert foreseen.dry_run
    name = {"clear": "prune"}.get(aim, aim)
    outcome = getattr(context, name)(chat)
    assert [m.content for m in foreseen.view] == [m.content for m in chat.view().messages]
    assert seqs(foreseen.view) == shown(chat)
    same = ("status", "tokens_before", "tokens_after", "hidden", "cleared", "seqs")
    assert all(getattr(foreseen, name) == getattr(outcome, name) for name in same)
    assert outcome.changed


def test_system_prompt_and_the_tools_count(chat):
    fill(chat, 60)
    context = manager(chat, summariser=Scripted())
    bare = context.manage(chat)
    assert bare.status == "noop"
    framed = context.preview(chat, system=WORDS * 30, tools=[{"name": "run", "input_schema": {}}])
    assert framed.tokens_before > bare.tokens_before + 900
    assert framed.status == "condensed"


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    ("part", "refusal"), [("system", SystemPromptTooLarge), ("turn", TurnTooLarge)]
)
def test_part_over_the_limit_is_refused_with_one_note(chat, part, refusal):
    fill(chat, 6)
    if part == "turn":
        chat.append("user", WORDS * 200)
    before = chat.view().messages, chat.head_seq()
    for _ in range(2):
        with pytest.raises(refusal) as caught:
            manager(chat).manage(chat, system=WORDS * 200 if part == "system" else None)
        assert caught.value.needed > caught.value.limit == WINDOW
    (note,) = chat.notes("compaction")
    assert (note.content["part"], note.content["needed"]) == (part, caught.value.needed)
    assert (chat.view().messages, chat.head_seq()) == before


MEANWHILE = {
    "an append": (lambda chat, _: chat.append("user", "meanwhile"), "condensed", 1),
    "a rewind": (lambda chat, said: chat.rewind(to=said[-2]), "conflict", -1),
    "a redaction": (lambda chat, said: chat.redact(said[0]), "failed", 0),
}
"""What is written during the summary, the outcome, and by how much the view's end moves."""


@pytest.mark.parametrize(("write", "status", "moved"), MEANWHILE.values(), ids=MEANWHILE)
def test_write_during_the_summary_decides_on_its_use(chat, write, status, moved):
    said = talk(chat, 2_700, COUNTER)
    scripted = Scripted(lambda _: write(other(chat), said) and "What was done.")
    outcome = manager(chat, summariser=scripted).manage(chat)
    assert (outcome.status, len(scripted.requests)) == (status, 1)
    assert shown(chat)[-1] == said[-1] + moved
    assert (len(shown(chat)) < len(said) - 1) is (status == "condensed")


def other(chat):
    """The same session, for one who is called from within a run."""
    return chat.target._plain if hasattr(chat, "target") else chat


def test_hooks_are_called_and_may_veto(chat):
    fill(chat, 120)
    told = []
    hooks = Hooks()
    for event in (BeforeCheck, BeforeCompact, AfterCompact):
        hooks.on(event, told.append)
    context = manager(chat, summariser=Scripted(), hooks=hooks)
    outcome = context.manage(chat)
    assert [type(event) for event in told] == [BeforeCheck, BeforeCompact, AfterCompact]
    assert (told[1].trigger, told[1].action) == ("auto", "condense")
    assert len(told[1].hides) == outcome.hidden
    assert told[2].step == outcome.steps[0]
    fill(chat, 120)
    hooks.on(BeforeCompact, lambda event: False, veto=True)
    head = chat.head()
    assert context.manage(chat).status == "vetoed"
    assert chat.head() == head


def test_hook_that_raises_breaks_nothing(chat):
    fill(chat, 120)

    def broken(event):
        raise RuntimeError("boom")

    hooks = Hooks()
    for event in (BeforeCheck, BeforeCompact, AfterCompact):
        hooks.on(event, broken)
    hooks.on(BeforeCompact, lambda event: False)  # not registered to veto
    outcome = manager(chat, summariser=Scripted(), hooks=hooks).manage(chat)
    assert outcome.status == "condensed"
    record = next(iter(chat.audit(after=outcome.seqs[0] - 1))).entry.details["record"]
    assert [told["result"] for told in record["hooks"]] == ["raised RuntimeError", "done"]


def test_failures_and_refusals_call_hooks(chat):
    told = []
    hooks = Hooks()
    hooks.on(CompactionFailed, told.append)
    hooks.on(BudgetPassed, told.append)
    talk(chat, 2_700, COUNTER)
    context = manager(chat, summariser=Scripted(ValueError()), hooks=hooks)
    context.manage(chat)
    with pytest.raises(SystemPromptTooLarge):
        context.manage(chat, system=WORDS * 200)
    assert [type(event) for event in told] == [CompactionFailed, BudgetPassed]
    assert [said["say"] for said in roo_events(told[0])] == ["condense_context_error"]


def test_refused_request_is_cut_three_times_at_most(chat):
    fill(chat, 300)
    context = manager(chat, limit=1_000_000, summariser=Scripted())
    error = RuntimeError("prompt is too long: 1500000 tokens > 1000000 maximum")
    sizes = [chat.tokens(COUNTER)]
    for _ in range(3):
        outcome = context.recover(chat, error)
        assert outcome.trigger == "recover"
        sizes.append(chat.tokens(COUNTER))
        assert sizes[-1] <= 0.75 * sizes[-2]
    with pytest.raises(RecoveryExhausted) as caught:
        context.recover(chat, error)
    assert caught.value.attempts == 3
    fill(chat, 20)
    assert context.recover(chat, error).changed
    with pytest.raises(KeyError):
        context.recover(chat, KeyError("something else"))


def test_recoveries_are_counted_across_managers_until_the_model_replies(chat):
    fill(chat, 300)
    error = RuntimeError("prompt is too long")

    def recover():
        return manager(chat, limit=1_000_000, summariser=Scripted()).recover(chat, error)

    for _ in range(3):
        assert recover().changed
        chat.append("user", f"Are you there? {WORDS}")  # no reply: the count continues
    head = chat.head()
    with pytest.raises(RecoveryExhausted) as caught:
        recover()
    assert (caught.value.attempts, chat.head()) == (3, head)
    reply = chat.append("assistant", "Here I am.").seq
    for _ in range(2):
        fill(chat, 20)
    assert recover().changed
    assert [note.content["attempt"] for note in chat.notes("recovery")] == [1, 2, 3, 1]
    chat.rewind(to=reply - 1)
    with pytest.raises(RecoveryExhausted):
        recover()


def test_estimates_are_stored_and_drift_is_reported(chat):
    told = []
    hooks = Hooks()
    hooks.on(Drifted, told.append)
    context = manager(chat, hooks=hooks)
    chat.append("user", "What is it?")
    head = chat.append(
        "assistant", "A parser.", model="m", usage={"input_tokens": 900, "output_tokens": 3}
    ).seq
    assert context.manage(chat, system="Be brief.").status == "noop"
    before = chat.head()
    context.manage(chat, system="Be brief.")
    assert chat.head() == before
    (event,) = told
    assert (event.seq, event.reported) == (head, 900)
    assert chat.internals.calls()[0].estimates == {COUNTER.name: event.estimated}
    drift = context.drift(chat)["m"]
    assert (drift.calls, drift.estimated, drift.reported) == (1, event.estimated, 900)


def test_report_is_compared_with_the_frame_that_was_sent(chat):
    """Whatever frame is given when the estimate is made, also none; a redacted one is lost."""
    context = manager(chat, limit=100_000)
    for prompt in ("word " * 500, "Be brief.", "word " * 300):
        chat.append("user", "What is it?")
        context.manage(chat, system=prompt)
        usage = {"input_tokens": 600, "output_tokens": 3}
        chat.append("assistant", "A parser.", model="m", usage=usage)
    frames = [entry.seq for entry in chat.audit() if entry.entry.note == "frame"]
    chat.redact(frames[2])
    context.manage(chat)
    first, second, third = (call.estimates[COUNTER.name] for call in chat.internals.calls())
    assert first - second > 450
    assert third < first - 450


def test_limit_that_a_provider_names_is_used_from_then_on(chat, caplog):
    fill(chat, 300)
    context = manager(chat, "acme-1", limit=None, environ={}, summariser=Scripted())
    refusal = RuntimeError("Range of input length should be [1, 32768]")
    assert context.recover(chat, refusal).window == 32_768
    (note,) = chat.notes("model_limits")
    assert note.content == {"limits": [{"model": "acme-1", "limit": 32_768, "used": 128_000}]}
    caplog.clear()
    for model, window, source in (
        ("acme-1", 32_768, "refusal"),
        ("openrouter/acme-1", 32_768, "refusal"),
        ("acme-2", 128_000, "default"),
        ("gpt-4o", 128_000, "table:gpt-4o"),
    ):
        outcome = manager(chat, model, limit=None, environ={}).manage(chat)
        assert (outcome.window, outcome.window_source) == (window, source)
        restored = manager(chat, model, limit=None, environ={}).restore(chat, dry_run=True)
        assert (restored.window, restored.window_source) == (window, source)
    assert "acme-1" not in caplog.text
    forked = chat.fork()
    assert manager(chat, "acme-1", limit=None, environ={}).manage(forked).window == 32_768


def test_manager_s_own_model_writes_the_summary(chat):
    fill(chat, 100)
    summariser = Scripted()
    outcome = manager(chat, "claude-sonnet-4-5", summariser=summariser).manage(chat)
    assert [request.model for request in summariser.requests] == ["claude-sonnet-4-5"]
    assert outcome.summary_model == "m"
    assert manager(chat).manage(chat).summary_model is None
    outcome = manager(chat, "my-model", summariser=lambda request: "Short.").condense(chat)
    assert outcome.summary_model == outcome.to_dict()["summary_model"] == "my-model"


def test_veto_is_no_exhaustion(chat):
    fill(chat, 100)
    hooks = Hooks()
    hooks.on(BeforeCompact, lambda event: False, veto=True)
    context = manager(chat, limit=1_000_000, hooks=hooks, summariser=Scripted())
    assert context.recover(chat, RuntimeError("prompt is too long")).status == "vetoed"


def test_synchronous_and_an_asynchronous_manager_share_their_hooks(chat):
    """Neither changes them for the other, whichever was made first."""
    fill(chat, 120)
    told = []

    async def waiting(event):
        told.append(type(event))

    hooks = Hooks()
    blocking = ContextManager("gpt-4o", limit=WINDOW, summariser=Scripted(), hooks=hooks)
    shared = manager(chat, summariser=Scripted(), hooks=hooks)
    session = other(chat)
    hooks.on(AfterCompact, waiting)
    before = state(chat)
    for run in (blocking.manage, blocking.condense, blocking.truncate, blocking.prune):
        with pytest.raises(InvalidOption):
            run(session)
    with pytest.raises(InvalidOption):
        blocking.recover(session, RuntimeError("prompt is too long"))
    assert state(chat) == before
    if hasattr(chat, "target"):
        assert shared.manage(chat).status == "condensed"
        assert told == [AfterCompact]
