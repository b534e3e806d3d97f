"""The replies of the SDKs of Anthropic, OpenAI, Gemini and Bedrock, each recognised by its shape.

Nothing is guessed: a field that the reply lacks is None.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from roocontext.errors import InvalidIdentifier, InvalidMessage
from roocontext.log.encoding import check_id, check_model, plain
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string
from roocontext.log.readings.converse import in_base64
from roocontext.log.replies.chunks import join_chunks
from roocontext.log.replies.reply import RESPONSES, Reply


def read_shape(reply: Any) -> Reply | None:
    """Read a reply by its shape; a list holds the chunks or events of a stream."""
    if isinstance(reply, list | tuple):
        fields = join_chunks([as_dict(plain(chunk)) for chunk in reply])
    else:
        fields = as_dict(plain(reply))
    for recognises, read in _SHAPES:
        if recognises(fields):
            return read(fields, _id(getattr(reply, "_request_id", None)))
    return None


_Read: TypeAlias = Callable[[Block, str | None], Reply]


def _anthropic(reply: Block, request_id: str | None) -> Reply:
    return Reply(
        "anthropic",
        "assistant",
        [_without(block, _OF_THE_SDK) for block in dicts(reply.get("content"))],
        *_reported(reply, "model", "usage", "id", "stop_reason"),
        request_id,
        beside=_beside(reply, "container", "stop_details", "stop_sequence", "context_management"),
    )


def _chat(reply: Block, request_id: str | None) -> Reply:
    choice = _only(dicts(reply["choices"]), "choices")
    if not isinstance(choice.get("message"), dict):
        raise InvalidMessage(
            "This is one chunk of a streamed reply: record the list of all its chunks, or the"
            " stream's final object.",
            path="reply.choices[0].message",
        )
    # The object of a stream has every field that a message may have, most of them null.
    message = {
        key: value
        for key, value in _without(choice["message"], ("parsed",)).items()
        if value is not None or key == "content"
    }
    if "tool_calls" in message:
        message["tool_calls"] = [_unparsed(call) for call in dicts(message["tool_calls"])]
    model, usage, own_id, _ = _reported(reply, "model", "usage", "id", "")
    stopped = _word(choice.get("finish_reason"))
    beside = _beside(reply, "citations", "search_results")
    return Reply(
        *("openai", "assistant", message, model, usage, own_id, stopped, request_id),
        beside=beside,
    )


def _responses(reply: Block, request_id: str | None) -> Reply:
    status = string(reply, "status")
    if status in _UNFINISHED or (status in _FAILED and not reply["output"]):
        raise InvalidMessage(
            f"The response is {status}, so there is no reply to record.", path="reply.status"
        )
    items = [_without(item, ("parsed_arguments",)) for item in dicts(reply["output"])]
    for item in items:
        if isinstance(item.get("content"), list):
            item["content"] = [_without(part, ("parsed",)) for part in dicts(item["content"])]
    model, usage, own_id, _ = _reported(reply, "model", "usage", "id", "")
    why = string(as_dict(reply.get("incomplete_details")), "reason")
    return Reply(
        *(RESPONSES, "assistant", items, model, usage, own_id),
        why or status or None,
        request_id,
    )


def _compacted(reply: Block, request_id: str | None) -> Reply:
    """Read the answer of `/responses/compact`: messages that are kept, and one compaction."""
    items = dicts(reply.get("output"))
    messages = [item for item in items if item.get("type") == "message"]
    _, usage, own_id, _ = _reported(reply, "model", "usage", "id", "")
    return Reply(
        RESPONSES,
        "assistant",
        [item for item in items if item.get("type") != "message"],
        usage=usage,
        id=own_id,
        request_id=request_id,
        messages=tuple(messages),
    )


def _gemini(reply: Block, request_id: str | None) -> Reply:
    candidates = dicts(reply.get("candidates"))
    blocked = as_dict(_either(reply, "promptFeedback")).get("blockReason")
    if blocked is not None and not candidates:
        raise InvalidMessage(
            "The provider blocked the prompt, so there is no reply to record.",
            path="reply.promptFeedback",
        )
    candidate = _only(candidates, "candidates")
    content = as_dict(candidate.get("content"))
    message = {"role": "model", **content, "parts": dicts(content.get("parts"))}
    return Reply(
        "gemini",
        "model",
        message,
        _model(_either(reply, "modelVersion")),
        _either(reply, "usageMetadata"),
        _id(_either(reply, "responseId")),
        _word(_either(candidate, "finishReason")),
        request_id,
        beside=_beside(candidate, *_OF_A_CANDIDATE),
    )


def _converse(reply: Block, _: str | None) -> Reply:
    message = in_base64(reply["output"]["message"])
    return Reply(
        "bedrock-converse",
        "assistant",
        {"role": "assistant", "content": dicts(message.get("content"))},
        usage=reply.get("usage"),
        stop_reason=_word(reply.get("stopReason")),
        request_id=_id(as_dict(reply.get("ResponseMetadata")).get("RequestId")),
        beside=_beside(reply, "additionalModelResponseFields", "trace"),
    )


def _is_converse(reply: Block) -> bool:
    return isinstance(as_dict(reply.get("output")).get("message"), dict) and "stopReason" in reply


_SHAPES: Final[Sequence[tuple[Callable[[Block], bool], _Read]]] = (
    (lambda it: it.get("type") == "message" and "stop_reason" in it, _anthropic),
    (lambda it: isinstance(it.get("choices"), list), _chat),
    (lambda it: it.get("object") == "response.compaction", _compacted),
    (lambda it: isinstance(it.get("output"), list), _responses),
    (_is_converse, _converse),
    (lambda it: "candidates" in it or _either(it, "promptFeedback") is not None, _gemini),
)
"""Recognises a reply of each provider, and reads it."""

_OF_THE_SDK: Final = ("parsed_output",)
"""Fields of a block that an SDK's helpers add and that no provider sends."""

