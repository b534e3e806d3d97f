"""What commands have done: the documents that differ from the library's own receipts.

The library's values `Receipt` and `Head` are documents as they are.

Backups: a copy of an SQLite database, or the command that copies a PostgreSQL database.

What verifying sessions found.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from roocontext.reports.document import Document, Text
from roocontext.reports.gauge import Gauge
from roocontext.reports.history import MessageRow, message_rows
from roocontext.store.proof.verify import Head

if TYPE_CHECKING:
    from roocontext import Session, Verification
    from roocontext.context import Outcome
    from roocontext.store.proof.verify import Progress


class OutcomeReport(Document):
    """What condensing, truncating or clearing did, or would do.

    `status` is noop, cleared, condensed or truncated. Tokens and bytes are those of the view before
    and after. `seqs` are the entries that were written. `view` is the view that a preview leaves.
    """

    session_id: str
    status: str
    detail: Text
    reason: Text
    policy: str
    trigger: str
    counter: str
    exact: bool
    window: int
    window_source: str
    tokens_before: int
    tokens_after: int
    excess: dict[str, int]
    bytes_before: int | None
    bytes_after: int | None
    hidden: int
    cleared: int
    seqs: list[int]
    compaction_ids: list[str]
    summary_model: Text | None
    cost: float | None
    calls: int
    dry_run: bool
    view: list[MessageRow] | None


class Forked(Document):
    """A session that begins as a copy of another up to entry `at`."""

    session_id: str
    forked_from: str
    at: int


class Pins(Document):
    """The messages that no plan may hide; `changed` is None if they were only listed."""

    session_id: str
    pins: list[int]
    changed: bool | None


class Titled(Document):
    """A session's title; `changed` is None if it was only shown."""

    session_id: str
    title: str | None
    changed: bool | None


class Upgraded(Document):
    """The version of the schema before and after an upgrade."""

    before: str | None
    after: str


class RevisionRow(Document):
    """A migration of this release, and whether the database has it."""

    revision: str
    brought: str
    applied: bool


class History(Document):
    """Every migration of this release, oldest first."""

    current: str | None
    revisions: list[RevisionRow]


class Demo(Document):
    """What the demo left behind, and what happened to its session, in order.

    `context` is what a call of the model would send: it includes the system prompt, which is no
    message.
    """

    database: Text
    session_id: str
    did: list[str]
    ok: bool
    entries: int
    messages: int
    visible_messages: int
    context: Gauge


def outcome_report(session_id: str, outcome: "Outcome") -> OutcomeReport:
    """What a run of the manager did."""
    view = None if outcome.view is None else list(message_rows(outcome.view))
    return OutcomeReport.of(outcome, session_id=session_id, view=view)


def forked_report(branch: "Session", parent: str) -> Forked:
    """A new session, and the entry up to which it is a copy."""
    (*_, origin) = branch.notes("origin")
    return Forked(session_id=branch.id, forked_from=parent, at=origin.content["seq"])


def migration_history(current: str | None) -> History:
    """The migrations of this release, and those that a database of this version has."""
    from roocontext.store.engine import migrate  # noqa: PLC0415 - loads alembic

    revisions = [
        RevisionRow(
            revision=one.revision,
            brought=one.brought,
            applied=current is not None and one.revision <= current,
        )
        for one in migrate.all_revisions()
    ]
    return History(current=current, revisions=revisions)


class Backup(Document):
    """A backup of a database in a new `file`.

    `bytes` is its size. PostgreSQL is not copied: then `bytes` is None, and `command` is what to
    run.
    """

    database: Text
    file: Text
    bytes: int | None
    command: Text | None


def backed_up(url: str, database: str, file: Path, progress: "Progress") -> Backup:
    """Copy the database of a URL, shown as `database`, to a file; or name the command to run."""
    from roocontext.store.proof.backup import back_up  # noqa: PLC0415 - heavy

    command = _pg_dump(url, file) if url.startswith("postgres") else None
    copied = None if command else back_up(url, file, progress)
    return Backup(database=database, file=str(file), bytes=copied, command=command)


def _pg_dump(url: str, file: Path) -> str:
    """The command, without a password: pg_dump asks for it, or finds it in PGPASSWORD."""
    from sqlalchemy import URL, make_url  # noqa: PLC0415 - heavy

    given = make_url(url.replace("postgres://", "postgresql://", 1))
    query = {name: value for name, value in given.query.items() if "password" not in name}
    bare = URL.create(
        "postgresql",
        given.username,
        host=given.host,
        port=given.port,
        database=given.database,
        query=query,
    )
    return shlex.join(["pg_dump", "--format=custom", f"--file={file}", bare.render_as_string()])


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
    """Whether every session that was checked is as it was written."""

    ok: bool
    sessions: list[Checked]


def checked_session(found: "Verification", rebuilt: int | None = None) -> Checked:
    """What was found in a session."""
    return Checked.of(found, rebuilt=rebuilt)


def verification_of(rows: list[Checked]) -> Verified:
    """What was found in some sessions."""
    return Verified(ok=all(row.ok for row in rows), sessions=rows)
