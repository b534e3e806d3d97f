"""Commands that verify sessions, and look after the database."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import roocontext
from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import VERIFY
from roocontext.cli.exit_codes import Refusal
from roocontext.cli.find_database import looked_for, without_password
from roocontext.cli.options import DryRunOption, SessionName, SessionOrAll, argument, flag, option
from roocontext.cli.screens import results
from roocontext.cli.screens.safe_text import one_line
from roocontext.cli.terminal import read_input
from roocontext.errors import RooContextError, SessionArchived, SessionNotFound

if TYPE_CHECKING:
    from roocontext import Head, Session
    from roocontext.reports.results import Checked, Distributed
    from roocontext.store.engine.migrate import SchemaVersion

app = typer.Typer()

_LABEL = 40
_GONE: tuple[type[RooContextError], ...] = (SessionArchived, SessionNotFound)
"""What a session of a list may be by now: another process archived or purged it."""
_maintain = partial(command, app, panel=VERIFY)

_SCHEMA = "Create and upgrade the database, and show the version of its schema."
db = typer.Typer(help=_SCHEMA, short_help=_SCHEMA)
app.add_typer(db, name="db", rich_help_panel=VERIFY)
_db = partial(command, db, panel=VERIFY)


@_maintain(document="Backup")
def backup(
    context: CommandContext,
    file: Annotated[str, argument("FILE", "The new file. It must not exist.")],
) -> bool:
    """Copy the database to a new file, while others use it.

    PostgreSQL is not copied. The command that does it is printed instead, and the exit code is 1.
    """
    if file.endswith("/"):
        raise Refusal(f"{file!r} is a folder: name a new file in it.")
    url = context.whole
    with looked_for(url), context.progress("Copying") as progress:
        answer = reports.results.backed_up(url, without_password(url), Path(file), progress)
    context.obj.has_written = answer.command is None
    context.show(answer, results.draw_backup)
    return answer.command is None


@_maintain(document="Verified")
def verify(
    context: CommandContext,
    session: SessionOrAll = None,
    *,
    head: Annotated[
        Path | None,
        option(
            "FILE",
            "A file with the earlier output of `head`; `-` is standard input.",
            readable=False,
        ),
    ] = None,
    rebuild: Annotated[
        bool, flag("--rebuild", "Afterwards, recompute the caches from the log.")
    ] = False,
) -> bool:
    """Check that no entry was changed: every hash, position, total and cache.

    Archived sessions are left out. With a head that was saved elsewhere, it also detects that the
    end of the log was cut off: `roocontext head last > head.json`, and later
    `roocontext verify last --head head.json`.
    """
    if head is not None and session is None:
        raise Refusal("--head belongs to one session: name the session.")
    saved = None
    if head is not None:
        file = None if str(head) == "-" else head
        saved = roocontext.Head.from_json(read_input(f"The head {str(head)!r}", file))
    with context.store(write=rebuild) as store:
        ids, left_out = [info.session_id for info in reports.naming.list_all(store)], _GONE
        if session is not None:
            ids, left_out = [reports.naming.session_named(store, session)], ()
        rows = []
        for name in ids:
            with suppress(*left_out):
                rows.append(_checked(context, store.session(name), saved, rebuild=rebuild))
    answer = reports.results.verification_of(rows)
    context.show(answer, results.draw_verified)
    return answer.ok


@_maintain(document="Head")
def head(context: CommandContext, session: SessionName) -> None:
    """Print the last entry's hash. Keep it where no writer of the database can change it."""
    with context.session(session) as chat:
        answer = chat.head()
    context.show(answer, results.draw_head)


@_maintain(document="Diagnosis")
def doctor(context: CommandContext) -> bool:
    """Check the database for risks: versions, settings, permissions, damage."""
    url = context.whole
    with looked_for(url):
        findings = reports.health.examined(url)
    answer = reports.health.diagnosis(without_password(url), findings)
    context.show(answer, results.draw_diagnosis)
    return answer.ok


@_db(document="SchemaVersion")
def current(context: CommandContext) -> None:
    """Show the version of the schema."""
    context.show(_schema(context), results.draw_schema)


