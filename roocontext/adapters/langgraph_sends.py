"""What a graph sends to its tasks, without the conversations that the session shows already.

Agents send their whole state with each call of a tool, and their next checkpoint has it once more.
Were it stored so, each step of an agent would cost more the longer its conversation is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from operator import is_
from typing import Any, NamedTuple, TypeAlias

from roocontext.adapters.langgraph_conversations import Said
from roocontext.adapters.langgraph_messages import WORKS, holds_messages, live_hashes
from roocontext.adapters.serializing import framework

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.serde.types import TASKS, SendProtocol

_LEVELS = 2
"""How deep in what is sent a state is looked for: it is sent by itself, or under a name."""

Conversations: TypeAlias = Mapping[str, Sequence[BaseMessage]]
_State: TypeAlias = tuple[tuple[str, ...], Any]


class Left(NamedTuple):
    """Messages that were left out: the first ones of a list in one of the sends.

    They are as many of the conversation of the channel that the last key names, as of the entry
    `seq`; 0 means the entry that holds this.
    """

    place: int
    keys: list[str]
    seq: int
    messages: int


def without_messages(channel: str, value: Any, said: Said, seq: int) -> tuple[Any, list[Left]]:
    """A value of a channel without the messages of these conversations, and where they were."""
    if channel != TASKS or not said.hashes:
        return value, []
    sent = [*value] if type(value) is list else [value]
    left: list[Left] = []
    known: dict[int, int] = {}  # calls at once send the same list
    for index, one in enumerate(sent):
        for keys, messages in _conversations(one, said):
            if id(messages) not in known:
                known[id(messages)] = _shown(messages, said, keys[-1])
            if count := known[id(messages)]:
                sent[index] = copy(sent[index])
                sent[index].arg = _replaced(sent[index].arg, keys, messages[count:])
                left.append(Left(index, [*keys], seq, count))
    return (sent if type(value) is list else sent[0]), left


def completed(value: Any, left: Sequence[Left], said: Callable[[int], Conversations]) -> Any:
    """The value that was shortened, just read, with all its messages."""
    for place, (*above, channel), seq, count in left:
        state = (value[place] if type(value) is list else value).arg
        for key in above:
            state = state[key]
        state[channel] = [*said(seq)[channel][:count], *state[channel]]
    return value


def _conversations(sent: object, said: Said) -> Iterator[tuple[tuple[str, ...], list[BaseMessage]]]:
    states: list[_State] = [((), sent.arg)] if isinstance(sent, SendProtocol) else []
    for level in range(_LEVELS):
        inner: list[_State] = []
        for keys, state in states:
            for key, value in state.items() if type(state) is dict else ():
                if key in said.hashes and holds_messages(value):
                    yield (*keys, key), value
                elif level + 1 < _LEVELS and type(key) is str:  # JSON has no other names
                    inner.append(((*keys, key), value))
        states = inner


def _shown(messages: Sequence[BaseMessage], said: Said, channel: str) -> int:
    """How many of the first messages begin the conversation of this channel."""
    same = said.channels.get(channel, ())
    if len(messages) <= len(same) and all(map(is_, messages, same)):
        return len(messages)
    hashes, shown = live_hashes(messages), said.hashes[channel]
    if hashes[: len(shown)] == shown:
        return len(shown)
    pairs = zip(hashes, shown, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), len(hashes))


def _replaced(state: dict[str, Any], keys: Sequence[str], messages: Any) -> dict[str, Any]:
    first, *rest = keys
    return {**state, first: _replaced(state[first], rest, messages) if rest else messages}
