"""The manager: what it does to a session, what it leaves alone, and what it says of both."""

import json

import pytest

from roocontext import ContextManager, Hooks, NewMessage, Plan, RooContextError, Store
from roocontext.context import (
    AfterCompact,
    BeforeCheck,
    BeforeCompact,
    BudgetPassed,
    CompactionFailed,
    Drifted,
)
from roocontext.errors import (
    HistoryCorrupt,
    InvalidIdentifier,
    InvalidOption,
    RecoveryExhausted,
    SummaryFailed,
    SystemPromptTooLarge,
    TurnTooLarge,
    UnknownPlugin,
)
from roocontext.log.counting import Budget
from roocontext.log.encoding import MAX_MODEL
from roocontext.log.summary import Summary
from roocontext.policies.builtin import policy_for
from roocontext.policies.default import Default
from roocontext.programs.gemini_cli.policy import gemini_event
from roocontext.programs.opencode.policy import opencode_event
from roocontext.programs.roo.policy import roo_events
from roocontext.tokens import counter_for, limit_for
from roocontext.tokens.prices import prices
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


def test_record_says_what_it_cost(chat):
    fill(chat, 120)
    outcome = manager(chat, summariser=Scripted()).manage(chat)
    entry = next(iter(chat.audit(after=outcome.seqs[0] - 1)))
    record = entry.entry.details["record"]
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


def test_failing_summariser_changes_nothing_below_the_limit(chat):
    talk(chat, 2_700, COUNTER)
    context = manager(chat, summariser=Scripted(ValueError("secret words")))
    before, head = chat.view().messages, chat.head_seq()
    outcome = context.manage(chat)
    assert (outcome.status, outcome.changed) == ("failed", False)
    assert (chat.view().messages, chat.head_seq()) == (before, head)
    (note,) = chat.notes("compaction")
    assert (note.content["event"], note.content["failures"]) == ("failed", 1)
    assert "secret" not in json.dumps(note.content)


def test_failing_summariser_above_the_limit_truncates(chat):
    fill(chat, 160)
    context = manager(chat, summariser=Scripted(ValueError()))
    outcome = context.manage(chat)
    assert (outcome.status, outcome.reason) == ("truncated", "ValueError")
    assert outcome.tokens_after <= WINDOW
    assert len(chat.notes("compaction")) == 1


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


def test_system_prompt_over_the_limit_is_refused_with_one_note(chat):
    fill(chat, 2)
    context = manager(chat)
    before = chat.view(), chat.head_seq()
    for _ in range(2):
        with pytest.raises(SystemPromptTooLarge) as caught:
            context.manage(chat, system=WORDS * 200)
    assert caught.value.needed > caught.value.limit == WINDOW
    (note,) = chat.notes("compaction")
    assert note.content["part"] == "system"
    assert note.content["needed"] == caught.value.needed
    assert (chat.view().messages, chat.head_seq()) == (before[0].messages, before[1])


def test_turn_over_the_limit_is_refused_with_one_note(chat):
    fill(chat, 6)
    chat.append("user", WORDS * 200)
    head = chat.head_seq()
    with pytest.raises(TurnTooLarge) as caught:
        manager(chat).manage(chat)
    assert caught.value.needed > caught.value.limit == WINDOW
    assert [note.content["part"] for note in chat.notes("compaction")] == ["turn"]
    assert chat.head_seq() == head


def test_appends_during_the_summary_do_no_harm(chat):
    fill(chat, 120)
    late = []

    def meanwhile(request):
        late.append(other(chat).append("user", "meanwhile").seq)
        return "What was done."

    outcome = manager(chat, summariser=Scripted(meanwhile)).manage(chat)
    assert outcome.status == "condensed"
    assert outcome.calls == 1
    assert shown(chat)[-1] == late[0]


def test_other_writes_during_the_summary_cancel_the_run(chat):
    said = fill(chat, 120)

    def meanwhile(request):
        other(chat).rewind(to=said[-2])
        return "What was done."

    outcome = manager(chat, summariser=Scripted(meanwhile)).manage(chat)
    assert outcome.status == "conflict"
    assert shown(chat) == said[:-1]


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


