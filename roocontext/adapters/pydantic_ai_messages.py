"""pydantic-ai's messages as messages of a session, and rows of a view as its messages."""

from collections.abc import Sequence
from datetime import UTC, datetime

from roocontext.adapters.serializing import check_json, framework, serializing
from roocontext.formats.imported import storable_model
from roocontext.log.entries import Kind, Message, NewMessage
from roocontext.log.readings import reader, text_of

with framework("pydantic-ai-slim", works=">=2.68,<3", extra="pydantic-ai"):
    from pydantic_ai.conversation_store import ConversationEntry
    from pydantic_ai.messages import (
        CompactionPart,
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )
    from pydantic_ai.usage import RequestUsage

FORMAT = "pydantic-ai"


def serialized_message(entry: ConversationEntry) -> NewMessage:
    """An entry as a message, whose content is the output of pydantic-ai's serializer."""
    message = entry.message
    with serializing(message, "message"):
        check_json(ModelMessagesTypeAdapter.dump_python([message])[0], "message")
        content = ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
    reply = message if isinstance(message, ModelResponse) else None
    when = message.timestamp
    return NewMessage(
        "user" if reply is None else "assistant",
        content,
        FORMAT,
        ts=None if when is None else int(when.timestamp() * 1000),
        message_id=entry.id,
        # With the parent, because a redaction leaves the client id.
        client_id=f"{entry.id}|{entry.parent_id or ''}",
        model=None if reply is None else storable_model(reply.model_name),
        usage=None if reply is None else _usage(reply.usage),
    )


def _usage(usage: RequestUsage) -> dict[str, int] | None:
    """A reply's usage with the names that the store's sums know."""
    cached, written = usage.cache_read_tokens, usage.cache_write_tokens
    counted = {
        "input_tokens": max(usage.input_tokens - cached - written, 0),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
    return counted if any(counted.values()) else None


def system_prompt(first: ModelMessage, view: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The system prompt of the first message, if a summary hides that message."""
    if not isinstance(first, ModelRequest) or first in view[:1]:
        return []
    parts = [part for part in first.parts if isinstance(part, SystemPromptPart)]
    return [ModelRequest(parts=parts, timestamp=first.timestamp)] if parts else []


def shown_row(row: Message) -> ModelMessage | None:
    """A row of the view as a message of pydantic-ai; None if it has no text."""
    if row.format == FORMAT and row.kind is Kind.MESSAGE:
        return ModelMessagesTypeAdapter.validate_python([row.content])[0]
    role, blocks = reader(row.format).blocks(row.role, row.content)
    text, when = text_of(blocks), datetime.fromtimestamp(row.happened_at / 1000, UTC)
    if not text:
        return None
    if role == "assistant":
        return ModelResponse(parts=[TextPart(text)], timestamp=when)
    is_summary = row.kind is Kind.SUMMARY
    part = CompactionPart(text) if is_summary else UserPromptPart(text, timestamp=when)
    return ModelRequest(parts=[part], timestamp=when)
