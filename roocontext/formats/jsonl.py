"""roocontext JSONL files: sessions with every hash, in plain text or compressed by gzip.

`store/proof/log_lines.py` writes and reads the lines. docs/formats/roocontext-jsonl.md.
"""

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from gzip import BadGzipFile, GzipFile
from io import FileIO
from itertools import takewhile
from pathlib import Path
from sys import intern
from typing import BinaryIO, NamedTuple, cast

from roocontext.errors import HistoryCorrupt, RooContextError, StoreUnavailable, UnreadableSource
from roocontext.formats.exporter import family_of
from roocontext.formats.files import opened
from roocontext.log.entries import Kind
from roocontext.store.proof.log_lines import (
    BEGINS,
    VERSION,
    Header,
    entry_line,
    header_line,
    is_known,
    read_entry,
    read_header,
)
from roocontext.store.proof.restore import StoredEntry
from roocontext.store.session import Session
from roocontext.store.store import Store

_GZIP = b"\x1f\x8b"
_NOTHING = "Nothing of this session was restored."


@dataclass(frozen=True, slots=True)
class SessionRestored:
    """The outcome for one session of a file. Without a problem, all of it was restored.

    `redacted` are the messages whose content was erased, here and in other sessions, because
    another copy of them is redacted: pairs of session id and seq. `messages` and `notes` are those
    of the new entries.
    """

    session_id: str
    entries: int
    new: int
    problem: UnreadableSource | None = None
    redacted: tuple[tuple[str, int], ...] = ()
    messages: int = 0
    notes: int = 0


def export_session(session: Session) -> Iterator[bytes]:
    """The lines of a session, as it is when the first one is asked for."""
    info, head = session.info(), session.head()
    yield header_line(session.id, info.created_at, info.parent, head.seq, head.hash)
    yield from map(entry_line, session.internals.stored(last=head.seq))


def export_family(store: Store, session: Session) -> Iterator[bytes]:
    """The lines of a session and of its descendants, parents first."""
    for member in family_of(store, session):
        yield from export_session(member)


def restore_file(store: Store, path: Path, *, dry_run: bool = False) -> Iterator[SessionRestored]:
    """Restore every session of a file.

    If a line is damaged, the entries before it are restored, and the problem is in the result. A
    dry run gives the same results and writes nothing.
    """
    for section in _sections(path):
        if isinstance(section, SessionRestored):
            yield section
        else:
            yield _restored(store, section, dry_run=dry_run)


class _Unpacked(GzipFile):
    """A compressed file that ends where it is damaged: its header says how much is missing."""

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line; nothing at the end, and where the rest cannot be unpacked."""
        try:
            return super().readline(size)
        except (EOFError, zlib.error, BadGzipFile):
            return b""


def open_unpacked(path: Path) -> BinaryIO:
    """A file as UTF-8, without its compression."""
    file = opened(path)
    is_packed = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    if not is_packed:
        return file
    packed = _Unpacked(fileobj=file)
    packed.myfileobj = cast("FileIO", file)  # closed with it
    return cast("BinaryIO", packed)


def is_ours(first: bytes) -> bool:
    """True if a file with this first line is in this format."""
    return first.startswith(BEGINS)


class _NoEntryError(RooContextError):
    """Not even the first entry of a section can be read."""


class _Damage(NamedTuple):
    line: int
    why: str


@dataclass(slots=True)
class _Section:
    """The entries of one session, after its header on a line of a file. They can be read again.

    The sections of a file share the `file` that they are read from: a compressed one would be
    unpacked from its beginning for each.
    """

    path: Path
    file: BinaryIO
    line: int
    offset: int
    header: Header
    damage: _Damage | None = None
    kinds: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[StoredEntry]:
        self.damage, self.kinds, seq, number = None, [], 0, self.line
        self.file.seek(self.offset)
        lines = takewhile(lambda text: not is_ours(text), self.file)
        for number, text in enumerate(lines, self.line + 1):
            try:
                entry = read_entry(text)
            except (ValueError, RecursionError) as error:
                why = str(error) if text.endswith(b"\n") else "the line is cut off"
                self.damage = _Damage(number, why)
                break
            seq = entry.seq
            self.kinds.append(intern(entry.sealed.kind))
            yield entry
        if self.damage is None and seq < self.header.last_seq:
            why = f"it ends after entry {seq} of {self.header.last_seq}"
            self.damage = _Damage(number, why)
        if self.damage is not None and not seq:
            raise _NoEntryError  # a session of nothing would be left


def _sections(path: Path) -> Iterator[_Section | SessionRestored]:
    """The sections of a file, of which each but the first begins with a line that is a header."""
    offset = 0
    with open_unpacked(path) as file, open_unpacked(path) as entries:
        for line, text in enumerate(file, 1):
            offset += len(text)
            if line > 1 and not is_ours(text):
                continue
            try:
                header = read_header(text)
            except (ValueError, RecursionError) as error:
                problem = _bad_line(str(error), path, line, advice=_NOTHING)
                yield SessionRestored("", 0, 0, problem)
                continue
            if is_known(header):
                yield _Section(path, entries, line, offset, header)
            else:
                why = f"it is version {header.version}, and this release reads version {VERSION}"
                problem = _bad_line(why, path, line, advice=_NOTHING)
                yield SessionRestored(header.session_id, 0, 0, problem)


def _restored(store: Store, section: _Section, *, dry_run: bool) -> SessionRestored:
    header = section.header
    try:
        done = store.restore(
            header.session_id,
            section,
            parent=header.parent,
            created_at=header.created_at,
            dry_run=dry_run,
        )
    except StoreUnavailable:
        raise  # the fault is not in the file
    except _NoEntryError:
        return SessionRestored(header.session_id, 0, 0, _damaged(section))
    except RooContextError as error:
        return SessionRestored(header.session_id, 0, 0, _refused(section, error))
    new = Counter(section.kinds[done.entries - done.new :])
    return SessionRestored(
        *(header.session_id, done.entries, done.new, _damaged(section), done.redacted),
        messages=new[Kind.MESSAGE],
        notes=new[Kind.NOTE],
    )


def _damaged(section: _Section) -> UnreadableSource | None:
    damage = section.damage
    return damage and _bad_line(damage.why, section.path, damage.line)


def _refused(section: _Section, error: RooContextError) -> UnreadableSource:
    """The refusal of a section, and the damage that may have caused it."""
    line, why, advice = section.line, error.fact, _NOTHING
    if isinstance(error, HistoryCorrupt):  # which says itself that nothing was written
        line, advice = line + (error.seq or 0), "Restore this session from a whole file."
    if section.damage is not None:
        line, why = section.damage.line, f"{section.damage.why.rstrip('.')}. {why}"
    return _bad_line(why, section.path, line, advice=advice)


def _bad_line(why: str, path: Path, line: int, **advice: str) -> UnreadableSource:
    fact = f"{path}:{line}: {why.rstrip('.')}."
    return UnreadableSource(fact, path=str(path), line=line, **advice)
