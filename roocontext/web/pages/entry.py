"""All of one entry: its text in parts, its images, its stored content, the request it answers."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from roocontext.errors import InvalidMessage, MessageNotFound
from roocontext.log.encoding import MAX_INTEGER, encode
from roocontext.log.forms import forms
from roocontext.log.readings import Holds, Piece, pieces, reader
from roocontext.log.readings.converse import to_base64
from roocontext.reports.markup.body import images_in
from roocontext.reports.markup.elements import Html, facts, link_to, tag, together
from roocontext.reports.markup.safe_html import preformatted
from roocontext.reports.naming import quantity, size
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.sessions.excerpt import Anchor, Extent, LogExcerpt, Sizes
from roocontext.web.errors import NothingHere
from roocontext.web.pages.addresses import (
    address,
    image_digest,
    number_asked,
    session_asked,
    session_path,
)
from roocontext.web.pages.respond import session_frame

if TYPE_CHECKING:
    from roocontext import Session

_PART: Final = 20_000
"""The characters of a part. A page of the widest characters still has less than 64 KB."""
_MOST_REPAIRS: Final = 40
_PROTECTED: Final = {"Content-Security-Policy": "default-src 'none'; sandbox"}


def whole_page(request: Request) -> Response:
    """Everything that an entry holds, in parts."""
    excerpt = _read(request)
    entry = excerpt.entries[0].audited
    info = excerpt.overview.info
    path, name = f"{session_path(info.session_id)}/e/{entry.seq}", f"entry-{entry.seq}.json"
    text = "\n\n".join(_texts(entry)) or "Nothing."
    return session_frame(
        f"Entry {entry.seq}",
        info,
        facts(
            link_to("in its place", path),
            entry.role or entry.kind.value,
            size(excerpt.entries[0].size),
            link_to("download as it is stored", f"{path}/raw", download=name),
        ),
        _part(request, text, f"{path}/whole"),
    )


def _part(request: Request, text: str, path: str, **query: Any) -> Html:
    """A part of a text, with links to the others."""
    count = max(1, -(-len(text) // _PART))
    number = min(number_asked(request.query_params, "part", 1) or 1, count)
    part = text[(number - 1) * _PART : number * _PART]
    before, after = (address(path, **query, part=number + step) for step in (-1, 1))
    links = (
        link_to("← Part before", before, rel="prev") if number > 1 else None,
        tag("span", f"part {number:,} of {count:,}"),
        link_to("Next part →", after, rel="next") if number < count else None,
    )
    pager = tag("nav", links, class_="pager", aria_label="Parts") if count > 1 else None
    return together(pager, Html(preformatted(part, "code")), pager)


def _read(request: Request, *, whole: int = MAX_INTEGER) -> LogExcerpt:
    chat = session_asked(request)
    place = Anchor(at=request.path_params["seq"])
    excerpt: LogExcerpt = chat.internals.excerpt(Extent.ALL, place, Sizes(entries=1, whole=whole))
    return excerpt


def _texts(entry: AuditEntry) -> Iterator[str]:
    """The texts of an entry, each under a line that says what it is."""
    if entry.role is None:
        yield json.dumps(entry.content, indent=1, ensure_ascii=False)
        return
    try:
        blocks = reader(entry.entry.format or "").blocks(entry.role, entry.content)[1]
    except InvalidMessage:  # a format whose plugin is not installed
        yield json.dumps(entry.content, indent=1, ensure_ascii=False)
        return
    for piece in pieces(blocks):
        yield from _text(piece)


def _text(piece: Piece) -> Iterator[str]:
    match piece.kind:
        case Holds.TEXT:
            yield piece.text or ""
        case Holds.THINKING:
            yield f"[thinking]\n{piece.text or '(not readable)'}"
        case Holds.CALL:
            arguments = json.dumps(piece.block.get("input"), indent=1, ensure_ascii=False)
            yield f"[call of {piece.text or '?'}]\n{arguments}"
        case Holds.OUTPUT:
            yield "[error]" if piece.block.get("is_error") else "[result]"
            for part in piece.inside:
                yield from _text(part)
        case Holds.MEDIA | Holds.OTHER:
            yield json.dumps(piece.block, indent=1, ensure_ascii=False)


def raw(request: Request) -> Response:
    """The stored content, to be saved: it is never shown by the browser."""
    entry = _read(request).entries[0].audited
    name = f'attachment; filename="entry-{entry.seq}.json"'
    content = "null" if entry.content is None else encode(entry.content, "content")
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": name, **_PROTECTED},
    )


def image_file(request: Request) -> Response:
    """An image of a message, named by the digest of its data."""
    entry = _read(request).entries[0].audited
    for source in _images(entry):
        if image_digest(source["data"]) == request.path_params["digest"]:
            try:
                content = b64decode(source["data"], validate=True)
            except ValueError:
                break
            return Response(content, media_type=source["media_type"], headers=_PROTECTED)
    raise NothingHere


def _images(entry: AuditEntry) -> list[Mapping[str, Any]]:
    if entry.role is None or entry.content is None:
        return []
    return images_in(reader(entry.entry.format or "").blocks(entry.role, entry.content)[1])


def request_page(request: Request) -> Response:
    """The request as it was sent when a reply was asked for."""
    excerpt = _read(request)
    entry, info = excerpt.entries[0].audited, excerpt.overview.info
    chat: Session = request.app.state.store.session(info.session_id)
    if entry.role is None:
        raise MessageNotFound(f"Entry {entry.seq} is not a message.", candidates=())
    own = entry.entry.format if entry.entry.format in forms else "anthropic"
    form = request.query_params.get("form") or own or ""
    read = entry.seq - 1 if entry.entry.asked_at is None else entry.entry.asked_at
    model = entry.entry.model
    sent = chat.request(form, model=model, as_of=read, unanswered=True, prefill=True)
    path = f"{session_path(info.session_id)}/e/{entry.seq}"
    repairs = chat.repairs(form, model=model, as_of=read)
    listed = [tag("li", f"entry {repair.seq}: {repair.rule}") for repair in repairs[:_MOST_REPAIRS]]
    return session_frame(
        f"The request that entry {entry.seq} answers",
        info,
        facts(
            link_to(f"entry {entry.seq}", path),
            link_to(f"as of entry {read}", address(session_path(chat.id), as_of=read)),
            *(
                link_to(
                    one,
                    address(f"{path}/request", form=one),
                    aria_current="true" if one == form else None,
                )
                for one in forms
            ),
        ),
        tag("p", f"{quantity(len(repairs), 'repair')} for the provider:", class_="note")
        if repairs
        else None,
        tag("ul", listed, class_="remarks") if listed else None,
        _part(
            request,
            json.dumps(dict(sent), indent=1, ensure_ascii=False, default=to_base64),
            f"{path}/request",
            form=form,
        ),
    )
