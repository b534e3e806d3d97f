"""The items of the OpenAI Agents SDK, and the messages that hold them.

Runs of items become messages in the format `openai-responses`: the items that the model returns in
one step are one message, and so are the outputs that answer it. The items come back unchanged.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import dropwhile, groupby
from typing import Any, Final, NamedTuple

from roocontext.adapters.take_back import take_back
from roocontext.errors import VersionConflict
from roocontext.formats.response_items import RAW, role_of_item, storable_item
from roocontext.log.compactions import newest_compaction
from roocontext.log.entries import Kind, Message, NewMessage, View
from roocontext.log.forms import forms
from roocontext.log.readings import REDACTED
from roocontext.log.readings.openai_responses import type_of
from roocontext.store.session import Session
from roocontext.store.writing.items import CompactedReply, Item, Rewind

FORMAT: Final = "openai-responses"


def to_messages(items: Iterable[dict[str, Any]]) -> list[NewMessage]:
    """Group items: those of one step of the model are a message, and so are the outputs."""
    messages: list[NewMessage] = []
    run: list[dict[str, Any]] = []
    for item in items:
        kind, role = type_of(item), role_of_item(item)
        if kind == "message" and role != "assistant":
            messages.append(NewMessage(role, item, FORMAT))
            run = []
        elif run and messages[-1].role == role:
            run.append(item)
        else:
            run = [item]
            messages.append(NewMessage(role, run, FORMAT))
    return messages


def to_items(messages: Sequence[Message]) -> list[Any]:
    """The items of messages; those of other formats are converted."""
    return [item for block in _blocks(messages) for item in block.items]


class _Block(NamedTuple):
    """Items, and the number of messages that they come from."""

    messages: int
    items: list[Any]


def _blocks(messages: Sequence[Message]) -> Iterator[_Block]:
    for own, run in groupby(messages, key=_is_own):
        if own:
            for message in run:
                content = message.content
                items = content if isinstance(content, list) else [content]
                yield _Block(1, [*map(_given, items)])
        else:
            others = list(run)
            composed = forms[FORMAT].compose(others).messages
            yield _Block(len(others), [*map(_given, composed)])


def _is_own(message: Message) -> bool:
    return message.format == FORMAT


def _given(item: Any) -> Any:
    """The item without its wrapping; a fixed one if the wrapped item was redacted."""
    if item.get("type") != RAW:
        return item
    return item.get("item", {"role": "assistant", "content": REDACTED})


class ShownItems(NamedTuple):
    """All items that a session shows, and the view that holds them."""

    view: View
    items: list[Any]

    @classmethod
    def of(cls, chat: Session) -> "ShownItems":
        """The items of a session now."""
        view = chat.view()
        return cls(view, to_items(view.messages))

    def replace(
        self,
        chat: Session,
        start: int,
        output: Sequence[Any],
        *,
        prune: Callable[[Any], bool] | None = None,
        trigger: str,
    ) -> bool:
        """Replace the items from `start` on by others.

        If these hold a compaction, it covers the messages. Otherwise, or if a message is only
        replaced in part, the session is rewound. The oldest items before them are removed as long
        as `prune` accepts them, and the rest is written again. False if nothing was written: the
        session has changed since, there is no such item, or one of them is a summary that also
        stands for earlier items.
        """
        if start >= len(self.items):
            return False
        before = self.items[:start]
        stays = [*dropwhile(prune, before)] if prune else before
        count, together = self._from(start)
        head, shown = self.view.head_seq, self.view.messages
        compaction = newest_compaction(FORMAT, list(output))
        try:
            if compaction is not None and not together and len(stays) == start:
                hides = tuple(message.seq for message in shown[-count:])
                items = _covering(output, compaction.block, hides, trigger)
                chat.write_batch(items, expected_seq=head)
            elif count == len(shown) or len(stays) < start:
                new = to_messages(map(storable_item, [*stays, *output]))
                chat.write_batch([Rewind(0, head, trigger), *new], expected_seq=head)
            elif all(message.kind is Kind.MESSAGE for message in shown[-count:]):
                new = to_messages(map(storable_item, [*together, *output]))
                take_back(chat, self.view, count=count, instead=new, trigger=trigger)
            else:
                return False
        except VersionConflict:
            return False
        return True

    def _from(self, start: int) -> tuple[int, list[Any]]:
        """The number of messages that hold the items from `start` on, and of items before it."""
        blocks = [*_blocks(self.view.messages)]
        while start >= len(blocks[0].items):
            start -= len(blocks.pop(0).items)
        return sum(block.messages for block in blocks), blocks[0].items[:start]


def _covering(output: Sequence[Any], at: int, hides: tuple[int, ...], trigger: str) -> list[Item]:
    """The compaction among these items with what the provider kept, and the messages after it."""
    compaction = NewMessage("assistant", [output[at]], FORMAT)
    kept = to_messages(map(storable_item, output[:at]))
    reply = CompactedReply(compaction, tuple(kept), hides, trigger)
    return [reply, *to_messages(map(storable_item, output[at + 1 :]))]
