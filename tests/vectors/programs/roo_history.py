"""Rules of Roo Code that a store does not have, replicated, and compared with the recordings.

The exports are compared with the messages that the program would send of the exported list: the
program of December 2025 reads the tags, and that of April 2026 goes by the last summary's place.
"""

from collections.abc import Collection, Iterator, Sequence

from roocontext.log.readings import Block, calls
from roocontext.programs.roo.history import (
    TAGS,
    TRUNCATED,
    RooMessage,
    Tag,
    last_index,
    message_blocks,
)


def effective_2025(messages: Sequence[RooMessage]) -> list[RooMessage]:
    """The messages that the program of 2025 sends: those for which no summary or marker stands."""
    ids = {tag: _ids(messages, tag) for tag in TAGS}
    return [one for one in messages if not any(one.get(tag.key) in ids[tag] for tag in TAGS)]


def effective_2026(messages: Sequence[RooMessage]) -> list[RooMessage]:
    """The messages that the program of 2026 sends: from the last summary, without lone results."""
    start = last_index(messages, lambda one: one.get("isSummary") is True)
    if start is None:
        return effective_2025(messages)
    answered = list(_without_lone_results(messages[start:]))
    markers = _ids(answered, TRUNCATED)
    return [one for one in answered if one.get(TRUNCATED.key) not in markers]


def merged(messages: Sequence[RooMessage], roles: Collection[str] = ("user",)) -> list[RooMessage]:
    """Neighbours of the same of these roles made one, as the program of 2026 sends them.

    A message may be merged into a summary; summaries and markers are merged into nothing.
    """
    joined: list[RooMessage] = []
    for message in messages:
        if joined and _merges(joined[-1], message, roles):
            joined[-1] = _together(joined[-1], message)
        else:
            joined.append(message)
    return joined


def boundary(messages: Sequence[RooMessage], ts: int) -> int:
    """From which time on a rewind to `ts` takes messages away.

    An event may be older than the answer that it belongs to, because tools run while the answer
    still comes in: unless a message has just this time, the cut moves to what the user said next.
    """
    timed = [(one["ts"], one["role"]) for one in messages if one.get("ts") is not None]
    if any(at == ts for at, _ in timed) or all(at > ts for at, _ in timed):
        return ts
    return next((at for at, role in timed if role == "user" and at > ts), ts)


def _merges(before: RooMessage, message: RooMessage, roles: Collection[str]) -> bool:
    alone = before.get(TRUNCATED.flag) or any(message.get(tag.flag) for tag in TAGS)
    return not alone and before["role"] == message["role"] in roles


def _together(first: RooMessage, second: RooMessage) -> RooMessage:
    times = [one["ts"] for one in (first, second) if one.get("ts") is not None]
    content = [*message_blocks(first), *message_blocks(second)]
    return {**first, "content": content, **({"ts": max(times)} if times else {})}


def _ids(messages: Sequence[RooMessage], tag: Tag) -> set[str]:
    """The ids of the summaries or markers in a list."""
    return {one[tag.id] for one in messages if one.get(tag.flag) and one.get(tag.id)}


def _without_lone_results(messages: Sequence[RooMessage]) -> Iterator[RooMessage]:
    """Leave out the results whose call is not here, and what is empty then."""
    asked = {
        tool_id
        for one in messages
        if one["role"] == "assistant"
        for _, tool_id in calls(message_blocks(one))
    }
    for message in messages:
        if message["role"] != "user" or isinstance(message["content"], str):
            yield message
            continue
        kept = [block for block in message["content"] if not _is_lone(block, asked)]
        if kept:
            whole = len(kept) == len(message["content"])
            yield message if whole else {**message, "content": kept}


def _is_lone(block: Block, asked: Collection[str]) -> bool:
    return block.get("type") == "tool_result" and block.get("tool_use_id") not in asked
