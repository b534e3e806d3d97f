"""What a source has hidden or cleared, as plans for the session that it is played into."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roocontext.formats.events import Cleared, Hid
from roocontext.log.entries import Message, NewMessage, ranges_of
from roocontext.log.plan import Action, Plan
from roocontext.store.session import Session


class Hiding(NamedTuple):
    """A plan, and the messages to write again behind it: only this gives the source's order."""

    plan: Plan
    again: list[Message]


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
    """
    visible = _visible(session)
    hidden = _hidden(session, event, visible, seqs)
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
    blocks = sorted(
        (message.seq, block)
        for message in _visible(session)
        for seq, block in wanted
        if seq == message.seq and block not in message.cleared
    )
    if not blocks:
        return None
    return Plan(
        head_seq=head,
        action=Action.CLEAR,
        clears=tuple(blocks),
        placeholder=event.placeholder,
        compat=True,
        policy=by,
        trigger=by,
        record=event.record,
        client_id=client_id,
    )


def copy_of(message: Message, client_id: str) -> NewMessage:
    """A message that is written again."""
    return NewMessage(
        message.role,
        message.content,
        message.format,
        ts=message.ts,
        message_id=message.message_id,
        client_id=client_id,
        model=message.model,
        extra={"copy_of": message.seq},
    )


def _visible(session: Session) -> list[Message]:
    return [message for page in session.pages() for message in page.messages]


def _hidden(
    session: Session, event: Hid, visible: Sequence[Message], seqs: Mapping[str, int]
) -> list[int]:
    """The messages that an event hides, in the order in which they are read."""
    pins = session.pins()
    keeps = {seqs[one] for one in event.keeps if one in seqs}
    chosen = None if event.hides is None else {seqs[one] for one in event.hides if one in seqs}
    return [
        one.seq
        for one in visible
        if one.seq not in keeps and one.seq not in pins and (chosen is None or one.seq in chosen)
    ]


def _to_write_again(
    event: Hid, visible: Sequence[Message], hidden: Sequence[int], seqs: Mapping[str, int]
) -> list[Message]:
    """What is kept, if it would not follow the new rows in the order of the source."""
    by_seq = {message.seq: message for message in visible}
    wanted = [seqs[one] for one in event.behind if seqs.get(one) in by_seq]
    order = [message.seq for message in visible]
    last = order.index(hidden[-1]) if hidden else len(order)
    is_so = [seq for seq in order[last + 1 :] if seq in wanted] == wanted
    return [] if is_so else [by_seq[seq] for seq in dict.fromkeys(wanted)]
