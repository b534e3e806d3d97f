"""Writing entries: take the next seq, chain the hash, keep the running totals.

Everything that is ever written to a log goes through `write`, except a single message on
PostgreSQL: there a function of the schema does the same in one statement (0004).

The first prompt of a session is kept on its row, for lists. It is a function of the log: the append
that writes it keeps it, later ones find it there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from sqlalchemy import Select, bindparam, insert, literal_column, select, text, update
from sqlalchemy.sql import Insert

from roocontext.errors import (
    DuplicateMessage,
    HistoryCorrupt,
    MessageNotFound,
    StoreUnavailable,
)
from roocontext.log.chain import Sealed, link
from roocontext.log.draft import Draft
from roocontext.log.entries import Kind
from roocontext.log.summary import prompt_text
from roocontext.log.times import Times
from roocontext.log.values import Value
from roocontext.store.engine.database import Database
from roocontext.store.engine.driver_errors import UniqueViolation
from roocontext.store.engine.engines import WriteSettings
from roocontext.store.engine.schema import LAST, entries, sessions, spans
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.head import SessionHead, check_version, lock, move_head, read_head

_PAGE = 50
_KEPT = select(sessions.c.first_prompt).where(sessions.c.session_id == bindparam("session_id"))
_KEEP = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values(first_prompt=bindparam("prompt"))
)
# A redacted row has no salt.
_WRITTEN = (
    select(
        *(entries.c.seq, entries.c.format, entries.c.role),
        *(entries.c.content, entries.c.extra),
    )
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq.between(bindparam("after"), bindparam("last")),
        text(f"kind = '{Kind.MESSAGE}' AND salt IS NOT NULL AND tools IS NULL"),
    )
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)


def drafted_prompt(draft: Draft) -> str | None:
    """The prompt in an entry that is about to be written."""
    sealed = draft.sealed
    if sealed.kind != Kind.MESSAGE or draft.tools is not None:
        return None
    return prompt_text(sealed.format, sealed.role, draft.content, draft.extra)


def keep_first(tx: Transaction, session_id: str, drafts: Iterable[Draft]) -> None:
    """Keep the first prompt of these entries with a session that has none yet."""
    prompt = next(filter(None, map(drafted_prompt, drafts)), None)
    if prompt is not None:
        tx.change(_KEEP, of=session_id, prompt=prompt)


def refresh_prompt(tx: Transaction, session_id: str, last: int) -> None:
    """Find the first prompt of a log that ends at entry `last`, and keep it."""
    tx.run(_KEEP, of=session_id, prompt=_found(tx, session_id, last))


def prompt_is_fresh(tx: Transaction, session_id: str, last: int) -> bool:
    """Whether the prompt that is kept is the first one of the log."""
    return tx.row(_KEPT, session_id=session_id) == (_found(tx, session_id, last),)


def _found(tx: Transaction, session_id: str, last: int) -> str | None:
    after, page = 1, 1  # nearly every session begins with its prompt
    while rows := tx.rows(_WRITTEN, session_id=session_id, after=after, last=last, page=page):
        for seq, *written in rows:
            if prompt := prompt_text(*written):
                return prompt
            after = seq + 1
        page = _PAGE
    return None


class Receipt(msgspec.Struct, Value, frozen=True):
    """What is durable once it is returned: the entry's place, and the hash that proves it.

    `head_seq` is what `expected_seq` is compared with next. A repeated append gets its first
    receipt again: `new` is False then, and `rewound_by` names the rewind that took it back, if any.
    """

    session_id: str
    seq: int
    hash: str
    head_seq: int
    new: bool = True
    rewound_by: int | None = None


AReceipt = TypeVar("AReceipt", bound=Receipt)


class Stored(NamedTuple):
    """What a stored entry is compared by, when its client id is given again."""

    seq: int
    hash: bytes
    kind: str
    role: str | None
    format: str | None
    note: str | None
    target: int | None
    compaction_id: str | None
    salt: bytes | None
    details: str | None
    content: str | None

    def answers(self, draft: Draft) -> bool:
        """Whether it is what the draft would store."""
        new = draft.sealed
        same = (self.note, self.target) == (new.note, new.target)
        return same and self.holds(new.role, new.format, draft.content)

    def holds(self, role: str | None, format_: str | None, text: str | None) -> bool:
        """Whether it has this content; a redacted row has none left to compare."""
        # A redaction removes the salt and leaves a skeleton: the request that wrote it may be
        # repeated.
        redacted = self.salt is None and self.content is not None
        return redacted or (self.role, self.format, self.content) == (role, format_, text)


MOST_IDS = 256
"""How many client ids one statement looks up; older SQLite takes 999 parameters."""


@cache
def _by_client_ids(width: int) -> Select[Any]:
    """The statement that finds the entries with these client ids."""
    return select(entries.c.client_id, *(entries.c[name] for name in Stored._fields)).where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.client_id.in_([bindparam(name) for name in _names(width)]),
        # Not by seq: SQLite would walk the whole session instead.
        (entries.c.seq + literal_column("0")).between(literal_column("1"), LAST),
    )


@cache
def _names(width: int) -> tuple[str, ...]:
    return tuple([f"id_{number}" for number in range(width)])


_REWOUND_BY = (
    select(spans.c.rewound_by)
    .where(spans.c.session_id == bindparam("session_id"), spans.c.lo <= bindparam("seq"))
    .order_by(spans.c.lo.desc())
    .limit(1)
)


VALUES = (
    *("session_id", "seq", "messages_total", "bytes_total", "latest_happened", "hash"),
    *("salt", "content_digest", "tools", "extra", "content"),
    *Sealed._fields,
)
"""The columns of an entry in the order of `values_of`."""
_SEQ, _HASH = VALUES.index("seq"), VALUES.index("hash")


Picker: TypeAlias = Callable[[Sequence[Any]], tuple[Any, ...]]


@cache
def filling(is_filled: tuple[bool, ...]) -> tuple[Insert, Picker]:
    """The statement that fills these columns, and what picks their values in its order."""
    names = filled_columns(is_filled)
    statement = insert(entries).values({name: bindparam(name) for name in names})
    return statement, itemgetter(*map(VALUES.index, names))


def filled_columns(is_filled: tuple[bool, ...]) -> tuple[str, ...]:
    """The names of the columns that are filled, in the order of the table."""
    names = {name for name, filled in zip(VALUES, is_filled, strict=True) if filled}
    return tuple(column.name for column in entries.columns if column.name in names)


_APPEND = "roocontext_append_v1"
_NO_FUNCTION = "42883"


def append_message(
    database: Database, session_id: str, draft: Draft, expected_seq: int | None = None
) -> Receipt:
    """Append one message; repeated with the same client id, it gives the first receipt."""
    settings = database.server
    if settings is not None:
        try:
            return database.single(_append_by_function, settings, session_id, draft, expected_seq)
        except StoreUnavailable as error:  # some servers refuse functions
            if error.facts.get("code") != _NO_FUNCTION:
                raise
    return database.write(append_many, session_id, [draft], expected_seq)[0]


def _append_by_function(
    tx: Transaction,
    settings: WriteSettings,
    session_id: str,
    draft: Draft,
    expected_seq: int | None,
) -> Receipt:
    sealed = draft.sealed
    values = (
        *settings,
        *(session_id, expected_seq, draft.refers_to, drafted_prompt(draft), draft.digest),
        *(sealed.format, sealed.role, sealed.ts, sealed.recorded_at, sealed.message_id),
        *(sealed.client_id, sealed.model, sealed.usage, sealed.asked_at, sealed.answers_seq),
        *(sealed.answers_block, sealed.size, draft.salt, draft.content_digest, draft.tools),
        *(draft.extra, draft.content),
    )
    row = None
    # A used client id aborts the statement, which is the whole transaction.
    with suppress(UniqueViolation):
        row = tx.call(_APPEND, values)
    if row is not None and row[0] is not None:
        return Receipt(session_id, row[0], row[1].hex(), row[0])
    # Nothing was written: a repeated request, no such session, a session that moved on, or no
    # such entry as it refers to.
    repeated = all_or_none(*first_receipts(tx, session_id, [draft]))
    if repeated is not None:
        return repeated[0]
    # Later than the statement: the head reported may be newer than the one that it failed on.
    head = read_head(tx, session_id)
    check_version(expected_seq, head)
    if draft.refers_to > head.last_seq:
        raise not_earlier(draft, head.last_seq + 1)
    raise beyond(session_id, head.last_seq)


def append_many(
    tx: Transaction,
    session_id: str,
    drafts: Sequence[Draft],
    expected_seq: int | None = None,
    *,
    skip_stored: bool = False,
) -> list[Receipt]:
    """Append messages, all or none; when all were stored before, give their first receipts.

    With `skip_stored` some may have been stored before: only the others are written.
    """
    head = lock(tx, session_id)
    # Before the version: the head has moved since a request that is now repeated.
    ids, found = first_receipts(tx, session_id, drafts)
    repeated = all_stored(found) if skip_stored else all_or_none(ids, found)
    if repeated is not None:
        return repeated
    check_version(expected_seq, head)
    new = [draft for draft, first in zip(drafts, found, strict=True) if first is None]
    return merged_receipts(found, write(tx, session_id, head, new))


def write(
    tx: Transaction, session_id: str, head: SessionHead, drafts: Sequence[Draft]
) -> list[Receipt]:
    """Chain the drafts to a locked session and store them."""
    if not drafts:
        return []
    rows = []
    seq, hash_, head_seq, messages, size, _, created_at, times, has_prompt, _ = head
    for draft in drafts:
        seq += 1
        # A message may refer to an earlier one of the same call, so this is checked row by row.
        if draft.refers_to >= seq:
            raise not_earlier(draft, seq)
        hash_ = link(hash_, draft.digest)
        head_seq = head_seq if draft.is_note else seq
        if draft.is_message:
            messages, size = messages + 1, size + draft.sealed.size
        times = times_after(times, draft)
        latest = times.latest_happened
        rows.append(values_of(session_id, seq, messages, size, latest, hash_, draft))
    columns = list(zip(*rows, strict=True))
    # One statement for all rows: it names every column that at least one of them fills.
    statement, pick = filling(tuple([column.count(None) < len(rows) for column in columns]))
    # The head is locked, so the next seq can only be taken by a row that no head knows.
    taken = partial(beyond, session_id, head.last_seq)
    tx.insert(statement, *zip(*pick(columns), strict=True), taken=taken)
    updated_at = drafts[-1].sealed.recorded_at
    moved = SessionHead(seq, hash_, head_seq, messages, size, updated_at, created_at, times)
    move_head(tx, session_id, head, moved)
    if not has_prompt:
        keep_first(tx, session_id, drafts)
    return [Receipt(session_id, row[_SEQ], row[_HASH].hex(), head_seq) for row in rows]


def beyond(session_id: str, last_seq: int) -> HistoryCorrupt:
    """The error for a log that holds more than its session says."""
    return HistoryCorrupt(
        f"Session {session_id!r} ends at entry {last_seq}, but holds another behind it.",
        seq=last_seq + 1,
    )


def not_earlier(draft: Draft, seq: int) -> MessageNotFound:
    """The error for a message whose `asked_at` or `answers` is not an earlier entry."""
    return MessageNotFound(
        f"The message would be entry {seq}, and refers to entry {draft.refers_to}: only an earlier"
        " one can have been read or answered.",
        candidates=(0, seq - 1),
    )


def refuse_taken(tx: Transaction, session_id: str, drafts: Sequence[Draft]) -> None:
    """Refuse drafts that are new although their client id was given before."""
    ids = [draft.sealed.client_id for draft in drafts if draft.sealed.client_id]
    refuse_twice(ids)
    found = stored_by(tx, session_id, ids)
    for client_id in ids:
        if stored := found.get(client_id):
            raise DuplicateMessage(
                f"Client id {client_id!r} is taken by entry {stored.seq}.",
                client_id=client_id,
                seq=stored.seq,
            )


def times_after(times: Times, draft: Draft) -> Times:
    """What is known of the times of a log after one more entry."""
    sealed = draft.sealed
    return times.after(sealed.kind, sealed.note, sealed.ts, sealed.recorded_at)


def values_of(  # noqa: PLR0917 - by position: keywords take twice as long
    session_id: str,
    seq: int,
    messages: int,
    size: int,
    latest: int | None,
    hash_: bytes,
    draft: Draft,
) -> tuple[Any, ...]:
    """All values of an entry."""
    return (
        *(session_id, seq, messages, size, latest, hash_),
        *(draft.salt, draft.content_digest, draft.tools, draft.extra, draft.content),
        *draft.sealed,
    )


def stored_by(
    tx: Transaction, session_id: str, client_ids: Sequence[str | None]
) -> dict[str, Stored]:
    """The entries that were stored with these client ids, by client id."""
    ids = [one for one in client_ids if one is not None]
    found: dict[str, Stored] = {}
    for at in range(0, len(ids), MOST_IDS):
        some = ids[at : at + MOST_IDS]
        # As wide as the next power of two, so that there are few statements; the rest is filled
        # with the last id.
        names = _names(1 << (len(some) - 1).bit_length())
        given = dict(zip(names, chain(some, repeat(some[-1])), strict=False))
        rows = tx.rows(_by_client_ids(len(names)), session_id=session_id, **given)
        found |= {client_id: Stored(*row) for client_id, *row in rows}
    return found


def first_receipt(
    tx: Transaction, session_id: str, draft: Draft, found: Mapping[str, Stored]
) -> Receipt | None:
    """The receipt of the entry that was `found` by the draft's client id, if any was."""
    client_id = draft.sealed.client_id
    stored = found.get(client_id) if client_id else None
    if client_id is None or stored is None:
        return None
    if not stored.answers(draft):
        raise taken(client_id, stored)
    return repeated_receipt(tx, session_id, stored)


