"""LangChain's messages are read as Anthropic's blocks."""

import pytest

from roocontext import InvalidMessage
from roocontext.log.readings import calls, reader
from support.dialogue import text

LANGCHAIN = reader("langchain")
CALL = {"name": "f", "args": {"x": 1}, "id": "a", "type": "tool_call"}


def message(kind, **data):
    return {"type": kind, "data": data}


@pytest.mark.parametrize(
    ("kind", "data", "role"),
    [
        ("human", {}, "user"),
        ("ai", {}, "assistant"),
        ("AIMessageChunk", {}, "assistant"),
        ("system", {}, "system"),
        ("tool", {}, "tool"),
        ("chat", {"role": "assistant"}, "assistant"),
        ("chat", {"role": "critic"}, "user"),
        ("of the future", {}, "user"),
    ],
)
def test_role_is_that_of_the_type(kind, data, role):
    content = message(kind, content="x", **data)
    LANGCHAIN.check(role, content)
    other = "assistant" if role == "user" else "user"
    with pytest.raises(InvalidMessage):
        LANGCHAIN.check(other, content)


@pytest.mark.parametrize("odd", [[], {}, None, 5])
def test_call_in_the_content_whose_id_is_no_text_is_read(odd):
    content = message("ai", content=[{"type": "tool_use", "id": odd}], tool_calls=[CALL])
    LANGCHAIN.check("assistant", content)
    assert LANGCHAIN.blocks("assistant", content)[1][-1]["id"] == "a"


def test_call_is_shown_once_although_its_provider_lists_it_in_the_content_too():
    content = message(
        "ai",
        content=[
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "reasoning", "reasoning": "hm"},
            text("let me look"),
            "and see",
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "z", "name": "g", "input": {}},
        ],
        tool_calls=[CALL],
        invalid_tool_calls=[{"name": "h", "args": "{", "id": "b", "error": None}],
    )
    assert LANGCHAIN.blocks("assistant", content) == (
        "assistant",
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "thinking", "thinking": "hm"},
            text("let me look"),
            text("and see"),
            {"type": "tool_use", "id": "z", "name": "g", "input": {}},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "b", "name": "h", "input": {"arguments": "{"}},
        ],
    )


def test_images_of_each_shape():
    inline = {"type": "base64", "media_type": "image/png", "data": "QQ=="}
    url = {"type": "url", "url": "https://x/y.png"}
    for part, source in (
        ({"type": "image", "base64": "QQ==", "mime_type": "image/png"}, inline),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}, inline),
        ({"type": "image_url", "image_url": "https://x/y.png"}, url),
        ({"type": "image", "url": "https://x/y.png"}, url),
        ({"type": "image", "source": url}, url),
    ):
        shown = LANGCHAIN.blocks("user", message("human", content=[part]))
        assert shown == ("user", [{"type": "image", "source": source}])
    strange = LANGCHAIN.blocks("user", message("human", content=[{"type": "video"}, 5]))
    assert strange[1][0] == {"type": "file", "title": "video"}


def test_output_of_a_tool_is_cleared_and_answered():
    content = {
        **message("tool", content="long", tool_call_id="a", status="error"),
        "raw": ["m", ""],
    }
    assert LANGCHAIN.blocks("tool", content) == (
        "user",
        [{"type": "tool_result", "tool_use_id": "a", "content": "long", "is_error": True}],
    )
    assert LANGCHAIN.outputs(content) == (0,)
    cleared = LANGCHAIN.clear(content, {0}, "gone")
    assert cleared == message("tool", content="gone", tool_call_id="a", status="error")
    assert LANGCHAIN.clear(content, {1}, "gone") is content
    asked = message("ai", content="", tool_calls=[CALL])
    assert LANGCHAIN.answer(asked, 0, {"y": 2}, is_error=True) == (
        "tool",
        message("tool", content='{"y":2}', name="f", tool_call_id="a", status="error"),
    )


def test_call_in_the_content_alone_is_answered_and_kept_in_the_skeleton():
    block = {"type": "tool_use", "id": "c", "name": "g", "input": {"path": "secret"}}
    asked = message("ai", content=[block], tool_calls=[CALL])
    answers = [LANGCHAIN.answer(asked, number, "ok", is_error=False) for number in (0, 1)]
    assert answers == [
        ("tool", message("tool", content="ok", name=name, tool_call_id=tool_id))
        for name, tool_id in (("g", "c"), ("f", "a"))
    ]
    bare = LANGCHAIN.skeleton(asked)
    assert "secret" not in str(bare)
    assert calls(LANGCHAIN.blocks("assistant", bare)[1]) == [(1, "c"), (2, "a")]


@pytest.mark.parametrize(("kind", "role"), [("ai", "assistant"), ("human", "user")])
def test_skeleton_keeps_the_ids_of_calls(kind, role):
    asked = message(kind, content="secret", id="m1", tool_calls=[CALL], usage_metadata={"x": 1})
    bare = LANGCHAIN.skeleton({**asked, "channel": "notes", "raw": ["m", "secret"]})
    assert bare == {
        "type": kind,
        "channel": "notes",
        "data": {
            "content": "[redacted]",
            "id": "m1",
            "tool_calls": [{"name": "f", "args": {}, "id": "a", "type": "tool_call"}],
        },
    }
    assert calls(LANGCHAIN.blocks(role, bare)[1]) == [(1, "a")]
    LANGCHAIN.check(role, bare)
