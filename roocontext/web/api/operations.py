"""The operations of the API: how each is described, asked and answered.

A table of operations (`table.py`) makes both the routes and the OpenAPI document. Here is what they
have in common: permissions, parameters, bodies, versions and repetitions.

The version of a session is its log. The ETag of what is read is the hash of the last entry, so that
a new title, a pin and a redaction change it too. Changes are based on `head_seq`, the last entry
that is not a note, which is the ETag of `GET /head`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roocontext.errors import DuplicateMessage, VersionConflict
from roocontext.log.encoding import MAX_INTEGER
from roocontext.store.turn import GivenTurn
from roocontext.web.api.inputs import InputDocument, Parameters, read_body, read_query
from roocontext.web.api.json_text import in_texts, read_json
from roocontext.web.errors import (
    AsciiJson,
    MalformedRequest,
    MediaTypeRefused,
    NotAcceptable,
    PreconditionFailed,
    PreconditionRequired,
    check_head,
    opened_session,
)
from roocontext.web.safety import Need, check_permitted

if TYPE_CHECKING:
    from roocontext import Session, Store

PREFIX: Final = "/api/v1"
JSON: Final = "application/json"
_ETAG: Final = re.compile(r'\s*(W/)?"([^"\x00-\x20\x7f]*)"\s*')
_HEAD_SEQ: Final = re.compile(r"[0-9]{1,18}")
_NO_HEAD: Final = MAX_INTEGER
"""The head that is expected if no ETag of If-Match can be that of a session."""
IF_MATCH: Final = "If-Match"
KEY: Final = "Idempotency-Key"
TURN: Final = "Roocontext-Turn"
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,200}")
_KEY: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|[\x21\x23-\x7e]+')

QueryT = TypeVar("QueryT", bound=Parameters)
BodyT = TypeVar("BodyT")
DocumentT = TypeVar("DocumentT")


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[QueryT, BodyT]):
    """A request, as a handler sees it.

    `expected_seq` is that of If-Match, `key` the Idempotency-Key, and `turn` the token of the turn
    in which the session is changed. `body` is the document, or a list of documents.
    """

    request: Request
    session_id: str
    seq: int
    query: QueryT
    body: BodyT
    expected_seq: int | None
    key: str | None
    turn: str | None

    @property
    def store(self) -> "Store":
        """The store."""
        store: Store = self.request.app.state.store
        return store

    @property
    def chat(self) -> "Session":
        """The session."""
        chat = opened_session(self.store, self.session_id)
        return chat if self.turn is None else GivenTurn(chat, self.turn)

    def check_head(self) -> None:
        """Refuse a change that cannot check its own version, if the session has another one."""
        check_head(self.chat, self.expected_seq)


Plain: TypeAlias = ApiRequest[Parameters, None]
Reading: TypeAlias = ApiRequest[QueryT, None]
Changing: TypeAlias = ApiRequest[Parameters, BodyT]
AnyRequest: TypeAlias = ApiRequest[Any, Any]


@dataclass(frozen=True, slots=True)
class Answer(Generic[DocumentT]):
    """The answer of a handler: a document, or a whole response."""

    document: DocumentT
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Version: TypeAlias = Literal["", "log", "head"]
Match: TypeAlias = Literal["", "optional", "required"]


@dataclass(frozen=True, eq=False)
class Operation:
    """One method of one path. The method is the first word of the handler's name.

    The types of the handler say which query and body it takes, and which documents it answers with.
    `statuses` are those of its successes. `version` says what the ETag of the answer is made of.
    `turn` says whether it can be part of a turn. `refuses` are the statuses of errors besides those
    that every operation has.
    """

    path: str
    handler: Callable[[AnyRequest], Answer[Any]]
    _: KW_ONLY
    statuses: Sequence[int] = (200,)
    needs: Need = "read"
    version: Version = ""
    if_match: Match = ""
    turn: Match = ""
    takes_key: bool = False
    media: Sequence[str] = (JSON,)
    refuses: Sequence[int] = ()

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.handler.__name__.partition("_")[0].upper()

    @cached_property
    def _types(self) -> tuple[type[Parameters], Sequence[Any], Sequence[Any]]:
        hints = get_type_hints(self.handler)
        query, body = get_args(hints["asked"])
        return query, _each(body), [get_args(answer)[0] for answer in _each(hints["return"])]

    @property
    def query(self) -> type[Parameters]:
        """The parameters of the query."""
        return self._types[0]

    @property
    def body(self) -> type[InputDocument] | None:
        """The document of the body, if it takes one."""
        body = self._types[1][0]
        return body if issubclass(body, InputDocument) else None

    @property
    def many(self) -> bool:
        """True if the body may also be a list of documents."""
        return len(self._types[1]) > 1

    @property
    def answers(self) -> Sequence[Any]:
        """The kinds of documents of its successes."""
        return self._types[2]

    @property
    def has_session(self) -> bool:
        """True if it is about one session."""
        return "{session}" in self.path

    @property
    def route(self) -> str:
        """The path as the router reads it."""
        return PREFIX + self.path.replace("{session}", "{session:id}").replace("{seq}", "{seq:seq}")


def _each(kind: Any) -> Sequence[Any]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def to_routes(operations: Sequence[Operation]) -> list[Route]:
    """The routes of the operations, one for each path."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.route, {})[operation.method] = operation
    return [Route(path, _endpoint(own), methods=sorted(own)) for path, own in by_path.items()]


