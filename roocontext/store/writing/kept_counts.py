"""Counts that are not kept yet, and keeping them: with what a plan commits, or on their own."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sqlalchemy import bindparam, insert, select

from roocontext.errors import StoreFull, StoreReadOnly, TurnLost
from roocontext.log.counting import Counter
from roocontext.store.engine.database import SessionDatabase
from roocontext.store.engine.schema import AT_SEQ, IN_LOG, counts, entries, log_rows, of_session
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import lock
from roocontext.store.reading.usage import REQUEST


class CountKey(NamedTuple):
    """The key of a count.

    The variant is empty for a message as it was written, names what is cleared of it otherwise, and
    is `REQUEST` for the request that it answers.
    """

    variant: str
    counter: str
    seq: int


_WHOLE = log_rows("seq").where(AT_SEQ, entries.c.salt.is_not(None), IN_LOG)
_KNOWN = select(*(counts.c[name] for name in CountKey._fields)).where(
    of_session(counts), *(counts.c[name] == bindparam(name) for name in CountKey._fields)
)
_ADD = insert(counts)


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts that are not kept yet, with whether each is exact.

    `redacted` are the messages that were redacted already when they were read. `inserted` are what
    the rows of a plan cost, which have no seq before they are committed.
    """

    counts: Mapping[CountKey, tuple[int, bool]] = field(default_factory=dict)
    redacted: frozenset[int] = frozenset()
    inserted: tuple[tuple[str, int, bool], ...] = ()

    def plus(self, other: "Counted") -> "Counted":
        """Both together."""
        return Counted({**self.counts, **other.counts}, self.redacted | other.redacted)

    def with_inserted(self, counter: Counter, tokens: Iterable[int]) -> "Counted":
        """These, and what each row of a plan costs, in the plan's order."""
        return replace(self, inserted=tuple((counter.name, n, counter.exact) for n in tokens))

    def at(self, seqs: Sequence[int]) -> "Counted":
        """These, with the plan's rows at the seqs that they have got."""
        new = {
            CountKey("", name, seq): (count, exact)
            for seq, (name, count, exact) in zip(seqs, self.inserted, strict=False)
        }
        return self.plus(Counted(new))

    def with_estimates(self, counter: Counter, estimates: Mapping[int, int]) -> "Counted":
        """These, and the estimates of the requests that these messages answer."""
        new = {
            CountKey(REQUEST, counter.name, seq): (estimate, counter.exact)
            for seq, estimate in estimates.items()
        }
        return self.plus(Counted(new))


def keep_counts(log: SessionLog, counted: Counted) -> bool:
    """Keep counts that are not kept yet; whether any was.

    The count of a message that was redacted after it was read would reveal its length.
    """
    if not counted.counts:
        return False
    # Two managers may count the same messages at once: the second finds them known.
    lock(log)
    known = set(log.each(_KNOWN, [key._asdict() for key in counted.counts]))
    seqs = [{"seq": seq} for seq in {key.seq for key in counted.counts}]
    redacted = counted.redacted.union(row[0] for row in log.each(_WHOLE, seqs))
    added = [
        {**key._asdict(), "tokens": count, "exact": exact}
        for key, (count, exact) in counted.counts.items()
        if key.seq in redacted and key not in known
    ]
    log.many(_ADD, added)
    return bool(added)


def is_whole(log: SessionLog, seq: int) -> bool:
    """True if this message was not redacted."""
    return log.row(_WHOLE, seq=seq) is not None


def keep_if_possible(database: SessionDatabase, counted: Counted) -> bool:
    """Keep them in a transaction of their own, unless the store cannot be written to.

    Or unless the turn is lost: it was only read.
    """
    if not counted.counts:
        return False
    # A cache: without it the next call counts again.
    with suppress(StoreReadOnly, StoreFull, TurnLost):
        return database.write(keep_counts, counted)
    return False
