"""A request for the model's turn: what goes into the SDK's call, and which entry it read up to.

The frame of a session's requests: the system prompt and the tools that are sent with them.

It is recorded as the agent gave it, before any form converts it or marks it for a cache.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from roocontext.errors import InvalidOption
from roocontext.log.encoding import plain
from roocontext.log.entries import Message
from roocontext.log.forms import Outgoing, Repair, Rule, forms
from roocontext.log.forms.block_rules import encodable
from roocontext.log.forms.compacted import compacting
from roocontext.log.values import Value


@dataclass(frozen=True, slots=True)
class Frame(Value):
    """A system prompt, or None, and tool definitions."""

    system: Any = None
    tools: tuple[Any, ...] = ()

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Frame":
        """Read the content of a note."""
        return cls(content.get("system"), tuple(content["tools"]))

    def content(self) -> dict[str, Any]:
        """Make the content of a note."""
        system = {} if self.system is None else {"system": self.system}
        return {**system, "tools": list(self.tools)}


@dataclass(frozen=True, slots=True)
class GivenFrame:
    """What a call gave of the frame. What it left out is None, and stays as it is recorded."""

    system: Any = None
    tools: tuple[Any, ...] | None = None

    @classmethod
    def checked(cls, system: Any, tools: Any) -> "GivenFrame":
        """Refuse what is neither a system prompt nor a list of tools; models become plain data."""
        if not isinstance(system, str | list | tuple | None):
            raise InvalidOption("A system prompt is a text or a list of blocks.", name="system")
        if not isinstance(tools, list | tuple | None):
            raise InvalidOption("Tools are a list of definitions.", name="tools")
        prompt = plain(list(system)) if isinstance(system, list | tuple) else system
        return cls(prompt, None if tools is None else tuple(plain(list(tools))))

    @property
    def is_empty(self) -> bool:
        """Whether everything was left out."""
        return self.system is None and self.tools is None

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return self.system is not None and self.tools is not None

    def over(self, recorded: Frame | None) -> Frame:
        """Complete it by what is recorded."""
        kept = recorded or Frame()
        return Frame(
            kept.system if self.system is None else self.system,
            kept.tools if self.tools is None else self.tools,
        )


_DATED: Final = re.compile(r"-(?:latest|\d{8}|\d{4}-\d{2}-\d{2})$")
"""What providers put behind a model's name in their replies."""


@dataclass(frozen=True, slots=True, eq=False)
class Request(Value, Mapping[str, Any]):
    """The keyword arguments of the SDK's call, as a mapping: `create(model=..., **request)`.

    `seq` is the last entry that was read: `record` stores it with the reply. `model` is whose
    thinking was kept. `repairs` are what had to be done to the messages for this provider.
    """

    body: Mapping[str, Any]
    seq: int
    form: str
    model: str | None
    repairs: tuple[Repair, ...]

    @property
    def thinking_off(self) -> bool:
        """Whether a model with thinking enabled would refuse this, so that it must be off now.

        The tool loop that is running lost its thinking: another model wrote it, or it is bound to
        messages that have changed.
        """
        return any(repair.rule is Rule.UNTHINKING for repair in self.repairs)

    def __getitem__(self, key: str) -> Any:
        return self.body[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.body)

    def __len__(self) -> int:
        return len(self.body)


class Sendable(NamedTuple):
    """The messages of a view, the model that gets them, and the rows whose thinking it refuses."""

    messages: Sequence[Message]
    model: str | None
    unbound: frozenset[int] = frozenset()

    def compose(self, form: str, *, complete: bool = False) -> Outgoing:
        """Make the messages that the provider accepts."""
        return forms[form].compose(
            self.messages, model=self.model, drop_thinking=self.unbound, complete=complete
        )


class Asked(NamedTuple):
    """What a request is made of.

    It `is_complete` if the model is to answer the user or its tools, and not to go on with its own
    words. `is_new` says that the frame is not recorded yet.
    """

    sendable: Sendable
    seq: int
    frame: Frame
    is_complete: bool
    is_new: bool


def compose_request(asked: Asked, form: str, *, cache: bool, compact: bool = False) -> Request:
    """Make a request of what was read."""
    made = asked.sendable.compose(form, complete=asked.is_complete)
    # Names of files in it may hold what is not Unicode.
    system, tools = encodable(_without_blanks(asked.frame.system)), encodable(asked.frame.tools)
    body = forms[form].body(made.messages, system=system, tools=tools, cache=cache)
    if compact:
        body = compacting(form, body)
    return Request(body, asked.seq, form, asked.sendable.model, made.repairs)


def _without_blanks(system: Any) -> Any:
    """The system prompt without blank texts, which providers refuse."""
    if isinstance(system, list):
        return [it for it in system if not (isinstance(it, dict) and _is_blank(it.get("text")))]
    return None if _is_blank(system) else system


def _is_blank(text: object) -> bool:
    return isinstance(text, str) and not text.strip()


def as_recorded(model: str | None, newest: str | None) -> str | None:
    """The model's name as its replies have it, by default the model of the newest reply.

    A model that is asked for as `claude-x` answers as `claude-x-20260205`. Taken for another model,
    its own thinking would be left out.
    """
    if model is None or newest is None:
        return model or newest
    return newest if _DATED.sub("", newest) == _DATED.sub("", model) else model