def _endpoint(own: Mapping[str, Operation]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        operation = own["GET" if request.method == "HEAD" else request.method]
        asked = await _asked(operation, request)
        return await run_in_threadpool(_answered, operation, asked)

    return answer


async def _asked(operation: Operation, request: Request) -> AnyRequest:
    """Check and read a request."""
    check_permitted(request.app.state.settings, operation.needs)
    _check_accepted(operation, request.headers.get("accept", ""))
    return ApiRequest(
        request,
        request.path_params.get("session", ""),
        request.path_params.get("seq", 0),
        query=read_query(operation.query, request.scope["query_string"]),
        expected_seq=_expected(operation, _header(request, IF_MATCH, taken=operation.if_match)),
        key=_key(_header(request, KEY, taken=operation.takes_key)),
        turn=_turn(operation, _header(request, TURN, taken=operation.turn)),
        body=await _body(operation, request),
    )


def _answered(operation: Operation, asked: AnyRequest) -> Response:
    """Run an operation, in a thread."""
    headers: dict[str, str] = {}
    if operation.version == "log":
        # Read before the rest: an ETag that is too old costs a request, one too new is a lie.
        head = asked.chat.head()
        headers["ETag"] = f'"{head.seq}-{head.hash[:16]}"'
        if _is_known(headers["ETag"], asked.request.headers.getlist("if-none-match")):
            return Response(status_code=304, headers=headers)
    try:
        answer = operation.handler(asked)
    except DuplicateMessage:
        raise
    except VersionConflict:
        if asked.expected_seq == _NO_HEAD:
            raise PreconditionFailed from None
        raise
    if isinstance(answer.document, Response):
        answer.document.headers.update({**headers, **answer.headers})
        return answer.document
    if operation.version == "head":
        # Never 304: a note changes the document, but not the version that If-Match takes.
        headers["ETag"] = f'"{answer.document.head_seq}"'
    is_text = getattr(asked.query, "content", "json") == "text"
    document = in_texts(answer.document) if is_text else answer.document
    return AsciiJson(document, answer.status, {**headers, **answer.headers})


def _header(request: Request, name: str, *, taken: object) -> str | None:
    """A header of a request, which is refused if the operation does not take it."""
    given = request.headers.getlist(name)
    if given and not taken:
        raise MalformedRequest(f"This operation takes no {name}.", name=name)
    if len(given) > 1 and name != IF_MATCH:  # the only one of them that is a list
        raise MalformedRequest(f"{name} is given twice.", name=name)
    return ",".join(given) if given else None


def _check_accepted(operation: Operation, accept: str) -> None:
    """Refuse a request whose Accept has none of the media types of the answer."""
    ranges = []
    for part in accept.split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if kind and not any(re.fullmatch(r"q=0(\.0*)?", piece) for piece in parameters):
            ranges.append(kind)
    for media in operation.media:
        main = media.partition("/")[0]
        if not accept.strip() or {"*/*", f"{main}/*", media} & {*ranges}:
            return
    raise NotAcceptable(f"The answer is {' or '.join(operation.media)}.")


def _expected(operation: Operation, value: str | None) -> int | None:
    """The head that If-Match names."""
    if value is None and operation.if_match == "required":
        raise PreconditionRequired
    if value is None or value.strip() == "*":
        return None
    matches = [_ETAG.fullmatch(tag) for tag in value.split(",")]
    tags = [tag.groups() for tag in matches if tag]
    if len(tags) < len(matches):
        raise MalformedRequest("If-Match must be ETags, or *.", name=IF_MATCH)
    # A weak tag never matches. The Idempotency-Key is looked up before the version is compared.
    heads = [int(tag) for weak, tag in tags if weak is None and _HEAD_SEQ.fullmatch(tag)]
    if len(heads) > 1:
        raise MalformedRequest("If-Match names several versions.", name=IF_MATCH)
    return heads[0] if heads else _NO_HEAD


def _key(value: str | None) -> str | None:
    """The Idempotency-Key: a text in quotation marks, or without them."""
    if value is None:
        return None
    key = _KEY.fullmatch(value.strip())
    if key is None:
        raise MalformedRequest("Idempotency-Key must be one text.", name=KEY)
    return key[0] if key[1] is None else re.sub(r"\\(.)", r"\1", key[1])


def _turn(operation: Operation, value: str | None) -> str | None:
    """The token of a turn."""
    if value is None and operation.turn == "required":
        raise MalformedRequest(f"Send the token of the turn as {TURN}.", name=TURN)
    if value is not None and not _TOKEN.fullmatch(value):
        raise MalformedRequest(f"{TURN} must be the token of a turn.", name=TURN)
    return value


async def _body(operation: Operation, request: Request) -> Any:
    """The document, or documents, of a body. An empty body is an empty document."""
    raw = await request.body()
    if operation.body is None:
        if raw:
            raise MalformedRequest("This operation takes no body.")
        return None
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise MediaTypeRefused("Send the body without a Content-Encoding.")
    media, _, parameters = request.headers.get("content-type", "").partition(";")
    if raw and media.strip().lower() != JSON:
        raise MediaTypeRefused(f"Send {JSON}.")
    if "charset" in parameters.lower() and "utf-8" not in parameters.lower():
        raise MediaTypeRefused(f"Send {JSON} in UTF-8.")
    # A large document takes a while, and other requests are waiting for this thread.
    return await run_in_threadpool(_document, operation, raw)


def _document(operation: Operation, raw: bytes) -> Any:
    assert operation.body is not None
    document = read_json(raw) if raw else {}
    if operation.many and isinstance(document, list):
        if not document:
            raise MalformedRequest("The list is empty.")
        return [read_body(operation.body, item, str(at)) for at, item in enumerate(document)]
    return read_body(operation.body, document)


def _is_known(etag: str, given: Sequence[str]) -> bool:
    """Check if If-None-Match names this version."""
    known = [tag.strip().removeprefix("W/") for tag in ",".join(given).split(",")]
    return etag in known or "*" in known
