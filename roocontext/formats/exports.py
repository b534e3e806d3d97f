"""Exports of sessions: files of other programs, the request for a provider, text to read."""

import json
import os
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from roocontext.errors import InvalidOption
from roocontext.formats import jsonl
from roocontext.formats.exporter import Exporter, NewFile, family_of, one_by_one, write_new
from roocontext.formats.exporters import claude_code, markdown, roo
from roocontext.log.forms import forms
from roocontext.log.readings.converse import to_base64
from roocontext.store.proof.verify import Progress
from roocontext.store.session import Session
from roocontext.store.store import Store

_STEP: Final = 100


class LeftOut(NamedTuple):
    """A part of a message that the format cannot hold: the type of the block, item or part."""

    session_id: str
    seq: int
    type: str


class Export(NamedTuple):
    """The files that an export has written, their bytes, and the parts that were left out."""

    files: tuple[Path, ...]
    bytes: int
    left_out: tuple[LeftOut, ...]


def _request(form: str, session: Session) -> Iterator[bytes]:
    # As of an entry, because a request for now records the frame.
    last = session.head().seq
    request = session.request(form, as_of=last, unanswered=True, prefill=True)
    # boto3 takes images and documents as bytes; the wire, and files of requests, have base64.
    yield json.dumps(dict(request), indent=1, default=to_base64).encode() + b"\n"


EXPORTERS: Final = {
    exporter.name: exporter
    for exporter in (
        Exporter("jsonl", one_by_one(jsonl.export_session)),
        Exporter("markdown", one_by_one(markdown.export_session)),
        claude_code.EXPORTER,
        roo.EXPORTER,
        *(Exporter(form, one_by_one(partial(_request, form)), is_for_one=True) for form in forms),
    )
}
"""The formats by name. All functions here also take an `Exporter` in place of a name."""


def export(
    store: Store,
    session: Session,
    to: str | Exporter = "jsonl",
    *,
    output: str | Path,
    family: bool = False,
    progress: Progress | None = None,
) -> Export:
    """Write a session into new files, with `family` the sessions of its sub-agents too.

    `output` is the file, or the folder for a format of several files; for one that can be both, it
    is a folder unless it ends in `.jsonl`. Raises FileExistsError instead of overwriting anything,
    and after a failure nothing is left.
    """
    files = exported_files(store, session, to, family=family, output=output, progress=progress)
    written, size = write_new(files)
    return Export(tuple(written), size, tuple(left_out(store, session, to, family=family)))


def exported_files(
    store: Store,
    session: Session,
    to: str | Exporter = "jsonl",
    *,
    family: bool = False,
    output: str | Path | None = None,
    progress: Progress | None = None,
) -> Iterator[NewFile]:
    """The same files, not written yet. Without `output` it is a single one, for a stream."""
    exporter = exporter_named(to)
    if output is not None and "\0" in os.fspath(output):
        raise InvalidOption("The name of a file has no NUL.", name="output")
    if family and exporter.is_for_one:
        line = f"A request holds one session: export {exporter.name!r} without the family."
        raise InvalidOption(line, name="family")
    sessions = list(family_of(store, session)) if family else [session]
    is_folder = output is not None and _names_folder(output, exporter)
    if is_folder and exporter.folder is not None:
        files = exporter.folder(sessions, Path(output or ""))
    elif is_folder:
        line = f"An export to {exporter.name!r} is one file: name a file, not a folder."
        raise InvalidOption(line, name="output")
    elif exporter.file is not None and not (exporter.folder is not None and family):
        files = iter([NewFile(Path(output or ""), exporter.file(sessions))])
    else:
        line = f"An export to {exporter.name!r} is several files: it needs a folder."
        raise InvalidOption(line, name="output")
    return _reported(files, sessions, progress) if progress else files


def left_out(
    store: Store, session: Session, to: str | Exporter, *, family: bool = False
) -> Iterator[LeftOut]:
    """List the parts of the messages of an export that its format cannot hold."""
    types_left_out = exporter_named(to).left_out
    if types_left_out is None:
        return
    for member in family_of(store, session) if family else [session]:
        for row in member.internals.live():
            for kind in types_left_out(row.message):
                yield LeftOut(member.id, row.message.seq, kind)


def exporter_named(to: str | Exporter) -> Exporter:
    """The exporter with this name, or the one that is given."""
    if isinstance(to, Exporter):
        return to
    if to not in EXPORTERS:
        known = ", ".join(EXPORTERS)
        raise InvalidOption(f"There is no format {to!r}: {known}.", name="to")
    return EXPORTERS[to]


def _names_folder(output: str | Path, exporter: Exporter) -> bool:
    """True if the output is a folder: one that exists, or that its name says."""
    if Path(output).is_dir() or os.fspath(output).endswith(("/", os.sep)):
        return True
    is_file = exporter.file is not None and Path(output).suffix == ".jsonl"
    return exporter.folder is not None and not is_file


def _reported(
    files: Iterator[NewFile], sessions: list[Session], progress: Progress
) -> Iterator[NewFile]:
    """The same files, whose chunks report the progress: about one chunk for each entry."""
    total = sum(session.info().last_seq for session in sessions)
    done = count()

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            if (number := next(done)) % _STEP == 0:
                progress(min(number, total), total)

    for file in files:
        yield NewFile(file.path, counted(file.chunks))