def test_events_of_other_programs_can_be_derived(chat):
    told = []
    hooks = Hooks()
    hooks.on(AfterCompact, told.append)
    context = manager(chat, summariser=Scripted(), hooks=hooks)
    fill(chat, 120)
    condensed = context.manage(chat)
    cut = context.truncate(chat)
    first, second = told
    (condensed_event,) = roo_events(first)
    assert condensed_event["contextCondense"] == {
        "cost": 0.25,
        "prevContextTokens": condensed.tokens_before,
        "newContextTokens": condensed.tokens_after,
        "summary": "What was done so far.",
        "condenseId": condensed.compaction_ids[0],
    }
    (cut_event,) = roo_events(second)
    assert cut_event["contextTruncation"]["messagesRemoved"] == cut.hidden
    assert gemini_event(first)["value"]["compressionStatus"] == "COMPRESSED"
    assert opencode_event(first) == {
        "type": "session.compacted",
        "properties": {"sessionID": chat.id},
    }
    assert gemini_event(second) is opencode_event(second) is None
    assert roo_events(BeforeCheck("s", "auto")) == []


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


def test_recoveries_are_counted_across_processes(tmp_path, python):
    script = """
import sys
from roocontext import ContextManager, Store
from roocontext.errors import RecoveryExhausted
from roocontext.log.counting import BYTES
with Store.open(sys.argv[1]) as store:
    chat = store.session(sys.argv[2])
    context = ContextManager(limit=1_000_000, counter=BYTES)
    try:
        print(context.recover(chat, RuntimeError("prompt is too long")).changed)
    except RecoveryExhausted as error:
        print(error.attempts)
"""
    path = str(tmp_path / "agent.db")
    with Store.open(path) as store:
        chat = store.create()
        fill(chat, 300)
        for told in ("True", "3"):
            context = manager(chat, limit=1_000_000)
            assert context.recover(chat, RuntimeError("prompt is too long")).changed
            out, _ = python.start(script, path, chat.id).communicate()
            assert out.strip() == told


def test_manager_keeps_nothing_of_the_sessions_that_it_recovers(chat):
    context = manager(chat, limit=1_000_000, summariser=Scripted())
    settings = vars(getattr(context, "target", context)).copy()
    fill(chat, 100)
    assert context.recover(chat, RuntimeError("prompt is too long")).changed
    assert vars(getattr(context, "target", context)) == settings


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


def test_drift_is_warned_of_once_for_each_cause(chat, caplog):
    context = manager(chat, limit=100_000)
    warned = []
    for number, (model, reported) in enumerate(
        [("m", 900), ("m", 900), ("m", 950), ("other", 900), ("m", 1), ("m", 900)]
    ):
        chat.append("user", "What is it?")
        usage = {"input_tokens": reported, "output_tokens": 3}
        chat.append("assistant", "A parser.", model=model, usage=usage)
        caplog.clear()
        context.manage(chat)
        context.manage(chat)
        warned += [number for record in caplog.records if "estimated" in record.getMessage()]
    assert warned == [1, 3, 4]


@pytest.mark.every_leg
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


def test_assumed_limit_is_warned_of_once(chat, caplog):
    context = manager(chat, "a-model-of-nobody", limit=None, environ={})
    for _ in range(2):
        context.manage(chat)
    (record,) = caplog.records
    assert "'a-model-of-nobody'" in record.getMessage()
    assert "128000 tokens are assumed" in record.getMessage()
    for way in ("limit=", "A_MODEL_OF_NOBODY_MAX_CONTEXT_TOKENS", "MODEL_MAX_CONTEXT_TOKENS"):
        assert way in record.getMessage()
    caplog.clear()
    manager(chat, "gpt-4o", limit=None).manage(chat)
    assert not caplog.records


TOO_LONG = (
    "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens."
)


def test_limit_that_a_provider_names_is_used_from_then_on(chat, caplog):
    fill(chat, 300)
    context = manager(chat, "acme-1", limit=None, environ={}, summariser=Scripted())
    assert context.recover(chat, RuntimeError(TOO_LONG)).window == 32_768
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


def test_given_limit_is_lowered_until_a_larger_one_is_given(chat):
    fill(chat, 300)
    first = manager(chat, "acme-1", limit=100_000, summariser=Scripted())
    assert first.recover(chat, RuntimeError(TOO_LONG)).window == 32_768
    for limit, window in ((100_000, 32_768), (20_000, 20_000), (400_000, 400_000)):
        assert manager(chat, "acme-1", limit=limit).manage(chat).window == window


