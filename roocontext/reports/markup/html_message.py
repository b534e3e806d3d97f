"""The content of a message as HTML: texts, thinking, calls, results and media."""

import binascii
import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from roocontext.log.readings import Holds, Piece, pieces, reader
from roocontext.reports.markup.safe_html import html_line, preformatted
from roocontext.store.reading.audit import AuditEntry

_IMAGES: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""The types of images that are shown, with the first bytes of their files."""

_LARGEST: Final = 1 << 20
"""Larger images are left out, because the page has to contain them."""


def message_body(entry: AuditEntry) -> str:
    """Everything in the message, as it was written."""
    format_, role = entry.entry.format, entry.role
    if format_ is None or role is None:
        return ""
    _, blocks = reader(format_).blocks(role, entry.content)
    return (
        "\n".join(chain.from_iterable(map(_piece, pieces(blocks))))
        or '<p class="remark">Nothing.</p>'
    )


def _piece(piece: Piece) -> Iterator[str]:
    match piece.kind:
        case Holds.TEXT:
            yield preformatted(piece.text or "")
        case Holds.THINKING:
            yield "<details><summary>Thinking</summary>"
            yield preformatted(piece.text or "(not readable)")
            yield "</details>"
        case Holds.CALL:
            arguments = json.dumps(piece.block.get("input"), indent=1, ensure_ascii=False)
            tool = html_line(piece.text or "?")
            yield f"<h4>Call of <code>{tool}</code>{_of(piece.block, 'id')}</h4>"
            yield preformatted(arguments, "code")
        case Holds.OUTPUT:
            failed = ", an error" if piece.block.get("is_error") else ""
            yield f"<h4>Result{_of(piece.block, 'tool_use_id')}{failed}</h4>"
            yield from _output(piece)
        case Holds.MEDIA | Holds.OTHER:
            yield _medium(piece.block)


def _output(piece: Piece) -> Iterator[str]:
    for part in piece.inside:
        if part.kind is Holds.TEXT:
            yield preformatted(part.text or "", "code")
        else:
            yield from _piece(part)


def _of(block: Any, name: str) -> str:
    tool_id = block.get(name)
    return f" <code>{html_line(tool_id)}</code>" if isinstance(tool_id, str) and tool_id else ""


def _medium(block: Any) -> str:
    """An image of a known type, or a line that names the block."""
    kind = block.get("type") if isinstance(block, dict) else None
    source = block.get("source") if isinstance(block, dict) else None
    what = html_line(kind if isinstance(kind, str) else "unknown")
    match source:
        case {"type": "base64", "media_type": str(mime), "data": str(data)}:
            size = f"{what}, {html_line(mime)}, {len(data) * 3 // 4:,} bytes"
            if _is_image(mime, data):
                return f'<img src="data:{mime};base64,{data}" alt="{size}">'
            return f'<p class="remark">({size}, not shown)</p>'
    return f'<p class="remark">({what}, not shown)</p>'


def _is_image(mime: str, data: str) -> bool:
    if mime not in _IMAGES or len(data) * 3 // 4 > _LARGEST:
        return False
    try:
        # Strictly: other text could end the attribute.
        content = binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return False
    return content.startswith(_IMAGES[mime])
