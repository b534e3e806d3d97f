"""Bedrock's Converse API: how its messages are read and sent, as boto3 takes and returns them."""

import pytest

from roocontext.errors import InvalidMessage
from roocontext.log.forms import Rule, forms
from roocontext.log.forms.converse import ATTACHED, NO_OUTPUT
from roocontext.log.readings.converse import CONVERSE
from roocontext.log.replies import read_reply
from roocontext.tokens.usage import Usage, usage_tokens
from support.provider_rules.converse import undefined, violations
from support.rows_of_formats import message

FORMAT = "bedrock-converse"
CLAUDE = "us.anthropic.claude-x-v1:0"
PNG, PNG_BYTES = "iVBORw0K", b"\x89PNG\r\n"
PDF, PDF_BYTES = "JVBERi0x", b"%PDF-1"
CALL = {"toolUse": {"toolUseId": "t1", "name": "run", "input": {"command": "ls"}}}
SEALED = {"reasoningContent": {"redactedContent": b"\x00\xff"}}
SIGNED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
RESPONSE = {
    "ResponseMetadata": {"RequestId": "req-1", "HTTPStatusCode": 200},
    "output": {"message": {"role": "assistant", "content": [SIGNED, SEALED, {"text": "so"}, CALL]}},
    "stopReason": "tool_use",
    "usage": {
        "inputTokens": 3,
        "outputTokens": 4,
        "totalTokens": 15,
        "cacheReadInputTokens": 5,
        "cacheWriteInputTokens": 3,
    },
    "metrics": {"latencyMs": 9},
}


def delta(index, **fields):
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": fields}}


