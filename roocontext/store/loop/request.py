"""What a request for the model's turn is made of, as it is at one moment.

The model of the newest reply, to which the next request is assumed to go.

The reply may be hidden: what a model is sent does not decide which model it is.
"""

from collections.abc import Iterable

from roocontext.errors import InvalidOption, NotTheModelsTurn
from roocontext.log.counting import is_bound_to_prefix
from roocontext.log.draft import Salts
from roocontext.log.entries import Message, Range, View
from roocontext.log.forms import newest_reply
from roocontext.log.moments import Point
from roocontext.log.request import Asked, Frame, GivenFrame, Sendable, as_recorded, unbound
from roocontext.log.spans import standing_ranges
from roocontext.store.engine.database import Database
from roocontext.store.engine.transaction import Transaction
from roocontext.store.loop import frame, turns
from roocontext.store.loop.turns import PAGE, standing_back
from roocontext.store.reading.head import lock, read_head
from roocontext.store.reading.messages import read_backwards, read_controls
from roocontext.store.reading.notes import FRAME, read_notes
from roocontext.store.reading.view import read_view, view_now


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


def read_request(
    tx: Transaction,
    session_id: str,
    given: GivenFrame,
    *,
    model: str | None,
    as_of: Point,
    unanswered: bool,
    prefill: bool,
) -> Asked:
    """Read it, now or as it was in the past; NotTheModelsTurn if there is nothing to ask now."""
    turn = "model" if as_of is not None else turns.waits_for(tx, session_id)
    view = read_view(tx, session_id, as_of=as_of)
    if turn == "tools" and not unanswered:
        raise _tools_first(tx, session_id)
    if turn == "user" and not (prefill and view.messages):
        raise NotTheModelsTurn("The session waits for the user.", waits_for=turn)
    if as_of is None:
        _refuse_redacted(tx, session_id, given, view.seq)
    sent = given.over(frame.read_frame(tx, session_id, view.seq))
    return Asked(
        _sendable(tx, session_id, view, model, sent, is_past=as_of is not None),
        view.seq,
        sent,
        is_complete=not prefill if as_of is not None else turn != "user",
        is_new=as_of is None and frame.frame_to_record(tx, session_id, given) is not None,
    )


def sendable(database: Database, session_id: str, *, model: str | None, as_of: Point) -> Sendable:
    """Read what `messages` sends behind the recorded frame, whosever turn it is."""
    if as_of is not None:
        return database.snapshot(_read_past, session_id, model, as_of)
    view = view_now(database, session_id)
    shown, is_newest = newest_shown(view)
    chosen = as_recorded(model, None if shown is None else shown.model)
    # Usually the view is all that is needed: PostgreSQL has no transaction to begin and to end.
    if is_newest and not is_bound_to_prefix(chosen):
        return Sendable(view.messages, chosen)
    return database.snapshot(_read_beside, session_id, view, model)


def _read_past(tx: Transaction, session_id: str, model: str | None, as_of: Point) -> Sendable:
    view = read_view(tx, session_id, as_of=as_of)
    return _sendable(tx, session_id, view, model, is_past=True)


def _read_beside(tx: Transaction, session_id: str, view: View, model: str | None) -> Sendable:
    # The view was read before. Whatever changes it, a redaction too, writes an entry.
    if read_head(tx, session_id).last_seq != view.seq:
        view = read_view(tx, session_id)
    return _sendable(tx, session_id, view, model, is_past=False)


def keep_and_read(
    tx: Transaction,
    session_id: str,
    given: GivenFrame,
    *,
    model: str | None,
    unanswered: bool,
    prefill: bool,
    now: int,
    salts: Salts,
) -> Asked:
    """Record the frame, and read a request behind it."""
    lock(tx, session_id)
    frame.keep(tx, session_id, given, now=now, salts=salts)
    return read_request(
        tx,
        session_id,
        given,
        model=model,
        as_of=None,
        unanswered=unanswered,
        prefill=prefill,
    )


def _sendable(
    tx: Transaction,
    session_id: str,
    view: View,
    model: str | None,
    sent: Frame | None = None,
    *,
    is_past: bool,
) -> Sendable:
    """The view for a model; what is not known of the frame that is sent is as it is recorded."""
    chosen = as_recorded(model, newest_model(tx, session_id, view, is_past=is_past))
    if not is_bound_to_prefix(chosen):
        return Sendable(view.messages, chosen)
    notes = read_notes(tx, session_id, FRAME, view.seq)
    if sent is None:
        sent = Frame.of(notes[-1].content) if notes else Frame()

    def is_same_frame(seq: int) -> bool:
        """Whether it was sent then; if none was ever recorded, it is taken to be the same."""
        then = [note for note in notes if note.seq <= seq]
        return Frame.of(then[-1].content) == sent if then else not notes

    controls = read_controls(tx, session_id, view.seq)
    bad = unbound(view.messages, controls, view.seq, is_same_frame)
    return Sendable(view.messages, chosen, bad)


def _tools_first(tx: Transaction, session_id: str) -> NotTheModelsTurn:
    waiting = [call.place for call in turns.pending(tx, session_id)]
    places = ", ".join(f"entry {seq} block {block}" for seq, block in waiting[:5])
    more = ", ..." if len(waiting) > 5 else ""
    return NotTheModelsTurn(
        f"{len(waiting)} tool calls wait for an answer: {places}{more}.",
        waits_for="tools",
        pending=tuple(waiting),
    )


def _refuse_redacted(tx: Transaction, session_id: str, given: GivenFrame, seq: int) -> None:
    """Refuse to send a request silently without the prompt that was redacted."""
    known = None if given.is_whole else frame.newest(tx, session_id, seq)
    if known is not None and known.salt is None:
        raise InvalidOption(
            f"The recorded system prompt and tools, entry {known.seq}, were redacted: give both"
            " system= and tools=.",
            name="system",
        )
