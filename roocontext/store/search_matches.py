"""Messages that answer a search, verified by their stored text, and what became of each."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, text

from roocontext.errors import HistoryCorrupt
from roocontext.log.quotes import is_quoting
from roocontext.log.readings import reader
from roocontext.log.spans import Span
from roocontext.search.letters import composed
from roocontext.search.match import Stretch, occurrences, score
from roocontext.search.passages import Wanted, call_names, passages
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.schema import IN_LOG, clearings, entries, spans
from roocontext.store.search_keys import candidates
from roocontext.store.search_scope import Key, Search
from roocontext.store.search_text import content_of

_LO = attrgetter("lo")


class Match(NamedTuple):
    """A message that was found, and where the words are in its text."""

    key: Key
    row: SqlRow
    content: Any
    text: str
    found: list[list[Stretch]]
    score: float


_ROW = select(
    entries.c.session_id,
    entries.c.seq,
    entries.c.recorded_at,
    entries.c.kind,
    entries.c.format,
    entries.c.role,
    entries.c.ts,
    entries.c.extra,
    entries.c.content,
).where(
    entries.c.session_id == bindparam("session_id"),
    entries.c.seq == bindparam("seq"),
    # A redacted row has no salt: what is left of it is not searched.
    text("role IS NOT NULL AND salt IS NOT NULL"),
    IN_LOG,
)
_SPANS = (
    select(*(column for column in spans.c if column is not spans.c.session_id))
    .where(spans.c.session_id == bindparam("session_id"))
    .order_by(spans.c.lo)
)
_CLEARED = (
    select(clearings.c.block, clearings.c.placeholder)
    .where(clearings.c.session_id == bindparam("session_id"), clearings.c.seq == bindparam("seq"))
    .order_by(clearings.c.block)
)
_CALLS_BEFORE = (
    select(entries.c.seq, entries.c.format, entries.c.role, entries.c.content)
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq < bindparam("seq"),
        entries.c.tools.is_not(None),
        entries.c.salt.is_not(None),
    )
    .order_by(entries.c.seq.desc())
    .limit(50)
)


class Matcher:
    """Compares messages with a search, in one snapshot."""

    def __init__(self, tx: Transaction, search: Search, dialect: str) -> None:
        self._tx = tx
        self._dialect = dialect
        self._search = search
        self._wanted = Wanted(search.speaker, search.tool)
        self._spans: dict[str, list[Span]] = {}

    def matches(self, *, batch: int) -> Iterator[Match]:
        """The messages that match, in the order of the search; so many are read at once."""
        keys = candidates(self._tx, self._search, self._dialect)
        while some := list(islice(keys, batch)):
            wanted = filter(self._is_wanted, some)
            queries = [(_ROW, {"session_id": key[1], "seq": key[2]}) for key in wanted]
            for rows in self._tx.all(queries):
                for row in rows:
                    if match := self._match(row):
                        yield match

    def span_of(self, key: Key) -> Span:
        """Where a message stands now."""
        known = self._spans.get(key.session_id)
        if known is None:
            rows = self._tx.rows(_SPANS, session_id=key.session_id)
            known = self._spans[key.session_id] = [Span(*row) for row in rows]
        index = bisect_right(known, key.seq, key=_LO) - 1
        if index < 0:
            raise HistoryCorrupt(f"No span holds entry {key.seq}.", seq=key.seq)
        return known[index]

    def _is_wanted(self, key: Key) -> bool:
        if self._search.among == "all":
            return True
        span = self.span_of(key)
        match self._search.among:
            case "visible":
                return span.visible
            case "hidden":
                return span.standing and not span.visible
        return span.standing

    def _match(self, row: SqlRow) -> Match | None:
        session_id, seq, recorded_at, _, format_, role, _, extra, stored = row
        if is_quoting(extra):
            return None
        key = Key(recorded_at, session_id, seq)
        content = content_of(session_id, seq, format_, role, stored)
        if self._search.among == "visible":
            content = self._as_shown(key, format_, content)
        wanted = self._wanted
        if wanted.tool is not None:
            wanted = replace(wanted, name_of=partial(self._name_of, key))
        words = composed(passages(format_, role, content, wanted))
        found = occurrences(self._search.query, words)
        if found is None:
            return None
        return Match(key, row, content, words, found, score(found, len(words)))

    def _as_shown(self, key: Key, format_: str, content: object) -> object:
        for block, placeholder in self._tx.rows(_CLEARED, session_id=key.session_id, seq=key.seq):
            content = reader(format_).clear(content, (block,), placeholder)
        return content

    def _name_of(self, key: Key, call_id: str) -> str | None:
        """The tool whose call has this id, which an earlier message holds."""
        for seq, format_, role, stored in self._tx.rows(
            _CALLS_BEFORE, session_id=key.session_id, seq=key.seq
        ):
            content = content_of(key.session_id, seq, format_, role, stored)
            names = call_names(reader(format_).blocks(role, content)[1])
            if call_id in names:
                return names[call_id]
        return None
