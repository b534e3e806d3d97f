"""What several policies do alike; random sessions are in conformance/context."""

import pytest

from roocontext import Kind
from roocontext.errors import InvalidOption
from roocontext.log.counting import Budget
from roocontext.policies.default import Default
from roocontext.policies.hybrid import Hybrid
from roocontext.policies.situation import Aim, Ask, Nothing, Refused, TooLarge
from roocontext.policies.sliding_window import SlidingWindow
from roocontext.programs.gemini_cli.policy import CompressionStatus, Gemini, GeminiUpstream
from roocontext.programs.opencode.policy import OpenCode, OpenCodeUpstream
from roocontext.programs.roo.policy import Roo, Roo2026
from support.deciding import decided, seen, summary, talk
from support.dialogue import WORDS, shown, work
from support.histories import IMAGE
from support.situations import LETTERS, prompt_of, situated


class Ones:
    """A counter that sees no difference between messages."""

    name, exact = "ones", False

    def count(self, role, content, form):
        return 1


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


@pytest.mark.parametrize(
    "policy", [Gemini(), GeminiUpstream(), OpenCode(), OpenCodeUpstream(), Hybrid(least=20)]
)
@pytest.mark.parametrize(
    ("form", "reply", "content"),
    [
        ("gemini", "model", lambda role, said: {"role": role, "parts": [{"text": said}]}),
        ("openai", "assistant", lambda role, said: {"role": role, "content": said}),
    ],
)
def test_new_rows_are_in_the_form_of_the_session(chat, policy, form, reply, content):
    for number in range(12):
        role = ("user", reply)[number % 2]
        chat.append(role, content(role, f"message {number} {WORDS}"), format=form)
    chat.commit(decided(chat, policy, aim=Aim.CONDENSE, output=1000).compose(summary()).plan)
    made = [row for row in chat.view().messages if row.kind is not Kind.MESSAGE]
    assert "in short" in str(made)
    for row in made:
        assert (row.format, row.content.keys()) == (form, content("", "").keys())
        assert row.content["role"] == row.role in ("user", reply)


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


WITH_A_LIMIT = pytest.mark.parametrize("policy", [Hybrid(least=20), SlidingWindow()])


@WITH_A_LIMIT
def test_system_prompt_over_the_limit_is_refused(chat, policy):
    talk(chat, 1)
    prompt = prompt_of(LETTERS, "be brief " * 50)
    needed = prompt["overhead"].tokens
    decision = policy.decide(seen(chat, window=needed - 1, **prompt))
    assert decision == TooLarge("system", needed, needed - 1)


@WITH_A_LIMIT
def test_recovery_gets_under_the_cap(chat, policy):
    talk(chat, 10)
    cap = seen(chat).size.tokens * 3 // 4
    decision = policy.decide(seen(chat, aim=Aim.RECOVER, cap=cap))
    ready = decision.compose(summary()) if isinstance(decision, Ask) else decision
    chat.commit(ready.plan)
    assert seen(chat).size.tokens <= cap


@WITH_A_LIMIT
def test_refusal_names_the_limit_that_is_exceeded(chat, policy):
    chat.append("user", [IMAGE])
    chat.append("user", [IMAGE])
    situation = situated(chat, Ones(), window=100, limits=Budget(images=1), failures=3)
    assert policy.decide(situation) == TooLarge("turn", 2, 1, "images")


WRONG_SHARES = [
    *(
        (Default, name, value)
        for name in ("threshold", "relief", "target", "keep", "summary")
        for value in (0, -1, 85, "x")
    ),
    *((Hybrid, name, value) for name in ("target", "share") for value in (0, -1, 1.1)),
    *(
        (kind, name, value)
        for kind in (Gemini, GeminiUpstream)
        for name, value in (("threshold", -0.1), ("fraction", 0), ("fraction", 1))
    ),
]


@pytest.mark.parametrize(("kind", "name", "value"), WRONG_SHARES)
def test_share_that_is_none_is_refused(kind, name, value):
    with pytest.raises(InvalidOption) as caught:
        kind(**{name: value})
    assert caught.value.name == name
