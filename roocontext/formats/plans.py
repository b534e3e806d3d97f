"""What a source has hidden or cleared, as plans for the session that it is played into."""

from collections.abc import Mapping

from roocontext.formats.events import Cleared, Hid
from roocontext.log.entries import NewMessage, ranges_of
from roocontext.log.plan import Action, Plan
from roocontext.store.session import Session


def hiding(
    session: Session,
    event: Hid,
    rows: tuple[NewMessage, ...],
    *,
    seqs: Mapping[str, int],
    head: int,
    by: str,
) -> Plan | None:
    """The plan of a condensation or truncation; None if the session shows nothing that it hides.

    `seqs` are the entries of the source's ids, `rows` those of the event as the store takes them.
    Pinned messages stay.
    """
    keeps = {seqs[one] for one in event.keeps if one in seqs} | session.pins()
    chosen = None if event.hides is None else {seqs[one] for one in event.hides if one in seqs}
    visible = [message.seq for page in session.pages() for message in page.messages]
    hidden = sorted(
        seq for seq in visible if seq not in keeps and (chosen is None or seq in chosen)
    )
    if not hidden:
        return None
    return Plan(
        head_seq=head,
        action=Action.TRUNCATE if event.truncates else Action.CONDENSE,
        hides=ranges_of(hidden),
        rows=rows,
        lead=event.lead,
        at_end=event.at_end,
        compat=True,
        policy=by,
        trigger=by,
        record=event.record,
    )


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
            for page in session.pages()
            for message in page.messages
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
