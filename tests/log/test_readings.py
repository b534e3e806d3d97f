"""Readings of each format, and the skeletons that they leave."""

import copy
import json
import typing

import pytest
from anthropic.types.beta import BetaContentBlock
from google.genai import types as genai
from hypothesis import example, given, settings
from openai.types.responses import ResponseOutputItem

from roocontext.errors import InvalidMessage
from roocontext.log.readings import calls, pieces, reader, readers, results, text_of, walk, words_of
from roocontext.log.readings.blocks import attached, image, text
from support.examples import examples
from support.wrong_contents import cases

ANTHROPIC, OPENAI, GEMINI = reader("anthropic"), reader("openai"), reader("gemini")
RESPONSES_READER = reader("openai-responses")

CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "secret"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "secret", "is_error": True}


def test_unknown_format_is_refused_with_the_known_ones():
    known = "anthropic, bedrock-converse, gemini, langchain, openai"
    with pytest.raises(InvalidMessage, match=known) as caught:
        reader("secret")
    assert caught.value.path == "format"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "role", "content", "path"),
    [
        ("anthropic", "system", "x", "role"),
        ("anthropic", "user", None, "content"),
        ("anthropic", "user", {"type": "text"}, "content"),
        ("anthropic", "user", [text("x"), "secret"], "content[1]"),
        ("anthropic", "user", [{"text": "secret"}], "content[0].type"),
        ("anthropic", "user", [{"type": 5}], "content[0].type"),
        ("anthropic", "user", [text("x"), {"type": ""}], "content[1].type"),
        ("anthropic", "user", [{"type": " \n"}], "content[0].type"),
        (
            "anthropic",
            "user",
            [{**RESULT, "content": [{"type": "", "text": "secret"}]}],
            "content[0].content[0].type",
        ),
        ("openai", "secret", {}, "role"),
        ("openai", "user", "secret", "content"),
        ("openai", "user", {"role": "assistant"}, "content.role"),
        ("openai", "user", {"content": 5}, "content.content"),
        ("openai", "user", {"content": ["secret"]}, "content.content[0]"),
        ("openai", "assistant", {"content": "x", "tool_calls": {}}, "content.tool_calls"),
        ("openai", "assistant", {"tool_calls": ["secret"]}, "content.tool_calls[0]"),
        ("openai", "user", {"content": [{"type": "", "text": "x"}]}, "content.content[0].type"),
        ("openai", "assistant", {"tool_calls": [{"type": " "}]}, "content.tool_calls[0].type"),
        ("gemini", "assistant", {}, "role"),
        ("gemini", "model", {"role": "user"}, "content.role"),
        ("gemini", "model", {"parts": "secret"}, "content.parts"),
        ("gemini", "model", {"parts": [{}, None]}, "content.parts[1]"),
        ("gemini", "model", [], "content"),
    ],
)
def test_impossible_message_is_refused(name, role, content, path):
    with pytest.raises(InvalidMessage) as caught:
        reader(name).check(role, content)
    assert caught.value.path == path
    assert "secret" not in str(caught.value)


RESPONSES = [
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "secret"}],
    },
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "secret"},
    {"type": "function_call_output", "call_id": "c1", "output": "secret"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "run", "input": "secret"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "secret"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"},
    {"type": "item_reference", "id": "secret"},
    {"type": "web_search_call", "id": "ws_1", "text": "only that of reasoning is Roo Code's"},
    {"type": "computer_call_output", "call_id": "c3", "output": {"image_url": "secret"}},
    {"type": "mcp_approval_request", "id": "secret"},
]


