"""What a request for the model's turn is made of, read in one transaction."""

from datetime import datetime

from roocontext.errors import InvalidOption, NotTheModelsTurn
from roocontext.log.draft import Salts
from roocontext.log.entries import View
from roocontext.log.forms.bound import unbound
from roocontext.log.frame import Frame, GivenFrame
from roocontext.log.models import binds_thinking
from roocontext.log.request import Asked, as_recorded
from roocontext.store import frame, loop
from roocontext.store.head import lock
from roocontext.store.notes import FRAME, read_notes
from roocontext.store.transaction import Transaction
from roocontext.store.view import read_controls, read_view


def read_request(
    tx: Transaction,
    session_id: str,
    given: GivenFrame,
    *,
    model: str | None,
    as_of: int | datetime | None,
    unanswered: bool,
    prefill: bool,
) -> Asked:
    """Read it, now or as it was in the past; NotTheModelsTurn if there is nothing to ask now."""
    turn = "model" if as_of is not None else loop.waits_for(tx, session_id)
    view = read_view(tx, session_id, as_of=as_of)
    if turn == "tools" and not unanswered:
        raise _tools_first(tx, session_id)
    if turn == "user" and not (prefill and view.messages):
        raise NotTheModelsTurn("The session waits for the user.", waits_for=turn)
    if as_of is None:
        _refuse_redacted(tx, session_id, given, view.seq)
    sent = given.over(frame.read_frame(tx, session_id, view.seq))
    chosen = as_recorded(model, view.messages)
    return Asked(
        view,
        sent,
        chosen,
        is_complete=not prefill if as_of is not None else turn != "user",
        is_new=as_of is None and frame.changed(tx, session_id, given) is not None,
        unbound=_unbound(tx, session_id, view, sent) if binds_thinking(chosen) else frozenset(),
    )


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


def _unbound(tx: Transaction, session_id: str, view: View, sent: Frame) -> frozenset[int]:
    """The rows whose thinking was made behind another prefix or another frame."""
    notes = read_notes(tx, session_id, FRAME, view.seq)

    def is_same_frame(seq: int) -> bool:
        """Whether it was sent then; if none was ever recorded, it is taken to be the same."""
        then = [note for note in notes if note.seq <= seq]
        return Frame.of(then[-1].content) == sent if then else not notes

    controls = read_controls(tx, session_id, view.seq)
    return unbound(view.messages, controls, view.seq, is_same_frame)


def _tools_first(tx: Transaction, session_id: str) -> NotTheModelsTurn:
    waiting = [call.place for call in loop.pending(tx, session_id)]
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
