"""How Roo Code truncates: which messages it treats as visible, and which of those it tags.

It looks only at truncation tags. Messages hidden by a condensation count as visible and are hidden
a second time. So a truncation after a condensation may remove nothing from the view, or it may
remove the summary while the messages behind it stay hidden. Both defects are reproduced.
"""

from collections.abc import Collection, Sequence
from math import floor
from typing import Any, Final

from roocontext.programs.roo.history import TRUNCATED, Edit, RooMessage

FRACTION: Final = 0.5

MARKER: Final = "[Sliding window truncation: {} messages hidden to reduce context]"


def truncation(
    messages: Sequence[RooMessage],
    fraction: float,
    *,
    truncation_id: str,
    now: int,
    held: Collection[int] = (),
) -> Edit | None:
    """Hide this fraction of what counts as visible, except the first; None if that is nothing.

    The number is even, so that user and assistant still alternate. Messages in `held` get no tag:
    they are pinned, and the program has no pins.
    """
    visible = visible_to_roo(messages)
    # The first message is the task, and is never hidden.
    most = floor((len(visible) - 1) * fraction)
    end = 1 + most - most % 2
    tagged = tuple(index for index in visible[1:end] if index not in held)
    if not tagged:
        return None
    at = visible[end] if end < len(visible) else len(messages)
    ts = messages[at].get("ts") if at < len(messages) else None
    # A millisecond before the first message that stays, so that it sorts before that.
    marker = _marker(len(tagged), (now if ts is None else ts) - 1, truncation_id)
    return Edit(TRUNCATED, tagged, marker, at)


def visible_to_roo(messages: Sequence[RooMessage]) -> list[int]:
    """The indices of the messages that Roo treats as visible."""
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