@pytest.mark.parametrize("item", RESPONSES, ids=lambda item: item["type"])
def test_item_of_a_response_is_refused_by_every_other_format(item):
    for name, role, content, path in (
        ("openai", "assistant", item, "content"),
        ("openai", "assistant", [item], "content[0]"),
        ("openai", "assistant", {"role": "assistant", "content": [item]}, "content.content[0]"),
        ("openai", "assistant", {"tool_calls": [item]}, "content.tool_calls[0]"),
        ("anthropic", "assistant", [text("x"), item], "content[1]"),
        *([("anthropic", "user", item, "content")] if item["type"] != "message" else []),
        ("gemini", "model", item, "content"),
        ("gemini", "model", {"parts": [item]}, "content.parts[0]"),
    ):
        with pytest.raises(InvalidMessage, match="format='openai-responses'") as caught:
            reader(name).check(role, content)
        assert caught.value.path == path
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        *("tool_call", "call", "my_call", "tool_call_output", "my_call_output", "phone_call"),
        *("my_tool_use", "my_tool_result", "call_output", "function_calls"),
    ],
)
def test_type_of_no_provider_is_accepted_by_every_format_with_unknown_blocks(kind):
    block = {"type": kind, "id": "x"}
    for name, role, content in (
        ("anthropic", "assistant", [block]),
        ("openai", "assistant", {"role": "assistant", "content": [block]}),
        ("openai-responses", "assistant", [block]),
        ("gemini", "model", {"parts": [block]}),
    ):
        reader(name).check(role, content)
        assert calls(reader(name).blocks(role, content)[1]) == []


def test_every_item_of_the_sdks_is_refused_by_another_format():
    """Except types that several providers have, and those that say nothing of calls."""
    items = typing.get_args(typing.get_args(ResponseOutputItem)[0])
    blocks = typing.get_args(typing.get_args(BetaContentBlock)[0])
    shared = {"text", "compaction", "fallback", "container_upload", "mcp_tool_listing"}
    shared |= {"program", "program_output", "additional_tools"}
    for models, own, other in (
        (items, "openai-responses", "anthropic"),
        (blocks, "anthropic", "openai-responses"),
    ):
        for model in models:
            kind = typing.get_args(model.model_fields["type"].annotation)[0]
            if kind not in shared:
                with pytest.raises(InvalidMessage, match=f"format='{own}'"):
                    reader(other).check("assistant", [{"type": kind}])


CHAT_CALLS = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function"}]}


@pytest.mark.parametrize(
    ("name", "role", "content", "right"),
    [
        ("anthropic", "assistant", CHAT_CALLS, "openai"),
        ("anthropic", "user", {"parts": [{"text": "secret"}]}, "gemini"),
        ("anthropic", "user", [{"functionResponse": {"name": "f"}}], "gemini"),
        ("openai", "assistant", [CALL], "anthropic"),
        ("openai", "user", {"role": "user", "content": [RESULT]}, "anthropic"),
        ("openai", "user", {"parts": [{"text": "secret"}]}, "gemini"),
        ("openai-responses", "assistant", CHAT_CALLS, "openai"),
        ("openai-responses", "user", [RESULT], "anthropic"),
        ("openai-responses", "user", {"role": "user", "content": [RESULT]}, "anthropic"),
        ("openai-responses", "user", [{"parts": []}], "gemini"),
        ("gemini", "model", {"tool_calls": []}, "openai"),
        ("gemini", "model", [CALL], "anthropic"),
        ("gemini", "model", {"parts": [CALL]}, "anthropic"),
        ("gemini", "user", {"parts": [{"toolUse": {"name": "secret"}}]}, "bedrock-converse"),
        ("bedrock-converse", "user", {"content": [CALL]}, "anthropic"),
    ],
)
def test_refusal_names_the_format_that_holds_the_item(name, role, content, right):
    with pytest.raises(InvalidMessage, match=f"format='{right}'") as caught:
        reader(name).check(role, content)
    assert "secret" not in str(caught.value)