_OF_A_CANDIDATE: Final = (
    *("groundingMetadata", "citationMetadata", "urlContextMetadata", "safetyRatings"),
    "finishMessage",
)
"""Fields that Gemini adds to the content of a reply."""

_UNFINISHED: Final = ("queued", "in_progress")
"""The states of a response that is not complete yet."""

_FAILED: Final = ("failed", "cancelled")
"""The states of a response that may be empty."""


def _reported(reply: Block, *names: str) -> tuple[str | None, Any, str | None, str | None]:
    """The model, the usage, the id and the stop reason under these names."""
    model, usage, own_id, stopped = (reply.get(name) for name in names)
    return _model(model), usage, _id(own_id), _word(stopped)


def _only(alternatives: Sequence[Block], name: str) -> Block:
    if len(alternatives) != 1:
        raise InvalidMessage(
            f"The reply has {len(alternatives)} {name}, but a session records exactly one. Request"
            " a single one.",
            path=f"reply.{name}",
        )
    return alternatives[0]


def _model(value: object) -> str | None:
    """The model's name, if there is any; one that the log does not accept is refused."""
    # Usage, limits and thinking depend on it, so it is not dropped as an id is.
    name = _word(value)
    if name is not None:
        check_model(name)
    return name


def _id(value: object) -> str | None:
    """The value if the log accepts it as an id, else None."""
    try:
        check_id("id", value)
    except InvalidIdentifier:
        return None
    return str(value)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _without(item: Block, names: Sequence[str]) -> Block:
    return {key: value for key, value in item.items() if key not in names}


def _unparsed(call: Block) -> Block:
    """A call without its index in the stream, and without the arguments that the SDK parsed."""
    function = _without(as_dict(call.get("function")), ("parsed_arguments",))
    return {**_without(call, ("index",)), **({"function": function} if function else {})}


def _beside(reply: Block, *names: str) -> Block:
    """The fields of these names that are not empty."""
    return {name: it for name in names if (it := _either(reply, name)) not in (None, "", [], {})}


def _either(reply: Block, name: str) -> Any:
    """The value under REST's name, or under the one that Gemini's SDK has for it in Python."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return reply.get(name, reply.get(snake))
