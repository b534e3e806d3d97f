"""Exports of a session as files to download."""

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from roocontext.formats import exports
from roocontext.reports.transfers import exporter_for

if TYPE_CHECKING:
    from roocontext import Session, Store

_KINDS: Final = {
    "jsonl": ("application/jsonl", "jsonl"),
    "markdown": ("text/markdown; charset=utf-8", "md"),
    "html": ("text/html; charset=utf-8", "html"),
}
"""The media types and the endings of the formats that are not JSON documents."""
_JSON: Final = ("application/json", "json")
MEDIA: Final = tuple(media for media, _ in (*_KINDS.values(), _JSON))


def download(
    store: "Store", chat: "Session", to: str, *, family: bool = False, is_masked: bool = False
) -> StreamingResponse:
    """A session in a format, as a file that no browser shows."""
    exporter = exporter_for(to, is_masked=is_masked)
    (file,) = exports.exported_files(store, chat, exporter, family=family)
    # The first part is made here, while an error can still be reported.
    chunks = iter(file.chunks)
    first = next(chunks, b"")
    media, ending = _KINDS.get(to, _JSON)
    name = f"{re.sub(r'[^A-Za-z0-9._-]', '_', chat.id)[:80]}.{ending}"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        # As a file, the page has a policy of its own.
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return StreamingResponse(chain([first], chunks), media_type=media, headers=headers)
