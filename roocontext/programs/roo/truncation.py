"""How Roo Code truncates: which messages it takes for visible, and which of those it tags.

It looks at the tags of truncations only. What a condensation has hidden counts as visible and is
hidden once more, so that a truncation after a condensation may take nothing out of the view, or
take out the summary while what that stands for stays hidden. Both are reproduced.
"""

from collections.abc import Collection, Sequence
from math import floor
from typing import Any, Final

from roocontext.programs.roo.history import TRUNCATED, Edit, Message

FRACTION: Final = 0.5

MARKER: Final = "[Sliding window truncation: {} messages hidden to reduce context]"


def truncation(
    messages: Sequence[Message],
    fraction: float,
    *,
    truncation_id: str,
    now: int,
    held: Collection[int] = (),
) -> Edit | None:
    """Hide this part of what counts as visible, without the first; None when that is nothing.

    The number is even, so that a history of user and assistant by turns stays one. What is `held`
    gets no tag: a pin, which the program knows nothing of.
    """
    visible = counted(messages)
    most = floor((len(visible) - 1) * fraction)
    end = 1 + most - most % 2
    tagged = tuple(index for index in visible[1:end] if index not in held)
    if not tagged:
        return None
    at = visible[end] if end < len(visible) else len(messages)
    ts = messages[at].get("ts") if at < len(messages) else None
    marker = _marker(len(tagged), (now if ts is None else ts) - 1, truncation_id)
    return Edit(TRUNCATED, tagged, marker, at)


def counted(messages: Sequence[Message]) -> list[int]:
    """The indices of the messages that Roo takes for visible."""
    return [
        index
        for index, message in enumerate(messages)
        if not message.get(TRUNCATED.key) and not message.get(TRUNCATED.flag)
    ]


def _marker(hidden: int, ts: int, truncation_id: str) -> dict[str, Any]:
    return {
        "role": "user",
        "content": MARKER.format(hidden),
        "ts": ts,
        "isTruncationMarker": True,
        "truncationId": truncation_id,
    }
