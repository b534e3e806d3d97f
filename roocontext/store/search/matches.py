"""The messages that answer a search, newest or oldest first.

The index and the entries after its marks give candidates; the stored text of each is compared with
the query.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, literal_column, select, text

from roocontext.errors import HistoryCorrupt
from roocontext.log.clearing import clear
from roocontext.log.encoding import encode
from roocontext.log.entries import is_quoting
from roocontext.log.moments import check_time, happened
from roocontext.log.pairs import CALL
from roocontext.log.readings import reader
from roocontext.log.spans import Span
from roocontext.search.match import Stretch, occurrences, score
from roocontext.search.passages import WantedPassages, call_names, passages
from roocontext.search.query import composed
from roocontext.store.engine.schema import (
    IN_LOG,
    clearings,
    entries,
    log_rows,
    of_session,
    sessions,
)
from roocontext.store.engine.statements import crossing
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.messages import placeholders
from roocontext.store.search.index import MESSAGES, indexed_keys, not_indexed
from roocontext.store.search.scope import MatchKey, Search, searchable_content
from roocontext.store.writing.caches import SPANS

_PAGE = 500


def _candidates(tx: Transaction, search: Search, text_search: str) -> Iterator[MatchKey]:
    """The messages that may match, in the order of the search."""
    beyond = [key for session in not_indexed(tx, search) for key in _beyond(tx, search, *session)]
    beyond.sort(reverse=not search.is_oldest_first)
    return merge(indexed_keys(tx, search, text_search), beyond, reverse=not search.is_oldest_first)


def _beyond(
    tx: Transaction, search: Search, session_id: str, last: int, after: int
) -> Iterator[MatchKey]:
    """The messages of a session after its mark that hold the words."""
    while rows := tx.rows(MESSAGES, session_id=session_id, lo=after + 1, hi=last, page=_PAGE):
        for seq, happened_at, recorded_at, format_, role, stored in rows:
            key = MatchKey(search.time_of(happened_at, recorded_at), session_id, seq)
            check_time(seq, key.time)
            if search.follows(key) and search.query.may_be_in(stored):
                content = searchable_content(session_id, seq, format_, role, stored)
                if occurrences(search.query, composed(passages(format_, role, content))):
                    yield key
        after = rows[-1][0]


class Match(NamedTuple):
    """A message that matches, and where the words are in its text."""

    key: MatchKey
    row: SqlRow
    content: Any
    text: str
    places: list[list[Stretch]]
    score: float


_COLUMNS = (
    *("session_id", "seq", "recorded_at", "kind", "format", "role", "ts", "extra", "content"),
    "answers_seq",
)
# A redacted row has no salt: its skeleton is not searched.
_rows = select(*(entries.c[name] for name in _COLUMNS)).where(
    text("role IS NOT NULL AND salt IS NOT NULL")
)
_at_seq = (of_session(entries), entries.c.seq == bindparam("seq"))
_ROW = _rows.where(*_at_seq, IN_LOG)
_last = select(sessions.c.last_seq).where(sessions.c.session_id == entries.c.session_id)
_keys = func.json_each(bindparam("keys")).table_valued("value")
# On SQLite twenty statements took three times as long as this one. PostgreSQL gets them together.
_ROWS = (
    crossing(_rows)
    .select_from(_keys)
    .where(
        entries.c.session_id == func.json_extract(_keys.c.value, literal_column("'$[0]'")),
        entries.c.seq == func.json_extract(_keys.c.value, literal_column("'$[1]'")),
        entries.c.seq.between(literal_column("1"), _last.scalar_subquery()),
    )
)
_CLEARED = (
    select(*(clearings.c[name] for name in ("seq", "block", "placeholder", "head", "tail")))
    .where(of_session(clearings), clearings.c.seq == bindparam("seq"))
    .order_by(clearings.c.block)
)
# One row: most calls are right before their result, and what is before them need not be read. The
# skeleton of a redacted call still has its name.
_CALL_BEFORE = (
    log_rows("seq", "format", "role", "content")
    .where(
        entries.c.seq < bindparam("seq"),
        entries.c.tools.is_not(None),
        entries.c.tools.like(bindparam("calls"), escape="!"),
    )
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_MOST_CALLS = 20
_LONGEST_LIKE = 200
"""The characters of an id that are looked for: SQLite refuses patterns of 50,000."""


class Matcher:
    """Compares messages with a search, in one snapshot."""

    def __init__(self, tx: Transaction, search: Search, text_search: str) -> None:
        self._tx = tx
        self._text_search = text_search
        self._search = search
        self._wanted = WantedPassages(search.speaker, search.tool)
        self._spans: dict[str, list[Span]] = {}
        self._read_calls: tuple[tuple[str, int], Mapping[str, str]] = (("", 0), {})

    def matches(self, *, batch: int) -> Iterator[Match]:
        """The messages that match, in the order of the search; so many are read at once."""
        keys = _candidates(self._tx, self._search, self._text_search)
        while page := list(islice(keys, batch)):
            self._read_spans(key.session_id for key in page)
            wanted = list(filter(self._is_wanted, page))
            for row in self._rows(wanted) if wanted else ():
                if match := self._match(row):
                    yield match

    def span_of(self, key: MatchKey) -> Span:
        """The span now of a message of `matches`."""
        spans_ = self._spans[key.session_id]
        index = bisect_right(spans_, key.seq, key=attrgetter("lo")) - 1
        if index < 0:
            raise HistoryCorrupt(f"No span holds entry {key.seq}.", seq=key.seq)
        return spans_[index]

    def _read_spans(self, session_ids: Iterable[str]) -> None:
        """Read the spans of sessions that were not met before, in one round trip."""
        unread = [name for name in dict.fromkeys(session_ids) if name not in self._spans]
        read = self._tx.all([(SPANS, {"session_id": name}) for name in unread])
        for name, rows in zip(unread, read, strict=True):
            self._spans[name] = [Span(*row) for row in rows]

    def _is_wanted(self, key: MatchKey) -> bool:
        if self._search.among == "all":
            return True
        span = self.span_of(key)
        match self._search.among:
            case "visible":
                return span.visible
            case "hidden":
                return span.standing and not span.visible
        return span.standing

    def _rows(self, keys: Sequence[MatchKey]) -> Iterator[SqlRow]:
        """The stored messages, in the order of their keys."""
        named = [(session_id, seq) for _, session_id, seq in keys]
        if self._tx.has_round_trips:
            rows = self._tx.each(_ROW, [{"session_id": name, "seq": seq} for name, seq in named])
        else:
            rows = self._tx.rows(_ROWS, keys=json.dumps(named))
        stored = {(row[0], row[1]): row for row in rows}
        return (stored[name] for name in named if name in stored)

    def _match(self, row: SqlRow) -> Match | None:
        session_id, seq, recorded_at, _, format_, role, ts, extra, stored, answered = row
        if is_quoting(extra):
            return None
        time = self._search.time_of(happened(ts, recorded_at), recorded_at)
        key = MatchKey(time, session_id, seq)
        content = searchable_content(session_id, seq, format_, role, stored)
        if self._search.among == "visible":
            content = self._as_shown(key, format_, role, content)
        wanted = self._wanted
        if wanted.tool is not None:
            # An id may be that of another call, after the one that is answered.
            end = seq if answered is None else min(seq, answered + 1)
            wanted = replace(wanted, name_of=partial(self._name_of, session_id, end))
        words = composed(passages(format_, role, content, wanted))
        places = occurrences(self._search.query, words)
        if places is None:
            return None
        return Match(key, row, content, words, places, score(places, len(words)))

    def _as_shown(self, key: MatchKey, format_: str, role: str, content: object) -> object:
        rows = self._tx.rows(_CLEARED, session_id=key.session_id, seq=key.seq)
        blocks = placeholders(rows).get(key.seq, {})
        return clear(format_, role, content, key.seq, blocks)[0]

    def _name_of(self, session_id: str, seq: int, call_id: str) -> str | None:
        """The tool whose call has this id, which a message before this entry holds."""
        # LIKE may find others too, because it ignores case on SQLite, but the newest are enough.
        named = re.sub("([!%_])", r"!\1", encode(call_id)[:_LONGEST_LIKE])
        calls = f"{encode([CALL])[:-1]},%{named}%"
        for _ in range(_MOST_CALLS):
            row = self._tx.row(_CALL_BEFORE, session_id=session_id, seq=seq, calls=calls)
            if row is None:
                break
            seq = row[0]
            names = self._names_in(session_id, *row)
            if call_id in names:
                return names[call_id]
        return None

    def _names_in(
        self, session_id: str, seq: int, format_: str, role: str, stored: str
    ) -> Mapping[str, str]:
        """The tools of a message's calls, by their ids."""
        # The outputs of a message mostly answer the calls of one other, which is read only once.
        if self._read_calls[0] != (session_id, seq):
            content = searchable_content(session_id, seq, format_, role, stored)
            names = call_names(reader(format_).blocks(role, content)[1])
            self._read_calls = (session_id, seq), names
        return self._read_calls[1]
