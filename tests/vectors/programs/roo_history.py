"""Two rules of Roo Code that a store does not have, replicated for the vectors."""

from collections.abc import Collection, Sequence

from roocontext.programs.roo.history import TAGS, TRUNCATED, RooMessage, message_blocks


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
