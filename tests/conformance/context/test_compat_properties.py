"""The imitations of real programs on random histories: what they refuse, and when.

A run ends as its program does, over the window too. It is refused only for a system prompt or a
newest turn that is over the window, where the program would send too much in any case, and before
anything is asked or hidden. The store accepts every plan.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roocontext.context.settings import frame_of
from roocontext.errors import BudgetExceeded, SummaryFailed, TurnTooLarge
from roocontext.log.summary import Summary
from roocontext.policies.layout import total_size, turns
from roocontext.policies.situation import Ask, Ready, ReportedTokens
from roocontext.programs.gemini_cli.policy import GeminiUpstream
from roocontext.programs.multi_llm_chat.policy import SlidingWindowUpstream
from roocontext.programs.opencode.policy import OpenCodeUpstream
from roocontext.programs.roo.policy import Roo, Roo2026
from roocontext.tokens import usage_tokens
from support.async_manager import Scripted, manager
from support.dialogue import state
from support.examples import examples
from support.histories import HISTORIES, play
from support.run_judge import Watched
from support.situations import LETTERS, situated

EXAMPLES = examples(20, long=25)

switches = {"auto": st.booleans(), "threshold": st.sampled_from([5, 60, 100])}
PROGRAMS: dict[str, st.SearchStrategy[Any]] = {
    "roo": st.builds(Roo, native_tools=st.booleans(), **switches),
    "roo-2026": st.builds(Roo2026, **switches),
    "gemini-upstream": st.just(GeminiUpstream()),
    "opencode-upstream": st.builds(OpenCodeUpstream, autocompact=st.booleans()),
    "sliding-window-upstream": st.just(SlidingWindowUpstream()),
}
ANSWERS = st.sampled_from(["in short", "word " * 400, " ", SummaryFailed(kind="overloaded")])
ROOMS = st.sampled_from([0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.2])
AIMS = st.sampled_from(["manage", "manage", "manage", "condense", "truncate", "prune"])
SYSTEMS = st.sampled_from([None, None, "be brief", "word " * 60])


@pytest.mark.parametrize("name", PROGRAMS)
def test_run_is_as_foreseen_and_a_refusal_is_true_and_hides_nothing(memory, name):
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(
        history=HISTORIES,
        policy=PROGRAMS[name],
        room=ROOMS,
        summary=ANSWERS,
        system=SYSTEMS,
        aim=AIMS,
    )
    def examine(history, policy, room, summary, system, aim):
        chat = memory.create()
        play(chat, history)
        window = max(1, int(chat.tokens(LETTERS) * room))
        script, watched = Scripted(summary), Watched(chat)
        options = {"policy": policy, "limit": window, "output": 5, "counter": LETTERS}
        # Else the run writes a note of the prompt, which a preview does not.
        chat.internals.keep_frame(system=system)
        before = state(chat)
        foreseen = end(
            lambda: manager(chat, summariser=Scripted(summary), **options).preview(
                watched, aim, system=system
            )
        )
        assert state(chat) == before
        context = manager(chat, summariser=script, **options)
        ended = end(lambda: getattr(context, aim)(watched, system=system))
        assert type(foreseen) is type(ended)
        frame = frame_of(context.settings.measure, system, ())
        if isinstance(ended, BudgetExceeded):
            assert ended.needed > ended.limit == window
            assert (chat.head_seq(), chat.view().messages) == (before[1], before[2].messages)
            assert script.requests == []
            if isinstance(ended, TurnTooLarge):
                assert aim == "manage"
                judged_true(chat, policy, ended, frame)
        else:
            assert [n for n in chat.notes("compaction") if n.content["event"] == "refused"] == []
            assert ended.tokens_after == chat.tokens(LETTERS) + frame.overhead.tokens
            views = (foreseen.view, chat.view().messages)
            one, other = ([(m.seq, m.role, m.content) for m in view] for view in views)
            assert one == other
        assert chat.verify().ok

    examine()


def end(run: Any) -> Any:
    """The outcome of a run, or its refusal."""
    try:
        return run()
    except BudgetExceeded as refused:
        return refused


def judged_true(chat: Any, policy: Any, refused: TurnTooLarge, frame: Any) -> None:
    """The newest turn is over the window, and so is what the program would send at best."""
    copy = chat.fork()
    situation = situated(
        copy,
        LETTERS,
        window=refused.limit,
        hidden=True,
        output=5,
        system=frame.system,
        system_size=frame.system_size,
        overhead=frame.overhead,
        reported=reported(chat),
    )
    newest = total_size(turns(situation)[-1].rows).plus(frame.overhead)
    assert newest.tokens == refused.needed
    decision = policy.decide(situation)
    if isinstance(decision, Ask):
        decision = decision.compose(Summary(text=".", summariser="test"))
    if isinstance(decision, Ready):
        copy.commit(decision.plan)
    assert copy.tokens(LETTERS) + frame.overhead.tokens > refused.limit


def reported(chat: Any) -> ReportedTokens | None:
    """The usage that the provider reported, if nothing but appends came after it."""
    call = chat.internals.calls()[-1] if chat.internals.calls() else None
    used = usage_tokens(call.usage) if call else None
    if call is None or used is None or not call.current:
        return None
    since = chat.tokens(LETTERS) - chat.tokens(LETTERS, as_of=call.seq)
    return ReportedTokens(used.input, used.output, since)


@pytest.fixture
def chat(memory: Any) -> Any:
    return memory.create()


def test_roo_2026_condenses_the_newest_turn_too(chat):
    """The program keeps nothing but the summary, so no turn is too large for it."""
    chat.append("user", "Why?")
    chat.append("assistant", "Look.")
    chat.append("user", "word " * 400)
    outcome = managed(chat, Roo2026())
    assert (outcome.status, outcome.fits) == ("condensed", True)


@pytest.mark.parametrize("policy", [Roo(), Roo2026()])
def test_pin_is_no_reason_to_refuse_a_turn(chat, policy):
    """Pinned messages may keep the request over the window; the newest turn is small."""
    pinned = chat.append("user", "word " * 400).seq
    chat.pin(pinned)
    for _ in range(4):
        chat.append("assistant", "ok")
        chat.append("user", "go on")
    outcome = managed(chat, policy)
    assert not outcome.fits
    assert pinned in [message.seq for message in chat.view().messages]


@pytest.mark.parametrize("policy", [Roo(auto=False), Roo2026(auto=False)])
def test_reported_usage_counts_for_a_compat_policy(chat, policy):
    """By the report the request fits, whatever our count says of the newest turn."""
    chat.append("user", "word " * 400)
    chat.append("assistant", "ok", usage={"input_tokens": 40, "output_tokens": 1})
    outcome = managed(chat, policy)
    assert outcome.status == "noop"


@pytest.mark.parametrize("policy", [Roo(), Roo2026()])
def test_truncation_on_request_is_never_refused_by_another_policy_s_rules(chat, policy):
    chat.append("user", "word " * 400)
    context = manager(chat, policy=policy, limit=200, counter=LETTERS, summariser=Scripted("x"))
    outcome = context.truncate(chat)
    assert (outcome.status, outcome.fits) == ("noop", False)


@pytest.mark.parametrize("policy", [Roo(), Roo2026()])
def test_program_that_cannot_condense_truncates_once(chat, policy):
    for number in range(21):
        chat.append(("user", "assistant")[number % 2], "word " * 40)
    options = {"policy": policy, "limit": 200, "counter": LETTERS, "output": 5}
    outcome = manager(chat, summariser=Scripted(ValueError()), **options).manage(chat)
    assert (len(outcome.steps), outcome.hidden, outcome.fits) == (1, 10, False)


def managed(chat: Any, policy: Any) -> Any:
    """One run with a window of 200 tokens."""
    options = {"policy": policy, "limit": 200, "counter": LETTERS, "output": 5}
    return manager(chat, summariser=Scripted("x"), **options).manage(chat)
