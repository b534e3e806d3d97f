"""What a source has hidden or cleared, as plans for the session that it is played into."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from roocontext.formats.events import Cleared, Hid
from roocontext.formats.numbered_names import Numbers
from roocontext.log.clearing import cleared_whole
from roocontext.log.entries import Message, NewMessage, ranges_of
from roocontext.log.plan import Action, Plan
from roocontext.store.session import Session


class PlannedHide(NamedTuple):
    """A condensation or truncation, and the kept messages that are written again behind it."""

    plan: Plan
    again: tuple[Message, ...] = ()


def hiding(
    session: Session,
    event: Hid,
    rows: tuple[NewMessage, ...],
    *,
    seqs: Numbers,
    head: int,
    by: str,
) -> PlannedHide | None:
    """The plan of a condensation or truncation; None if the session shows nothing that it hides.

    `seqs` are the entries of the source's ids, `rows` those of the event as the store takes them.
    Pinned messages stay.
    """
    keeps = _entries(event.keeps, seqs) | session.pins()
    chosen = None if event.hides is None else _entries(event.hides, seqs)
    behind = _entries(event.behind, seqs)
    # All that is visible may be very long, so of most messages only the place is kept.
    order, hidden = array("Q"), array("Q")
    kept: dict[int, Message] = {}
    for message in _visible(session):
        order.append(message.seq)
        if message.seq in behind:
            kept[message.seq] = message
        if message.seq not in keeps and (chosen is None or message.seq in chosen):
            hidden.append(message.seq)
    again = _to_write_again(event, order, hidden, kept, seqs)
    if not hidden and not again:
        return None
    plan = Plan(
        head_seq=head,
        action=Action.TRUNCATE if event.truncates else Action.CONDENSE,
        hides=ranges_of(sorted([*hidden, *{one.seq for one in again}.difference(hidden)])),
        rows=rows,
        lead=event.lead,
        at_end=event.at_end,
        compat=True,
        policy=by,
        trigger=by,
        record=event.record,
    )
    return PlannedHide(plan, again)


def clearing(
    session: Session,
    event: Cleared,
    *,
    seqs: Numbers,
    head: int,
    by: str,
    client_id: str,
    ts: int | None,
) -> Plan | None:
    """The plan of a clearing; None if the session shows nothing that it clears."""
    wanted = {(seqs.get(one), block) for one, block in event.blocks}
    blocks = tuple(
        sorted(
            (message.seq, block)
            for message in _visible(session)
            for seq, block in wanted
            if seq == message.seq and block not in cleared_whole(message)
        )
    )
    if not blocks:
        return None
    return Plan(
        head_seq=head,
        action=Action.CLEAR,
        clears=blocks,
        placeholder=event.placeholder,
        compat=True,
        policy=by,
        trigger=by,
        record=event.record,
        client_id=client_id,
        ts=ts,
    )


def _entries(names: Iterable[str], seqs: Numbers) -> set[int]:
    return {seq for one in names if (seq := seqs.get(one)) is not None}


def _to_write_again(
    event: Hid,
    order: Sequence[int],
    hidden: Sequence[int],
    kept: Mapping[int, Message],
    seqs: Numbers,
) -> tuple[Message, ...]:
    """What is kept, if it would not follow the new rows in the order of the source."""
    named = map(seqs.get, event.behind)
    wanted = [seq for seq in named if seq is not None and seq in kept]
    last = order.index(hidden[-1]) if hidden else len(order)
    is_so = [seq for seq in order[last + 1 :] if seq in wanted] == wanted
    return () if is_so else tuple(kept[seq] for seq in dict.fromkeys(wanted))


def _visible(session: Session) -> Iterator[Message]:
    return (message for page in session.pages() for message in page.messages)
