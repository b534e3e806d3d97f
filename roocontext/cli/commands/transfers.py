"""Commands that import and export sessions."""

import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import roocontext
from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import CHANGE
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.options import PAUSE, DryRunOption, SessionName, argument, flag, option
from roocontext.cli.screens import results
from roocontext.cli.terminal import write_bytes
from roocontext.errors import StoreNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roocontext import Store
    from roocontext.formats.events import Place
    from roocontext.reports.transfers import Import

app = typer.Typer()
_transfer = partial(command, app, panel=CHANGE)


@_transfer(document="Import")
def import_(
    context: CommandContext,
    paths: Annotated[
        list[str] | None,
        argument(
            "[PATH]...",
            "Files, folders, and URLs of PostgreSQL databases; the format is recognised.",
        ),
    ] = None,
    *,
    tool: Annotated[
        str | None,
        option(
            "TOOL",
            "Only this tool's sessions: claude-code, codex, gemini-cli, opencode, roo-code,"
            " cline, langgraph-saver, openai-agents or adk-sessions. Without a path, those in its"
            " default locations.",
            "--from",
        ),
    ] = None,
    everything: Annotated[
        bool, flag("--all", "Import from the default locations of all tools.")
    ] = False,
    on_conflict: Annotated[
        Literal["refuse", "fork"],
        option(
            "refuse|fork",
            "What to do if a session was changed here since its last import.",
            "--on-conflict",
        ),
    ] = "refuse",
    watch: Annotated[
        bool, flag("--watch", "Import again when something changes, until Ctrl-C.")
    ] = False,
    dry_run: DryRunOption = False,
) -> bool:
    """Import sessions of other agents and frameworks, or files that `export` has written.

    Importing again stores nothing twice, and continues a session that has grown. If a file or a
    line cannot be read, everything else is imported, and the exit code is 1.

    With `--watch`, `--json` prints a document on one line: for the first import, and for each later
    import that changed something.
    """
    from roocontext.formats import find  # noqa: PLC0415 - heavy
    from roocontext.formats.databases import place_of  # noqa: PLC0415

    if everything and (tool or paths):
        raise Refusal("--all imports from all tools: use it without --from and paths.")
    named = [place_of(path) for path in paths or ()]
    tools = [tool] if tool else find.tools() if everything else []
    if not (named or tools):
        raise Refusal("Name files or folders, or use --from TOOL or --all.")
    default: list[Place] = [
        place for name in tools for place in find.places(name)
    ]  # checks the name too
    chosen = named or default
    if not chosen:
        who = f"{tool} has no" if tool else "No tool has"
        line = f"{who} sessions in its default locations: name a file, a folder or a URL."
        raise Refusal(line, Code.NOT_FOUND)
    files = [place for place in chosen if isinstance(place, Path)]
    if watch and files != chosen:
        raise Refusal("--watch notices only changes of files: leave out the URL.")
    seen: dict[Path, int] = {}
    # Before the import: a file that changes during it is imported again.
    find.changed_paths(files if watch else (), seen)
    answer = _imported(context, chosen, tool, on_conflict, dry_run=dry_run)
    context.show(answer, results.draw_import, has_followers=watch)
    while watch:
        time.sleep(PAUSE)
        if news := find.changed_paths(files, seen):
            answer = _imported(context, news, tool, on_conflict, dry_run=dry_run)
            if any(session.status not in ("unchanged", "failed") for session in answer.sessions):
                context.show(answer, results.draw_import, has_followers=True)
    return answer.ok


@_transfer(document="Exported")
def export(
    context: CommandContext,
    session: SessionName,
    *,
    to: Annotated[
        str,
        option(
            "FORMAT",
            "jsonl, which loses nothing; html or markdown, to read; claude-code or roo, to"
            " resume there; or the request for a provider: anthropic, openai, openai-responses,"
            " gemini or bedrock-converse.",
            "--to",
        ),
    ] = "jsonl",
    output: Annotated[
        str | None,
        option(
            "PATH",
            "A new file; or a folder for roo, and for claude-code unless PATH ends in .jsonl."
            " Without it, standard output.",
            "-o",
            "--output",
        ),
    ] = None,
    family: Annotated[bool, flag("--family", "Export the sessions of its sub-agents too.")] = False,
    redact: Annotated[bool, flag("--redact", "Mask secrets and local paths in html.")] = False,
) -> None:
    """Write a session in another format.

    Nothing is overwritten. With --output, `--json` prints a report. Without it, only the session
    itself is printed, and content that the format cannot hold is named on stderr.
    """
    from roocontext.formats import exports  # noqa: PLC0415 - heavy

    exporter = reports.transfers.exporter_for(to, is_masked=redact)
    with context.store() as store, context.progress("Exporting") as progress:
        chat = store.session(reports.naming.session_named(store, session))
        if output is None:
            files = exports.exported_files(store, chat, exporter, family=family, progress=progress)
            for file in files:
                write_bytes(file.chunks)
            missing = exports.left_out(store, chat, exporter, family=family)
            if line := results.left_out_line(reports.transfers.in_words(missing)):
                sys.stderr.write(f"{line}\n")
            return
        try:
            written = exports.export(
                store, chat, exporter, output=output, family=family, progress=progress
            )
        except FileExistsError as error:
            raise Refusal(f"{error.filename!r} exists already.", Code.NOT_FOUND) from None
        except OSError as error:
            line = f"{output!r} cannot be written: {error.strerror}."
            raise Refusal(line, Code.NOT_FOUND) from None
    context.obj.has_written = True  # new files
    context.show(reports.transfers.exported(chat.id, to, written), results.draw_export)


def _imported(
    context: CommandContext,
    paths: "Sequence[Place]",
    tool: str | None,
    on_conflict: Literal["refuse", "fork"],
    *,
    dry_run: bool,
) -> "Import":
    from roocontext.formats import import_paths  # noqa: PLC0415 - heavy

    with _store(context, dry_run=dry_run) as store, context.progress("Importing") as progress:
        imports = import_paths(
            store, paths, tool=tool, on_conflict=on_conflict, dry_run=dry_run, progress=progress
        )
        return reports.transfers.imported(imports, dry_run=dry_run)


@contextmanager
def _store(context: CommandContext, *, dry_run: bool) -> "Iterator[Store]":
    """The store. A dry run without a database gets an empty store."""
    try:
        # A dry run writes too: a restore is checked by restoring, and rolled back.
        with context.store(write=True, create=not dry_run, dry_run=dry_run) as store:
            yield store
    except StoreNotFound:
        if not dry_run:
            raise
        with roocontext.Store.open(":memory:") as store:
            yield store