def test_limits_of_several_models_are_remembered(chat):
    fill(chat, 400)
    for model, limit in (("acme-1", 32_768), ("acme-2", 16_384), ("acme-1", 8_192)):
        context = manager(chat, model, limit=None, environ={}, summariser=Scripted())
        error = RuntimeError(f"Range of input length should be [1, {limit}]")
        context.recover(chat, error)
        chat.append("assistant", "So.")
        chat.append("user", "Go on.")
    for model, window in (("acme-1", 8_192), ("acme-2", 16_384)):
        assert manager(chat, model, limit=None, environ={}).manage(chat).window == window


@pytest.mark.parametrize("system", [None, "x " * 80_000])
def test_limit_is_remembered_where_nothing_is_left_to_cut(chat, system):
    chat.append("user", "x " * 20_000)
    context = manager(chat, "acme-1", limit=None, environ={}, policy="sliding_window")
    with pytest.raises(RooContextError):
        context.recover(chat, RuntimeError(TOO_LONG), system=system)
    assert len(chat.notes("model_limits")) == 1


def test_refusal_without_numbers_is_not_remembered(chat):
    fill(chat, 300)
    context = manager(chat, "acme-1", limit=None, environ={}, summariser=Scripted())
    assert context.recover(chat, RuntimeError("prompt is too long")).changed
    assert chat.notes("model_limits") == []


def test_manager_s_own_model_writes_the_summary(chat):
    fill(chat, 100)
    summariser = Scripted()
    outcome = manager(chat, "claude-sonnet-4-5", summariser=summariser).manage(chat)
    assert [request.model for request in summariser.requests] == ["claude-sonnet-4-5"]
    assert outcome.summary_model == "m"
    assert manager(chat).manage(chat).summary_model is None
    outcome = manager(chat, "my-model", summariser=lambda request: "Short.").condense(chat)
    assert outcome.summary_model == outcome.to_dict()["summary_model"] == "my-model"


def test_client_of_another_sdk_is_refused(chat):
    with pytest.raises(InvalidOption, match="a function that asks a model, not Client"):
        manager(chat, client=type("Client", (), {"chat": None})())


def test_reported_size_above_the_estimate_counts(chat):
    fill(chat, 40)
    chat.append("assistant", "ok", usage={"input_tokens": 3_900, "output_tokens": 10})
    assert manager(chat, summariser=Scripted()).manage(chat).status == "condensed"


def test_bytes_and_images_have_budgets_of_their_own(chat):
    fill(chat, 20)
    context = manager(chat, limits=Budget(bytes=2_000), summariser=Scripted())
    outcome = context.manage(chat)
    assert outcome.status == "condensed"
    assert outcome.bytes_after <= 2_000


def test_pins_and_protected_tools_stay(chat):
    pinned = chat.append("user", f"Never touch main.c. {WORDS}").seq
    chat.pin(pinned)
    grow(chat)
    fill(chat, 40)
    context = manager(chat, summariser=Scripted(), protected_tools=["run"])
    outcome = context.manage(chat)
    assert outcome.cleared == 0
    assert pinned in shown(chat)


def test_wrong_settings_are_refused(chat):
    for options in (
        {"policy": "nobody"},
        {"counter": "nobody"},
        {"summariser": "nobody"},
    ):
        with pytest.raises(UnknownPlugin):
            manager(chat, **options)
    for options in ({"output": 0}, {"output": -1}, {"summariser": 3}, {"protected_tools": "run"}):
        with pytest.raises(InvalidOption):
            manager(chat, **options)
    context = manager(chat)
    for options in ({"system": 3}, {"tools": "run"}, {"tools": [{1, 2}]}):
        with pytest.raises(InvalidOption):
            context.manage(chat, **options)
    for aim in ("everything", []):
        with pytest.raises(InvalidOption):
            context.preview(chat, aim)


def test_policy_can_be_given_with_settings(chat):
    fill(chat, 60)
    eager = Default(threshold=0.3, target=0.2)
    outcome = manager(chat, policy=eager, summariser=Scripted()).manage(chat)
    assert (outcome.status, outcome.policy) == ("condensed", "default")


class Follower(Default):
    """Another package's policy, which follows a program."""

    counted_as = "roo"
    limited_as = "multi_llm_chat"


def test_policy_may_name_its_counter_and_its_limits():
    ours = ContextManager("claude-sonnet-4", environ={}).settings
    theirs = ContextManager("claude-sonnet-4", policy=Follower(), environ={}).settings
    assert theirs.counter.name == "roo" != ours.counter.name
    assert theirs.window() == limit_for("claude-sonnet-4", profile="multi_llm_chat", environ={})
    assert theirs.window() != ours.window()


