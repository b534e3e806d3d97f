"""Errors as problem documents (RFC 9457), by one table from categories and classes to statuses.

The `type` of a problem names the class of the error, its `title` is the first line of the class's
docstring, and its `detail` is the fact. The error's own attributes follow. None of them has content
of a message. The advice of the library's errors names calls of the library, so it is left out.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from starlette.responses import Response

from roocontext import errors
from roocontext.errors import (
    Category,
    InvalidIdentifier,
    RooContextError,
    SessionNotFound,
    VersionConflict,
)
from roocontext.log.moments import iso_utc
from roocontext.log.readings.converse import to_base64
from roocontext.log.values import as_json

if TYPE_CHECKING:
    from roocontext import Session, Store

PROBLEM: Final = "application/problem+json"


class RequestRefused(RooContextError):
    """The server refused the request before it reached the store."""

    status: ClassVar[int] = 400
    headers: Mapping[str, str] = {}


class MalformedRequest(RequestRefused, ValueError):
    """The request does not have the form that this operation takes."""

    category = Category.USAGE


class InvalidDocument(RequestRefused, ValueError):
    """The document in the body does not have the form that this operation takes."""

    status = 422
    category = Category.USAGE
    path: str = ""


class Unauthorized(RequestRefused):
    """The request has no valid token."""

    status = 401
    advice = "Open the link that `roocontext serve` printed, or send `Authorization: Bearer TOKEN`."
    headers = {"WWW-Authenticate": 'Bearer realm="roocontext"'}


class OriginRefused(RequestRefused):
    """The request comes from a page of another origin."""

    status = 403


class WritingRefused(RequestRefused):
    """The server was started without permission for this change."""

    status = 403
    option: str = ""


class NothingHere(RequestRefused, LookupError):
    """There is nothing at this path."""

    status = 404
    category = Category.NOT_FOUND


class MethodRefused(RequestRefused):
    """This path does not support the method."""

    status = 405
    category = Category.USAGE


class NotAcceptable(RequestRefused):
    """None of the accepted media types can be sent."""

    status = 406
    category = Category.USAGE


class BodyTooLarge(RequestRefused, ValueError):
    """The body of the request is too large."""

    status = 413
    category = Category.USAGE
    limit: int = 0


class MediaTypeRefused(RequestRefused, ValueError):
    """The body of the request has a media type that is not accepted here."""

    status = 415
    category = Category.USAGE


class HostRefused(RequestRefused):
    """The request was made to a host name that is not this server's."""

    status = 421


class PreconditionFailed(RequestRefused):
    """The session has another version than the request is based on."""

    status = 412
    category = Category.CONFLICT
    advice = "If-Match takes the ETag of GET /head. Read the session again, and decide."


class PreconditionRequired(RequestRefused):
    """The request must say which version of the session it is based on."""

    status = 428
    category = Category.USAGE
    advice = "Send the ETag of GET /head as If-Match."


class ServerFailed(RequestRefused):
    """The server failed: this is a defect of roocontext."""

    status = 500


_BY_CATEGORY: Final[Mapping[Category, int]] = {
    Category.NOT_FOUND: 404,
    Category.USAGE: 400,
    Category.REFUSED: 409,
    Category.CONFLICT: 409,
    Category.DATABASE: 503,
    Category.UNCERTAIN: 503,
}
_BY_CLASS: Final[Mapping[type[RooContextError], int]] = {
    errors.InvalidMessage: 422,
    errors.InvalidIdentifier: 422,
    errors.DuplicateMessage: 422,
    errors.VersionConflict: 412,
    errors.SummaryFailed: 502,
    errors.StoreReadOnly: 403,
    errors.StoreNotFound: 503,
    errors.SchemaMismatch: 500,
    errors.ForeignDatabase: 500,
    errors.HistoryCorrupt: 500,
}
"""The classes whose status is not that of their category."""

_TIMES: Final = frozenset({"archived_at", "expires_at", "purged_at"})
"""The attributes that are times."""

_RETRY_SECONDS: Final = "1"
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def opened_session(store: "Store", session_id: str) -> "Session":
    """The session with an id from a path; SessionNotFound for one that no session can have."""
    try:
        return store.session(session_id)
    except InvalidIdentifier as error:
        raise SessionNotFound(error.fact, session_id=session_id) from None


def check_head(chat: "Session", expected: int | None) -> None:
    """Refuse a change that does not check its own version, if the session has another one."""
    actual = chat.head_seq()
    if expected is not None and expected != actual:
        line = f"Expected head {expected}, but it is {actual}."
        raise VersionConflict(line, expected=expected, actual=actual)


def status_of(kind: type[RooContextError], category: Category | None = None) -> int:
    """The status of a class of errors, or of an error that has another category than its class."""
    if issubclass(kind, RequestRefused):
        return kind.status
    for base in kind.__mro__:
        if base in _BY_CLASS:
            return _BY_CLASS[base]
    return _BY_CATEGORY[category or kind.category]


def urn_of(kind: type[RooContextError]) -> str:
    """The stable URN of a class of errors."""
    return f"urn:roocontext:{_CAMEL.sub('-', kind.__name__).lower()}"


def _attribute(name: str, value: Any) -> Any:
    """An attribute of an error. Times are texts, as in all documents."""
    if isinstance(value, Mapping):  # the receipt of a purge
        return {key: _attribute(key, item) for key, item in value.items()}
    return iso_utc(value) if name in _TIMES else as_json(value)


def problem(error: RooContextError, instance: str) -> dict[str, Any]:
    """The problem document of an error."""
    kind = type(error)
    own_advice = error.advice if isinstance(error, RequestRefused) else ""
    return {
        **{
            name: _attribute(name, value) for name, value in error.facts.items() if name != "advice"
        },
        "type": urn_of(kind),
        "title": kind.general(),
        "status": status_of(kind, error.category),
        "detail": " ".join(filter(None, (error.statement, own_advice))),
        "category": error.category.value,
        "instance": instance,
    }


class AsciiJson(Response):
    """A JSON document in ASCII: the escapes of JSON keep lone surrogates, which UTF-8 lacks."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode the document."""
        # Requests in the form of Bedrock have bytes.
        return json.dumps(as_json(content), separators=(",", ":"), default=to_base64).encode()


def headers_of(error: RooContextError) -> dict[str, str]:
    """The headers of the answer to a request that failed."""
    if status_of(type(error), error.category) == 503:
        return {"Retry-After": _RETRY_SECONDS}
    return dict(error.headers) if isinstance(error, RequestRefused) else {}


def problem_response(error: RooContextError, path: str) -> Response:
    """The answer to a request that failed: a problem document."""
    document = problem(error, path)
    return AsciiJson(document, document["status"], headers_of(error), media_type=PROBLEM)
