"""The sliding window answers as the recorded program did, and ours as it should have."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roocontext import Kind, Store
from roocontext.log.counting import Size
from roocontext.log.plan import LEFT_OUT
from roocontext.policies.situation import Nothing, Ready
from roocontext.policies.sliding_window import SlidingWindow
from roocontext.programs.multi_llm_chat.counter import estimate_text
from roocontext.programs.multi_llm_chat.policy import SlidingWindowUpstream
from support.situations import situated
from vectors.programs.multi_llm_chat import (
    content_to_text,
    validate_context_length,
    validate_system_prompt_length,
)
from vectors.replay import load

ROLES = {"user": "user", "gemini": "assistant", "chatgpt": "assistant", "tool": "tool"} | {
    role: role for role in ("system", "developer", "function")
}
"""The role of OpenAI's form in which a store can hold each of the program's."""


def calculator(name: str) -> Callable[[Any], int]:
    """The recorded calculator of that name, applied to a content."""

    def count(content: Any) -> int:
        text = content_to_text(content, tools=True)
        if name == "chars":
            return len(text)
        return int(estimate_text(text) * float(name.removeprefix("estimate_x")))

    return count


class Recorded:
    """A counter that counts as the recorded program did: our marker, unknown to it, is free."""

    exact = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._count = calculator(name)

    def count(self, role: str, content: Any, form: str) -> int:
        said = content["content"] if form == "openai" else content
        return 0 if said == LEFT_OUT else self._count(said)


def unheld(given: Any) -> str | None:
    """Why a store cannot hold this history as it is."""
    for entry in given["history"]:
        content = entry.get("content", "")
        if entry["role"] == "assistant":
            return "role 'assistant', an answer in a store, is unknown to the program"
        if entry["role"] not in ROLES:
            return f"role {entry['role']!r}, which no format has"
        if not isinstance(content, str | list | None):
            return "a content that is neither text nor a list"
        if isinstance(content, list) and not all(isinstance(part, dict) for part in content):
            return "a list that holds something other than parts"
    return None


def unlike(given: Any) -> str | None:
    """Why the window that keeps every law would not keep what the program kept."""
    history, count = given["history"], calculator(given["token_calculator"])
    if unheld(given):
        return "cannot be held in a store"
    if any(entry["role"] not in {"user", "gemini", "chatgpt"} for entry in history):
        return "an entry that cuts a turn"
    if validate_context_length(history, given["max_tokens"], count, given["system_prompt"]):
        return "the newest turn is over the limit"
    if passed_over(given):
        return "a question without an answer, at which the limit is passed"
    if any(entry["role"] == "user" and not entry.get("content") for entry in history):
        return "an empty question, which to us begins no turn"
    return None


def passed_over(given: Any) -> bool:
    """True if the first turn that does not fit is a question without an answer."""
    history, count = given["history"], calculator(given["token_calculator"])
    room = given["max_tokens"] - (count(given["system_prompt"]) if given["system_prompt"] else 0)
    answered = False
    for entry in reversed(history):
        question = entry["role"] == "user" and not answered
        answered = entry["role"] != "user"
        tokens = count(entry["content"])
        if tokens > room:
            return question
        room -= tokens
    return False


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def imported(store: Store, given: Any) -> Any:
    """A session that holds the history; ids and the models' names are kept next to the content."""
    chat = store.create()
    for entry in given["history"]:
        role = ROLES[entry["role"]]
        content = {"role": role, "content": entry.get("content", "")}
        model = entry["role"] if role == "assistant" else None
        chat.append(role, content, format="openai", message_id=str(entry["id"]), model=model)
    return chat


def through(store: Store, given: Any, policy: Any) -> tuple[list[int], Any]:
    """The ids that are in view after the policy's plan was committed, and the decision."""
    chat, counter = imported(store, given), Recorded(given["token_calculator"])
    prompt = given["system_prompt"]
    size = Size(counter.count("user", prompt, "anthropic")) if prompt else Size()
    facts = {"window": given["max_tokens"], "system_size": size, "overhead": size}
    decision = policy.decide(situated(chat, counter, hidden=policy.compat, **facts))
    if isinstance(decision, Ready):
        chat.commit(decision.plan)
    else:
        assert isinstance(decision, Nothing), decision
    rows = [row for row in chat.view().messages if row.kind is Kind.MESSAGE]
    assert chat.verify().ok
    return [int(row.message_id) for row in rows], decision


def told(name: str, total: int, reasons: Counter[str], capsys: Any, what: str) -> None:
    """Say how many were compared, and why the others were not."""
    left = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "none"
    done = total - reasons.total()
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {done} of {total} {what}; left out: {left} ")
    assert done or total == 0


def test_every_pruning_is_reproduced_through_the_store(store, capsys):
    recorded = load("sliding_window/prune")
    reasons: Counter[str] = Counter()
    for case in recorded:
        given, wanted = case["input"], case["output"]
        if reason := unheld(given):
            reasons[reason] += 1
            continue
        kept, decision = through(store, given, SlidingWindowUpstream())
        assert kept == wanted["kept"], case["name"]
        if isinstance(decision, Ready):
            assert wanted["info"].items() <= decision.plan.record.items(), case["name"]
    told("sliding_window/prune", len(recorded), reasons, capsys, "through the store")


def test_seed_profile_keeps_the_same_without_the_programs_defects(store, capsys):
    recorded = load("sliding_window/prune")
    reasons: Counter[str] = Counter()
    for case in recorded:
        given, wanted = case["input"], case["output"]
        if reason := unlike(given):
            reasons[reason] += 1
            continue
        kept, decision = through(store, given, SlidingWindow())
        assert kept == wanted["kept"], case["name"]
        assert isinstance(decision, Nothing) == wanted["same_object"], case["name"]
        if isinstance(decision, Ready):
            counts = decision.plan.counts
            assert counts.before.tokens == wanted["info"]["original_length"], case["name"]
            assert counts.after.tokens == wanted["info"]["pruned_length"], case["name"]
            assert decision.plan.record["turns"] == wanted["user_turns_removed"], case["name"]
    told("sliding_window/prune", len(recorded), reasons, capsys, "by the window without defects")


def test_every_validation_is_reproduced(capsys):
    recorded = load("sliding_window/validate")
    assert recorded
    for case in recorded:
        given, wanted = case["input"], case["output"]
        limits = (given["max_context"], calculator(given["token_calculator"]))
        prompt = validate_system_prompt_length(given["system_prompt"], *limits)
        context = validate_context_length(given["history"], *limits, given["system_prompt"])
        for refusal, answer in ((prompt, wanted["system_prompt"]), (context, wanted["context"])):
            assert (refusal is None) is answer["valid"], case["name"]
            if refusal is not None:
                assert str(refusal.needed) in answer["error"], case["name"]
                assert str(refusal.limit) in answer["error"], case["name"]
    with capsys.disabled():
        count = len(recorded)
        sys.stdout.write(f"\nsliding_window/validate: {count} of {count} pure ")
