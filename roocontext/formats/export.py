"""Sessions as other programs take them: their own files, a provider's request, a page to read."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from roocontext.errors import InvalidOption
from roocontext.formats import anthropic_rows, html, jsonl, markdown, to_claude_code, to_roo
from roocontext.formats.family import family_of
from roocontext.formats.new_files import NewFile
from roocontext.store.proof.verify import Progress
from roocontext.store.session import Session
from roocontext.store.store import Store

Exporter = Callable[[Sequence[Session]], Iterator[bytes]]
FolderExporter = Callable[[Sequence[Session], Path], Iterator[NewFile]]
JSONL = "jsonl"
CLAUDE_CODE = "claude-code"
_STEP = 100
FORMS = ("anthropic", "openai", "openai-responses", "gemini")


def _each(export: Callable[[Session], Iterator[bytes]]) -> Exporter:
    """One session behind the other."""
    return lambda sessions: chain.from_iterable(map(export, sessions))


def _request(form: str) -> Exporter:
    def export(session: Session) -> Iterator[bytes]:
        # As of an entry, because a request for now records the frame.
        last = session.head().seq
        request = session.request(form, as_of=last, unanswered=True, prefill=True)
        yield json.dumps(dict(request), indent=1).encode() + b"\n"

    return _each(export)


EXPORTERS: dict[str, Exporter] = {
    JSONL: _each(jsonl.export_session),
    "html": html.export_page,
    "markdown": _each(markdown.export_session),
    CLAUDE_CODE: _each(to_claude_code.export_session),
    **{form: _request(form) for form in FORMS},
}
"""The formats of one file by name. The sessions are one, or a family with the parent first."""

FOLDERS: dict[str, FolderExporter] = {
    CLAUDE_CODE: to_claude_code.export_folder,
    "roo": to_roo.export_folder,
}
"""The formats of several files by name; one that can be a single file too is in both."""


def exported_files(
    store: Store,
    session: Session,
    to: str,
    *,
    family: bool = False,
    output: str | Path | None = None,
    progress: Progress | None = None,
) -> Iterator[NewFile]:
    """The session in this format, and with `family` the sessions of its sub-agents too.

    It is a single file at `output`, or without one for the standard output. A format of several
    files needs a folder. For one that can be both, `output` is a folder unless it ends in `.jsonl`.
    """
    if to not in (*EXPORTERS, *FOLDERS):
        known = ", ".join(dict.fromkeys([*EXPORTERS, *FOLDERS]))
        raise InvalidOption(f"There is no format {to!r}: {known}.", name="to")
    if family and to in FORMS:
        raise InvalidOption(
            f"A request holds one session: export {to!r} without the family.", name="family"
        )
    sessions = list(family_of(store, session)) if family else [session]
    is_alone = to in EXPORTERS and not (to in FOLDERS and family)
    is_folder = output is not None and _names_folder(output, to)
    if is_folder and to not in FOLDERS:
        line = f"An export to {to!r} is one file: name a file, not a folder."
        raise InvalidOption(line, name="output")
    if not (is_alone or is_folder):
        line = f"An export to {to!r} is several files: it needs a folder."
        raise InvalidOption(line, name="output")
    if is_folder:
        found = FOLDERS[to](sessions, Path(output or ""))
    else:
        found = iter([NewFile(Path(output or ""), EXPORTERS[to](sessions))])
    return _reported(found, sessions, progress) if progress else found


def left_out(
    store: Store, session: Session, to: str, *, family: bool = False
) -> Iterator[tuple[str, int, str]]:
    """What this format cannot hold: the session, the entry, and the type of the block or item."""
    if to not in FOLDERS:
        return
    for one in family_of(store, session) if family else [session]:
        for row in one.internals.live():
            for kind in anthropic_rows.types_left_out(row.message):
                yield one.id, row.message.seq, kind


def _names_folder(output: str | Path, to: str) -> bool:
    """Whether the export is written into a folder: one that exists, or that is named as one."""
    if Path(output).is_dir() or os.fspath(output).endswith(("/", os.sep)):
        return True
    return to in FOLDERS and not (to in EXPORTERS and Path(output).suffix == ".jsonl")


def _reported(
    found: Iterator[NewFile], sessions: list[Session], progress: Progress
) -> Iterator[NewFile]:
    """The same files, whose chunks report the progress: about one chunk for each entry."""
    total = sum(one.info().last_seq for one in sessions)
    done = count()

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            if (number := next(done)) % _STEP == 0:
                progress(min(number, total), total)

    for file in found:
        yield NewFile(file.path, counted(file.chunks))