def test_responses_items_are_read_as_blocks():
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "so"}],
        },
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"x": 1}'},
        {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "raw"},
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "image_generation_call", "id": "ig_1", "result": "AAAA"},
        {"type": "tool_search_call", "call_id": "s", "execution": "server", "arguments": {}},
    ]
    role, blocks = RESPONSES_READER.blocks("assistant", items)
    assert role == "assistant"
    assert blocks[:2] == [{"type": "thinking", "thinking": "hm"}, text("so")]
    assert [(it["id"], it["name"], it["input"]) for it in blocks[2:5]] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"input": "raw"}),
        ("c", "shell", {"commands": ["ls"]}),
    ]
    assert blocks[5] is items[5]
    assert blocks[6]["source"]["data"] == "AAAA"
    assert [tool_id for _, tool_id in calls(blocks)] == ["a", "b", "c"]
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    outputs = [
        {"type": "function_call_output", "call_id": "a", "output": "done"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": [image]},
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x"}]},
    ]
    role, blocks = RESPONSES_READER.blocks("user", outputs)
    assert role == "user"
    assert [tool_id for _, tool_id in results(blocks)] == ["a", "b", "c"]
    assert blocks[0]["content"] == "done"
    assert blocks[1]["content"][0]["type"] == "image"
    assert json.loads(blocks[2]["content"]) == [{"stdout": "x"}]
    cleared = RESPONSES_READER.clear(outputs, [0, 2], "[cleared]")
    assert cleared[0]["output"] == "[cleared]"
    assert cleared[1] is outputs[1]
    assert cleared[2]["output"][0]["stdout"] == "[cleared]"


def test_output_that_the_provider_ran_itself_waits_for_nobody():
    items = [
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c", "output": []},
    ]
    RESPONSES_READER.check("assistant", items)
    assert calls(RESPONSES_READER.blocks("assistant", items)[1]) == []
    with pytest.raises(InvalidMessage, match="role user"):
        RESPONSES_READER.check("assistant", items[1:])
    with pytest.raises(InvalidMessage, match="role assistant"):
        RESPONSES_READER.check("user", items[:1])


@pytest.mark.parametrize(
    ("name", "role", "content"),
    [
        ("anthropic", "assistant", [{"type": "compaction", "content": "x"}]),
        ("anthropic", "assistant", [{"type": "reasoning", "text": "hm", "summary": []}]),
        ("openai", "user", {}),
        ("openai", "user", {"role": "user", "content": "x", "type": "remark"}),
        ("openai", "assistant", {"role": "assistant", "content": None, "tool_calls": None}),
        ("openai", "tool", {"role": "tool", "tool_call_id": "t", "content": [{"type": "new"}]}),
        ("gemini", "system", {"role": "system", "parts": [{"text": "x"}]}),
    ],
)
def test_possible_message_is_accepted(name, role, content):
    reader(name).check(role, content)


def test_message_is_read_in_pieces():
    """Texts, calls, outputs with what is in them, media, and what nobody knows."""
    inner = [text("out"), {"type": "image", "source": {}}, RESULT, "odd"]
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        text("said"),
        CALL,
        {"type": "tool_result", "tool_use_id": "t1", "content": inner},
        {"type": "document", "source": {}},
        {"type": "text", "text": 5},
        {"type": "new", "text": "x"},
    ]
    found = [(piece.kind.name, piece.text) for piece in walk(pieces(blocks))]
    assert found == [
        ("THINKING", "hm"),
        ("TEXT", "said"),
        ("CALL", "read"),
        ("OUTPUT", None),
        ("TEXT", "out"),
        ("MEDIA", None),
        ("OUTPUT", None),
        ("TEXT", "secret"),
        ("OTHER", None),
        ("MEDIA", None),
        ("OTHER", None),
        ("OTHER", None),
    ]
    assert [piece.block for piece in pieces(blocks)] == blocks
    assert text_of(blocks) == "said\nout\nsecret"
    assert words_of(blocks) == "said"
    assert (calls(blocks), results(blocks)) == ([(2, "t1")], [(3, "t1")])
    assert ANTHROPIC.blocks("assistant", blocks) == ("assistant", blocks)
    assert calls([{**CALL, "type": "server_tool_use"}]) == []


@pytest.mark.parametrize("name", readers.known())
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_composed_message_is_read_as_what_was_said(name, role):
    speaker, content = reader(name).compose(role, "hello")
    reader(name).check(speaker, content)
    assert reader(name).blocks(speaker, content) == (role, [text("hello")])


def test_format_is_found_under_the_name_it_is_registered_by():
    readers.register("mine", ANTHROPIC)
    try:
        assert reader("mine") is ANTHROPIC
        with pytest.raises(
            InvalidMessage, match="anthropic, bedrock-converse, gemini, langchain, mine, openai"
        ):
            reader("yours")
    finally:
        del readers["mine"]


