"""Reads a model's reply, as its SDK gives it or as a dict of the same shape, into one message.

Each provider's reply is recognised by its own shape; an object of any other shape is refused.
Nothing is guessed: a field that the reply lacks is None.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.errors import InvalidIdentifier, InvalidMessage
from roocontext.log.compactions import Compaction, newest_compaction
from roocontext.log.draft import KEPT_UNDER
from roocontext.log.encoding import check_id, check_model, decode, plain
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string

RESPONSES: Final = "openai-responses"

REQUESTED: Final = "requested_model"
"""The name under which the log keeps the model's name in the request for a reply."""


class Compacting(NamedTuple):
    """A compaction by the provider, and the messages of the history that it kept."""

    newest: Compaction
    kept: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of any provider, as one message of a log.

    `id` is the provider's id of the reply, if it has one. `stop_reason` is in the provider's words.
    `messages` are those that a compaction on demand returned before its own item.
    """

    format: str
    role: str
    content: Any
    model: str | None = None
    usage: Any = None
    id: str | None = None
    stop_reason: str | None = None
    request_id: str | None = None
    messages: tuple[Any, ...] = ()

    @property
    def compacting(self) -> "Compacting | None":
        """The compaction of the history in it, if it has one that did not fail."""
        newest = newest_compaction(self.format, self.content)
        return None if newest is None else Compacting(newest, self.messages)

    def kept(self, requested: str | None = None) -> dict[str, Any]:
        """The fields that the log keeps in addition to the message.

        `requested` is the name of the model in the request.
        """
        fields = {"id": self.id, "stop_reason": self.stop_reason, "request_id": self.request_id}
        fields[REQUESTED] = requested
        return {name: value for name, value in fields.items() if value is not None}


def requested_model(extra: str | None) -> str | None:
    """The model's name in the request for a stored reply, read from its `extra`."""
    # A search in the text first: most messages have no such name.
    fields = decode(extra) if extra is not None and f'"{REQUESTED}"' in extra else None
    kept = as_dict(as_dict(fields).get(KEPT_UNDER))
    return _model(kept.get(REQUESTED))


def read_reply(reply: Any) -> Reply:
    """Read a reply; a list holds the chunks of a streamed reply of Gemini's SDK."""
    if isinstance(reply, list | tuple):
        fields = _joined([as_dict(plain(chunk)) for chunk in reply])
    else:
        fields = as_dict(plain(reply))
    for recognises, read in _SHAPES:
        if recognises(fields):
            return read(fields, _id(getattr(reply, "_request_id", None)))
    raise InvalidMessage(
        "This is not the reply of a model. Pass the object that the SDK of Anthropic, OpenAI or"
        " Gemini returned, or a dict of the same shape; of a stream, its final object.",
        path="reply",
    )


_Read: TypeAlias = Callable[[Block, str | None], Reply]


def _anthropic(reply: Block, request_id: str | None) -> Reply:
    return Reply(
        "anthropic",
        "assistant",
        [_without(block, _OF_THE_SDK) for block in dicts(reply.get("content"))],
        *_reported(reply, "model", "usage", "id", "stop_reason"),
        request_id,
    )


def _chat(reply: Block, request_id: str | None) -> Reply:
    choice = _only(dicts(reply["choices"]), "choices")
    if not isinstance(choice.get("message"), dict):
        raise InvalidMessage(
            "This is a chunk of a streamed reply: record the stream's final object.",
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
    return Reply("openai", "assistant", message, model, usage, own_id, stopped, request_id)


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
    items = dicts(reply["output"])
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
        _id(_either(reply, "modelVersion")),
        _either(reply, "usageMetadata"),
        _id(_either(reply, "responseId")),
        _word(_either(candidate, "finishReason")),
        request_id,
    )


_SHAPES: Final[Sequence[tuple[Callable[[Block], bool], _Read]]] = (
    (lambda it: it.get("type") == "message" and "stop_reason" in it, _anthropic),
    (lambda it: isinstance(it.get("choices"), list), _chat),
    (lambda it: it.get("object") == "response.compaction", _compacted),
    (lambda it: isinstance(it.get("output"), list), _responses),
    (lambda it: "candidates" in it or _either(it, "promptFeedback") is not None, _gemini),
)
"""Recognises a reply of each provider, and reads it."""

_OF_THE_SDK: Final = ("parsed_output",)
"""Fields of a block that an SDK's helpers add and that no provider sends."""

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
    """The value if the log accepts it as a model's name, else None."""
    return _accepted(value, check_model)


def _id(value: object) -> str | None:
    """The value if the log accepts it as an id, else None."""
    return _accepted(value, partial(check_id, "id"))


def _accepted(value: object, check: Callable[[object], None]) -> str | None:
    try:
        check(value)
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


def _either(reply: Block, name: str) -> Any:
    """The value under REST's name, or under the one that Gemini's SDK has for it in Python."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return reply.get(name, reply.get(snake))


def _joined(chunks: Sequence[Block]) -> Block:
    """Join the chunks of a streamed reply of Gemini; of each field the last one counts."""
    whole: Block = {}
    candidate: Block = {}
    parts: list[Block] = []
    for chunk in chunks:
        whole |= {name: value for name, value in chunk.items() if value is not None}
        for piece in dicts(chunk.get("candidates"))[:1]:
            candidate |= {name: value for name, value in piece.items() if value is not None}
            parts += dicts(as_dict(piece.get("content")).get("parts"))
    if candidate:
        content = {"role": "model", "parts": _run_together(parts)}
        whole["candidates"] = [{**candidate, "content": content}]
    return whole


def _run_together(parts: Sequence[Block]) -> list[Block]:
    """Join texts of one kind that follow each other; a part with a signature stays as it is."""
    joined: list[Block] = []
    for part in parts:
        before = joined[-1] if joined else {}
        alike = before.get("thought") == part.get("thought")
        if alike and _is_words(before) and _is_words(part):
            joined[-1] = {**before, "text": before["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


def _is_words(part: Block) -> bool:
    return isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"}
