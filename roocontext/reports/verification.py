"""What verifying sessions found."""

from typing import TYPE_CHECKING

from roocontext.reports.document import Document, as_json
from roocontext.store.verify import Head

if TYPE_CHECKING:
    from roocontext import Verification


class Checked(Document):
    """What was found in a session: the problem, and the first bad entry if one can be named.

    `rebuilt` is how many rows of the caches were wrong and were written again.
    """

    session_id: str
    ok: bool
    entries: int
    head: Head
    seq: int | None
    problem: str | None
    rebuilt: int | None


class Verified(Document):
    """Whether everything that was checked is as it was written."""

    ok: bool
    sessions: list[Checked]


def checked_session(found: "Verification", rebuilt: int | None = None) -> Checked:
    """What was found in a session."""
    return Checked(**as_json(found), rebuilt=rebuilt)


def verification_of(rows: list[Checked]) -> Verified:
    """What was found in some sessions."""
    return Verified(ok=all(row.ok for row in rows), sessions=rows)