def test_openai_messages_are_read_as_blocks():
    asked = {
        "role": "assistant",
        "content": "let me look",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": '{"x": '}},
            {"id": "c", "type": "function", "function": {"name": "h", "arguments": '{"x": NaN}'}},
            {"id": "d", "type": "function", "function": {"name": "i", "arguments": "[1]"}},
        ],
    }
    role, blocks = OPENAI.blocks("assistant", asked)
    assert role == "assistant"
    assert blocks[0] == text("let me look")
    assert [(b["id"], b["name"], b["input"]) for b in blocks[1:]] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"arguments": '{"x": '}),
        ("c", "h", {"arguments": '{"x": NaN}'}),
        ("d", "i", {"arguments": "[1]"}),
    ]
    answer = {"role": "tool", "tool_call_id": "a", "content": "done"}
    assert OPENAI.blocks("tool", answer) == (
        "user",
        [{"type": "tool_result", "tool_use_id": "a", "content": "done"}],
    )
    assert OPENAI.blocks("system", {"role": "system", "content": "be kind"}) == (
        "user",
        [text("be kind")],
    )


def test_openai_parts_are_read():
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA"}},
        {"type": "refusal", "refusal": "no"},
    ]
    _, blocks = OPENAI.blocks("user", {"role": "user", "content": parts})
    assert blocks == [
        text("see"),
        image("image/png", "AAAA"),
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        attached("input_audio"),
        text("no"),
    ]
    assert OPENAI.blocks("assistant", {"content": "", "tool_calls": []}) == ("assistant", [])
    assert OPENAI.blocks("assistant", {"content": None, "refusal": "no"})[1] == [text("no")]


def test_gemini_messages_are_read_as_blocks():
    asked = {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True},
            {"text": "let me look"},
            {"functionCall": {"name": "f", "args": {"x": 1}}},
            {"functionCall": {"id": "given", "name": "f", "args": {}}},
            {"functionCall": {"name": "f"}, "thoughtSignature": "s"},
        ],
    }
    role, blocks = GEMINI.blocks("model", asked)
    assert role == "assistant"
    assert blocks[0] == text("let me look")
    assert [(b["id"], b["input"]) for b in blocks[1:]] == [
        ("f#", {"x": 1}),
        ("given", {}),
        ("f#", {}),
    ]
    answer = {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "f", "response": {"output": "é"}}},
            {"functionResponse": {"id": "given", "name": "f", "response": {}}},
            {"functionResponse": {"name": "f", "response": {"error": "no"}}},
        ],
    }
    role, outputs = GEMINI.blocks("user", answer)
    assert role == "user"
    assert results(outputs) == [(0, "f#"), (1, "given"), (2, "f#")]
    assert [it["content"] for it in outputs] == ["é", "{}", "no"]
    assert [it.get("is_error") for it in outputs] == [None, None, True]


def test_gemini_media_and_code_are_read():
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"inline_data": {"mime_type": "image/png", "data": "__77-w"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "x"}},
        {"fileData": {}},
        {"executableCode": {"code": "1+1"}},
        {"new": 1},
        {"text": ""},
    ]
    _, blocks = GEMINI.blocks("user", {"parts": parts})
    assert blocks == [
        image("image/png", "AAAA"),
        image("image/png", "//77+w=="),
        {**image("application/pdf", "AAAA"), "type": "document"},
        attached("video/mp4"),
        attached("file"),
        text('{"code":"1+1"}'),
        {"type": "new", "new": 1},
    ]
    assert GEMINI.blocks("user", {}) == ("user", [])


def snake(value):
    """A Gemini content as google-genai dumps it without aliases, what is not set included."""
    return genai.Content.model_validate(value).model_dump(mode="json")


def test_gemini_names_are_read_in_both_spellings():
    sent = {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True},
            {"functionCall": {"name": "f", "args": {"a_b": 1}}, "thoughtSignature": "c2ln"},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "x"}},
            {"executableCode": {"code": "1+1"}},
            {"functionResponse": {"id": "g", "name": "f", "response": {"output": "done"}}},
        ],
    }
    dumped = snake(sent)
    GEMINI.check("model", dumped)
    assert GEMINI.blocks("model", dumped) == GEMINI.blocks("model", sent)
    assert GEMINI.outputs(dumped) == GEMINI.outputs(sent) == (5,)
    assert GEMINI.skeleton(dumped) == GEMINI.skeleton(sent)
    cleared = GEMINI.clear(dumped, [1, 5], "[cleared]")
    same = GEMINI.clear(sent, [1, 5], "[cleared]")
    assert GEMINI.blocks("model", cleared) == GEMINI.blocks("model", same)
    assert cleared["parts"][5]["function_response"]["response"] == {"output": "[cleared]"}


