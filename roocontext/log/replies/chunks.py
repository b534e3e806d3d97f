"""The chunks of a streamed reply, joined to the object that the provider returns without a stream.

A stream that ended before its last chunk is refused: what is missing cannot be known.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from roocontext.errors import InvalidMessage
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string
from roocontext.log.readings.converse import from_base64
from roocontext.log.readings.gemini import as_sent


def join_chunks(chunks: Sequence[Block]) -> Block:
    """Join the chunks of a streamed reply of any provider."""
    for recognises, join in _STREAMS:
        if any(map(recognises, chunks)):
            return join(chunks)
    return _gemini(chunks)


def _anthropic(events: Sequence[Block]) -> Block:
    """Join the events of Anthropic's Messages API; the SDK's helpers add others, without effect."""
    message: Block = {}
    blocks: dict[int, Block] = {}
    inputs: dict[int, str] = {}
    for event in events:
        index = event.get("index")
        match event.get("type"), index:
            case "message_start", _:
                message |= as_dict(event.get("message"))
            case "content_block_start", int():
                blocks[index] = dict(as_dict(event.get("content_block")))
            case "content_block_delta", int() if index in blocks:
                delta = as_dict(event.get("delta"))
                if delta.get("type") == "input_json_delta":
                    inputs[index] = inputs.get(index, "") + string(delta, "partial_json")
                else:
                    _extend(blocks[index], delta)
            case "message_delta", _:
                message |= _said(as_dict(event.get("delta")))
                message["usage"] = {**as_dict(message.get("usage")), **_said(event.get("usage"))}
                message |= _said({"context_management": event.get("context_management")})
    if message.get("stop_reason") is None:
        raise _cut_off("a message_delta with its stop_reason")
    for index, text in inputs.items():
        # A limit may have cut the input off: the call then has what can be read of it.
        blocks[index]["input"] = _parsed(text, blocks[index].get("input"))
    return {**message, "content": [blocks[index] for index in sorted(blocks)]}


def _extend(block: Block, delta: Block) -> None:
    """Add a delta to a block of Anthropic's."""
    for name, value in delta.items():
        if name == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif name != "type" and value is not None:
            is_more = isinstance(value, str) and isinstance(block.get(name), str)
            block[name] = block[name] + value if is_more and name != "signature" else value


def _parsed(text: str, begun: Any) -> Any:
    try:
        return json.loads(text) if text.strip() else begun
    except ValueError:
        return {"arguments": text}


def _responses(events: Sequence[Block]) -> Block:
    """Take the response of the last event; some servers send its items in earlier ones only."""
    last = next((event for event in reversed(events) if event.get("type") in _LAST), None)
    if last is None:
        raise _cut_off("the event response.completed")
    response = as_dict(last.get("response"))
    done = [event for event in events if event.get("type") == "response.output_item.done"]
    if response.get("output") or not done:
        return response
    done.sort(key=lambda event: _place(event, "output_index"))
    return {**response, "output": [as_dict(event.get("item")) for event in done]}


_LAST: Final = ("response.completed", "response.incomplete", "response.failed")


def _chat(chunks: Sequence[Block]) -> Block:
    """Join the chunks of Chat Completions, with the fields of compatible servers."""
    whole: Block = {}
    choices: dict[int, Block] = {}
    for chunk in chunks:
        whole |= _said(chunk)
        for piece in dicts(chunk.get("choices")):
            choice = choices.setdefault(_place(piece), {"message": {"content": None}})
            choice |= {key: it for key, it in _said(piece).items() if key != "delta"}
            _grow(choice["message"], as_dict(piece.get("delta")))
    if not all(choice.get("finish_reason") for choice in choices.values()):
        raise _cut_off("a finish_reason")
    for choice in choices.values():
        choice["message"].setdefault("role", "assistant")
    return {**whole, "choices": list(choices.values())}


def _grow(message: Block, delta: Block) -> None:
    """Add a delta to a message of Chat Completions."""
    for name, value in _said(delta).items():
        before = message.get(name)
        if name == "tool_calls":
            calls = message.setdefault(name, [])
            for call in dicts(value):
                _grow_calls(calls, call)
        elif name == "role":
            message[name] = value
        elif name == "function_call" or (name == "audio" and isinstance(before, dict)):
            message[name] = _grown(as_dict(before), as_dict(value))
        elif isinstance(value, list):
            message[name] = _listed(before, value)
        elif isinstance(value, str) and isinstance(before, str | list):
            more = [{"type": "text", "text": value}] if value else []
            message[name] = before + value if isinstance(before, str) else _listed(before, more)
        elif isinstance(value, dict):
            message[name] = {**as_dict(before), **value}
        else:
            message[name] = value


