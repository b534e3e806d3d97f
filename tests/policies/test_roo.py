"""Roo Code's two policies in a real store: when they act, what they hide, and what they get wrong.

What the program itself answered is replayed in tests/vectors.
"""

import logging

import pytest

from roocontext.log.counting import Size
from roocontext.log.forms import Rule
from roocontext.log.plan import Action
from roocontext.policies.situation import Aim, Ask, Nothing, Ready, Totals
from roocontext.programs.roo.condensing import INSTRUCTION, strip_space, with_tools_as_text
from roocontext.programs.roo.policy import Roo, Roo2026
from support.deciding import summary
from support.dialogue import call, fill, result, shown, text, work
from support.situations import LETTERS, situated

BOTH = pytest.mark.parametrize("policy", [Roo(), Roo2026()], ids=lambda policy: policy.name)
LARGE = 1_000_000


def totals(tokens, window=1_000, output=100):
    return Totals(size=Size(tokens), window=window, output=output)


def decide(chat, policy, aim=Aim.CONDENSE, **facts):
    facts = {"window": LARGE, **facts}
    return policy.decide(situated(chat, LETTERS, hidden=True, aim=aim, **facts))


def condense(chat, policy, said="in short", **facts):
    """Condense; the plan that was committed."""
    decision = decide(chat, policy, **facts)
    assert isinstance(decision, Ask), decision
    made = decision.compose(summary(said))
    assert isinstance(made, Ready), made
    hidden = set(shown(chat))
    chat.commit(made.plan)
    assert set(decision.hides) >= hidden - set(shown(chat))
    return made.plan


def truncate(chat, policy, **facts):
    """Truncate; the plan that was committed."""
    decision = decide(chat, policy, Aim.TRUNCATE, **facts)
    assert isinstance(decision, Ready), decision
    chat.commit(decision.plan)
    return decision.plan


@BOTH
def test_compaction_is_due_over_the_allowed_size_or_at_the_threshold(policy):
    # 1,000 tokens less a tenth and the 100 of the answer: 800 are allowed
    assert [policy.due(totals(tokens)) for tokens in (800, 801)] == [False, True]
    half = type(policy)(threshold=50)
    assert [half.due(totals(tokens)) for tokens in (499, 500)] == [False, True]
    off = type(policy)(threshold=50, auto=False)
    assert [off.due(totals(tokens)) for tokens in (800, 801)] == [False, True]


@pytest.mark.parametrize(
    ("own", "percent"), [(-1, 60), (5, 5), (100, 100), (4, 60), (101, 60), (0, 60)]
)
def test_threshold_of_a_profile_is_used(own, percent, caplog):
    policy = Roo(threshold=60, profile="mine", profile_thresholds={"mine": own, "other": 10})
    # with a window of 100,000 less than 91 percent is allowed anyway
    window = 100_000
    share = min(percent, 89)
    with caplog.at_level(logging.WARNING):
        assert policy.due(totals(share * 1_000 + 1_000, window)) is True
        assert policy.due(totals(percent * 1_000 - 1, window)) is (percent == 100)
    assert bool(caplog.records) is (own in (4, 101, 0))


def test_calls_of_kept_results_are_copied_into_the_summary(chat):
    fill(chat, 5)
    work(chat, ["a", "b"])
    chat.append("assistant", "seen")
    chat.append("user", "and now?")
    (row,) = condense(chat, Roo()).rows
    assert row.content[2:] == [call("a"), call("b")]
    sent = chat.messages()
    assert [block["type"] for block in sent[1]["content"]] == ["text", "tool_use", "tool_use"]
    # The program's block of reasoning, which no provider knows, stays in the log.
    assert [(it.rule, it.block) for it in chat.repairs()] == [(Rule.UNKNOWN, 0)]


def test_summariser_gets_the_programs_prompt(chat):
    fill(chat, 6)
    request = decide(chat, Roo()).request
    assert (request.style, request.instruction, request.prompt) == ("roo", INSTRUCTION, None)
    assert [one["content"][:9] for one in request.messages] == [f"message {n}" for n in range(3)]
    assert decide(chat, Roo(prompt=" mine ")).request.prompt == "mine"
    fresh = decide(chat, Roo2026(prompt=" mine ")).request
    assert (fresh.style, fresh.instruction, fresh.prompt) == ("roo-2026", "mine", None)
    assert len(fresh.messages) == 6
    assert decide(chat, Roo2026(prompt="  ")).request.instruction is None


def test_fresh_start_leaves_the_summary_alone(chat):
    chat.append("user", '<command name="plan">work in steps</command> go')
    fill(chat, 5)
    policy = Roo2026(environment="three tabs")
    condense(chat, policy, trigger="auto")
    assert shown(chat) == [7]
    (row,) = chat.view().messages
    said = [block["text"] for block in row.content]
    assert said[0] == "## Conversation Summary\nin short"
    assert '<command name="plan">work in steps</command>' in said[1]
    assert said[2:] == ["three tabs"]
    fill(chat, 2)
    condense(chat, policy, trigger="manual")
    assert len(chat.view().messages[0].content) == 2


