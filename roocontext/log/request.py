"""A request for the model's turn: what goes into the SDK's call, and which entry it read up to."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from roocontext.log.entries import Message, View
from roocontext.log.forms import Repair, forms, model_of
from roocontext.log.frame import Frame

_DATED: Final = re.compile(r"-(?:latest|\d{8}|\d{4}-\d{2}-\d{2})$")
"""What providers put behind a model's name in their replies."""


@dataclass(frozen=True, slots=True, eq=False)
class Request(Mapping[str, Any]):
    """The keyword arguments of the SDK's call, as a mapping: `create(model=..., **request)`.

    `seq` is the last entry that was read: `record` stores it with the reply. `model` is whose
    thinking was kept. `repairs` are what had to be done to the messages for this provider.
    """

    body: Mapping[str, Any]
    seq: int
    form: str
    model: str | None
    repairs: tuple[Repair, ...]

    def __getitem__(self, key: str) -> Any:
        return self.body[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.body)

    def __len__(self) -> int:
        return len(self.body)


class Asked(NamedTuple):
    """What a request is made of.

    It `is_complete` if the model is to answer the user or its tools, and not to go on with its own
    words. `is_new` says that the frame is not recorded yet. `unbound` are the rows whose thinking
    the model would refuse now.
    """

    view: View
    frame: Frame
    model: str | None
    is_complete: bool
    is_new: bool
    unbound: frozenset[int]


def compose_request(asked: Asked, form: str, *, cache: bool) -> Request:
    """Make a request of what was read."""
    frame, outgoing = asked.frame, forms[form]
    made = outgoing.compose(
        asked.view.messages,
        model=asked.model,
        drop_thinking=asked.unbound,
        complete=asked.is_complete,
    )
    body = outgoing.body(made.messages, system=frame.system, tools=frame.tools, cache=cache)
    return Request(body, asked.view.seq, form, asked.model, made.repairs)


def as_recorded(model: str | None, messages: Sequence[Message]) -> str | None:
    """The model's name as its replies have it, by default that of the newest reply.

    A model that is asked for as `claude-x` answers as `claude-x-20260205`. Taken for another model,
    its own thinking would be left out.
    """
    newest = model_of(messages)
    if model is None or newest is None:
        return model or newest
    return newest if _DATED.sub("", newest) == _DATED.sub("", model) else model