ANSWER = {"role": "tool", "tool_call_id": "a", "content": "done", "extra": 1}
RESPONSE = {
    "functionResponse": {"name": "f", "response": {"output": "done"}, "extra": 1},
    "more": 2,
}
GONE = {
    "functionResponse": {**RESPONSE["functionResponse"], "response": {"output": "-"}},
    "more": 2,
}


@pytest.mark.parametrize(
    ("name", "content", "outputs", "cleared"),
    [
        (
            "anthropic",
            [RESULT, text("kept"), {**RESULT, "extra": 1}, {"type": "tool_result"}],
            (0, 2),
            [RESULT, text("kept"), {**RESULT, "extra": 1, "content": "-"}, {"type": "tool_result"}],
        ),
        ("anthropic", "text", (), "text"),
        ("openai", ANSWER, (0,), ANSWER),
        ("openai", {"role": "user", "content": "x"}, (), {"role": "user", "content": "x"}),
        ("gemini", {"parts": [{"text": "x"}, RESPONSE]}, (1,), {"parts": [{"text": "x"}, GONE]}),
    ],
)
def test_clearing_replaces_outputs_and_keeps_the_rest(name, content, outputs, cleared):
    assert reader(name).outputs(content) == outputs
    assert reader(name).clear(content, [1, 2, 3, 9], "-") == cleared
    if content is ANSWER:
        assert OPENAI.clear(content, [0], "-") == {**ANSWER, "content": "-"}


CHAT_CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SECRET_CALL = {**CHAT_CALL, "function": {"name": "f", "arguments": "secret"}}
REDACTED = text("[redacted]")


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        (
            "anthropic",
            [
                ({**text("secret"), "citations": ["secret"]}, REDACTED),
                (
                    {**CALL, "input": {"secret": "secret"}, "caller": "secret"},
                    {"type": "tool_use", "id": "t1", "name": "read", "input": {}},
                ),
                (RESULT, {**RESULT, "content": "[redacted]"}),
                (
                    {**RESULT, "is_error": "secret"},
                    {"type": "tool_result", "tool_use_id": "t1", "content": "[redacted]"},
                ),
                ({"type": "image", "source": {"data": "secret"}}, {"type": "image"}),
                (
                    {"type": "thinking", "thinking": "secret", "signature": "secret"},
                    {"type": "thinking"},
                ),
                ({"type": "tool_use", "id": ["secret"]}, {"type": "tool_use", "input": {}}),
                ({"type": "x", "y": "secret"}, {"type": "x"}),
            ],
        ),
        (
            "gemini",
            [
                ({"text": "secret", "thoughtSignature": "secret"}, {"text": "[redacted]"}),
                ({"text": "secret", "thought": True}, {"text": "[redacted]", "thought": True}),
                (
                    {"functionCall": {"id": "a", "name": "f", "args": {"x": "secret"}}},
                    {"functionCall": {"id": "a", "name": "f", "args": {}}},
                ),
                (
                    {"functionResponse": {"name": "f", "response": {"output": "secret"}}},
                    {"functionResponse": {"name": "f", "response": {"output": "[redacted]"}}},
                ),
                ({"inlineData": {"data": "secret"}}, {"inlineData": {}}),
                ({"executableCode": "secret"}, {"text": "[redacted]"}),
                ({"secret": "secret"}, {"text": "[redacted]"}),
            ],
        ),
    ],
    ids=["anthropic", "gemini"],
)
def test_skeleton_keeps_the_types_and_ids_of_each_part(name, blocks):
    given_, bare = [list(side) for side in zip(*blocks, strict=True)]
    if name == "anthropic":
        assert ANTHROPIC.skeleton(given_) == bare
        assert ANTHROPIC.skeleton("secret") == "[redacted]"
    else:
        assert GEMINI.skeleton({"role": "user", "parts": given_}) == {"role": "user", "parts": bare}


def test_skeleton_of_openai_messages_keeps_types_and_ids():
    asked = {"role": "assistant", "content": None, "tool_calls": [SECRET_CALL], "extra": "secret"}
    bare = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
    assert OPENAI.skeleton(asked) == bare
    answer = {"role": "tool", "tool_call_id": "a", "name": "f", "content": [text("secret")]}
    assert OPENAI.skeleton(answer) == {**answer, "content": "[redacted]"}


