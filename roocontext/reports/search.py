"""The results of a search, and what is done before it."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from roocontext.errors import StoreFull, StoreReadOnly, StoreUnavailable
from roocontext.reports.document import Document, Text, Time
from roocontext.reports.history import HiderRow

if TYPE_CHECKING:
    from roocontext import Store
    from roocontext.store.search.hits import HitPage

UNINDEXED: Final = (StoreReadOnly, StoreFull, StoreUnavailable)
"""The errors of indexing after which a search is made all the same: it reads more."""


class SnippetRow(Document):
    """A part of a message's text. `marks` are the offsets where each match begins and ends."""

    text: Text
    marks: list[list[int]]
    is_continued: bool
    continues: bool


class HitRow(Document):
    """A message that matches, and whether the model sees it now.

    `speaker` is its role, or `tool` if it holds only outputs of tools. `hider` is the entry that
    hides it or takes it back. `cleared` are pairs of a block and the entry that cleared it.
    """

    session_id: str
    seq: int
    kind: str
    role: str
    speaker: str
    ts: int | None
    happened_at: Time
    recorded_at: Time
    snippet: SnippetRow
    score: float
    visible: bool
    hidden_by: int | None
    hider: HiderRow | None
    condense_parent: int | None
    truncation_parent: int | None
    rewound_by: int | None
    uncovered_by: int | None
    cleared: list[list[int]]


class Found(Document):
    """A page of the messages that contain all words of the query.

    `--after` takes `next` to show the next page. On the last page it is null. `archived` is how
    many archived sessions were not searched, at most 1,000; later pages have null.
    """

    query: Text
    hits: list[HitRow]
    next: str | None
    archived: int | None


def refresh_index(store: "Store") -> None:
    """Bring the index up to date before a search, if the database can be written to."""
    with suppress(*UNINDEXED):
        store.index()


def found(query: str, page: "HitPage") -> Found:
    """A page of hits as a document."""
    return Found.of(page, query=query, hits=page)
