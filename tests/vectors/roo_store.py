"""Roo Code's lists of messages in a real store, and which of them a store can hold.

A list is told to a session in its order: each summary and marker is a plan that hides the rows
whose tag names it. Where the recording has the events that the user saw, they say when that was.
What comes out again is compared in parts, each in its order: a store puts a new row before the next
visible one, and where it then stands among hidden rows nobody sees.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from roocontext import NewMessage, Plan, Store
from roocontext.log.counting import FREE
from roocontext.log.entries import ranges_of
from roocontext.log.plan import Action
from roocontext.policies.situation import Row
from roocontext.programs.roo.history import CONDENSED, TAGS, TRUNCATED, message_blocks
from roocontext.programs.roo.policy import roo_message

ACTIONS = {CONDENSED: Action.CONDENSE, TRUNCATED: Action.TRUNCATE}


class Unheld(Exception):
    """A store cannot hold this input, or has no such operation."""


class GivenIds:
    """Ids that were asked for beforehand; any other is that of the recordings."""

    def __init__(self) -> None:
        self.next: deque[str] = deque()

    def new_id(self) -> str:
        return self.next.popleft() if self.next else "<uuid>"

    def salt(self) -> bytes:
        return bytes(16)


class Shelf:
    """An open store for the recorded lists."""

    def __init__(self) -> None:
        self.ids = GivenIds()
        self.store = Store.open(":memory:", ids=self.ids)
        self._sessions = 0

    def told(self, messages: Sequence[Any]) -> Any:
        """A session that holds this list, as if it had been made in its order."""
        refuse_unheld(messages)
        chat = self._told(messages, range(len(messages)))
        assert history(chat) == messages
        return chat

    def retold(self, messages: Sequence[Any], events: Sequence[Any]) -> Any:
        """A session that holds this list, made in the order that the events tell of."""
        refuse_unheld(messages)
        times = times_of(messages, events)
        if any(all(tag.key in message for tag in TAGS) for message in messages):
            raise Unheld(
                "a row that is hidden twice, where a store puts the second marker elsewhere"
            )
        chat = self._told(messages, sorted(range(len(messages)), key=times.__getitem__))
        assert parted(history(chat)) == parted(messages)
        return chat

    def _told(self, messages: Sequence[Any], order: Sequence[int]) -> Any:
        self._sessions += 1
        chat = self.store.create(f"session-{self._sessions}")
        seqs: dict[int, int] = {}
        for seq, index in enumerate(order, start=1):
            message = messages[index]
            row = NewMessage(message["role"], message["content"], ts=message.get("ts"))
            tag = own_tag(message)
            if tag is None:
                chat.append(row.role, row.content, ts=row.ts)
            else:
                self.ids.next.append(message[tag.id])
                plan = Plan(
                    head_seq=chat.head_seq(),
                    action=ACTIONS[tag],
                    hides=ranges_of(sorted(seqs[i] for i in _named(messages, index))),
                    rows=(row,),
                    at_end=all(told < index for told in seqs),
                    compat=True,
                )
                chat.commit(plan)
            seqs[index] = seq
        return chat


def _named(messages: Sequence[Any], index: int) -> set[int]:
    """The messages for which the summary or marker at this index stands."""
    tag, hider = own_tag(messages[index]), messages[index]
    return {i for i, one in enumerate(messages) if one.get(tag.key) == hider[tag.id]}


def own_tag(message: Any) -> Any:
    """The tag that names this message, if it is a summary or a marker."""
    return next((tag for tag in TAGS if message.get(tag.flag)), None)


def history(chat: Any) -> list[Any]:
    """The live rows as the program would keep them."""
    return [roo_message(Row(row.message, FREE, *row[1:])) for row in chat.internals.live()]


def is_hidden(message: Any) -> bool:
    """True if a summary or marker stands for it, in a list that a store can hold."""
    return any(tag.key in message for tag in TAGS)


def parted(messages: Sequence[Any]) -> tuple[list[Any], ...]:
    """The visible messages, the hidden ones that are no summary or marker, and those that are."""
    hidden = [one for one in messages if is_hidden(one)]
    return (
        [one for one in messages if not is_hidden(one)],
        [one for one in hidden if own_tag(one) is None],
        [one for one in hidden if own_tag(one) is not None],
    )


def refuse_unheld(messages: Sequence[Any]) -> None:
    """Refuse a list that no session can be."""
    for fault in _faults(messages):
        raise Unheld(fault)


def _faults(messages: Sequence[Any]) -> Iterator[str]:
    for tag in TAGS:
        named = {message.get(tag.key) for message in messages}
        ids = [message[tag.id] for message in messages if tag.id in message]
        for message in messages:
            if (message.get(tag.flag), tag.id in message) not in ((None, False), (True, True)):
                yield "a summary or marker without an id, or an id without one"
        if len(set(ids)) < len(ids):
            yield "two summaries or markers of one id"
        if not named <= {None, *ids}:
            yield "a tag that names nothing"
        if not named >= set(ids):
            yield "a summary or marker that stands for nothing"
        for index, message in enumerate(messages):
            if tag.id in message:
                yield from _faults_of_hider(messages, index, tag)


def _faults_of_hider(messages: Sequence[Any], index: int, tag: Any) -> Iterator[str]:
    hider = messages[index]
    if any(one.get(tag.key) == hider[tag.id] for one in messages[index:]):
        yield "a row after the one that stands for it"
    if not any(str(block.get("text", "")).strip() for block in message_blocks(hider)):
        yield "a summary or marker without a text"


def times_of(messages: Sequence[Any], events: Sequence[Any]) -> list[int]:
    """When each message came: a summary or marker, when the user was told of it."""
    said = [one.get("ts") for one in messages if own_tag(one) is None]
    if not all(one.get("ts") for one in messages) or said != sorted(set(said)):
        raise Unheld("times that are missing or do not ascend")
    if not all(one["ts"] <= other["ts"] for one, other in pairwise(events)):
        raise Unheld("events that do not ascend")
    times = [_time(message, events) for message in messages]
    if len(set(times)) < len(times):
        raise Unheld("two at the same time")
    for index, message in enumerate(messages):
        for tag in TAGS:
            hiders = [
                i for i, one in enumerate(messages) if one.get(tag.id) == message.get(tag.key)
            ]
            if tag.key in message and times[index] > times[hiders[0]]:
                raise Unheld("a summary or marker that is older than what it stands for")
    return times


def _time(message: Any, events: Sequence[Any]) -> int:
    tag = own_tag(message)
    if tag is None:
        return int(message["ts"])
    times = [one["ts"] for one in events if is_announced(message, [one])]
    if len(times) != 1:
        raise Unheld("a summary or marker that not exactly one event tells of")
    return int(times[0])


def is_announced(message: Any, events: Sequence[Any]) -> bool:
    """True if one of the events told the user of this summary or marker."""
    tag = own_tag(message)
    return any(
        one.get("say") == tag.event and one.get(tag.facts, {}).get(tag.id) == message[tag.id]
        for one in events
    )
