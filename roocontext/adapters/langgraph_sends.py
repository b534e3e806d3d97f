"""A graph's messages to its tasks, without those that the session shows.

Agents send their whole state with each call of a tool, and their next checkpoint holds it once
more. If it were stored, the cost of each step would grow with the conversation.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import takewhile
from operator import eq
from typing import Any, NamedTuple

from roocontext.adapters.langgraph_messages import WORKS, Digests, holds_messages
from roocontext.adapters.serializing import framework

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.serde.types import SendProtocol

_LEVELS = 2
"""How deep a state is looked for: it is sent by itself, or under a name."""


class LeftMessages(NamedTuple):
    """The first messages of a list, which were left out of a send.

    `place` is the send's, and `keys` lead to the list in it. They are the first `messages` of the
    channel that the last key names, as of the entry `seq`; 0 is the entry that holds this.
    """

    place: int
    keys: list[str]
    seq: int
    messages: int


def shortened(
    sent: Sequence[Any], shown: Mapping[str, Sequence[bytes]], digests: Digests, seq: int
) -> tuple[list[Any], list[LeftMessages]]:
    """Sends without the messages shown as of `seq`, and where these were."""
    left: list[LeftMessages] = []

    def cut(value: Any, place: int, keys: list[str]) -> Any:
        if keys and keys[-1] in shown and holds_messages(value):
            same = takewhile(bool, map(eq, map(digests.of, value), shown[keys[-1]]))
            if count := sum(same):
                left.append(LeftMessages(place, keys, seq, count))
            return value[count:]
        if type(value) is dict and len(keys) < _LEVELS:
            return {
                key: cut(item, place, [*keys, key]) if type(key) is str else item
                for key, item in value.items()
            }
        return value

    short = [copy(one) if isinstance(one, SendProtocol) else one for one in sent]
    for place, one in enumerate(short):
        if isinstance(one, SendProtocol):
            one.arg = cut(one.arg, place, [])
    return short, left


def completed(
    sent: Sequence[Any],
    left: Sequence[LeftMessages],
    read: Callable[[int], Mapping[str, Sequence[BaseMessage]]],
) -> None:
    """Put the messages back that were left out; `read` gives the conversations as of an entry."""
    for place, (*above, channel), seq, count in left:
        state = sent[place].arg
        for key in above:
            state = state[key]
        state[channel] = [*read(seq)[channel][:count], *state[channel]]