def repeated_receipt(tx: Transaction, session_id: str, stored: Stored) -> Receipt:
    """The receipt of a stored message or control row."""
    rewound = tx.row(_REWOUND_BY, session_id=session_id, seq=stored.seq)
    return Receipt(
        session_id,
        stored.seq,
        stored.hash.hex(),
        stored.seq,
        new=False,
        rewound_by=rewound[0] if rewound else None,
    )


def taken(client_id: str, stored: Stored) -> DuplicateMessage:
    """The error for a client id that another request was stored with."""
    return DuplicateMessage(
        f"Client id {client_id!r} is taken by entry {stored.seq}, which has other content.",
        client_id=client_id,
        seq=stored.seq,
    )


def refuse_twice(ids: Sequence[str | None]) -> None:
    """Refuse a request in which two entries have the same client id."""
    given = [client_id for client_id in ids if client_id is not None]
    if len(set(given)) < len(given):
        twice = next(client_id for client_id in given if given.count(client_id) > 1)
        raise DuplicateMessage(
            f"Two entries of one request have the client id {twice!r}.", client_id=twice
        )


def all_or_none(
    ids: Sequence[str | None], found: Sequence[AReceipt | None]
) -> list[AReceipt] | None:
    """The first receipts of a request that was stored before as a whole; None if none of it was."""
    first = [
        (client_id, receipt)
        for client_id, receipt in zip(ids, found, strict=True)
        if receipt is not None
    ]
    # The missing ones may belong between the others, so none is written behind them (0024).
    if first and len(first) < len(found):
        raise DuplicateMessage(
            f"Of {len(found)} items {len(first)} were stored before: nothing was written.",
            client_id=first[0][0],
            seq=first[0][1].seq,
        )
    return [receipt for _, receipt in first] or None


def all_stored(found: Sequence[AReceipt | None]) -> list[AReceipt] | None:
    """The first receipts of a request if all of it was stored before."""
    first = [receipt for receipt in found if receipt is not None]
    return first if first and len(first) == len(found) else None


def merged_receipts(found: Sequence[AReceipt | None], new: Iterable[AReceipt]) -> list[AReceipt]:
    """The first receipts of what was stored before, and those of what is new, in the order."""
    rest = iter(new)
    return [next(rest) if first is None else first for first in found]


def first_receipts(
    tx: Transaction, session_id: str, drafts: Sequence[Draft]
) -> tuple[list[str | None], list[Receipt | None]]:
    """The client ids of messages, and the first receipts of those that were stored before."""
    ids = [draft.sealed.client_id for draft in drafts]
    refuse_twice(ids)
    stored = stored_by(tx, session_id, ids)
    return ids, [first_receipt(tx, session_id, draft, stored) for draft in drafts]
