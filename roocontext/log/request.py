"""A request for the model's turn: the arguments of the SDK's call, and the last entry that it read.

The frame of a session's requests is the system prompt and the tools that are sent with them. It is
recorded as the agent gave it, before any form converts it or marks it for a cache.

Anthropic's newer models refuse a thinking block after another prefix than the one it was made for:
other messages, another system prompt or other tools. `unbound` finds such blocks.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from roocontext.errors import InvalidOption
from roocontext.log.compactions import compactions_in
from roocontext.log.encoding import plain
from roocontext.log.entries import BlockRef, Control, Message, Range, joined_ranges, subtract
from roocontext.log.forms import Form, Outgoing, Repair, Rule, form_named
from roocontext.log.forms.block_rules import THINKING, encodable
from roocontext.log.forms.compacted import compacting, managing
from roocontext.log.pairs import links_of, pairs
from roocontext.log.readings import read_message
from roocontext.log.readings.converse import to_base64
from roocontext.log.spans import clearings_of, spans_of, visible_ranges
from roocontext.log.values import Value, fields_as_json


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
    """The parts of the frame that a call gave. A part that it left out is None."""

    system: Any = None
    tools: tuple[Any, ...] | None = None

    @classmethod
    def checked(cls, system: Any, tools: Any) -> "GivenFrame":
        """Refuse values that are no system prompt or list of tools; models become plain data."""
        if not isinstance(system, str | list | tuple | None):
            raise InvalidOption("system must be a text or a list of blocks.", name="system")
        if not isinstance(tools, list | tuple | None):
            raise InvalidOption("tools must be a list of definitions.", name="tools")
        prompt = plain(list(system)) if isinstance(system, list | tuple) else system
        return cls(prompt, None if tools is None else tuple(plain(list(tools))))

    @property
    def is_empty(self) -> bool:
        """True if both parts were left out."""
        return self.system is None and self.tools is None

    @property
    def is_whole(self) -> bool:
        """True if both parts were given."""
        return self.system is not None and self.tools is not None

    def over(self, recorded: Frame | None) -> Frame:
        """Take the parts that were left out from the recorded frame."""
        recorded = recorded or Frame()
        return Frame(
            recorded.system if self.system is None else self.system,
            recorded.tools if self.tools is None else self.tools,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Request(Value, Mapping[str, Any]):
    """The keyword arguments of the SDK's call, as a mapping: `create(model=..., **request)`.

    `seq` is the last entry that was read: `record` stores it with the reply. Only the thinking of
    `model` was kept. `repairs` lists the changes that this provider's rules required. `names` are
    those of tools that it refuses, by the names that are sent instead; `record` restores them.
    `requested` is the model's name as it was given, which `record` stores; None if the model
    follows from the newest reply.
    """

    body: Mapping[str, Any]
    seq: int
    form: str
    model: str | None
    repairs: tuple[Repair, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    requested: str | None = None

    @property
    def thinking_off(self) -> bool:
        """True if a model with thinking enabled would refuse this request.

        The running tool loop lost its thinking: another model wrote it, or it is bound to messages
        that have changed. Send the request with thinking off.
        """
        return any(repair.rule is Rule.UNTHINKING for repair in self.repairs)

    def __getitem__(self, key: str) -> Any:
        return self.body[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.body)

    def __len__(self) -> int:
        return len(self.body)

    def to_dict(self) -> dict[str, Any]:
        """The request as plain JSON, with base64 in place of the bytes that boto3 takes."""
        body = json.loads(json.dumps(dict(self.body), default=to_base64))
        return fields_as_json(self) | {"body": body}


NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Sendable(NamedTuple):
    """The messages of a view, the model that gets them, and the rows whose thinking it refuses.

    Replies that were requested under the name of this model have it as their model.
    """

    messages: Sequence[Message]
    model: str | None
    unbound: frozenset[int] = frozenset()

    def compose(self, form: Form, *, complete: bool = False) -> Outgoing:
        """Make the messages that the provider accepts."""
        return form.compose(
            self.messages, model=self.model, drop_thinking=self.unbound, complete=complete
        )


class Asked(NamedTuple):
    """The parts of a request.

    It `is_complete` if the model is to answer the user or its tools, and not to continue its own
    words. `is_new` says that the frame is not recorded yet. `requested` is the model's name as it
    was given.
    """

    sendable: Sendable
    seq: int
    frame: Frame
    is_complete: bool
    is_new: bool
    requested: str | None = None


def compose_request(
    asked: Asked,
    given: str | Form,
    *,
    dialect: str | None = None,
    cache: bool,
    compact: bool = False,
    management: Mapping[str, Any] = NOTHING,
) -> Request:
    """Make the request for a provider; with `compact`, one that only compacts.

    `management` are the fields that say how the provider manages the context.
    """
    composer = form_named(given, dialect)
    form = given if isinstance(given, str) else str(getattr(given, "format", type(given).__name__))
    outgoing = asked.sendable.compose(composer, complete=asked.is_complete)
    # Providers refuse blank texts.
    system = asked.frame.system
    if isinstance(system, list):
        system = [
            block
            for block in system
            if not (isinstance(block, dict) and _is_blank(block.get("text")))
        ]
    # A system prompt may quote names of files, which need not be Unicode.
    system = encodable(None if _is_blank(system) else system)
    tools = encodable(asked.frame.tools)
    body = composer.body(outgoing.messages, system=system, tools=tools, cache=cache)
    if compact:
        body = compacting(form, body)
    body = managing(form, body, management, compact=compact)
    replaced = replaced_tools(composer, tools)
    repairs = (*(Repair(0, Rule.NAME, index) for index, *_ in replaced), *outgoing.repairs)
    names = {new: name for _, name, new in replaced}
    return Request(body, asked.seq, form, asked.sendable.model, repairs, names, asked.requested)


def replaced_tools(form: Form, tools: Sequence[Any]) -> list[tuple[int, str, str]]:
    """The tools whose names a form replaces: the index of each, its name and the new one."""
    replaced = getattr(form, "replaced_names", None)  # a form of another package may have none
    return replaced(tools) if replaced else []


def _is_blank(text: object) -> bool:
    return isinstance(text, str) and not text.strip()


def unbound(
    messages: Sequence[Message],
    controls: Sequence[Control],
    seq: int,
    is_same_frame: Callable[[int], bool],
    redacted: Mapping[int, int],
) -> frozenset[int]:
    """The rows of a view right after `seq` whose thinking was made after another prefix.

    `is_same_frame` says whether the frame at a seq is the one that is sent now. `redacted` are the
    rows that were redacted, each with the note that says so.
    """

    @cache
    def view_at(last: int) -> tuple[list[Range], dict[BlockRef, int]]:
        """The visible ranges and the cleared blocks, each with its clearing, after an entry."""
        then = [control for control in controls if control.seq <= last]
        cleared = {block: control.seq for block, control in clearings_of(then, last).items()}
        return visible_ranges(spans_of(then, last), last), cleared

    def is_bound(index: int) -> bool:
        """True if the rows before a reply are those of the view that was read for it."""
        row = messages[index]
        # Without a recorded request, the reply is assumed to have read all rows before it.
        asked_at = row.seq - 1 if row.asked_at is None else row.asked_at
        own = hidden_by.get(row.compacted.covering) if row.compacted and index == newest else None
        if own is None and compactions_in(row.format, row.content):
            return False  # it was made after a compaction that is not sent, as it is not in effect
        if not is_same_frame(asked_at) or redacted_before[index] > asked_at:
            return False
        # A late result is sent before the reply. A message that came while the model was answering
        # was not before its thinking; after its own compaction it is sent after the reply.
        if answered_before[index] > index or (own is None and latest_before[index] > asked_at):
            return False
        if not any(control.seq > asked_at for control in controls):
            return True
        (ranges_then, cleared_then), (ranges_now, cleared_now) = view_at(asked_at), view_at(seq)
        for block in cleared_then.keys() | cleared_now.keys():
            is_before = block[0] <= asked_at and index_of.get(block[0], index) < index
            if is_before and cleared_then.get(block) != cleared_now.get(block):
                return False
        gone = own.hides if own else ()
        left = [part for stretch in ranges_then for part in subtract([stretch], gone)]
        return joined_ranges(left) == joined_ranges(_until(ranges_now, row.seq, asked_at))

    def largest_before(values: Iterable[int]) -> list[int]:
        return list(accumulate(values, max, initial=0))

    hidden_by = {control.seq: control for control in controls if control.source is not None}
    newest = max((at for at, message in enumerate(messages) if message.compacted), default=None)
    readings = [read_message(message) for message in messages]
    index_of = {message.seq: at for at, message in enumerate(messages)}
    results = {
        pair.call[0]: pair.result[0]
        for pair in pairs(readings, links_of((it.seq, it.answers) for it in messages))
    }
    latest_before = largest_before(message.seq for message in messages)
    redacted_before = largest_before(redacted.get(message.seq, 0) for message in messages)
    answered_before = largest_before(results.get(at, 0) for at in range(len(messages)))
    return frozenset(
        message.seq
        for index, message in enumerate(messages)
        if any(block.get("type") in THINKING for block in readings[index][1])
        and not is_bound(index)
    )


def _until(ranges: Sequence[Range], row: int, last: int) -> Iterator[Range]:
    """The ranges of a view before a row, as far as they hold entries up to `last`."""
    for lo, hi in ranges:
        is_end = lo <= row <= hi
        end = min(row - 1 if is_end else hi, last)
        if lo <= end:
            yield lo, end
        if is_end:
            return
