"""Imports and exports: what was found, what was taken and skipped, and why."""

from collections.abc import Iterable

from roocontext.errors import InvalidOption
from roocontext.formats import SessionImport, SkippedSource
from roocontext.formats.exporter import Exporter
from roocontext.formats.exports import EXPORTERS, Export, LeftOut
from roocontext.reports.document import Document, Text
from roocontext.reports.html_export import HTML


class ImportedSession(Document):
    """A session that was imported, or would be.

    `status` is created, continued, rewound, forked, unchanged or failed. The numbers count new
    entries: messages, notes, and summaries, markers, clearings and rewinds. `again` of the messages
    were hidden and written again, because only this gives the order in which the tool sends what a
    compaction kept. `redacted` messages, in this session and in its forks, were erased because
    another copy of them is redacted. Each of the `problems` names the file and the line.
    """

    session_id: Text
    tool: str
    path: Text
    status: str
    messages: int
    notes: int
    controls: int
    again: int
    redacted: int
    forked_from: Text | None
    problems: list[Text]


class SkippedFile(Document):
    """A file that holds nothing to import, or cannot be read."""

    path: Text
    why: Text
    is_problem: bool


class Import(Document):
    """What was imported from which files. It is `ok` if nothing was wrong with any of them."""

    ok: bool
    dry_run: bool
    sessions: list[ImportedSession]
    skipped: list[SkippedFile]


class Exported(Document):
    """A session that was written to a file, or to several files in a folder.

    `left_out` names what only the provider of a message knows, and the format cannot hold: the
    session, the entry, and the type of the block, item or part; and whether its text was written.
    """

    session_id: Text
    format: str
    files: list[Text]
    bytes: int
    left_out: list[Text]


def imported(found: Iterable[SessionImport | SkippedSource], *, dry_run: bool) -> Import:
    """Sum up an import."""
    sessions: list[ImportedSession] = []
    skipped: list[SkippedFile] = []
    for one in found:
        if isinstance(one, SessionImport):
            sessions.append(_session(one))
        else:
            skipped.append(SkippedFile.of(one, path=str(one.path)))
    is_bad = any(one.problems for one in sessions) or any(one.is_problem for one in skipped)
    return Import(ok=not is_bad, dry_run=dry_run, sessions=sessions, skipped=skipped)


def exporter_for(format_: str) -> Exporter:
    """The exporter of a format: one of those to other programs, or the page to read."""
    exporters = {**EXPORTERS, HTML.name: HTML}
    if format_ not in exporters:
        known = ", ".join(exporters)
        raise InvalidOption(f"There is no format {format_!r}: {known}.", name="to")
    return exporters[format_]


def exported(session_id: str, format_: str, export: Export) -> Exported:
    """What an export has written, and what it could not write."""
    return Exported(
        session_id=session_id,
        format=format_,
        files=[str(file) for file in export.files],
        bytes=export.bytes,
        left_out=in_words(export.left_out),
    )


def in_words(left_out: Iterable[LeftOut]) -> list[str]:
    """What an export could not write: the session, the entry, and the type."""
    return [f"{one.session_id} {one.seq}: {one.type}" for one in left_out]


def _session(taken: SessionImport) -> ImportedSession:
    return ImportedSession.of(
        taken,
        path=str(taken.path),
        problems=[str(problem) for problem in taken.problems],
    )
