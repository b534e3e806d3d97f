"""The items of the OpenAI Agents SDK, and the messages that hold them.

Runs of items become messages in the format `openai-responses`: what the model gives in one step is
one message, and so are the outputs that answer it. The items come back as they were given.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from roocontext.errors import InvalidMessage, InvalidPlan, VersionConflict
from roocontext.log.entries import Message, NewMessage, ranges_of
from roocontext.log.forms import forms
from roocontext.log.plan import Action, Plan
from roocontext.log.readings import REDACTED, reader
from roocontext.log.readings.openai_responses import OUTPUTS, type_of
from roocontext.store.session import Session

FORMAT: Final = "openai-responses"
RAW: Final = "roocontext.item"
"""The type of an item that holds what the format cannot hold, as it was given."""


def to_messages(items: Iterable[dict[str, Any]]) -> list[NewMessage]:
    """Gather items: what the model gives in one step is a message, and so are the outputs."""
    messages: list[NewMessage] = []
    run: list[dict[str, Any]] = []
    for item in items:
        kind, role = type_of(item), _role(item)
        if kind == "message" and role != "assistant":
            messages.append(NewMessage(role, item, FORMAT))
            run = []
        elif run and messages[-1].role == role:
            run.append(item)
        else:
            run = [item]
            messages.append(NewMessage(role, run, FORMAT))
    return messages


def _role(item: dict[str, Any]) -> str:
    kind = type_of(item)
    if kind == "message":
        return str(item.get("role"))
    is_answer = kind in OUTPUTS or kind == "mcp_approval_response"
    return "user" if is_answer and item.get("execution") != "server" else "assistant"


def as_object(item: Any) -> dict[str, Any]:
    """The item, or one that holds it if it is no object, or could be taken for such a one."""
    if isinstance(item, dict) and item.get("type") != RAW:
        return item
    return {"type": RAW, "item": item}


def storable(item: Any) -> dict[str, Any]:
    """The item, or one that holds it if the format has no such items."""
    shown = as_object(item)
    try:
        reader(FORMAT).check(_role(shown), shown)
    except InvalidMessage:
        return {"type": RAW, "item": item}
    return shown


def to_items(messages: Sequence[Message]) -> list[Any]:
    """The items of messages; those of other formats are converted."""
    return [item for block in _blocks(messages) for item in block.items]


class _Block(NamedTuple):
    """Messages that were made into items together, and these items."""

    seqs: list[int]
    items: list[Any]


def _blocks(messages: Sequence[Message]) -> Iterator[_Block]:
    for own, run in groupby(messages, key=_is_own):
        if own:
            for message in run:
                content = message.content
                items = content if isinstance(content, list) else [content]
                yield _Block([message.seq], [*map(_given, items)])
        else:
            others = list(run)
            composed = forms[FORMAT].compose(others).messages
            yield _Block([one.seq for one in others], [*map(_given, composed)])


def _is_own(message: Message) -> bool:
    return message.format == FORMAT


def _given(item: Any) -> Any:
    """The item as it was given; a fixed one where the item that is held was redacted."""
    if item.get("type") != RAW:
        return item
    return item.get("item", {"role": "assistant", "content": REDACTED})


class Tail(NamedTuple):
    """The latest items of a session, at one of its heads; all of them if it `is_complete`."""

    head_seq: int
    blocks: Sequence[_Block]
    items: list[Any]
    is_complete: bool

    def replace(self, chat: Session | None, start: int, output: Sequence[Any]) -> bool:
        """Put other items in the place of those from `start` on, by a summary that hides them.

        False if the session has changed since, or a pin forbids it: then nothing was written.
        """
        blocks, kept = self._from(start)
        new = to_messages(map(storable, [*kept, *output]))
        if chat is None or not (blocks and new):
            return False
        plan = Plan(
            head_seq=self.head_seq,
            action=Action.CONDENSE,
            hides=ranges_of(sorted(seq for block in blocks for seq in block.seqs)),
            # The rest are ordinary messages, so that `pop_item` takes back one after the other.
            rows=(new[0],),
            # The SDK has decided: nothing of it is refused but hiding a pin.
            compat=True,
            policy="openai-agents",
            trigger="run_compaction",
        )
        try:
            chat.write_batch([plan, *new[1:]], expected_seq=self.head_seq)
        except (VersionConflict, InvalidPlan):
            return False
        return True

    def _from(self, start: int) -> tuple[Sequence[_Block], list[Any]]:
        """The blocks that hold the items from `start` on, and what the first holds before it."""
        place = sum(len(block.items) for block in self.blocks) - len(self.items) + start
        for index, block in enumerate(self.blocks):
            if place < len(block.items):
                return self.blocks[index:], block.items[:place]
            place -= len(block.items)
        return (), []


def read_tail(chat: Session | None, limit: int | None) -> Tail:
    """The latest items of a session; without a limit all."""
    if chat is None:
        return Tail(0, (), [], is_complete=True)
    # One more message than items: what is left out then holds at least one item, or none is.
    view = chat.view() if limit is None else chat.view(last=limit + 1)
    blocks = [*_blocks(view.messages)]
    items = [item for block in blocks for item in block.items]
    if limit is None or max(len(view.messages), len(items)) <= limit:
        return Tail(view.head_seq, blocks, items, is_complete=True)
    return Tail(view.head_seq, blocks, items[-limit:], is_complete=False)
