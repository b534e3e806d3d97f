"""The results of commands, as documents, if the library's own values are not documents already."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roocontext.reports.document import Document, Text
from roocontext.reports.gauge import Gauge
from roocontext.reports.history import MessageRow, message_rows
from roocontext.store.proof.verify import Head

if TYPE_CHECKING:
    from roocontext import Session
    from roocontext.context import Outcome
    from roocontext.store.proof.verify import Progress


class OutcomeReport(Document):
    """The outcome of condensing, truncating or clearing, or of its preview.

    `status` is noop, uncovered, cleared, condensed or truncated. Tokens and bytes are those of the
    view before and after. `uncovered` are compactions by a provider that the model cannot read, and
    `seqs` the entries that were written after that. `options` are for the next request. A preview
    has the `view` that it leaves.
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
    uncovered: list[int]
    hidden: int
    cleared: int
    seqs: list[int]
    compaction_ids: list[str]
    summary_model: Text | None
    cost: float | None
    calls: int
    options: dict[str, Any]
    dry_run: bool
    view: list[MessageRow] | None


class Forked(Document):
    """A session that begins as a copy of another up to entry `at`."""

    session_id: str
    forked_from: str
    at: int


class Pins(Document):
    """The messages that no plan may hide. `changed` is null if they were only listed."""

    session_id: str
    pins: list[int]
    changed: bool | None


class Titled(Document):
    """A session's title. `changed` is null if it was only shown."""

    session_id: str
    title: str | None
    changed: bool | None


class Upgraded(Document):
    """The version of the schema before and after an upgrade.

    `distributed` is null if the store was not to be distributed. `needed` is true or false if the
    upgrade was only checked, and otherwise null.
    """

    before: str | None
    after: str
    distributed: bool | None = None
    needed: bool | None = None


class Distributed(Document):
    """The steps that distribute a store over a cluster, none if it is distributed already.

    `rows` are those of each table that was distributed. A dry run counts and changes nothing.
    """

    steps: list[str]
    rows: dict[str, int]
    dry_run: bool


class Granted(Document):
    """The statements with which the owner of the tables gives a role its rights."""

    role: Text
    statements: list[Text]


class Secured(Document):
    """The statements that secure a database by row-level security. A dry run only prints them."""

    steps: list[Text]
    dry_run: bool


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
    """The database of the demo, and what happened to its session, in order.

    `context` includes the system prompt, which is not a message.
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
    """The outcome of a run of the manager."""
    view = None if outcome.view is None else list(message_rows(outcome.view))
    return OutcomeReport.of(outcome, session_id=session_id, view=view)


def forked_report(branch: "Session", parent: str) -> Forked:
    """A new session, and the entry up to which it is a copy."""
    (*_, origin) = branch.notes("origin")
    return Forked(session_id=branch.id, forked_from=parent, at=origin.content["seq"])


def migration_history(current: str | None) -> History:
    """The migrations of this release, and whether a database of this version has them."""
    from roocontext.store.engine import migrate  # noqa: PLC0415 - loads alembic

    revisions = [
        RevisionRow.of(row, applied=current is not None and row.revision <= current)
        for row in migrate.all_revisions()
    ]
    return History(current=current, revisions=revisions)


class Backup(Document):
    """A backup of a database in a new `file`, and its size in `bytes`.

    PostgreSQL is not copied: `bytes` is null, and `command` is the command that makes the backup.
    """

    database: Text
    file: Text
    bytes: int | None
    command: Text | None


def backed_up(url: str, database: str, file: Path, progress: "Progress") -> Backup:
    """Copy the database of a URL to a file, or name the command to run.

    `database` is the URL without a password.
    """
    from roocontext.store.proof.backup import back_up  # noqa: PLC0415 - heavy

    command = _pg_dump(url, file) if url.startswith("postgres") else None
    copied = None if command else back_up(url, file, progress)
    return Backup(database=database, file=str(file), bytes=copied, command=command)


def _pg_dump(url: str, file: Path) -> str:
    """The command, without a password: pg_dump asks for it, or reads it from PGPASSWORD."""
    from sqlalchemy import make_url  # noqa: PLC0415 - heavy

    parsed = make_url(url.replace("postgres://", "postgresql://", 1))
    secrets = [name for name in parsed.query if "password" in name]
    bare = parsed.difference_update_query(secrets)._replace(drivername="postgresql", password=None)
    return shlex.join(["pg_dump", "--format=custom", f"--file={file}", bare.render_as_string()])


class Checked(Document):
    """The verification of a session: the problem, and the first bad entry if it is known.

    `rebuilt` is the number of rows of the caches that were wrong and were written again.
    """

    session_id: str
    ok: bool
    entries: int
    head: Head
    seq: int | None
    problem: str | None
    rebuilt: int | None


class Verified(Document):
    """The verification of some sessions. It is `ok` if all of them are."""

    ok: bool
    sessions: list[Checked]


def verification_of(rows: list[Checked]) -> Verified:
    """The verification of some sessions."""
    return Verified(ok=all(row.ok for row in rows), sessions=rows)
