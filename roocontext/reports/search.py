"""The results of a search."""

from typing import TYPE_CHECKING

from roocontext.reports.document import Document, Text, Time
from roocontext.reports.history import HiderRow

if TYPE_CHECKING:
    from roocontext.store.search.hits import HitPage


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


def found(query: str, page: "HitPage") -> Found:
    """A page of hits as a document."""
    return Found.of(page, query=query, hits=page)
