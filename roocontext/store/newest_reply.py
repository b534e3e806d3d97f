"""The model of the newest reply, to which the next request is assumed to go.

The reply may be hidden: what a model is sent does not decide which model it is.
"""

from collections.abc import Iterable

from roocontext.log.entries import Message, Range, View
from roocontext.log.forms import newest_reply
from roocontext.log.spans import standing_ranges
from roocontext.store.engine.transaction import Transaction
from roocontext.store.loop import PAGE, standing_back
from roocontext.store.view import read_controls
from roocontext.store.view_end import read_backwards


def newest_shown(view: View) -> tuple[Message | None, bool]:
    """The newest reply that a view shows, and whether no live one behind it can be hidden."""
    shown = newest_reply(view.messages)
    after = 0 if shown is None else shown.seq
    # Usually the view shows each entry behind its newest reply.
    return shown, sum(message.seq > after for message in view.messages) == view.head_seq - after


def newest_model(tx: Transaction, session_id: str, view: View, *, is_past: bool) -> str | None:
    """The model of the newest live reply at the end of a view; None if it is not known."""
    shown, is_newest = newest_shown(view)
    if is_newest:
        return None if shown is None else shown.model
    if is_past:
        ranges: Iterable[Range] = reversed(
            standing_ranges(read_controls(tx, session_id, view.seq), view.seq)
        )
    else:
        ranges = standing_back(tx, session_id, view.head_seq)
    hidden = _newest_after(tx, session_id, ranges, 0 if shown is None else shown.seq)
    newest = hidden or shown
    return None if newest is None else newest.model


def _newest_after(
    tx: Transaction, session_id: str, ranges: Iterable[Range], after: int
) -> Message | None:
    """The newest reply in descending ranges that comes after an entry."""
    for lo, hi in ranges:
        if hi <= after:
            break
        for message in read_backwards(tx, session_id, [(max(lo, after + 1), hi)], PAGE):
            if newest_reply([message]):
                return message
    return None
