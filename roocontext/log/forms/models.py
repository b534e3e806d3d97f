"""Which model's thinking a request may contain."""

from collections.abc import Sequence

from roocontext.log.entries import Kind, Message


def model_of(messages: Sequence[Message]) -> str | None:
    """The model of the newest assistant message; the next request is assumed to go to it."""
    newest = newest_reply(messages)
    return None if newest is None else newest.model


def newest_reply(messages: Sequence[Message]) -> Message | None:
    """The newest assistant message, in whatever order they are."""
    newest: Message | None = None
    for message in messages:
        speaks = message.kind is Kind.MESSAGE and message.role in ("assistant", "model")
        if speaks and (newest is None or message.seq > newest.seq):
            newest = message
    return newest
