"""Conversations of LangGraph's states, as an adapter or an import keeps them in a session.

A message is stored in the format `langchain`: its type, and the fields that differ from their
defaults. Messages of several channels share a session's view. A graph gives its whole conversation
with each state, so it is compared with the messages that the session shows, by their digests.
Nothing here needs LangChain.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, Final, Protocol

from roocontext.formats.imported import storable, storable_model
from roocontext.log.encoding import encode
from roocontext.log.entries import NewMessage
from roocontext.log.plan import LEFT_OUT
from roocontext.log.readings.langchain import role_of

FORMAT: Final = "langchain"
MAIN: Final = "messages"
"""The channel that nearly every graph keeps its conversation in: its messages do not name it."""
MARKER: Final = "\0marker"
"""The channel of markers for messages that a graph has removed: they belong to no conversation."""

Content = dict[str, Any]


class WithId(Protocol):
    """A message of a conversation."""

    @property
    def id(self) -> str | None:
        """LangChain's id of the message."""


class ToldMessage(WithId, Protocol):
    """A message that a session shows."""

    @property
    def channel(self) -> str | None:
        """The channel that it belongs to; None if no graph has written it."""

    @property
    def digest(self) -> bytes:
        """The digest of the message."""


def to_new(content: Content, channel: str) -> NewMessage:
    """The session's message with this content, of a channel."""
    data = content["data"]
    reported = data.get("response_metadata")
    name, model = data.get("id"), None
    if isinstance(reported, dict):
        model = reported.get("model_name")
    return NewMessage(
        role_of(content),
        content if channel == MAIN else {**content, "channel": channel},
        FORMAT,
        message_id=storable(name) if isinstance(name, str) and name else None,
        model=storable_model(model) if isinstance(model, str) else None,
        usage=_usage(data.get("usage_metadata")),
    )


def _usage(reported: object) -> dict[str, Any] | None:
    """LangChain's usage in the shape of OpenAI's, which counts cached tokens as input."""
    if not isinstance(reported, dict):
        return None
    read, reasoned = (
        details.get(name, 0) if isinstance(details := reported.get(side), dict) else 0
        for side, name in (
            ("input_token_details", "cache_read"),
            ("output_token_details", "reasoning"),
        )
    )
    usage = {
        "input_tokens": reported.get("input_tokens"),
        "output_tokens": reported.get("output_tokens"),
        "input_tokens_details": {"cached_tokens": read},
        "output_tokens_details": {"reasoning_tokens": reasoned},
    }
    return usage if is_exact(usage) else None


def new_marker() -> NewMessage:
    """The marker for messages that a graph has removed from the start or the middle."""
    return NewMessage(
        "user", {"type": "human", "data": {"content": LEFT_OUT}, "marker": True}, FORMAT
    )


def channel_of(content: Content) -> str:
    """The channel that a stored message belongs to."""
    channel: str = MARKER if "marker" in content else content.get("channel", MAIN)
    return channel


def digest_of(content: Content) -> bytes:
    """A digest that two messages share only if they are equal, types and order included."""
    own = {name: value for name, value in content.items() if name != "channel"}
    return blake2b(encode(own).encode(), digest_size=16).digest()


def kept_count(shown: Sequence[ToldMessage], wanted: Mapping[str, Sequence[bytes]]) -> int:
    """The number of shown messages that may stay: all before the first that is not wanted there."""
    rest = {channel: iter(digests) for channel, digests in wanted.items()}
    for index, message in enumerate(shown):
        channel = message.channel
        if channel != MARKER and next(rest.get(channel or "", iter(())), None) != message.digest:
            return index
    return len(shown)


def replaced(
    shown: Sequence[ToldMessage],
    wanted: Mapping[str, Sequence[bytes]],
    conversations: Mapping[str, Sequence[WithId]],
    stays: int,
) -> tuple[str, slice, slice] | None:
    """A channel, the messages shown that were removed from it, and those that replace them.

    `wanted` are the digests of the conversations. None if there are several of these, or if the
    conversation did not come about by one such change and new messages at the end.
    """
    if len(wanted) != 1:
        return None
    ((channel, digests),) = wanted.items()
    if not {channel, MARKER} >= {message.channel for message in shown}:
        return None
    while stays and shown[stays - 1].channel == MARKER:
        stays -= 1  # the new marker hides an older one
    begin = sum(message.channel != MARKER for message in shown[:stays])
    later = {*digests[begin:]}
    end = next((at for at in range(stays, len(shown)) if shown[at].digest in later), stays)
    rest = [message.digest for message in shown[end:] if message.channel != MARKER]
    place = digests.index(rest[0], begin) if end > stays else 0
    if end == stays or digests[place : place + len(rest)] != rest:
        return None
    new = {message.id for message in conversations[channel][begin:place] if message.id}
    if {message.id for message in shown[stays:end]} & new:
        return None  # a message was changed, which is no summary
    return channel, slice(stays, end), slice(begin, place)


def is_exact(value: object) -> bool:
    """True if JSON gives exactly this value back, types and order included."""
    try:
        return _is_json(value)
    except RecursionError:
        return False


def _is_json(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        # Two halves of a character come back as one.
        return bool(value.isascii() or json.loads(json.dumps(value)) == value)
    if kind is dict:
        has_names = {*map(type, value)} <= {str} and all(map(_is_json, value))
        return has_names and all(map(_is_json, value.values()))
    if kind is list:
        return all(map(_is_json, value))
    return kind in {int, bool, type(None)} or (kind is float and isfinite(value))
