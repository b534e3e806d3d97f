"""The manager's settings, limits and budgets, and what it says: none of it depends on an engine."""

import pytest

from roocontext import ContextManager, Hooks, NewMessage, Plan, RooContextError
from roocontext.context import AfterCompact, BeforeCheck, BeforeCompact
from roocontext.errors import (
    HistoryCorrupt,
    InvalidIdentifier,
    InvalidOption,
    TurnTooLarge,
    UnknownPlugin,
)
from roocontext.log.counting import Budget
from roocontext.log.encoding import MAX_MODEL
from roocontext.policies.default import Default
from roocontext.policies.hybrid import Hybrid
from roocontext.policies.sliding_window import SlidingWindow
from roocontext.programs.gemini_cli.policy import gemini_event
from roocontext.programs.opencode.policy import opencode_event
from roocontext.programs.roo.policy import roo_events
from roocontext.tokens import counter_for, limit_for
from roocontext.tokens.prices import prices
from support.async_manager import WINDOW, Scripted, grow, manager
from support.dialogue import WORDS, fill, shown, state
from support.replies import claude

pytestmark = pytest.mark.one_leg

TOO_LONG = RuntimeError("Range of input length should be [1, 32768]")


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


@pytest.mark.parametrize("system", [None, "x " * 80_000])
def test_limit_is_remembered_where_nothing_is_left_to_cut(chat, system):
    chat.append("user", "x " * 20_000)
    context = manager(chat, "acme-1", limit=None, environ={}, policy="sliding_window")
    with pytest.raises(RooContextError):
        context.recover(chat, TOO_LONG, system=system)
    assert len(chat.notes("model_limits")) == 1


def test_refusal_without_numbers_is_not_remembered(chat):
    fill(chat, 300)
    context = manager(chat, "acme-1", limit=None, environ={}, summariser=Scripted())
    assert context.recover(chat, RuntimeError("prompt is too long")).changed
    assert chat.notes("model_limits") == []


def test_client_of_another_sdk_is_refused(chat):
    with pytest.raises(InvalidOption, match="a function that asks a model, not Client"):
        manager(chat, client=type("Client", (), {"chat": None})())


def test_reported_size_above_the_estimate_counts(chat):
    fill(chat, 40)
    chat.append("assistant", "ok", usage={"input_tokens": 3_900, "output_tokens": 10})
    assert manager(chat, summariser=Scripted()).manage(chat).status == "condensed"


def test_pins_and_protected_tools_stay(chat):
    pinned = chat.append("user", f"Never touch main.c. {WORDS}").seq
    chat.pin(pinned)
    grow(chat)
    fill(chat, 40)
    context = manager(chat, summariser=Scripted(), protected_tools=["run"])
    outcome = context.manage(chat)
    assert outcome.cleared == 0
    assert pinned in shown(chat)


WRONG = [
    *({name: "nobody"} for name in ("policy", "counter", "summariser")),
    *({name: 5} for name in ("policy", "counter", "hooks", "limits", "clock", "summariser")),
    *({"output": output} for output in (0, -1)),
    *({"protected_tools": tools} for tools in ("run", 5)),
    *({"drift_ratio": ratio} for ratio in ("x", float("nan"))),
    {"policy": Default},
    {"limits": Budget(bytes="x")},
    {"recall": "yes"},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_wrong_settings_are_refused_at_once(chat, options):
    with pytest.raises(UnknownPlugin if "nobody" in options.values() else InvalidOption):
        manager(chat, **options)


def test_wrong_arguments_of_a_run_are_refused(chat):
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


LAWFUL = ["default", "gemini", "hybrid", "opencode", "sliding_window"]


@pytest.mark.parametrize("kind", [Hybrid, SlidingWindow])
@pytest.mark.parametrize("answer", [ValueError(), "What was done."])
def test_limit_of_a_policy_above_the_window_is_not_used(chat, kind, answer):
    fill(chat, 160)
    context = manager(chat, policy=kind(limit=200_000), summariser=Scripted(answer))
    assert context.manage(chat).tokens_after <= WINDOW


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


def test_tokens_of_the_limits_take_the_window_s_place(chat):
    fill(chat, 60)
    context = manager(chat, limits=Budget(tokens=1_000), summariser=Scripted())
    outcome = context.manage(chat)
    assert (outcome.window, outcome.window_source) == (1_000, "limits")
    assert outcome.tokens_after <= 1_000


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
    with pytest.raises(InvalidIdentifier, match="at most 200"):
        chat.record(claude(model=LONG))
    assert chat.head_seq() == 1


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
