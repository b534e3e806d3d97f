"""Laws of every policy on random sessions: those of plans, and for programs that they commit."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext import Kind
from roocontext.log.counting import Budget
from roocontext.policies.hybrid import Hybrid
from roocontext.policies.situation import Aim, Ask, Nothing, Ready, Refused, TooLarge
from roocontext.policies.sliding_window import SlidingWindow
from roocontext.programs.gemini_cli.policy import CompressionStatus, Gemini, GeminiUpstream
from roocontext.programs.opencode.policy import OpenCode, OpenCodeUpstream
from roocontext.programs.roo.policy import Roo, Roo2026
from support.deciding import decided, seen, summary, talk
from support.dialogue import WORDS, shown, work
from support.examples import examples
from support.histories import HISTORIES, IMAGE, play
from support.plan_laws import commit_lawfully
from support.situations import situated

FEW = {"protect": 20, "minimum": 10, "output_max": 50}
SAID = st.sampled_from(["", "in short", WORDS * 3])


class Ones:
    """A counter that sees no difference between messages."""

    name, exact = "ones", False

    def count(self, role, content, form):
        return 1


def is_question(message):
    """True if the user said something; results alone are no question."""
    blocks = message.content if isinstance(message.content, list) else [{"type": "text"}]
    return any(block["type"] != "tool_result" for block in blocks)


@pytest.mark.parametrize(
    "policy", [Gemini(), GeminiUpstream(), OpenCode(), OpenCodeUpstream(), Roo(), Roo2026()]
)
def test_empty_session_has_nothing_to_condense(chat, policy):
    assert isinstance(decided(chat, policy, aim=Aim.CONDENSE, output=1000), Nothing)


@pytest.mark.parametrize(
    ("policy", "goes"),
    [(Gemini(), 4), (GeminiUpstream(), 4), (OpenCode(), 6), (OpenCodeUpstream(), 6)],
)
def test_pin_and_its_tool_partner_stay(chat, policy, goes):
    (first,) = talk(chat, 1)
    called, answered = work(chat, ["a", "b"])
    later = talk(chat, 6)
    chat.pin(answered)
    asked = decided(chat, policy, aim=Aim.CONDENSE, output=1000)
    assert asked.hides == (*first, *(seq for turn in later[:goes] for seq in turn))
    chat.commit(asked.compose(summary()).plan)
    assert shown(chat)[:2] == [called, answered]
    assert chat.view().messages[2].role == "user"


@pytest.mark.parametrize("said", ["", " \n"])
@pytest.mark.parametrize("policy", [Gemini(), GeminiUpstream(), OpenCode(), OpenCodeUpstream()])
def test_empty_summary_is_refused(chat, policy, said):
    talk(chat, 5)
    told = {"aim": Aim.CONDENSE, "trigger": "manual", "output": 1000}
    refused = decided(chat, policy, **told).compose(summary(said))
    assert isinstance(refused, Refused)
    assert refused.status in ("empty_summary", CompressionStatus.EMPTY_SUMMARY)
    assert refused.latch is (type(policy) is OpenCode)


@pytest.mark.parametrize("policy", [Gemini(), OpenCode()])
def test_turn_that_is_too_large_is_refused_with_numbers(chat, policy):
    chat.append("user", WORDS * 50)
    decision = decided(chat, policy, window=100, output=1000)
    assert isinstance(decision, TooLarge)
    assert decision.needed > decision.limit == 100


@pytest.mark.parametrize("policy", [Gemini(), OpenCode()])
def test_bytes_are_a_limit_too(chat, policy):
    talk(chat, 4)
    size = seen(chat, policy).size
    facts = {"output": 1000}
    within, over = Budget(bytes=size.bytes), Budget(bytes=size.bytes - 1)
    assert isinstance(decided(chat, policy, limits=within, **facts), Nothing)
    assert isinstance(decided(chat, policy, limits=over, **facts), Ask)


@pytest.mark.parametrize("policy", [Hybrid(), SlidingWindow()])
def test_refusal_names_the_limit_that_is_exceeded(chat, policy):
    chat.append("user", [IMAGE])
    chat.append("user", [IMAGE])
    situation = situated(chat, Ones(), window=100, limits=Budget(images=1), failures=3)
    assert policy.decide(situation) == TooLarge("turn", 2, 1, "images")


@pytest.mark.parametrize(
    ("policy", "keeps"),
    [(Gemini(), lambda _: True), (OpenCode(**FEW, spared=frozenset({"skill"})), is_question)],
    ids=["gemini", "opencode"],
)
@settings(max_examples=examples(20, long=40))
@given(
    st.lists(st.tuples(HISTORIES, SAID), min_size=1, max_size=3),
    st.integers(40, 250),
    st.integers(0, 1),
    st.sampled_from([Aim.MANAGE, Aim.MANAGE, Aim.CONDENSE, Aim.CLEAR, Aim.RECOVER]),
)
def test_plan_of_a_lawful_policy_keeps_the_laws(
    store, policy, keeps, rounds, percent, failures, aim
):
    chat = store.create()
    for steps, said in rounds:
        play(chat, steps)
        before = seen(chat, policy, output=1000)
        window = max(1, before.size.tokens * percent // 100)
        before = replace(before, window=window, aim=aim, failures=failures)
        decision = policy.decide(before)
        assert aim is not Aim.MANAGE or policy.due(before.totals) or isinstance(decision, Nothing)
        if isinstance(decision, Ask):
            composed = decision.compose(summary(said))
            decision = composed if isinstance(composed, Ready) else decision.otherwise
        if isinstance(decision, Ready):
            newest = before.visible[-1]
            gone = commit_lawfully(chat, before, decision.plan)
            waits = newest.message.role == "user" and newest.message.kind is Kind.MESSAGE
            assert not (waits and keeps(newest.message) and newest.seq in gone)


@pytest.mark.parametrize(
    ("policy", "facts"),
    [
        (GeminiUpstream(count=lambda _: 0), {}),
        (OpenCodeUpstream(**FEW), {"window": 100, "output": 1000}),
        (Roo(threshold=5, fraction=0.7), {"window": 300, "output": 10}),
        (Roo2026(threshold=5, fraction=0.7), {"window": 300, "output": 10}),
    ],
    ids=["gemini-upstream", "opencode-upstream", "roo", "roo-2026"],
)
@settings(max_examples=examples(20, long=40))
@given(
    st.lists(st.tuples(HISTORIES, st.sampled_from(list(Aim))), min_size=1, max_size=3),
    st.sampled_from(["in short", WORDS * 3]),
)
def test_plan_of_a_program_is_committed_and_hides_no_pin(store, policy, facts, rounds, said):
    chat = store.create()
    for steps, aim in rounds:
        play(chat, steps)
        pins = set(shown(chat)) & chat.pins()
        decision = decided(chat, policy, aim=aim, **facts)
        if isinstance(decision, Ask):
            composed = decision.compose(summary(said))
            decision = composed if isinstance(composed, Ready) else decision.otherwise
        if isinstance(decision, Ready):
            chat.commit(decision.plan)
        assert pins <= set(shown(chat))
        assert chat.verify().ok
