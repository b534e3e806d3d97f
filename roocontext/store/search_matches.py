"""Messages that answer a search, verified by their stored text, and what became of each."""

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

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

_BATCH = 50
_LO = attrgetter("lo")


class Match(NamedTuple):
    """A message that was found, where it stands, and where the words are in its text."""

    key: Key
    row: SqlRow
    span: Span
    text: str
    found: list[list[Stretch]]
    score: float


_ROW = select(
    entries.c.session_id,
    entries.c.seq,
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
        self._spans: dict[str, list[Span]] = {}

    def matches(self) -> Iterator[Match]:
        """The messages that match, in the order of the search."""
        keys = candidates(self._tx, self._search, self._dialect)
        while batch := list(islice(keys, _BATCH)):
            standing = [(key, span) for key in batch if self._is_wanted(span := self._span(key))]
            at = [{"session_id": key.session_id, "seq": key.seq} for key, _ in standing]
            rows = {(row[0], row[1]): row for row in self._tx.each(_ROW, at)}
            for key, span in standing:
                row = rows.get((key.session_id, key.seq))
                match = None if row is None else self._match(key, row, span)
                if match is not None:
                    yield match

    def _span(self, key: Key) -> Span:
        known = self._spans.get(key.session_id)
        if known is None:
            rows = self._tx.rows(_SPANS, session_id=key.session_id)
            known = self._spans[key.session_id] = [Span(*row) for row in rows]
        index = bisect_right(known, key.seq, key=_LO) - 1
        if index < 0:
            raise HistoryCorrupt(f"No span holds entry {key.seq}.", seq=key.seq)
        return known[index]

    def _is_wanted(self, span: Span) -> bool:
        match self._search.among:
            case "all":
                return True
            case "standing":
                return span.standing
            case "visible":
                return span.visible
            case "hidden":
                return span.standing and not span.visible

    def _match(self, key: Key, row: SqlRow, span: Span) -> Match | None:
        _, _, _, format_, role, _, extra, stored = row
        if is_quoting(extra):
            return None
        content = content_of(key.seq, format_, role, stored)
        if self._search.among == "visible":
            content = self._as_shown(key, format_, content)
        name_of = partial(self._name_of, key)
        wanted = Wanted(self._search.speaker, self._search.tool, name_of)
        words = composed(passages(format_, role, content, wanted))
        found = occurrences(self._search.query, words)
        if found is None:
            return None
        return Match(key, row, span, words, found, score(found, len(words)))

    def _as_shown(self, key: Key, format_: str, content: object) -> object:
        for block, placeholder in self._tx.rows(_CLEARED, session_id=key.session_id, seq=key.seq):
            content = reader(format_).clear(content, (block,), placeholder)
        return content

    def _name_of(self, key: Key, call_id: str) -> str | None:
        """The tool whose call has this id, which an earlier message holds."""
        for seq, format_, role, stored in self._tx.rows(
            _CALLS_BEFORE, session_id=key.session_id, seq=key.seq
        ):
            content = content_of(seq, format_, role, stored)
            names = call_names(reader(format_).blocks(role, content)[1])
            if call_id in names:
                return names[call_id]
        return None
