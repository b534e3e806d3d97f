"""Commands that erase content for good, after they have asked, or move sessions into files."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import VERIFY
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.options import (
    DryRunOption,
    EntryName,
    SessionName,
    Where,
    flag,
    option,
    session_argument,
)
from roocontext.cli.points import time_option
from roocontext.cli.screens import erasing
from roocontext.errors import SessionArchived, SessionPurged

if TYPE_CHECKING:
    from roocontext.reports.erasing import PurgedReport
    from roocontext.store.writing.erase import Purged

app = typer.Typer()
_erase = partial(command, app, panel=VERIFY)

_LISTED = 10
"""How many sessions are listed before a person is asked."""

Yes = Annotated[bool, flag("--yes", "Do not ask for confirmation.", "-y")]


@_erase(document="RedactedReport")
def redact(
    context: CommandContext,
    session: SessionName,
    seq: EntryName,
    *,
    yes: Yes = False,
    dry_run: DryRunOption = False,
) -> None:
    """Erase the content of one message for good, in this session and in its copies."""
    with context.session(session, write=not dry_run) as chat:
        number = seq.entry(chat)
        if not (yes or dry_run):
            planned = reports.erasing.redaction(chat, number, dry_run=True)
            if planned.changed:
                context.confirm(planned, erasing.draw_redacted, "Erase it for good?")
        done = reports.erasing.redaction(chat, number, dry_run=dry_run)
    context.show(done, erasing.draw_redacted)


@_erase(document="PurgedReport", narrowed=("--older-than", "PurgedSessions"))
def purge(
    context: CommandContext,
    session: Annotated[
        str | None,
        session_argument(
            "A session's id or the beginning of it, `last`, or `=` followed by the whole id."
        ),
    ] = None,
    *,
    older_than: Annotated[
        datetime | None,
        time_option(
            "Purge all sessions in which nothing has happened or was recorded since then:"
            " `30d` or `2026-01-31`."
        ),
    ] = None,
    happened: Annotated[
        bool,
        flag(
            "--happened",
            "With --older-than: use only the times when things happened. Old sessions that"
            " were imported since then are purged too.",
        ),
    ] = False,
    recorded: Annotated[
        bool,
        flag("--recorded", "With --older-than: use only the times when the store recorded things."),
    ] = False,
    where: Where = None,
    no_family: Annotated[
        bool,
        flag("--no-family", "With --older-than or --where: keep the sessions of their sub-agents."),
    ] = False,
    yes: Yes = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete all content of a session for good; a receipt is kept.

    With `--older-than`, `--where` or both, all matching sessions are deleted, together with their
    sub-agents' sessions. A session is kept as long as one of these is not that old.
    `sessions --purged` lists the receipts.
    """
    if (session is None) == (older_than is None and not where):
        raise Refusal("Name one session, or give --older-than or --where.")
    if (happened or recorded) and (older_than is None or (happened and recorded)):
        raise Refusal("--older-than takes either --happened or --recorded.")
    if session is not None:
        _purge_one(context, session, yes=yes, dry_run=dry_run)
        return
    rule: dict[str, Any] = {
        "older_than": older_than,
        "where": reports.naming.conditions(where),
        "family": not no_family,
        "clock": "happened" if happened else "recorded" if recorded else "later",
    }
    with context.store(write=not dry_run) as store:
        planned = [
            reports.erasing.planned_purge(store, meant.session_id, changed=True)
            for meant in store.purge(**rule, dry_run=True)
        ]
        answer = reports.erasing.purged_sessions(planned, dry_run=True)
        if planned and not dry_run:
            if not yes:
                draw = partial(erasing.draw_purged_sessions, now=context.now, most=_LISTED)
                context.confirm(answer, draw, "Delete them for good?")
                _refuse_growth(planned, store.purge(**rule, dry_run=True))
            done = [
                reports.erasing.PurgedReport.of(receipt, changed=True, dry_run=False)
                for receipt in store.purge(**rule)
            ]
            answer = reports.erasing.purged_sessions(done, dry_run=False)
    context.show(answer, partial(erasing.draw_purged_sessions, now=context.now))


def _refuse_growth(shown: "Sequence[PurgedReport]", now: "Sequence[Purged]") -> None:
    """Refuse to purge what a person has not been shown."""
    hashes = {purge.session_id: purge.last_hash for purge in shown}
    for purge in now:
        if hashes.get(purge.session_id) != purge.last_hash:
            line = f"Session {purge.session_id!r} was written to while you were asked."
            raise Refusal(f"{line} Nothing was changed.", Code.REFUSED)


def _purge_one(context: CommandContext, session: str, *, yes: bool, dry_run: bool) -> None:
    was_purged = False
    with context.store(write=not dry_run) as store:
        try:
            name = reports.naming.session_named(store, session)
        except SessionPurged as before:  # purging again erases the bytes that are left in the file
            name, was_purged = before.session_id, True
        except SessionArchived as archived:
            name = archived.session_id
        if dry_run or not (yes or was_purged):
            planned = reports.erasing.planned_purge(store, name, changed=not was_purged)
            if dry_run:
                context.show(planned, erasing.draw_purged)
                return
            context.confirm(planned, erasing.draw_purged, "Delete it for good?")
            _refuse_growth([planned], [store.purge(name, dry_run=True)])
        done = store.purge(name)
    answer = reports.erasing.PurgedReport.of(done, changed=not was_purged, dry_run=False)
    context.show(answer, erasing.draw_purged)


@_erase(document="ArchivingReport")
def archive(
    context: CommandContext,
    session: Annotated[
        str | None, session_argument("One session, instead of all old ones.")
    ] = None,
    *,
    to: Annotated[Path, option("FOLDER", "The folder, which is created if necessary.", "--to")],
    older_than: Annotated[
        datetime | None,
        time_option(
            "Archive all sessions in which nothing has happened and nothing was recorded since"
            " then: `90d` or `2026-01-31`."
        ),
    ] = None,
    dry_run: DryRunOption = False,
) -> bool:
    """Move old sessions into compressed files, which `import` brings back.

    A session is deleted from the database after its file was written to the disk and checked. Lists
    still show it. After a failure, repeat the command. If a session was not archived, the exit code
    is 1.
    """
    from roocontext import ArchiveFolder  # noqa: PLC0415 - heavy

    if (session is None) == (older_than is None):
        raise Refusal("Name one session, or give --older-than.")
    with context.store(write=not dry_run) as store, context.progress("Archiving") as progress:
        name = None if session is None else reports.naming.session_named(store, session)
        done = store.archive(
            put=ArchiveFolder(to),
            older_than=older_than,
            session=name,
            dry_run=dry_run,
            progress=progress,
        )
    for left in done.left:
        # It holds an older state of the session, which nothing names. That of a session which was
        # not changed may be the archive of another run by now.
        if left.file is not None and left.why == "changed":
            Path(left.file).unlink(missing_ok=True)
    answer = reports.erasing.archiving(done)
    context.show(answer, partial(erasing.draw_archiving, now=context.now))
    return not done.left
