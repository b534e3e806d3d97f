"""Requests: what is read for the model's turn, at one moment, and the model that it is for.

By default that is the model of the newest live reply. The reply may be hidden: what a model is sent
does not decide which model it is.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from roocontext.errors import InvalidOption, NotTheModelsTurn
from roocontext.log.counting import is_bound_to_prefix
from roocontext.log.entries import Message, Range, View, ranges_of
from roocontext.log.forms import newest_reply
from roocontext.log.model_names import is_requested_as, is_same_model
from roocontext.log.moments import Point
from roocontext.log.replies import requested_model
from roocontext.log.request import Asked, Frame, GivenFrame, Sendable, unbound
from roocontext.log.spans import standing_ranges
from roocontext.store.engine.schema import IN_RANGE, entries, log_rows
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.loop import frame, turns
from roocontext.store.loop.turns import PAGE, standing_back
from roocontext.store.reading.head import read_head
from roocontext.store.reading.messages import (
    CONTROLS,
    bounds,
    read_backwards,
    read_controls,
    to_controls,
)
from roocontext.store.reading.notes import FRAME, REDACTION, notes_query, to_notes
from roocontext.store.reading.view import read_view


def _newest_model(log: SessionLog, view: View, *, is_past: bool) -> str | None:
    """Find the model of the newest live reply at the end of a view; None if it is not known."""
    newest = newest_reply(view.messages)
    after = 0 if newest is None else newest.seq
    # Usually the view shows every entry after its newest reply, so that no hidden one is newer.
    if sum(message.seq > after for message in view.messages) < view.head_seq - after:
        ranges: Iterable[Range] = standing_back(log, view.head_seq)
        if is_past:
            controls = read_controls(log, view.seq)
            ranges = reversed(standing_ranges(controls, view.seq))
        newest = _newest_after(log, ranges, after) or newest
    return None if newest is None else newest.model


def _newest_after(log: SessionLog, ranges: Iterable[Range], after: int) -> Message | None:
    """Find the newest reply in descending ranges that comes after an entry."""
    for lo, hi in ranges:
        if hi <= after:
            break
        for message in read_backwards(log, [(max(lo, after + 1), hi)], PAGE):
            if newest_reply([message]):
                return message
    return None


def newest_reply_seq(log: SessionLog) -> int:
    """The newest live reply, hidden or not; 0 if there is none."""
    newest = _newest_after(log, standing_back(log, read_head(log).last_seq), 0)
    return 0 if newest is None else newest.seq


def read_request(
    log: SessionLog,
    given: GivenFrame,
    *,
    model: str | None,
    as_of: Point,
    unanswered: bool,
    prefill: bool,
    compact: bool,
) -> Asked:
    """Read a request, now or in the past; NotTheModelsTurn if it is not the model's turn now."""
    turn = "model" if as_of is not None else turns.waits_for(log)
    view = read_view(log, as_of=as_of)
    if turn == "tools" and (compact or not unanswered):
        raise _tools_first(log)
    if turn == "user" and not ((compact or prefill) and view.messages):
        raise NotTheModelsTurn("The session waits for the user.", waits_for=turn)
    if as_of is None:
        _refuse_redacted(log, given, view.seq)
    sent = given.over(frame.read_frame(log, view.seq))
    return Asked(
        _sendable(log, view, model, sent, is_past=as_of is not None),
        view.seq,
        sent,
        is_complete=not compact and (not prefill if as_of is not None else turn != "user"),
        is_new=as_of is None and frame.frame_to_record(log, given) is not None,
        requested=model,
    )


def sendable(log: SessionLog, *, model: str | None, as_of: Point) -> Sendable:
    """Read the view for a model, by default that of the newest reply."""
    return _sendable(log, read_view(log, as_of=as_of), model, is_past=as_of is not None)


def _sendable(
    log: SessionLog, view: View, model: str | None, sent: Frame | None = None, *, is_past: bool
) -> Sendable:
    """Read what a model gets of a view; the frame is the recorded one unless another is `sent`."""
    chosen = model
    messages: Sequence[Message] = view.messages
    if model is None:
        chosen = _newest_model(log, view, is_past=is_past)
    else:
        messages = _under_one_name(log, messages, model)
    pairs = zip(view.messages, messages, strict=True)
    came_as = {before.model for before, after in pairs if is_same_model(after.model, chosen)}
    # Whether thinking is bound to its prefix, only the names of an alias's replies say.
    if not any(map(is_bound_to_prefix, {chosen, *came_as})):
        return Sendable(messages, chosen)
    # Of a past view too, the redacted rows are redacted.
    controls_query = CONTROLS, {"seq": view.seq}
    frames, redactions, controls = log.all(
        [notes_query(FRAME, view.seq), notes_query(REDACTION), controls_query]
    )
    notes = to_notes(frames)
    if sent is None:
        sent = Frame.of(notes[-1].content) if notes else Frame()

    def is_same_frame(seq: int) -> bool:
        """True if the same frame was sent then; if none was ever recorded, it is assumed to be."""
        then = [note for note in notes if note.seq <= seq]
        return Frame.of(then[-1].content) == sent if then else not notes

    redacted = {note.target: note.seq for note in to_notes(redactions) if note.target is not None}
    bad = unbound(messages, to_controls(controls), view.seq, is_same_frame, redacted)
    return Sendable(messages, chosen, bad)


_EXTRA: Final = (
    log_rows("seq", "extra").where(IN_RANGE, entries.c.extra.is_not(None)).order_by(entries.c.seq)
)


def _under_one_name(log: SessionLog, messages: Sequence[Message], model: str) -> Sequence[Message]:
    """The messages with `model` as the model of all replies that were requested under this name.

    A deployment or an alias such as `-latest` is not the name that a reply comes with.
    """
    names = {message.model for message in messages} - {None}
    others = {name for name in names if not is_same_model(name, model)}
    if not others:
        return messages
    ranges = ranges_of(sorted(message.seq for message in messages))
    extras: dict[int, str] = dict(log.each(_EXTRA, bounds(ranges)))
    return [
        replace(message, model=model)
        if message.model in others
        and is_requested_as(model, requested_model(extras.get(message.seq)))
        else message
        for message in messages
    ]


def _tools_first(log: SessionLog) -> NotTheModelsTurn:
    waiting = [call.place for call in turns.pending(log)]
    places = ", ".join(f"entry {seq} block {block}" for seq, block in waiting[:5])
    more = ", ..." if len(waiting) > 5 else ""
    return NotTheModelsTurn(
        f"{len(waiting)} tool calls wait for an answer: {places}{more}.",
        waits_for="tools",
        pending=tuple(waiting),
    )


def _refuse_redacted(log: SessionLog, given: GivenFrame, seq: int) -> None:
    """Refuse to send a request without a prompt that was recorded and then redacted."""
    known = None if given.is_whole else frame.newest(log, seq)
    if known is not None and known.salt is None:
        raise InvalidOption(
            f"The recorded system prompt and tools, entry {known.seq}, were redacted: give both"
            " system= and tools=.",
            name="system",
        )
