"""Models in requests: own reasoning goes back to its model, whoever replied in between."""

import pytest

from roocontext import NewMessage, Plan
from support import replies
from support.dialogue import call, fill, result, text
from support.replies import output_text

pytestmark = pytest.mark.every_leg

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
SIGNED = {"functionCall": {"name": "run", "args": {}}, "thoughtSignature": "c2ln"}


def claude(model, number, *blocks):
    return replies.claude(*blocks, number=number, model=model)


def gpt(model, number):
    return replies.gpt(
        {**REASONING, "id": f"rs_{number}"}, output_text("So.", number), number=number, model=model
    )


def gemini(version, number):
    return {
        "candidates": [{"content": {"role": "model", "parts": [SIGNED]}, "finishReason": "STOP"}],
        "modelVersion": version,
        "responseId": f"r{number}",
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1},
    }


def ask(chat, reply, model, form="anthropic"):
    """The user speaks, and the model replies; returns the seq of its reply."""
    if chat.waits_for() == "user":
        chat.append("user", "Go on.")
    return chat.record(reply, chat.request(form, model=model)).seq


def thoughts(chat, model, form="anthropic"):
    """How many thoughts a request sends."""
    return str(chat.request(form, model=model)).count(
        {"anthropic": "'thinking': 'hm'", "openai-responses": "rs_", "gemini": "c2ln"}[form]
    )


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    ("requested", "came"),
    [
        ("gemini-flash-latest", "gemini-3-flash"),
        ("models/gemini-3-flash", "gemini-3-flash"),
        ("vertex_ai/gemini-3-flash", "gemini-3-flash"),
        ("google/gemini-3-flash", "models/gemini-3-flash-001"),
    ],
)
def test_signature_goes_back_to_the_name_that_was_requested(chat, requested, came):
    chat.append("user", "Look.")
    ask(chat, gemini(came, 1), requested, "gemini")
    (called,) = chat.pending()
    chat.answer(called, "ok")
    assert thoughts(chat, requested, "gemini") == 1
    assert thoughts(chat, came, "gemini") == 1
    assert thoughts(chat, "gemini-3-pro", "gemini") == 0


def test_alias_is_equal_to_what_was_requested_under_it(chat):
    ask(chat, gpt("gpt-5-2025-08-07", 1), "prod", "openai-responses")
    seq = ask(chat, gpt("gpt-5-2026-01-15", 2), "prod", "openai-responses")
    chat.append("user", "Go on.")
    assert thoughts(chat, "prod", "openai-responses") == 2
    assert thoughts(chat, "azure/prod", "openai-responses") == 2
    assert thoughts(chat, "prod-2", "openai-responses") == 0
    assert thoughts(chat, "gpt-5-2025-08-07", "openai-responses") == 1
    assert thoughts(chat, "gpt-5", "openai-responses") == 2
    assert len(str(chat.messages("openai-responses", model="prod")).split("rs_")) == 3
    (entry,) = (row.entry for row in chat.audit(after=seq - 1) if row.seq == seq)
    assert entry.model == "gpt-5-2026-01-15"
    assert entry.extra["roocontext"]["requested_model"] == "prod"


def test_without_a_name_in_the_request_none_is_kept(chat):
    fill(chat, 1)
    seq = chat.record(claude("claude-y", 1, text("So.")), chat.request()).seq
    (entry,) = (row.entry for row in chat.audit(after=seq - 1) if row.seq == seq)
    assert "requested_model" not in entry.extra["roocontext"]


def test_alias_of_a_model_with_bound_thinking_is_bound_too(chat):
    fill(chat, 2)
    chat.append("user", "Look.")
    chat.record(
        claude("claude-fable-5-1-20260901", 1, THOUGHT, call("t1")), chat.request(model="prod")
    )
    chat.append("user", [result("t1")])
    assert thoughts(chat, "prod") == 1
    view = chat.view()
    chat.commit(Plan.condense(view, [1, 2], NewMessage("user", "S")))
    made = chat.request(model="prod")
    assert "hm" not in str(made["messages"])
    assert "thinking" in {repair.rule for repair in made.repairs}


def test_fork_and_the_past_know_the_requested_names(chat, store):
    ask(chat, gpt("gpt-5-2025-08-07", 1), "prod", "openai-responses")
    chat.append("user", "Go on.")
    end = chat.head_seq()
    fork = chat.fork()
    ask(chat, gpt("gpt-6", 2), "gpt-6", "openai-responses")
    for seen in (
        fork.messages("openai-responses", model="prod"),
        chat.messages("openai-responses", model="prod", as_of=end),
        chat.request("openai-responses", model="prod", as_of=end)["input"],
    ):
        assert "rs_1" in str(seen)
