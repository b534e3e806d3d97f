"""Search: the messages of all sessions that hold the words of a query, as hits with a snippet.

The spans of the present say whether a hit is visible, hidden or rewound, and every hit is compared
with the stored text. So an index may be stale or missing: it only saves reading rows.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, select

from roocontext.log.entries import Kind, to_kind
from roocontext.log.moments import happened
from roocontext.log.readings import reader
from roocontext.log.spans import Span
from roocontext.log.values import Value
from roocontext.search.passages import Snippet, snippet, speaker_of
from roocontext.store.engine.schema import AT_SEQ, clearings, log_rows, of_session
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.audit import Hider, to_hider
from roocontext.store.reading.pages import Page, write_cursor
from roocontext.store.search.matches import Match, Matcher
from roocontext.store.search.scope import MOST_HITS, Search, archived_in, with_family

RANKED: Final = 50
"""The number of newest matches that are ranked. The older ones follow them, newest first."""


class Hit(msgspec.Struct, Value, frozen=True):
    """A message that holds all words of the query, and whether the model still sees it.

    `speaker` is the role, or `tool` if the message holds nothing but outputs of tools. `visible`,
    `hidden_by`, `hider`, the parents and `cleared` are those of an AuditEntry: whether the model
    sees the message now, and if not, what hides it.
    """

    session_id: str
    seq: int
    kind: Kind
    role: str
    speaker: str
    format: str
    ts: int | None
    recorded_at: int
    snippet: Snippet
    score: float
    visible: bool
    hidden_by: int | None
    hider: Hider | None
    condense_parent: int | None
    truncation_parent: int | None
    rewound_by: int | None
    uncovered_by: int | None
    cleared: tuple[tuple[int, int], ...]

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)


class HitPage(Page[Hit]):
    """A page of hits, and how many archived sessions were not searched.

    The first page of a search counts them, at most 1,000; later pages have None.
    """

    archived: int | None

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        next: str | None = None,  # noqa: A002 - as of every page
        archived: int | None = None,
    ) -> None:
        super().__init__(hits, next)
        self.archived = archived

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return {**super().to_dict(), "archived": self.archived}


_HIDER = log_rows("seq", "kind", "details", "recorded_at", "ts").where(AT_SEQ)
_CLEARED_BY = (
    select(clearings.c.block, clearings.c.cleared_by)
    .where(of_session(clearings), clearings.c.seq == bindparam("seq"))
    .order_by(clearings.c.block)
)


def search(tx: Transaction, asked: Search, text_search: str) -> HitPage:
    """The page of hits that was asked for."""
    if not asked.query.words:
        return HitPage()
    asked = with_family(tx, asked)
    archived = archived_in(tx, asked) if asked.start is None else None
    # Behind the ranked matches is the order of time, and a page begins where it continues.
    is_ranked = asked.order == "best" and asked.skip < RANKED
    skip = asked.skip if is_ranked else 0
    end = skip + asked.limit
    matcher = Matcher(tx, asked, text_search)
    most = max(is_ranked * RANKED, end + 1)
    matches = list(islice(matcher.matches(batch=min(most, MOST_HITS)), most))
    page = (_ranked(matches) if is_ranked else matches)[skip:end]
    following = None
    if len(matches) > end:
        # All ranked pages begin at one match, so that messages that come in between move none.
        continues = is_ranked and end < RANKED
        first, skipped = (matches[0], end) if continues else (matches[end], RANKED)
        following = write_cursor(f"search, {asked.order}", *first.key, skipped)
    hits = (_hit(tx, match, matcher.span_of(match.key), asked.context) for match in page)
    return HitPage(hits, following, archived)


def _ranked(found: Sequence[Match]) -> list[Match]:
    # Sorting keeps the order of equal ones: the newest first.
    best = sorted(found[:RANKED], key=attrgetter("score"), reverse=True)
    return [*best, *found[RANKED:]]


def _hit(tx: Transaction, match: Match, span: Span, context: int) -> Hit:
    session_id, seq, recorded_at, kind, format_, role, ts, *_ = match.row
    content = match.content
    hidden_by = (
        span.rewound_by or span.uncovered_by or span.condense_parent or span.truncation_parent
    )
    # Only outputs are cleared, and most messages have none.
    has_outputs = bool(reader(format_).outputs(content))
    cleared = tx.rows(_CLEARED_BY, session_id=session_id, seq=seq) if has_outputs else ()
    return Hit(
        session_id,
        seq,
        to_kind(seq, kind),
        role,
        speaker_of(format_, role, content),
        format_,
        ts,
        recorded_at,
        snippet(match.text, match.places, context=context),
        match.score,
        hidden_by is None,
        hidden_by,
        _hider(tx, session_id, hidden_by),
        span.condense_parent,
        span.truncation_parent,
        span.rewound_by,
        span.uncovered_by,
        tuple(cleared),
    )


def _hider(tx: Transaction, session_id: str, seq: int | None) -> Hider | None:
    row = None if seq is None else tx.row(_HIDER, session_id=session_id, seq=seq)
    return None if row is None else to_hider(row)