STARTED = {"toolUse": {"toolUseId": "t1", "name": "run"}}
EVENTS = [
    {"messageStart": {"role": "assistant"}},
    delta(0, reasoningContent={"text": "h"}),
    delta(0, reasoningContent={"text": "m"}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    {"contentBlockStop": {"contentBlockIndex": 0}},
    delta(1, **SEALED),
    delta(2, text="s"),
    delta(2, text="o"),
    {"contentBlockStart": {"contentBlockIndex": 3, "start": STARTED}},
    delta(3, toolUse={"input": '{"command": '}),
    delta(3, toolUse={"input": '"ls"}'}),
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": RESPONSE["usage"], "metrics": {"latencyMs": 9}}},
]


def row(seq, role, *blocks, model=CLAUDE):
    return message(seq, role, {"role": role, "content": [*blocks]}, FORMAT, model)


def sent(*history, model=CLAUDE):
    out = forms[FORMAT].compose(history, model=model, complete=True)
    assert violations(out.messages, complete=True) == []
    return out.messages, [(it.seq, it.rule) for it in out.repairs]


GO = row(1, "user", {"text": "go"})


def test_reply_of_boto3_is_stored_with_base64_and_sent_with_bytes():
    read = read_reply(RESPONSE)
    sealed = {"reasoningContent": {"redactedContent": "AP8="}}
    assert read.content == {"role": "assistant", "content": [SIGNED, sealed, {"text": "so"}, CALL]}
    assert (read.format, read.role, read.model, read.stop_reason) == (
        *(FORMAT, "assistant", None, "tool_use"),
    )
    assert read.kept() == {"stop_reason": "tool_use", "request_id": "req-1"}
    CONVERSE.check(read.role, read.content)
    reply = message(2, "assistant", read.content, FORMAT, CLAUDE)
    assert sent(GO, reply)[0][1]["content"] == [SIGNED, SEALED, {"text": "so"}, CALL]


def test_events_of_a_stream_are_read_as_the_response():
    read = read_reply(EVENTS)
    assert read.content == read_reply(RESPONSE).content
    assert (read.usage, read.stop_reason) == (RESPONSE["usage"], "tool_use")
    with pytest.raises(InvalidMessage, match="messageStop"):
        read_reply(EVENTS[:-2])


CITED = {"title": "a page", "source": "https://example.org"}
SERVED = {"toolUseId": "s1", "type": "nova_grounding_result", "status": "success"}


@pytest.mark.parametrize(
    ("deltas", "start", "block"),
    [
        *(
            (
                deltas,
                None,
                {"citationsContent": {"content": [{"text": "so"}], "citations": [CITED]}},
            )
            for deltas in (
                [{"text": "so"}, {"citation": CITED}],
                [{"citation": CITED}, {"text": "s"}, {"text": "o"}],
                [{"text": "s"}, {"citation": CITED}, {"text": "o"}],
            )
        ),
        (
            [{"toolResult": [{"text": "so"}]}, {"toolResult": [{"json": {"x": 1}}]}],
            {"toolResult": SERVED},
            {"toolResult": {**SERVED, "content": [{"text": "so"}, {"json": {"x": 1}}]}},
        ),
        *(
            (
                [{"reasoningContent": {"redactedContent": it}} for it in pieces],
                None,
                {"reasoningContent": {"redactedContent": "AP8="}},
            )
            for pieces in ((b"\x00", b"\xff"), ("AA==", "/w=="))
        ),
        (
            [{"image": {"source": {"bytes": PNG_BYTES}}}],
            {"image": {"format": "png"}},
            {"image": {"format": "png", "source": {"bytes": PNG}}},
        ),
    ],
)
def test_block_of_a_stream_has_all_that_its_start_and_deltas_say(deltas, start, block):
    begun = [{"contentBlockStart": {"contentBlockIndex": 0, "start": start}}] if start else []
    read = read_reply([*begun, *(delta(0, **it) for it in deltas), EVENTS[-2]])
    assert read.content["content"] == [block]


def test_usage_counts_what_a_cache_gave_and_took():
    assert usage_tokens(RESPONSE["usage"]) == Usage(11, 4, 5, 3)


def test_blocks_are_read_as_those_of_anthropic():
    content = {
        "role": "user",
        "content": [
            {"text": "so"},
            {"image": {"format": "png", "source": {"bytes": PNG}}},
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://x"}}}},
            {"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}},
            {"document": {"format": "txt", "name": "b", "source": {"bytes": "aGk="}}},
            {"document": {"format": "docx", "name": "c", "source": {"bytes": "aGk="}}},
            {
                "toolResult": {
                    "toolUseId": "t1",
                    "content": [{"json": {"x": 1}}, {"text": "two"}],
                    "status": "error",
                }
            },
            {"cachePoint": {"type": "default"}},
        ],
    }
    _, blocks = CONVERSE.blocks("user", content)
    assert [it["type"] for it in blocks] == [
        *("text", "image", "file", "document", "document", "file", "tool_result"),
    ]
    assert blocks[4]["source"]["data"] == "hi"
    assert blocks[-1] == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": '{"x":1}'}, {"type": "text", "text": "two"}],
        "is_error": True,
    }


def test_row_without_repairs_goes_out_as_the_stored_object():
    rows = [GO, row(2, "assistant", SIGNED, CALL)]
    role, content = CONVERSE.answer(rows[1].content, 0, {"files": 2}, is_error=False)
    rows.append(message(3, role, content, FORMAT))
    messages, repairs = sent(*rows)
    assert all(out is it.content for out, it in zip(messages, rows, strict=True))
    assert repairs == []
    assert content["content"][0]["toolResult"]["content"] == [{"json": {"files": 2}}]
    for output, parts in (
        ([{"text": "so"}], [{"text": "so"}]),
        ([{"a": 1}], [{"text": '[{"a":1}]'}]),
    ):
        _, content = CONVERSE.answer(rows[1].content, 0, output, is_error=False)
        assert content["content"][0]["toolResult"]["content"] == parts


def test_reasoning_goes_to_its_model_and_only_if_it_is_signed():
    plain = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    messages, repairs = sent(GO, row(2, "assistant", plain, {"text": "so"}))
    assert messages[1]["content"] == [{"text": "so"}]
    assert (2, Rule.THINKING) in repairs
    messages, _ = sent(GO, row(2, "assistant", SIGNED, {"text": "so"}), model="amazon.nova-2")
    assert messages[1]["content"] == [{"text": "so"}]


def test_media_of_other_formats_are_bytes():
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    document = {**source, "media_type": "application/pdf", "data": PDF}
    blocks = [{"type": "image", "source": source}]
    blocks += [{"type": "document", "source": document, "title": "a_b.pdf"}] * 2
    (first,), repairs = sent(message(1, "user", blocks, "anthropic"))
    assert first["content"][0] == {"image": {"format": "png", "source": {"bytes": PNG_BYTES}}}
    documents = [it["document"] for it in first["content"] if "document" in it]
    assert [it["source"] for it in documents] == [{"bytes": PDF_BYTES}] * 2
    assert [it["name"] for it in documents] == ["a b pdf 1-1-0", "a b pdf 1-2-0"]
    assert repairs == []


@pytest.mark.parametrize(
    "image",
    [
        {"format": "bmp", "source": {"bytes": "AAAA"}},
        {"format": "png", "source": {"bytes": ["AAAA"]}},
        {"format": [], "source": {"bytes": "AAAA"}},
    ],
)
def test_image_that_the_api_refuses_is_named(image):
    result = {"toolResult": {"toolUseId": "x.y", "content": [{"image": image}]}}
    messages, repairs = sent(row(1, "user", {"image": image}, result))
    assert all("attached]" in it["text"] for it in messages[0]["content"])
    assert [rule for _, rule in repairs].count(Rule.MEDIA) == 2


def test_documents_get_names_that_are_valid_and_unique_and_a_text():
    document = {"format": "docx", "source": {"bytes": PDF}}
    rows = [
        row(1, "user", {"document": {**document, "name": "plan.docx"}}),
        row(2, "assistant", {"text": "so"}),
        row(3, "user", {"document": {**document, "name": "plan"}}, {"text": "x"}),
        row(4, "assistant", {"text": "so"}),
        row(5, "user", {"document": {**document, "name": "plan"}}, {"text": "x"}),
    ]
    messages, repairs = sent(*rows)
    names = [messages[at]["content"][0]["document"]["name"] for at in (0, 2, 4)]
    assert names == ["plan docx 1-0", "plan", "plan 5-0"]
    assert messages[0]["content"][1] == {"text": ATTACHED}
    assert repairs == [(1, Rule.RENAMED), (5, Rule.RENAMED)]


def test_text_beside_a_document_stays_when_the_user_says_more():
    document = {"document": {"format": "pdf", "name": "plan", "source": {"bytes": PDF}}}
    rows = [row(1, "user", document), row(2, "user", {"text": "x"})]
    first, more = (sent(*rows[:count])[0][0]["content"] for count in (1, 2))
    assert more == [*first, {"text": "x"}]


def test_redacted_media_are_named():
    media = [{kind: {"source": {"bytes": PNG}}} for kind in ("image", "document", "video", "audio")]
    bare = CONVERSE.skeleton({"role": "user", "content": media})
    messages, _ = sent(message(1, "user", bare, FORMAT))
    assert [*map(list, messages[0]["content"])] == [["text"]] * 4


def test_empty_result_says_so_and_an_error_holds_texts_only():
    call = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    for content, is_error in (("", False), ([image], True)):
        result = {"type": "tool_result", "tool_use_id": "t1", "content": content}
        rows = [
            message(1, "user", "go", "anthropic"),
            message(2, "assistant", [call], "anthropic"),
            message(3, "user", [{**result, "is_error": is_error}], "anthropic"),
        ]
        messages, _ = sent(*rows)
        assert messages[2]["content"][0]["toolResult"]["content"] == [{"text": NO_OUTPUT}]
        assert len(messages[2]["content"]) == 1 + is_error


def test_stored_cache_points_are_left_out_and_new_ones_are_set_on_request():
    point = {"cachePoint": {"type": "default"}}
    rows = [row(1, "user", {"text": "go"}, point), row(2, "assistant", CALL)]
    messages, repairs = sent(*rows)
    assert "cachePoint" not in str(messages)
    assert (1, Rule.FIELD) in repairs
    tool = {"name": "run", "description": "Runs.", "input_schema": {"type": "object"}}
    body = forms[FORMAT].body(messages, system="Be kind.", tools=[tool], cache=True)
    assert undefined(body) == []
    assert body["system"] == [{"text": "Be kind."}, point]
    spec = {"name": "run", "description": "Runs.", "inputSchema": {"json": {"type": "object"}}}
    assert body["toolConfig"]["tools"] == [{"toolSpec": spec}, point]
    assert body["messages"][-1]["content"][-1] == point
    assert "cachePoint" not in str(messages)
    again = forms[FORMAT].body(
        messages, system="Be kind.", tools=body["toolConfig"]["tools"], cache=True
    )
    assert again == body  # the agent's own points count


def test_image_of_an_own_error_is_sent_after_the_results():
    image = {"image": {"format": "png", "source": {"bytes": PNG}}}
    result = {"toolUseId": "t1", "content": [{"text": "no"}, image], "status": "error"}
    answer = row(3, "user", {"toolResult": result})
    messages, repairs = sent(GO, row(2, "assistant", CALL), answer)
    (told, shown) = messages[-1]["content"]
    assert told["toolResult"]["content"] == [{"text": "no"}]
    assert shown["image"]["source"] == {"bytes": PNG_BYTES}
    assert (3, Rule.MOVED) in repairs


def test_calls_of_the_history_are_defined_if_no_tool_is_offered():
    messages, _ = sent(GO, row(2, "assistant", CALL))
    body = forms[FORMAT].body(messages)
    assert undefined(body) == []
    assert [it["toolSpec"]["name"] for it in body["toolConfig"]["tools"]] == ["run"]
    assert "toolConfig" not in forms[FORMAT].body(sent(GO)[0])


def test_definition_of_converse_goes_to_every_other_provider():
    spec = {"name": "run", "description": "Runs.", "inputSchema": {"json": {"type": "object"}}}
    tool = {"toolSpec": spec}
    assert forms[FORMAT].body([], tools=[tool])["toolConfig"]["tools"][0] is tool
    (made,) = forms["anthropic"].body([], tools=[tool])["tools"]
    assert made == {"name": "run", "description": "Runs.", "input_schema": {"type": "object"}}
