"""Replies as the events of a stream, as each provider sends them."""

import json
import re
from collections.abc import Iterator
from typing import Any

Event = dict[str, Any]


def anthropic_events(reply: Event) -> str:
    """A message of Anthropic's, each block begun empty."""
    events = [{"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}}]
    for index, block in enumerate(reply["content"]):
        begun, deltas = _begun(block)
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stopped = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 8}})
    return _named([*events, {"type": "message_stop"}])


def _begun(block: Event) -> tuple[Event, list[Event]]:
    match block["type"]:
        case "thinking":
            deltas = [
                {"type": f"{name}_delta", kind: block[kind]}
                for name, kind in (("thinking", "thinking"), ("signature", "signature"))
            ]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use":
            packed = json.dumps(block["input"])
            halves = (packed[:5], packed[5:])
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
            return {**block, "input": {}}, deltas
        case _:
            return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]


def chat_events(reply: Event) -> str:
    """A chat completion, the arguments of a call in two halves."""
    (choice,) = reply["choices"]
    message = choice["message"]
    deltas: list[Event] = [{"role": "assistant", "content": message["content"]}]
    for index, call in enumerate(message.get("tool_calls", [])):
        name, packed = call["function"]["name"], call["function"]["arguments"]
        named = {**call, "index": index, "function": {"name": name, "arguments": packed[:5]}}
        rest = {"index": index, "function": {"arguments": packed[5:]}}
        deltas += [{"tool_calls": [named]}, {"tool_calls": [rest]}]
    whole = {**reply, "object": "chat.completion.chunk", "usage": None}
    chunks = [
        {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks += [{**whole, "choices": [end]}, {**whole, "choices": [], "usage": reply["usage"]}]
    return "".join([*_data(chunks), "data: [DONE]\n\n"])


def response_events(reply: Event) -> str:
    """A response, its items begun before they are done, and its texts sent word by word."""
    begun = {**reply, "output": [], "status": "in_progress"}
    events: list[Event] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(reply["output"]):
        place = {"output_index": index}
        events.append({"type": "response.output_item.added", **place, "item": item})
        for number, part in enumerate(item.get("content", ())):
            within = {**place, "item_id": item["id"], "content_index": number, "logprobs": []}
            events += [
                {"type": "response.output_text.delta", **within, "delta": word}
                for word in re.findall(r"\S+\s*", part["text"])
            ]
        events.append({"type": "response.output_item.done", **place, "item": item})
    events.append({"type": "response.completed", "response": reply})
    return _named([{**event, "sequence_number": n} for n, event in enumerate(events)])


def gemini_events(reply: Event) -> str:
    """A response of Gemini's in two chunks: its parts, then how it ended."""
    (candidate,) = reply["candidates"]
    rest = {key: value for key, value in reply.items() if key != "usageMetadata"}
    said = {**rest, "candidates": [{"content": candidate["content"]}]}
    end = {**reply, "candidates": [{"finishReason": candidate["finishReason"]}]}
    return "".join(_data([said, end]))


def _data(events: list[Event]) -> Iterator[str]:
    return (f"data: {json.dumps(event)}\n\n" for event in events)


def _named(events: list[Event]) -> str:
    data = zip(events, _data(events), strict=True)
    return "".join(f"event: {event['type']}\n{line}" for event, line in data)
