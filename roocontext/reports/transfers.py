"""Imports and exports: the sessions and files, and the reasons why some were skipped."""

from collections.abc import Iterable

from roocontext.errors import InvalidOption
from roocontext.formats import SessionImport, SkippedSource
from roocontext.formats.exporter import Exporter
from roocontext.formats.exports import EXPORTERS, Export, LeftOut
from roocontext.reports.document import Document, Text
from roocontext.reports.html_export import HTML, MASKED_HTML


class ImportedSession(Document):
    """A session that was imported, or would be.

    `status` is created, continued, rewound, forked, unchanged or failed. The numbers count new
    entries: messages, notes, and `controls`: summaries, markers, clearings and rewinds. `again` of
    the messages were hidden and written again, because the tool sends the messages that a
    compaction kept in another order. `redacted` messages, in this session and in its forks, were
    erased because another copy of them is redacted. Each of the `problems` names the file and the
    line.
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
    """A file without a session, or one that cannot be read."""

    path: Text
    why: Text
    is_problem: bool


class Import(Document):
    """The imported sessions, and the skipped files. It is `ok` if there was no problem."""

    ok: bool
    dry_run: bool
    sessions: list[ImportedSession]
    skipped: list[SkippedFile]


class Exported(Document):
    """A session that was written to a file, or to several files in a folder.

    `left_out` names content that only its provider knows, and that the format cannot hold: the
    session, the entry, and the type of the block, item or part; and whether its text was written.
    """

    session_id: Text
    format: str
    files: list[Text]
    bytes: int
    left_out: list[Text]


def imported(results: Iterable[SessionImport | SkippedSource], *, dry_run: bool) -> Import:
    """The report of an import."""
    sessions: list[ImportedSession] = []
    skipped: list[SkippedFile] = []
    for result in results:
        path = str(result.path)
        if isinstance(result, SessionImport):
            problems = list(map(str, result.problems))
            sessions.append(ImportedSession.of(result, path=path, problems=problems))
        else:
            skipped.append(SkippedFile.of(result, path=path))
    is_bad = any(row.problems for row in sessions) or any(row.is_problem for row in skipped)
    return Import(ok=not is_bad, dry_run=dry_run, sessions=sessions, skipped=skipped)


def exporter_for(format_: str, *, is_masked: bool = False) -> Exporter:
    """The exporter of a format: for another program, or the page to read, whose secrets it masks.

    No other format can be masked: what another program resumes must be what was said.
    """
    exporters = {**EXPORTERS, HTML.name: MASKED_HTML if is_masked else HTML}
    if is_masked and format_ in EXPORTERS:
        line = f"Only a page can be masked: {format_!r} is for programs. Use --to html."
        raise InvalidOption(line, name="redact")
    if format_ not in exporters:
        known = ", ".join(exporters)
        raise InvalidOption(f"There is no format {format_!r}. The formats are {known}.", name="to")
    return exporters[format_]


def exported(session_id: str, format_: str, export: Export) -> Exported:
    """The report of an export."""
    files, left_out = list(map(str, export.files)), in_words(export.left_out)
    return Exported.of(
        export, session_id=session_id, format=format_, files=files, left_out=left_out
    )


def in_words(left_out: Iterable[LeftOut]) -> list[str]:
    """The content that an export could not write: the session, the entry, and the type."""
    return [f"{part.session_id} {part.seq}: {part.type}" for part in left_out]
