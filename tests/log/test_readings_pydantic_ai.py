"""pydantic-ai's messages, read."""

import pytest

from roocontext.errors import InvalidMessage
from roocontext.log.readings import reader, text_of
from roocontext.log.readings.blocks import attached, image, text, tool_result, tool_use

OURS = reader("pydantic-ai")


def request(*parts):
    return {"kind": "request", "parts": list(parts)}


def part(kind, **fields):
    return {"part_kind": kind, **fields}


RETURN = part("tool-return", tool_name="f", tool_call_id="a", content={"x": 1}, outcome="success")
CALL = part("tool-call", tool_name="f", tool_call_id="a", args='{"x": 1}')
REPLY = {"kind": "response", "parts": [part("thinking", content="hm"), CALL]}


def test_parts_are_read_as_blocks():
    binary = {"kind": "binary", "media_type": "image/png", "data": "_-8"}
    items = [
        "hello",
        {"kind": "text-content", "content": "more"},
        {"kind": "image-url", "url": "https://example.com/x.png"},
        binary,
        {**binary, "media_type": "audio/wav"},
        {"kind": "document-url", "url": "https://example.com/x.pdf"},
    ]
    content = request(
        part("system-prompt", content="be kind"),
        part("user-prompt", content=items),
        RETURN,
        {**RETURN, "outcome": "failed", "content": "no"},
        part("retry-prompt", tool_name="f", tool_call_id="b", content="again"),
        part("retry-prompt", tool_name=None, content=[{"msg": "bad"}]),
        part("compaction", content="S"),
        part("compaction", content=None, id="c"),
        part("of-the-future", x=1),
    )
    assert OURS.blocks("user", content) == (
        "user",
        [
            text("be kind"),
            text("hello"),
            text("more"),
            {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}},
            image("image/png", "/+8="),
            attached("audio/wav"),
            attached("document-url"),
            tool_result("a", '{"x":1}'),
            {**tool_result("a", "no"), "is_error": True},
            {**tool_result("b", "again"), "is_error": True},
            text('[{"msg":"bad"}]'),
            text("S"),
            {"type": "compaction", "compaction": {"content": None, "id": "c"}},
            {"type": "of-the-future", "of-the-future": {"x": 1}},
        ],
    )
    assert OURS.outputs(content) == (2, 3, 4)
    assert OURS.blocks("assistant", REPLY) == ("assistant", [tool_use("a", "f", {"x": 1})])
    broken = {"kind": "response", "parts": [{**CALL, "args": '{"x": '}, {**CALL, "args": None}]}
    assert [block["input"] for block in OURS.blocks("assistant", broken)[1]] == [
        {"arguments": '{"x": '},
        {},
    ]
    assert OURS.blocks("assistant", {"kind": "response", "parts": [part("file", content=binary)]})[
        1
    ] == [image("image/png", "/+8=")]


def test_output_is_cleared_and_nothing_else():
    content = request(RETURN, part("user-prompt", content="x"))
    cleared = OURS.clear(content, [0, 1], "gone")
    assert cleared == request({**RETURN, "content": "gone"}, part("user-prompt", content="x"))
    assert OURS.clear(content, [1], "gone") is content


def test_call_is_answered():
    role, content = OURS.answer(REPLY, 0, {"y": [1]}, is_error=False)
    OURS.check(role, content)
    assert OURS.blocks(role, content)[1] == [tool_result("a", '{"y":[1]}')]
    assert OURS.answer(REPLY, 0, "no", is_error=True)[1]["parts"][0]["outcome"] == "failed"


def test_skeleton_keeps_the_calls_and_is_a_message():
    for role, content in (("assistant", REPLY), ("user", request(RETURN, part("new", x=1)))):
        bare = OURS.skeleton(content)
        OURS.check(role, bare)
        assert OURS.skeleton(bare) == bare
        assert text_of(OURS.blocks(role, bare)[1]).strip("\n") == "[redacted]" or role == "user"


@pytest.mark.parametrize(
    ("role", "content", "path"),
    [
        ("system", REPLY, "role"),
        ("user", REPLY, "content.kind"),
        ("user", "hello", "content"),
        ("assistant", {"kind": "response"}, "content.parts"),
        ("assistant", {"kind": "response", "parts": ["x"]}, "content.parts[0]"),
        ("assistant", {"kind": "response", "parts": [{}]}, "content.parts[0].part_kind"),
    ],
)
def test_wrong_message_is_refused(role, content, path):
    with pytest.raises(InvalidMessage) as caught:
        OURS.check(role, content)
    assert caught.value.path == path