def _grow_calls(calls: list[Block], piece: Block) -> None:
    """Add a part of a call. Without an index, or with the index of another id, it is a new call."""
    index, tool_id = piece.get("index"), string(piece, "id")
    same = (call for call in reversed(calls) if index is None or call.get("index") == index)
    call = next(same, None)
    if call is None or (tool_id and tool_id != string(call, "id")):
        calls.append(dict(piece))
        return
    for holder in ("function", "custom"):
        if isinstance(piece.get(holder), dict):
            call[holder] = _grown(as_dict(call.get(holder)), piece[holder])
    call |= {key: it for key, it in _said(piece).items() if key not in ("function", "custom")}


def _grown(before: Block, piece: Block) -> Block:
    """Join the texts of two objects; a name or an id is sent once, or the same again."""
    joined = dict(before)
    for name, value in _said(piece).items():
        is_more = isinstance(value, str) and isinstance(joined.get(name), str)
        if is_more and name not in ("name", "id"):
            joined[name] += value
        elif value or name not in joined:
            joined[name] = value
    return joined


_WORDS: Final = ("text", "summary")
"""The fields of a part whose texts are sent piece by piece."""


def _listed(before: Any, more: Sequence[Any]) -> list[Any]:
    """Join lists of parts: of two texts of one kind that follow each other, one is made."""
    listed = [{"type": "text", "text": before}] if isinstance(before, str) and before else []
    listed = list(before) if isinstance(before, list) else listed
    for part in more:
        last = as_dict(listed[-1]) if listed else {}
        is_part = isinstance(part, dict) and isinstance(part.get("type"), str)
        if not is_part or (last.get("type"), last.get("index")) != (
            part["type"],
            part.get("index"),
        ):
            listed.append(part)
        elif any(isinstance(part.get(name), str) for name in _WORDS):
            listed[-1] = _grown_part(last, part)
        elif part["type"] == "thinking":
            listed[-1] = _grown_thinking(last, part)
        else:
            listed.append(part)
    return listed


def _grown_part(before: Block, part: Block) -> Block:
    texts: Block = {
        name: string(before, name) + string(part, name) for name in _WORDS if name in part
    }
    return {**before, **_said(part), **texts}


def _grown_thinking(before: Block, part: Block) -> Block:
    """Mistral's thinking holds a list of texts; LiteLLM's is one text."""
    if isinstance(part.get("thinking"), list):
        thinking: Any = _listed(before.get("thinking"), part["thinking"])
    else:
        thinking = string(before, "thinking") + string(part, "thinking")
    return {**before, **_said(part), "thinking": thinking}


def _converse(events: Sequence[Block]) -> Block:
    """Join the events of Bedrock's `converse_stream`."""
    blocks: dict[int, Block] = {}
    inputs: dict[int, str] = {}
    whole: Block = {}
    for kind, part in (pair for event in events for pair in event.items()):
        held = as_dict(part)
        index, block = _place(held, "contentBlockIndex"), as_dict(held.get("delta"))
        match kind:
            case "contentBlockStart":
                blocks[index] = dict(as_dict(held.get("start")))
            case "contentBlockDelta" if isinstance(block.get("toolUse"), dict):
                inputs[index] = inputs.get(index, "") + string(block["toolUse"], "input")
            case "contentBlockDelta":
                blocks[index] = _extended(blocks.get(index, {}), block)
            case "messageStop":
                whole |= held
            case "metadata":
                whole |= {key: held[key] for key in ("usage", "metrics", "trace") if key in held}
    if not whole.get("stopReason"):
        raise _cut_off("the event messageStop")
    for index, block in blocks.items():
        if isinstance(block.get("toolUse"), dict):
            block["toolUse"] = {**block["toolUse"], "input": _parsed(inputs.get(index, ""), {})}
    content = [blocks[index] for index in sorted(blocks)]
    return {**whole, "output": {"message": {"role": "assistant", "content": content}}}