def test_empty_session_needs_nothing(chat):
    context = manager(chat)
    for outcome in (context.manage(chat), context.condense(chat), context.truncate(chat)):
        assert outcome.status == "noop"
    assert context.preview(chat).view == ()


def test_summary_that_is_larger_is_refused(chat):
    talk(chat, 2_700, COUNTER)
    context = manager(chat, summariser=Scripted(WORDS * 500))
    outcome = context.manage(chat)
    assert (outcome.status, outcome.detail) == ("failed", "inflated_summary")


def test_failure_replaced_by_a_fallback_is_recorded(chat):
    fill(chat, 120)
    answer = Summary(text="short", summariser="extractive", calls=2, fallback="overloaded")
    outcome = manager(chat, summariser=Scripted(answer)).manage(chat)
    record = next(iter(chat.audit(after=outcome.seqs[0] - 1))).entry.details["record"]
    assert record["summary"]["fallback"] == "overloaded"


LAWFUL = ["default", "gemini", "hybrid", "opencode", "sliding_window"]


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("policy", LAWFUL)
def test_run_ends_within_the_window_under_any_policy(chat, policy):
    fill(chat, 160)
    settings = {"hybrid": {"limit": 200_000}, "sliding_window": {"limit": 200_000}}
    chosen = policy_for(policy, **settings.get(policy, {}))
    for answer in (ValueError(), "What was done."):
        outcome = manager(chat, policy=chosen, summariser=Scripted(answer)).manage(chat)
        assert outcome.fits
        assert outcome.tokens_after <= WINDOW
        fill(chat, 160)


def test_disabled_compaction_over_the_window_is_refused(chat):
    fill(chat, 160)
    off = {"OPENCODE_DISABLE_AUTOCOMPACT": "1"}
    context = manager(chat, policy="opencode", environ=off, summariser=Scripted())
    outcome = context.manage(chat)
    assert (outcome.status, outcome.fits) == ("noop", False)
    assert outcome.excess["tokens"] == outcome.tokens_before - WINDOW
    chat.append("user", WORDS * 200)
    with pytest.raises(TurnTooLarge):
        context.manage(chat)


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("policy", [*LAWFUL, "gemini-upstream", "opencode-upstream", "roo"])
def test_refused_request_is_cut_without_a_summary_too(chat, policy):
    fill(chat, 200)
    context = manager(chat, policy=policy, limit=1_000_000, summariser=Scripted(ValueError()))
    before = chat.tokens(context.settings.counter)
    outcome = context.recover(chat, RuntimeError("prompt is too long"))
    assert outcome.changed
    assert chat.tokens(context.settings.counter) <= 0.75 * before


def test_no_summary_is_asked_for_if_none_could_help(chat):
    fill(chat, 30)
    chat.append("user", WORDS * 200)
    summariser = Scripted()
    for policy in (*LAWFUL, "roo", "gemini-upstream"):
        before = chat.view().messages
        with pytest.raises(TurnTooLarge):
            manager(chat, policy=policy, summariser=summariser).manage(chat)
        assert chat.view().messages == before
    assert summariser.requests == []
    assert all(note.content["failures"] == 0 for note in chat.notes("compaction"))


def test_summary_of_rows_redacted_during_the_run_is_discarded(chat):
    said = talk(chat, 2_700, COUNTER)

    def meanwhile(request):
        other(chat).redact(said[0])
        return "It quotes what was redacted."

    outcome = manager(chat, summariser=Scripted(meanwhile)).manage(chat)
    assert outcome.status == "failed"
    assert shown(chat) == said


def test_veto_is_no_exhaustion(chat):
    fill(chat, 100)
    hooks = Hooks()
    hooks.on(BeforeCompact, lambda event: False, veto=True)
    context = manager(chat, limit=1_000_000, hooks=hooks, summariser=Scripted())
    assert context.recover(chat, RuntimeError("prompt is too long")).status == "vetoed"


def test_tokens_of_the_limits_take_the_window_s_place(chat):
    fill(chat, 60)
    context = manager(chat, limits=Budget(tokens=1_000), summariser=Scripted())
    outcome = context.manage(chat)
    assert (outcome.window, outcome.window_source) == (1_000, "limits")
    assert outcome.tokens_after <= 1_000


