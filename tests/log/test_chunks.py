"""Lists of the chunks of a stream, as every SDK and server sends them, become the whole reply."""

import json

import pytest
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from roocontext.errors import InvalidMessage
from roocontext.log.replies import read_reply
from support import fake_streams
from support.sdk_replies import ANTHROPIC, CHAT, FUNCTION, RESPONSE

STREAMS = {
    "anthropic": (fake_streams.anthropic_events, ANTHROPIC, RawMessageStreamEvent),
    "chat": (fake_streams.chat_events, CHAT, ChatCompletionChunk),
    "responses": (fake_streams.response_events, RESPONSE, ResponseStreamEvent),
}


def events_of(name):
    made, reply, _ = STREAMS[name]
    lines = [it for it in made(reply).splitlines() if it.startswith("data: {")]
    return [json.loads(it.removeprefix("data: ")) for it in lines]


@pytest.mark.parametrize("as_object", [True, False])
@pytest.mark.parametrize("name", STREAMS)
def test_chunks_are_read_as_the_reply_without_a_stream(name, as_object):
    _, reply, kind = STREAMS[name]
    chunks = events_of(name)
    if as_object:
        chunks = [TypeAdapter(kind).validate_python(it) for it in chunks]
    assert read_reply(chunks) == read_reply(reply)


def test_items_that_only_earlier_events_hold_are_in_their_order():
    said = {"type": "message", "role": "assistant", "content": []}
    items = [{**said, "id": f"msg_{number}"} for number in range(12)]
    done = {"type": "response.output_item.done"}
    events = [{**done, "output_index": at, "item": item} for at, item in enumerate(items)]
    whole = {"id": "resp_1", "model": "m", "status": "completed", "output": []}
    read = read_reply([*events, {"type": "response.completed", "response": whole}])
    assert read.content == items


def test_citations_and_a_container_of_a_stream_are_kept():
    cited = {"type": "char_location", "cited_text": "x"}
    block = {"type": "text", "text": ""}
    container = {"id": "container_1", "expires_at": "2026-11-27T00:00:00Z"}
    read = read_reply(
        [
            {"type": "message_start", "message": {**ANTHROPIC, "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "citations_delta", "citation": cited},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "so"},
            },
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": container}},
        ]
    )
    assert read.content == [{"type": "text", "text": "so", "citations": [cited]}]
    assert read.kept()["container"] == container


def deltas(*pieces, reason="stop"):
    """The chunks of a reply in Chat Completions."""
    chunk = {"id": "r1", "model": "m", "object": "chat.completion.chunk"}
    chunks = [{**chunk, "choices": [{"index": 0, "delta": it}]} for it in pieces]
    return [*chunks, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]


def thought(said):
    return {"type": "thinking", "thinking": [{"type": "text", "text": said}]}


SIGNED = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
SEALED = {"type": "reasoning.encrypted", "data": "xx", "index": 1}
BEGUN = {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        (
            [{**BEGUN, "reasoning_content": ""}, *({"reasoning_content": it} for it in "hm")],
            {"content": "so", "reasoning_content": "hm"},
        ),
        (
            [
                *({**BEGUN, "reasoning_details": [{**SIGNED, "text": it}]} for it in "hm"),
                {"reasoning_details": [{**SIGNED, "text": "", "signature": "c2ln"}]},
                {"reasoning_details": [SEALED]},
            ],
            {
                "content": "so",
                "reasoning_details": [{**SIGNED, "text": "hm", "signature": "c2ln"}, SEALED],
            },
        ),
        (
            [BEGUN, *({"content": [thought(it)]} for it in "hm")],
            {"content": [thought("hm"), {"type": "text", "text": "so"}]},
        ),
    ],
    ids=["a text", "details of one kind and index", "the content of Mistral"],
)
def test_reasoning_of_a_server_is_joined(pieces, joined):
    read = read_reply(deltas(*pieces, {"content": "so"}))
    assert read.content == {"role": "assistant", **joined}


@pytest.mark.parametrize("places", [[{}, {}], [{"index": 0}, {"index": 0}]])
def test_calls_of_servers_that_number_them_wrongly_stay_apart(places):
    def call(tool_id, place):
        return {"id": tool_id, "type": "function", "function": FUNCTION, **place}

    signed = {"extra_content": {"google": {"thought_signature": "s"}}}
    calls = [call("a", places[0]) | signed, call("b", places[1])]
    read = read_reply(deltas(*({"tool_calls": [it]} for it in calls), reason="tool_calls"))
    assert [it["id"] for it in read.content["tool_calls"]] == ["a", "b"]
    assert read.content["tool_calls"][0]["extra_content"] == signed["extra_content"]
    assert all(it["function"] == FUNCTION for it in read.content["tool_calls"])


def gemini_chunks(*parts, reason="STOP"):
    candidates = [{"content": {"role": "model", "parts": [it]}} for it in parts]
    candidates.append({"finishReason": reason})
    return [{"candidates": [it], "modelVersion": "gemini-x"} for it in candidates]


def gemini_call(**more):
    return gemini_chunks({"functionCall": {"name": "run", **more}})


ENDED = "ended before its end"
SO = {"content": {"parts": [{"text": "so"}]}, "finishReason": "STOP"}
REFUSED = {
    "anthropic ended early": (events_of("anthropic")[:-2], ENDED),
    "chat ended early": (events_of("chat")[:-2], ENDED),
    "responses ended early": (events_of("responses")[:-1], ENDED),
    "gemini without a finish reason": (gemini_chunks({"text": "so"})[:-1], ENDED),
    "several candidates": (
        [{"candidates": [{**SO, "index": at}]} for at in (0, 1)],
        "2 candidates",
    ),
    "a call that continues": (gemini_call(willContinue=True), "streamFunctionCallArguments"),
    "a part of its arguments": (
        gemini_call(partialArgs=[{"jsonPath": "$.a"}]),
        "streamFunctionCallArguments",
    ),
}


@pytest.mark.parametrize(("chunks", "why"), REFUSED.values(), ids=REFUSED)
def test_stream_that_ended_early_or_cannot_be_joined_is_refused(chunks, why):
    with pytest.raises(InvalidMessage, match=why):
        read_reply(chunks)


@pytest.mark.parametrize("place", [None, [], {}, "x"])
def test_pieces_whose_number_is_none_are_the_first_and_lose_nothing(place):
    said = {"type": "message", "role": "assistant", "content": []}
    items = [{**said, "id": "msg_1"}, {**said, "id": "msg_2"}]
    done = {"type": "response.output_item.done", "output_index": place}
    whole = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    assert read_reply([*({**done, "item": it} for it in items), whole]).content == items
    choice = {"index": place, "delta": {"content": "so"}, "finish_reason": "stop"}
    assert read_reply([{"choices": [choice]}]).content["content"] == "so"
    candidate = {"index": place, "content": {"parts": [{"text": "so"}]}, "finishReason": "STOP"}
    assert read_reply([{"candidates": [candidate]}]).content["parts"] == [{"text": "so"}]
    block = {"contentBlockIndex": place, "delta": {"text": "so"}}
    events = [{"contentBlockDelta": block}, {"messageStop": {"stopReason": "end_turn"}}]
    assert read_reply(events).content["content"] == [{"text": "so"}]


def test_empty_last_part_of_gemini_is_left_out():
    read = read_reply(gemini_chunks({"text": "so"}, {"text": ""}))
    assert read.content["parts"] == [{"text": "so"}]
