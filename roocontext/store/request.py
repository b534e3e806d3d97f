"""What a request for the model's turn is made of, read in one transaction."""

from datetime import datetime

from roocontext.errors import InvalidOption, NotTheModelsTurn
from roocontext.log.draft import Salts
from roocontext.log.frame import GivenFrame
from roocontext.log.request import Asked
from roocontext.store import frame, loop
from roocontext.store.head import lock
from roocontext.store.transaction import Transaction
from roocontext.store.view import read_view


def read_request(
    tx: Transaction,
    session_id: str,
    given: GivenFrame,
    *,
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
    recorded = frame.read_frame(tx, session_id, view.seq)
    is_new = as_of is None and frame.changed(tx, session_id, given) is not None
    is_complete = not prefill if as_of is not None else turn != "user"
    return Asked(view, given.over(recorded), is_complete, is_new)


def keep_and_read(
    tx: Transaction,
    session_id: str,
    given: GivenFrame,
    *,
    unanswered: bool,
    prefill: bool,
    now: int,
    salts: Salts,
) -> Asked:
    """Record the frame, and read a request behind it."""
    lock(tx, session_id)
    frame.keep(tx, session_id, given, now=now, salts=salts)
    return read_request(tx, session_id, given, as_of=None, unanswered=unanswered, prefill=prefill)


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