@BOTH
def test_nothing_is_written_for_a_truncation_of_nothing(chat, policy):
    fill(chat, 2)
    assert isinstance(decide(chat, policy, Aim.TRUNCATE), Nothing)
    assert isinstance(decide(chat, policy, Aim.CLEAR), Nothing)


@BOTH
def test_truncation_after_a_condensation_hides_no_visible_row(chat, policy):
    fill(chat, 20)
    condense(chat, policy)
    seen = shown(chat)
    tokens = truncate(chat, policy).record["new_context_tokens"]
    assert [seq for seq in shown(chat) if seq != 22] == seen
    counted = sum(LETTERS.count("user", row.content, "") for row in chat.view().messages)
    assert tokens > counted  # what the summary hides is still counted


@BOTH
def test_pins_and_their_tool_partners_stay(chat, policy):
    fill(chat, 3)
    asked, told = work(chat)
    fill(chat, 9)
    chat.pin(2)
    chat.pin(told)
    assert {2, asked, told} <= set(shown(chat))
    condense(chat, policy)
    assert {2, asked, told} <= set(shown(chat))
    truncate(chat, type(policy)(fraction=1))
    assert {2, asked, told} <= set(shown(chat))


@BOTH
def test_pinned_view_is_not_summarised(chat, policy):
    for seq in fill(chat, 8):
        chat.pin(seq)
    assert isinstance(decide(chat, policy), Nothing)
    assert isinstance(decide(chat, policy, Aim.TRUNCATE), Nothing)


@BOTH
def test_manage_condenses_and_truncates_if_no_summary_comes(chat, policy):
    fill(chat, 12)
    small = {"window": 400, "output": 10}
    assert decide(chat, policy, Aim.MANAGE, **small).otherwise.plan.action is Action.TRUNCATE
    roomy = decide(chat, type(policy)(threshold=5), Aim.MANAGE, window=4_000, output=10)
    assert roomy.otherwise is None
    off = decide(chat, type(policy)(auto=False), Aim.MANAGE, **small)
    assert off.plan.action is Action.TRUNCATE
    assert isinstance(decide(chat, policy, Aim.MANAGE), Nothing)


@BOTH
def test_recovery_condenses_from_75_percent(chat, policy):
    fill(chat, 8)
    off = type(policy)(auto=False)
    used = situated(chat, LETTERS, window=LARGE).size.tokens
    for window, decision in ((used * 4 // 3, Ask), (used * 4 // 3 + 2, Nothing)):
        assert isinstance(decide(chat, off, Aim.RECOVER, window=window, output=1), decision)


def test_other_formats_are_read_as_the_program_would_have_kept_them(chat):
    for number in range(6):
        role = ("user", "model")[number % 2]
        chat.append(role, {"role": role, "parts": [{"text": f"part {number}"}]}, format="gemini")
    request = decide(chat, Roo()).request
    assert request.messages[1] == {"role": "assistant", "content": [text("part 1")]}
    condense(chat, Roo2026())


def test_ids_and_parts_that_are_no_text_or_object_are_read(chat):
    odd = {**call("a"), "id": ["a"]}
    chat.append("user", "Go on.")
    chat.append("assistant", [odd, call("b")])
    chat.append("user", [{**result("b"), "content": ["bare", 5, text("said")]}])
    asked = decide(chat, Roo2026())
    assert isinstance(asked, Ask)
    assert [message["content"] for message in asked.request.messages][2:] == [
        [text("[Tool Result]\n[undefined]\n[undefined]\nsaid")]
    ]


def test_calls_and_results_are_told_as_javascript_prints_them():
    given = {"b": 1.0, "10": {"x": [], "y": {}}, "2": None, "a": [1e21, "ü", 0.00001]}
    blocks = [
        {"type": "tool_use", "id": "t", "name": "run", "input": given},
        {"type": "tool_use", "id": "t", "name": "run", "input": ["a", 1]},
        {"type": "tool_use", "id": "t", "name": "run"},
        {"type": "tool_result", "tool_use_id": "t"},
        {**result("t", [{"type": "document"}, text("x")]), "is_error": True},
    ]
    printed = '2: null\n10: {\n  "x": [],\n  "y": {}\n}\nb: 1\na: [\n  1e+21,\n  "ü",\n  0.00001\n]'
    assert [block["text"] for block in with_tools_as_text(blocks)] == [
        f"[Tool Use: run]\n{printed}",
        "[Tool Use: run]\n0: a\n1: 1",
        "[Tool Use: run]\nundefined",
        "[Tool Result]",
        "[Tool Result (Error)]\n[document]\nx",
    ]


def test_white_space_is_that_of_javascript():
    assert strip_space("\ufeff\u2003 \x1fa\x85 \n") == "\x1fa\x85"
