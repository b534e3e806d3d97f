"""What a source has hidden or cleared, as plans for the session that it is played into."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from roocontext.formats.events import Cleared, Hid
from roocontext.log.entries import Message, NewMessage, ranges_of
from roocontext.log.plan import Action, Plan
from roocontext.store.session import Session


class Hiding(NamedTuple):
    """A condensation or truncation, and the kept messages that are written again behind it."""

    plan: Plan
    again: tuple[Message, ...] = ()


def hiding(
    session: Session,
    event: Hid,
    rows: tuple[NewMessage, ...],
    *,
    seqs: Mapping[str, int],
    head: int,
    by: str,
) -> Hiding | None:
    """The plan of a condensation or truncation; None if the session shows nothing that it hides.

    `seqs` are the entries of the source's ids, `rows` those of the event as the store takes them.
    Pinned messages stay.
    """
    keeps = {seqs[one] for one in event.keeps if one in seqs} | session.pins()
    chosen = None if event.hides is None else {seqs[one] for one in event.hides if one in seqs}
    visible = list(_visible(session))
    hidden = [
        one.seq for one in visible if one.seq not in keeps and (chosen is None or one.seq in chosen)
    ]
    again = _to_write_again(event, visible, hidden, seqs)
    if not hidden and not again:
        return None
    plan = Plan(
        head_seq=head,
        action=Action.TRUNCATE if event.truncates else Action.CONDENSE,
        hides=ranges_of(sorted({*hidden, *(message.seq for message in again)})),
        rows=rows,
        lead=event.lead,
        at_end=event.at_end,
        compat=True,
        policy=by,
        trigger=by,
        record=event.record,
    )
    return Hiding(plan, again)


def clearing(
    session: Session,
    event: Cleared,
    *,
    seqs: Mapping[str, int],
    head: int,
    by: str,
    client_id: str,
) -> Plan | None:
    """The plan of a clearing; None if the session shows nothing that it clears."""
    wanted = {(seqs[one], block) for one, block in event.blocks if one in seqs}
    blocks = tuple(
        sorted(
            (message.seq, block)
            for message in _visible(session)
            for seq, block in wanted
            if seq == message.seq and block not in message.cleared
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
    )


def _to_write_again(
    event: Hid, visible: Sequence[Message], hidden: Sequence[int], seqs: Mapping[str, int]
) -> tuple[Message, ...]:
    """What is kept, if it would not follow the new rows in the order of the source."""
    by_seq = {message.seq: message for message in visible}
    wanted = [seqs[one] for one in event.behind if seqs.get(one) in by_seq]
    order = [message.seq for message in visible]
    last = order.index(hidden[-1]) if hidden else len(order)
    is_so = [seq for seq in order[last + 1 :] if seq in wanted] == wanted
    return () if is_so else tuple(by_seq[seq] for seq in dict.fromkeys(wanted))


def _visible(session: Session) -> Iterator[Message]:
    return (message for page in session.pages() for message in page.messages)
