"""Commands that keep the log honest: proofs, the two ways that content goes, and the database."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import roocontext
from roocontext.cli import completing, times
from roocontext.cli.answers import documents, reports
from roocontext.cli.commands import Desk, SessionName, command
from roocontext.cli.doctor import hindered, judged
from roocontext.cli.failing import Code, Refusal
from roocontext.cli.opening import every_session, find, looked_for
from roocontext.cli.screens import receipts
from roocontext.cli.screens.wording import ASCII, one_line
from roocontext.cli.waiting import progress
from roocontext.errors import (
    ForeignDatabase,
    HistoryCorrupt,
    SessionPurged,
    StoreNotFound,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from roocontext import Head, Session
    from roocontext.store.migrate import Standing

app = typer.Typer()

_LABEL = 40
_keep = partial(command, app, panel="Keep honest")

db = typer.Typer(help="Make, upgrade and look at the schema.")
app.add_typer(db, name="db", rich_help_panel="Keep honest")
_db = partial(command, db, panel="Database")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


@_keep(shape=reports.Verified)
def verify(
    desk: Desk,
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION", help="Default: all of them.", autocompletion=completing.sessions
        ),
    ] = None,
    *,
    head: Annotated[
        Path | None,
        typer.Option(
            "--head",
            metavar="FILE",
            readable=False,
            help="A head that `head` printed before; `-` is standard input.",
        ),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Afterwards compute the caches anew from the log.")
    ] = False,
) -> bool:
    """Check every hash, place, total and cache.

    With a head that was kept elsewhere it also shows a tail that was cut off:
    `roocontext head last > head.json`, and later `roocontext verify last --head head.json`.
    """
    if head is not None and session is None:
        raise Refusal("--head is the head of one session: name it.", Code.USAGE)
    with desk.store(write=rebuild) as store:
        ids = (
            [info.session_id for info in every_session(store)]
            if session is None
            else [find(store, session)]
        )
        saved = None if head is None else _saved(head)
        rows = [_checked(store.session(one), saved, rebuild=rebuild) for one in ids]
    ok = all(row["ok"] for row in rows)
    answer: reports.Verified = {"ok": ok, "sessions": rows}
    desk.tell(answer, receipts.verified)
    return ok


@_keep(shape=reports.HeadRow)
def head(desk: Desk, session: SessionName) -> None:
    """Print the last entry's hash, to be kept where those who write the database cannot."""
    with desk.session(session) as chat:
        found = chat.head()
    desk.tell(documents.document(found), lambda screen, _: screen.raw(found.to_json()))


@_keep(shape=reports.RedactedReport)
def redact(
    desk: Desk,
    session: SessionName,
    seq: Annotated[
        str, typer.Argument(metavar="SEQ", help="The message's entry number, as in the audit.")
    ],
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Erase the content of one message for good, in this session and in its copies."""
    number = times.whole("SEQ", seq)
    with desk.session(session, write=not dry_run) as chat:
        if not (yes or dry_run):
            planned = documents.document(chat.redact(number, dry_run=True))
            if planned["changed"]:
                desk.confirm(receipts.redaction(planned, ASCII.more))
        done = chat.redact(number, dry_run=dry_run)
    desk.tell(documents.document(done), receipts.redacted)


@_keep(shape=reports.PurgedReport)
def purge(desk: Desk, session: SessionName, *, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete all that was said in a session for good; a receipt stays."""
    again = False
    with desk.store(write=not dry_run) as store:
        try:
            name = find(store, session)
        except SessionPurged as before:  # again, to take what is left of it out of the file
            name, again = before.session_id, True
        if not (yes or dry_run or again):
            desk.confirm(receipts.purging(store.purge(name, dry_run=True)))
        done = store.purge(name, dry_run=dry_run)
    desk.tell(documents.purged_report(done, changed=not again, dry_run=dry_run), receipts.purged)


@_keep(shape=reports.Diagnosis)
def doctor(desk: Desk) -> bool:
    """Look for what endangers a database: versions, settings, rights, damage."""
    from roocontext.store import health  # noqa: PLC0415 - loaded by what looks at a database

    try:
        with looked_for(desk.url):
            findings = judged(health.examine(desk.url))
    except StoreNotFound:
        raise
    except (ForeignDatabase, HistoryCorrupt, StoreUnavailable) as error:
        findings = hindered(error, health.hindrances(desk.url))
    ok = all(finding["status"] != "bad" for finding in findings)
    answer: reports.Diagnosis = {"database": desk.place, "ok": ok, "findings": findings}
    desk.tell(answer, receipts.diagnosis)
    return ok


@_db(shape=reports.SchemaRow)
def current(desk: Desk) -> None:
    """Show the version of the schema."""
    desk.tell(documents.document(_schema(desk)), receipts.schema)


@_db(shape=reports.Upgraded)
def upgrade(desk: Desk) -> None:
    """Make the database, or bring its schema to the version of this release."""
    try:
        before = _schema(desk).current
    except StoreNotFound:
        before = None
    with desk.store(write=True, create=True):
        after = _schema(desk)
    answer: reports.Upgraded = {"before": before, "after": after.wanted}
    desk.tell(answer, receipts.upgraded)


@_db(shape=reports.History)
def history(desk: Desk) -> None:
    """Show the migrations of this release, and which of them the database has."""
    from roocontext.store import migrate  # noqa: PLC0415 - loaded by this command alone

    now = _schema(desk).current
    revisions: list[reports.RevisionRow] = [
        {
            "revision": one.revision,
            "brought": one.brought,
            "applied": now is not None and one.revision <= now,
        }
        for one in migrate.history()
    ]
    answer: reports.History = {"current": now, "revisions": revisions}
    desk.tell(answer, receipts.history)


def _schema(desk: Desk) -> "Standing":
    from roocontext.store import health  # noqa: PLC0415 - likewise

    with looked_for(desk.url):
        return health.standing(desk.url)


def _saved(path: Path) -> "Head":
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except UnicodeDecodeError:
        raise Refusal(f"The head {str(path)!r} is not UTF-8.", Code.USAGE) from None
    except OSError as error:
        line = f"The head {str(path)!r} cannot be read: {error.strerror}."
        raise Refusal(line, Code.NOT_FOUND) from None
    return roocontext.Head.from_json(text)


def _checked(chat: "Session", saved: "Head | None", *, rebuild: bool) -> reports.Checked:
    with progress(f"Verifying {one_line(chat.id, longest=_LABEL)}", chat.info().last_seq) as told:
        found = chat.verify(saved, progress=told)
    if not rebuild:
        return documents.checked(found)
    with progress("Computing the caches anew", None):
        rebuilt = chat.rebuild()
    return documents.checked(found, rebuilt)
