"""A session as Markdown to read: the messages that the model sees; hidden ones are folded."""

import json
import re
from collections.abc import Iterator

from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.log.readings import Holds, Piece, pieces, reader
from roocontext.log.readings.blocks import as_dict, string
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.session import Session

_FENCE = re.compile(r"`{3,}")
_NOTHING = "(nothing)"


def export_session(session: Session) -> Iterator[bytes]:
    """The page of a session, entry by entry."""
    info = session.info()
    yield _utf8(f"# {_line(info.title or info.first_prompt or session.id)}\n\n")
    yield _utf8(f"Session `{_line(session.id)}`, {info.messages} messages.\n")
    for entry in session.audit():
        if entry.kind in MESSAGE_KINDS:
            yield _utf8(_message(entry))
        elif entry.kind is not Kind.NOTE:
            yield _utf8(f"\n*{entry.seq}: {entry.kind}*\n")


def _message(entry: AuditEntry) -> str:
    kind = "" if entry.kind is Kind.MESSAGE else f", {entry.kind}"
    heading = f"{entry.seq} {entry.role}{kind}"
    body = "\n\n".join(_pieces(entry)) or _NOTHING
    if entry.visible:
        return f"\n## {heading}\n\n{body}\n"
    why = f"hidden by entry {entry.hidden_by}"
    return f"\n<details><summary>{heading}, {why}</summary>\n\n{body}\n\n</details>\n"


def _pieces(entry: AuditEntry) -> Iterator[str]:
    format_, role = entry.entry.format, entry.role
    if format_ is None or role is None:
        return
    _, blocks = reader(format_).blocks(role, entry.content)
    for piece in pieces(blocks):
        yield from _lines_of(piece)


def _lines_of(piece: Piece) -> Iterator[str]:
    match piece.kind:
        case Holds.TEXT if piece.text:
            # Fenced, so that no message becomes a heading, a picture or a script of the page.
            yield _fenced(piece.text, "text")
        case Holds.THINKING if piece.text:
            yield f"Thinking:\n\n{_fenced(piece.text, 'text')}"
        case Holds.CALL:
            arguments = json.dumps(piece.block.get("input"), indent=1)
            yield f"Call of `{_line(piece.text or '?')}`:\n\n{_fenced(arguments, 'json')}"
        case Holds.OUTPUT:
            yield "Result:"
            for part in piece.inside:
                yield from _lines_of(part)
        case Holds.MEDIA | Holds.OTHER:
            yield f"({_line(string(as_dict(piece.block), 'type') or 'unknown')})"


def _fenced(text: str, language: str) -> str:
    fence = "`" * (max(map(len, _FENCE.findall(text)), default=2) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _line(text: str) -> str:
    return re.sub(r"[\s`<>#\[\]*_|\\]+", " ", text).strip()[:120]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
