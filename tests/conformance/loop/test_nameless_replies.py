"""A reply without an id, as some servers and models give it, is recorded once for its request."""

import pytest

ASKED = {"functionCall": {"name": "ls", "args": {}}}


def reply(*parts):
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "modelVersion": "g"}


def test_reply_without_an_id_is_recorded_once(chat):
    chat.append("user", "hi")
    request = chat.request("gemini")
    first = chat.record(reply(ASKED), request)
    again = chat.record(reply(ASKED), request)
    assert (again.seq, again.new) == (first.seq, False)
    assert len(chat.pending()) == 1
    chat.answer((first.seq, 0), "parser.py")
    assert not chat.record(reply(ASKED), request).new
    assert chat.record(reply(ASKED), chat.request("gemini")).new  # another request


@pytest.mark.parametrize("other", ["content", "rewound", "request"])
def test_another_reply_without_an_id_is_another(chat, other):
    chat.append("user", "hi")
    request = chat.request("gemini")
    first = chat.record(reply(ASKED), request if other != "request" else None)
    if other == "rewound":
        chat.rewind(to=first.seq, keep_target=False)
    parts = [{"text": "no"}] if other == "content" else [ASKED]
    assert chat.record(reply(*parts), request).new


@pytest.mark.parametrize("form", ["gemini", "anthropic", "openai", "openai-responses"])
def test_results_without_ids_answer_their_calls_also_one_by_one(chat, form):
    chat.append("user", "hi")
    chat.record(reply(ASKED, ASKED))
    for said in ("one", "two"):
        response = {"name": "ls", "response": {"output": said}}
        part = {"functionResponse": response}
        chat.append("user", {"role": "user", "parts": [part]}, format="gemini")
    assert chat.waits_for() == "model"
    rules = {repair.rule for repair in chat.repairs(form)}
    assert not rules & {"duplicate", "orphan", "unanswered"}
    sent = str(chat.messages(form))
    assert 0 < sent.index("'one'") < sent.index("'two'")