@_db(document="Upgraded")
def upgrade(
    context: CommandContext,
    *,
    distribute: Annotated[
        bool,
        flag("--distribute", "Then distribute it over its Citus cluster, unless it is already."),
    ] = False,
    check: Annotated[
        bool, flag("--check", "Change nothing. If an upgrade is needed, the exit code is 1.")
    ] = False,
) -> bool:
    """Create the database, or upgrade its schema to the version of this release.

    If this release works with the schema of a newer release, the schema is left as it is.
    """
    if check and distribute:
        raise Refusal("--check changes nothing: leave out --distribute.")
    from roocontext.store.engine import health  # noqa: PLC0415 - heavy

    schema, is_needed = health.upgrade_of(context.whole)
    if not check:
        with context.store(write=True, create=True):
            if distribute:
                _distributed(context)
    answer = reports.results.Upgraded(
        before=schema.current,
        after=schema.wanted if is_needed else str(schema.current),
        distributed=distribute or None,
        needed=is_needed if check else None,
    )
    context.show(answer, results.draw_upgraded)
    return not (check and is_needed)


@_db(document="Distributed")
def distribute(
    context: CommandContext,
    *,
    shards: Annotated[
        int | None,
        option("N", "How many parts each table is split into. Default: the setting of the server."),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Distribute the sessions over the nodes of a Citus cluster.

    Everything happens in one transaction, and no one can write meanwhile. With `--dry-run` the
    steps are printed. They can also be run by hand, in this order and in one transaction.
    """
    with context.store(write=not dry_run):
        answer = _distributed(context, shards=shards, dry_run=dry_run)
    context.show(answer, results.draw_distributed)


@_db(document="Granted")
def grants(
    context: CommandContext,
    *,
    role: Annotated[str, option("NAME", "The role that uses the store and owns nothing.")],
    no_erase: Annotated[
        bool, flag("--no-erase", "Leave out what `redact` and `purge` need.")
    ] = False,
) -> None:
    """Print the GRANTs for a role on PostgreSQL that may not change the schema.

    The database is not opened: the owner of the tables runs the statements, for example in `psql`.
    """
    from roocontext.store.engine import roles  # noqa: PLC0415 - heavy

    statements = roles.grants(role, erase=not no_erase)
    answer = reports.results.Granted(role=role, statements=statements)
    context.show(answer, results.draw_grants)


@_db(document="Secured")
def secure(
    context: CommandContext,
    *,
    administrator: Annotated[
        str | None, option("ROLE", "A role that sees all sessions, as superusers do anyway.")
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Let PostgreSQL itself restrict each store to the sessions of the owner it was opened with.

    Row-level security is enabled and forced on all tables with content, in one transaction. With
    `--dry-run` the statements are printed.
    """
    from roocontext.store.engine import roles  # noqa: PLC0415 - heavy

    done = roles.secure(context.whole, administrator=administrator, dry_run=dry_run)
    context.show(reports.results.Secured.of(done), results.draw_secured)


@_db(document="History")
def history(context: CommandContext) -> None:
    """Show the migrations of this release, and which of them the database has."""
    answer = reports.results.migration_history(_schema(context).current)
    context.show(answer, results.draw_history)


def _distributed(
    context: CommandContext, *, shards: int | None = None, dry_run: bool = False
) -> "Distributed":
    from roocontext.store.engine import citus  # noqa: PLC0415 - heavy

    done = citus.distribute(context.whole, shards=shards, dry_run=dry_run)
    return reports.results.Distributed.of(done, dry_run=dry_run)


def _schema(context: CommandContext) -> "SchemaVersion":
    from roocontext.store.engine import health  # noqa: PLC0415 - heavy

    with looked_for(context.whole):
        return health.schema_version_of(context.whole)


def _checked(
    context: CommandContext, chat: "Session", saved: "Head | None", *, rebuild: bool
) -> "Checked":
    with context.progress(f"Verifying {one_line(chat.id, longest=_LABEL)}") as progress:
        verification = chat.verify(saved, progress=progress)
    corrected = None
    if rebuild:
        with context.progress("Recomputing the caches"):
            corrected = chat.rebuild()
    return reports.results.Checked.of(verification, rebuilt=corrected)
