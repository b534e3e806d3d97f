"""Finds the entry that a rewind names: by its seq, a message's id, or a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from roocontext.errors import MessageNotFound
from roocontext.log.entries import Range
from roocontext.log.moments import Moment, happened, utc
from roocontext.log.spans import standing_ranges, within
from roocontext.store import times
from roocontext.store.as_of import no_entry
from roocontext.store.caches import Tail, tail_queries, to_tail
from roocontext.store.engine.transaction import Query, SqlRow, Transaction
from roocontext.store.head import SessionHead, check_version, head_query, lock_query, to_head
from roocontext.store.message_ids import by_id, in_words, unknown
from roocontext.store.view import ALL_CONTROLS, to_controls


@dataclass(frozen=True, slots=True)
class Place:
    """What a rewind names: the entry to go to with the target, and the one without it.

    An end of the session may have been read on the way, and the running totals of some entries.
    """

    with_target: int
    without_target: int
    target: int | None = None
    target_time: int | None = None
    tail: Tail | None = None
    totals: Sequence[SqlRow] = ()


class Targets:
    """Finds the entry that a rewind names, or raises an error with the nearest candidates."""

    head: SessionHead
    """The head of the session, known when a target was found."""

    def __init__(
        self, tx: Transaction, session_id: str, expected_seq: int | None, *, dry_run: bool
    ) -> None:
        self._tx = tx
        self._session_id = session_id
        self._session = {"session_id": session_id}
        self._expected_seq = expected_seq
        self._head = (head_query if dry_run else lock_query)(session_id)

    def find(self, to: int | str | Moment | None, ts: int | None) -> Place:
        """Find the entry to go to."""
        if isinstance(to, Moment):
            return self._until(to)
        if isinstance(to, str):
            return self._by_message_id(to)
        if ts is not None:
            return self._by_time(ts)
        return self._by_seq(to or 0)

    def _locked(self, *queries: Query) -> list[list[SqlRow]]:
        """Lock the session, unless this is a dry run; the rows of other queries."""
        locked, *rows = self._tx.all([self._head, *queries])
        self.head = to_head(self._session_id, locked)
        check_version(self._expected_seq, self.head)
        return rows

    def _live_and(self, query: Query) -> tuple[tuple[Range, ...], list[SqlRow]]:
        """What is live, and the rows of another query."""
        controls, rows = self._locked((ALL_CONTROLS, self._session), query)
        return standing_ranges(to_controls(controls), self.head.last_seq), rows

    def _by_seq(self, seq: int) -> Place:
        found = self._locked(*tail_queries(self._session_id, seq))
        if not 0 <= seq <= self.head.last_seq:
            raise no_entry(seq, self.head.last_seq)
        tail = to_tail(seq, self.head.last_seq, *found)
        return Place(seq, seq - 1, tail=tail)

    def _by_message_id(self, message_id: str) -> Place:
        live, rows = self._live_and(by_id(self._session_id, message_id))
        for seq, ts, recorded_at in rows:
            if within(live, seq):
                return Place(seq, seq - 1, seq, happened(ts, recorded_at))
        seqs = [row[0] for row in rows]
        if seqs:
            raise MessageNotFound(
                f"Message {message_id!r} is entry {seqs[0]}, which is not live: give its seq.",
                candidates=tuple(seqs),
            )
        raise unknown(self._tx, self._session_id, message_id, live)

    def _by_time(self, ts: int) -> Place:
        """The first live message whose own time is exactly this."""
        live, rows = self._live_and(times.at_ts(self._session_id, ts))
        found = next((row[0] for row in rows if within(live, row[0])), None)
        if found is not None:
            return Place(found, found - 1, found, ts)
        near = times.nearest(self._tx, self._session_id, ts)
        others = [f"entry {seq}, of {at} ms ({utc(at)})" for seq, at in near]
        nearest = f"the nearest are {in_words(others)}" if near else "none has one"
        raise MessageNotFound(
            f"No live message has the agent's time {ts} ms ({utc(ts)}); {nearest}.",
            candidates=tuple(at for _, at in near),
        )

    def _until(self, moment: Moment) -> Place:
        """Just before the first live entry that is later; the target is the last message there."""
        ((found,),) = self._locked(times.none_later(self._session_id, moment))
        if moment.recorded and self.head.times.recorded_back:
            return self._searched(moment, 1)
        return self._beside(moment, found[0]) or self._searched(moment, found[0] + 1)

    def _beside(self, moment: Moment, reached: int) -> Place | None:
        """The same if all depends on the entries beside the last one that is not later.

        That is so unless one of them is not live.
        """
        last, start = self.head.last_seq, reached + 1
        beside = times.beside(self._session_id, moment, start, last)
        first, before, cached, controls = self._tx.all(
            [*beside, *tail_queries(self._session_id, start)]
        )
        tail = to_tail(start, last, cached, controls)
        live = tail.live()
        # Nothing before the end that was read is known to be live.
        if not before or not all(within(live, row[0]) for row in (*first, *before)):
            return None
        end = first[0][0] if first else last + 1
        seq, time, messages, size = before[0]
        totals = [(seq, messages, size), (last, self.head.messages, self.head.bytes)]
        return Place(end - 1, seq - 1, seq, time, tail, totals)

    def _searched(self, moment: Moment, start: int) -> Place:
        """The same, if no entry before `start` is later."""
        where = (self._tx, self._session_id)
        controls = self._tx.rows(ALL_CONTROLS, **self._session)
        live = standing_ranges(to_controls(controls), self.head.last_seq)
        later = times.first_later(*where, live, moment, start=start)
        end = self.head.last_seq + 1 if later is None else later[0]
        target = times.last_message(*where, live, moment, end)
        if target is not None:
            return Place(end - 1, target[0] - 1, *target)
        if later is None:
            raise MessageNotFound("The session has no live message.", candidates=())
        raise MessageNotFound(
            f"No live message is as early as {utc(moment.time)}; the first is entry {end},"
            f" of {utc(later[1])}.",
            candidates=(end,),
        )