def _extended(block: Block, delta: Block) -> Block:
    """Add a delta to a block of Converse."""
    if isinstance(delta.get("text"), str) or isinstance(delta.get("citation"), dict):
        cited = as_dict(block.get("citationsContent"))
        (before,) = cited.get("content") or [block]
        words = {"text": string(before, "text") + string(delta, "text")}
        sources = [*dicts(cited.get("citations")), *dicts([delta.get("citation")])]
        # The citations of a text come before it, within it or after it.
        return (
            {"citationsContent": {"content": [words], "citations": sources}} if sources else words
        )
    reasoning = as_dict(delta.get("reasoningContent"))
    if sealed := reasoning.get("redactedContent"):
        # The bytes of each delta are in base64 of their own (anomalyco/opencode#46283).
        begun = as_dict(block.get("reasoningContent")).get("redactedContent")
        joined = _bytes(begun) + _bytes(sealed) if begun else sealed
        return {"reasoningContent": {"redactedContent": joined}}
    if reasoning:
        before = as_dict(as_dict(block.get("reasoningContent")).get("reasoningText"))
        return {"reasoningContent": {"reasoningText": _grown(before, reasoning)}}
    if isinstance(parts := delta.get("toolResult"), list):
        result = as_dict(block.get("toolResult"))
        content = [*dicts(result.get("content")), *dicts(parts)]
        return {"toolResult": {**result, "content": content}}
    grown = {name: {**as_dict(block.get(name)), **as_dict(it)} for name, it in delta.items()}
    return {**block, **grown}


def _bytes(blob: bytes | str) -> bytes:
    return (from_base64(blob) or b"") if isinstance(blob, str) else blob


def _gemini(chunks: Sequence[Block]) -> Block:
    """Join the chunks of Gemini; of each field the last one counts."""
    whole: Block = {}
    candidates: dict[int, Block] = {}
    parts: dict[int, list[Block]] = {}
    for chunk in chunks:
        whole |= _said(chunk)
        for piece in dicts(chunk.get("candidates")):
            place = _place(piece)  # each alternative has its own
            candidates[place] = candidates.get(place, {}) | _said(piece)
            parts.setdefault(place, []).extend(dicts(as_dict(piece.get("content")).get("parts")))
    joined = [_candidate(candidate, parts[place]) for place, candidate in candidates.items()]
    return {**whole, "candidates": joined} if joined else whole


def _candidate(candidate: Block, parts: Sequence[Block]) -> Block:
    if not (string(candidate, "finishReason") or string(candidate, "finish_reason")):
        raise _cut_off("a finishReason")
    return {**candidate, "content": {"role": "model", "parts": list(_run_together(parts))}}


def _run_together(parts: Sequence[Block]) -> Iterator[Block]:
    """Join texts of one kind that follow each other; a part with a signature stays as it is.

    The last part of a stream is often an empty text.
    """
    text: Block | None = None
    for part in parts:
        is_words = isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"}
        if text is not None and not (is_words and text.get("thought") == part.get("thought")):
            yield text
            text = None
        if is_words:
            before = text["text"] if text else ""
            text = {**part, "text": before + part["text"]} if before or part["text"] else None
            continue
        call = as_dict(as_sent(part).get("functionCall"))
        if call.get("willContinue") or call.get("partialArgs"):
            raise InvalidMessage(
                "The arguments of a call were streamed in parts, which cannot be recorded. Request"
                " them whole, without streamFunctionCallArguments.",
                path="reply.functionCall.partialArgs",
            )
        yield part
    if text is not None:
        yield text


def _place(piece: Block, name: str = "index") -> int:
    """The number of a piece of a stream; the first has 0, which may be left out."""
    number = piece.get(name)
    return number if isinstance(number, int) else 0


def _said(fields: Any) -> Block:
    """The fields that are not null."""
    return {name: value for name, value in as_dict(fields).items() if value is not None}


def _cut_off(missing: str) -> InvalidMessage:
    return InvalidMessage(
        f"The stream ended before its end: it lacks {missing}. Only a whole reply can be recorded.",
        path="reply",
    )


_STREAMS: Final[Sequence[tuple[Callable[[Block], bool], Callable[[Sequence[Block]], Block]]]] = (
    (lambda it: it.get("type") == "message_start", _anthropic),
    (lambda it: string(it, "type").startswith("response."), _responses),
    (lambda it: isinstance(it.get("choices"), list), _chat),
    (
        # The helper of OpenAI's SDK has each chunk in an event, between events of its own.
        lambda it: it.get("type") == "chunk" and isinstance(it.get("chunk"), dict),
        lambda events: _chat([as_dict(event.get("chunk")) for event in events]),
    ),
    (lambda it: isinstance(it.get("messageStop", it.get("messageStart")), dict), _converse),
)
"""Recognises a chunk of each provider but Gemini, and joins them."""