def it_is_read(case):
    name, role, content = case
    before = copy.deepcopy(content)
    its = reader(name)
    its.check(role, content)
    speaker, blocks = its.blocks(role, content)
    assert speaker in {"user", "assistant"}
    assert all(isinstance(block, dict) for block in blocks)
    assert isinstance(text_of(blocks), str)
    assert all(blocks[index]["type"] == "tool_use" for index, _ in calls(blocks))
    assert all(blocks[index]["type"] == "tool_result" for index, _ in results(blocks))
    assert content == before


def clearing_changes_its_outputs_and_nothing_else(case):
    name, role, content = case
    before = copy.deepcopy(content)
    its = reader(name)
    indices = its.outputs(content)
    cleared = its.clear(content, indices, "[cleared]")
    its.check(role, cleared)
    assert content == before
    assert its.outputs(cleared) == indices
    assert its.clear(content, (), "[cleared]") == content
    assert its.clear(cleared, indices, "[cleared]") == cleared
    outputs = [b for b in its.blocks(role, cleared)[1] if b.get("type") == "tool_result"]
    assert sum("[cleared]" in str(b.get("content")) for b in outputs) >= len(indices)


def its_skeleton_is_a_message_and_its_own_skeleton(case):
    name, role, content = case
    its = reader(name)
    skeleton = its.skeleton(content)
    its.check(role, skeleton)
    assert its.skeleton(skeleton) == skeleton
    said, bare = its.blocks(role, content), its.blocks(role, skeleton)
    assert bare[0] == said[0]
    assert calls(bare[1]) == calls(said[1]) or name != "anthropic"
    assert [tool_id for _, tool_id in calls(bare[1])] == [i for _, i in calls(said[1])]
    assert [tool_id for _, tool_id in results(bare[1])] == [i for _, i in results(said[1])]


BOTH_SPELLINGS = {"function_response": {}, "functionResponse": None}
SEARCHED = {"type": "tool_search_call", "id": "ts_1", "call_id": None, "execution": "server"}
LOADED = {**SEARCHED, "type": "tool_search_output", "id": "tso_1", "tools": []}


@settings(max_examples=examples(60, long=40))
@given(cases)
@example(("gemini", "user", {"role": "user", "parts": [BOTH_SPELLINGS]}))
@example(("openai-responses", "assistant", [SEARCHED, LOADED]))
def test_any_message_that_is_accepted_is_read_cleared_and_redacted(case):
    it_is_read(case)
    clearing_changes_its_outputs_and_nothing_else(case)
    its_skeleton_is_a_message_and_its_own_skeleton(case)


SECRETS = {
    "openai-responses": [
        {"role": "user", "content": "secret"},
        {"type": "function_call", "arguments": "secret"},
        {"type": "custom_tool_call", "input": "secret"},
        {"type": "shell_call_output", "output": [{"stdout": "secret"}]},
        {"type": "reasoning", "summary": [{"text": "secret"}]},
    ],
    "bedrock-converse": {
        "role": "user",
        "extra": "secret",
        "content": [
            {"text": "secret"},
            {"toolUse": {"toolUseId": "a", "name": "f", "input": {"secret": "secret"}}},
            {"toolResult": {"toolUseId": "a", "content": [{"json": {"x": "secret"}}]}},
            {"reasoningContent": {"reasoningText": {"text": "secret"}}},
            {"document": {"name": "secret"}},
        ],
    },
    "langchain": {
        "type": "ai",
        "data": {
            "content": [text("secret")],
            "tool_calls": [{"id": "a", "name": "f", "args": {"secret": "secret"}}],
            "additional_kwargs": {"x": "secret"},
        },
        "raw": ["msgpack", "secret"],
    },
    "pydantic-ai": {
        "kind": "response",
        "instructions": "secret",
        "parts": [
            {"part_kind": "text", "content": "secret"},
            {"part_kind": "tool-call", "args": "secret"},
            {"part_kind": "of-the-future", "secret": "secret"},
        ],
    },
}


def test_skeleton_of_the_other_formats_holds_no_text():
    assert {*SECRETS, "anthropic", "gemini", "openai"} == {*readers.known()}
    for name, content in SECRETS.items():
        assert "secret" not in json.dumps(reader(name).skeleton(content)), name
