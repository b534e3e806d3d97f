"""Plans for the messages that a source has hidden or cleared."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from roocontext.formats.events import Cleared, Hid
from roocontext.log.clearing import cleared_whole
from roocontext.log.entries import Message, NewMessage, ranges_of
from roocontext.log.plan import Action, Plan
from roocontext.store.session import Session


class PlannedHide(NamedTuple):
    """A condensation or truncation, and the kept messages that are written again after it.

    `lost` counts those that it keeps and that stay hidden.
    """

    plan: Plan
    again: tuple[Message, ...] = ()
    lost: int = 0


def hiding(
    session: Session,
    event: Hid,
    rows: tuple[NewMessage, ...],
    *,
    seqs: Mapping[str, int],
    head: int,
    by: str,
) -> PlannedHide | None:
    """The plan of a condensation or truncation; None if the session shows nothing that it hides.

    `seqs` are the entries of the source's ids, `rows` those of the event as the store takes them.
    Pinned messages stay.
    """
    named = _entries(event.keeps, seqs)
    keeps = {*named, *session.pins()}
    chosen = None if event.hides is None else set(_entries(event.hides, seqs))
    kept_after = _entries(event.kept_after, seqs)
    # All that is visible may be very long, so of most messages only the place is kept.
    order: list[int] = []
    hidden: list[int] = []
    kept: dict[int, Message] = {}
    for message in _visible(session):
        order.append(message.seq)
        if message.seq in kept_after:
            kept[message.seq] = message
        if message.seq not in keeps and (chosen is None or message.seq in chosen):
            hidden.append(message.seq)
    after = order[order.index(hidden[-1]) + 1 :] if hidden else []
    again: tuple[Message, ...] = ()
    if [seq for seq in after if seq in kept] != kept_after:
        # What an earlier compaction hides is written again too.
        again = tuple(kept.get(seq) or session.message(seq) for seq in kept_after)
    hides = sorted({*hidden, *(message.seq for message in again if message.seq in kept)})
    if not hides:
        return None
    plan = Plan(
        head_seq=head,
        action=Action.TRUNCATE if event.truncates else Action.CONDENSE,
        hides=ranges_of(hides),
        rows=rows,
        lead=event.lead,
        at_end=event.at_end,
        compat=True,
        policy=by,
        trigger=by,
        record=event.record,
    )
    return PlannedHide(plan, again, len({*named}.difference(order, kept_after)))


def clearing(
    session: Session,
    event: Cleared,
    *,
    seqs: Mapping[str, int],
    head: int,
    by: str,
    client_id: str,
    ts: int | None,
) -> Plan | None:
    """The plan of a clearing; None if the session shows nothing that it clears."""
    wanted = {(seqs.get(name), block) for name, block in event.blocks}
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


def _entries(names: Iterable[str], seqs: Mapping[str, int]) -> list[int]:
    return list(dict.fromkeys(seqs[name] for name in names if name in seqs))


def _visible(session: Session) -> Iterator[Message]:
    return (message for page in session.internals.pages() for message in page.messages)
