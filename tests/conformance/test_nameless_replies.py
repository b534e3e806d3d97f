"""A reply without an id, as some servers and models give it, is recorded once for its request."""

import pytest

ASKED = {"functionCall": {"name": "ls", "args": {}}}


def reply(*parts):
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "modelVersion": "g"}


def test_a_reply_without_an_id_is_recorded_once(chat):
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