def test_failure_and_its_cost_are_recorded_without_content(chat):
    talk(chat, 2_700, COUNTER)
    failed = SummaryFailed("secret", summariser="dear", kind="overloaded", calls=7, cost=1.5)
    outcome = manager(chat, summariser=Scripted(failed)).manage(chat)
    assert outcome.reason == "dear gave no summary: overloaded."
    content = chat.notes("compaction")[0].content
    ((calls, cost),) = ((one["calls"], one["cost"]) for one in content["summaries"])
    assert (calls, cost) == (outcome.calls, outcome.cost) == (7, 1.5)
    assert "secret" not in json.dumps(content)


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "options",
    [
        {"policy": 5},
        {"policy": Default},
        {"counter": 5},
        {"hooks": 5},
        {"limits": 5},
        {"limits": Budget(bytes="x")},
        {"clock": 5},
        {"protected_tools": 5},
        {"drift_ratio": "x"},
        {"recall": "yes"},
        {"drift_ratio": float("nan")},
    ],
)
def test_settings_that_would_fail_later_are_refused_at_once(chat, options):
    with pytest.raises(InvalidOption):
        manager(chat, **options)


@pytest.mark.parametrize("thing", [None, "an id", 5])
def test_manage_of_another_object_is_refused(thing):
    context = ContextManager("gpt-4o")
    for call in (context.manage, context.will_manage, context.preview, context.drift):
        with pytest.raises(InvalidOption):
            call(thing)


def test_waiting_hook_needs_a_loop():
    async def waiting(event):
        return False

    with pytest.raises(InvalidOption):
        ContextManager("gpt-4o").hooks.on(BeforeCompact, waiting, veto=True)
    hooks = Hooks()
    hooks.on(BeforeCompact, waiting, veto=True)
    with pytest.raises(InvalidOption):
        ContextManager("gpt-4o", hooks=hooks)


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


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("limit", [0, -5, "many", 2.5, True])
def test_wrong_limit_warns_and_the_next_source_is_used(chat, caplog, limit):
    fill(chat, 2)
    outcome = manager(chat, limit=limit, environ={"DEFAULT_MAX_TOKENS": "1234"}).manage(chat)
    assert (outcome.window, outcome.window_source) == (1_234, "DEFAULT_MAX_TOKENS")
    assert "positive" in caplog.text


LONGEST = "-" * MAX_MODEL
LONG = "-" * (MAX_MODEL + 1)


def test_long_name_is_refused_by_every_call_of_a_session(chat):
    fill(chat, 3)
    chat.append("assistant", "x", model=LONGEST)
    chat.append("user", "y")
    view, before = chat.view(), state(chat)
    for ask in (
        lambda: chat.append("assistant", "x", model=LONG),
        lambda: chat.append_many([NewMessage("assistant", "x", model=LONG)]),
        lambda: chat.commit(Plan.condense(view, [1, 2], NewMessage("user", "S", model=LONG))),
        lambda: chat.request(model=LONG),
        lambda: chat.messages(model=LONG),
        lambda: chat.repairs(model=LONG),
    ):
        with pytest.raises(InvalidIdentifier, match="201 characters: at most 200") as caught:
            ask()
        assert caught.value.size == MAX_MODEL + 1
        assert "1,000" not in str(caught.value)  # the rule for ids
    assert state(chat) == before
    assert chat.messages(model=LONGEST)


def test_stored_name_that_is_too_long_is_not_restored(store):
    chat = store.create()
    chat.append("assistant", "x", model="m")
    (entry,) = chat.internals.stored()
    damaged = entry._replace(sealed=entry.sealed._replace(model=LONG))
    with pytest.raises(HistoryCorrupt):
        store.restore("elsewhere", [damaged])


def test_reply_with_such_a_name_is_refused(chat):
    chat.append("user", "go")
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = [{"type": "text", "text": "x"}]
    reply = {"type": "message", "role": "assistant", "content": said, "model": LONG, "id": "m1"}
    reply |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    with pytest.raises(InvalidIdentifier, match="at most 200"):
        chat.record(reply)
    assert chat.head_seq() == 1


@pytest.mark.one_leg
@pytest.mark.parametrize("profile", ["default", "gemini", "multi_llm_chat"])
def test_tables_of_models_refuse_it(profile):
    for ask in (
        lambda: limit_for(LONG, profile=profile),
        lambda: counter_for(LONG),
        lambda: prices().of(LONG),
        lambda: ContextManager(model=LONG),
    ):
        with pytest.raises(InvalidIdentifier, match="at most 200"):
            ask()
    assert limit_for(LONGEST, profile=profile).context > 0
    assert counter_for(LONGEST).name
    assert prices().of(LONGEST) is None
