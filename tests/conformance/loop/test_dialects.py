"""The loop with servers that are compatible with Chat Completions."""

import pytest

from roocontext.errors import InvalidOption
from support.provider_rules.dialects import violations

REASONED = {"reasoning_content": "They ask for files."}


def reply(model, *calls, **fields):
    asked = [
        {"id": tool_id, "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        for tool_id in calls
    ]
    message = {"role": "assistant", "content": None, "tool_calls": asked, **fields}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return {"id": f"r{calls[0]}", "model": model, "choices": [choice]}


def step(chat, model, tool_id, **fields):
    request = chat.request("openai", model=model)
    chat.record(reply(model, tool_id, **fields), request)
    for call in chat.pending():
        chat.answer(call, "parser.py")


def test_reasoning_of_a_reply_is_in_the_next_request(chat):
    chat.append("user", "List the files.")
    step(chat, "deepseek-v4-pro", "c1", **REASONED)
    step(chat, "deepseek-v4-pro", "c2", **REASONED)
    sent = chat.request("openai", model="deepseek-v4-pro")
    assert [it.get("reasoning_content") for it in sent["messages"][1::2]] == [
        REASONED["reasoning_content"]
    ] * 2
    assert sent.repairs == ()
    assert violations(sent["messages"], "deepseek", reasons=True) == []


def test_another_model_gets_no_reasoning_in_the_middle_of_a_tool_loop(chat):
    chat.append("user", "List the files.")
    step(chat, "deepseek-v4-pro", "c1", **REASONED)
    sent = chat.request("openai", model="gpt-5")["messages"]
    assert violations(sent, "openai", complete=True) == []
    step(chat, "gpt-5", "c2")
    back = chat.request("openai", model="deepseek-v4-pro")
    assert violations(back["messages"], "deepseek", complete=True, reasons=True) == []
    assert [(it.seq, it.rule.value) for it in back.repairs] == [(4, "unreasoned")]


def test_dialect_that_is_named_counts(chat):
    chat.append("user", "List the files.")
    step(chat, "mine", "c1", **REASONED)
    for named, field in (("vllm", "reasoning"), (None, "reasoning_content")):
        for sent in (
            chat.request("openai", dialect=named)["messages"],
            chat.messages("openai", dialect=named),
        ):
            assert sent[1][field] == REASONED["reasoning_content"]
    assert chat.repairs("openai", dialect="openai")[0].rule.value == "thinking"
    for wrong in ("acme", ["deepseek"]):
        with pytest.raises(InvalidOption):
            chat.request("openai", dialect=wrong)
