"""The OpenAPI 3.1 document, made from the table of operations and the models of its documents."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from types import GenericAlias
from typing import Any, Final, get_args

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from starlette.responses import Response

from roocontext.reports.document import Document
from roocontext.web.api.inputs import Parameters
from roocontext.web.api.json_text import any_json_fields
from roocontext.web.api.operations import IF_MATCH, JSON, KEY, PREFIX, TURN, Operation
from roocontext.web.errors import PROBLEM

_REF: Final = "#/components/schemas/{model}"
_STATUSES: Final = {
    200: "Done, or nothing had to be done.",
    201: "Written.",
    304: "The version that If-None-Match names is current.",
    400: "The request is malformed: a parameter, a header, or JSON that cannot be read.",
    401: "The token is missing or wrong.",
    403: "The server does not permit this: the origin, or a change of a read-only server.",
    404: "There is no such session or entry.",
    406: "Accept excludes the media type of the answer.",
    409: "The operation is impossible in this state of the session, or the session is archived.",
    412: "The session has another version than If-Match says.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "Host does not name this server.",
    422: "The document is refused; `path` names the part.",
    428: "If-Match is required.",
    500: "The stored data is damaged, or the server has a defect.",
    502: "No summary could be made.",
    503: "The database does not answer; `Retry-After` says when to try again.",
}
_EVERYWHERE: Final = (400, 401, 403, 406, 421, 500, 503)
_ABOUT: Final = (
    "The sessions of coding agents: an append-only log for each, and the view of it that the model"
    " sees. Contents come back exactly as they were sent; languages that read JSON numbers as"
    " floats can send and receive them as texts (`content=text`, `content_json`)."
)


@cache
def openapi(operations: Sequence[Operation]) -> Mapping[str, Any]:
    """The document for these operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = _described(
            operation
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "roocontext", "version": version("roocontext"), "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(operations),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: Operation) -> dict[str, Any]:
    text = inspect.cleandoc(operation.handler.__doc__ or "")
    summary, _, rest = text.partition("\n\n")
    described: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "tags": ["Read" if operation.method == "GET" else "Change"],
        "summary": summary.rstrip("."),
        "parameters": [*_path_parameters(operation), *_query(operation), *_headers(operation)],
        "responses": {str(status): _response(operation, status) for status in statuses(operation)},
    }
    notes = [rest.replace("\n", " "), _permission(operation)]
    if any(notes):
        described["description"] = " ".join(filter(None, notes))
    if operation.body is not None:
        one: dict[str, Any] = {"$ref": _REF.format(model=operation.body.__name__)}
        many = {"type": "array", "items": one, "minItems": 1}
        schema = {"anyOf": [one, many]} if operation.many else one
        required = any(field.is_required() for field in operation.body.model_fields.values())
        described["requestBody"] = {"required": required, "content": {JSON: {"schema": schema}}}
    return described


def statuses(operation: Operation) -> list[int]:
    """All statuses that an operation may have."""
    statuses = {*operation.statuses, *_EVERYWHERE, *operation.refuses}
    if operation.has_session:
        statuses |= {404, 409}  # every session may be archived
    if operation.version == "log":
        statuses.add(304)
    if operation.body is not None:
        statuses |= {413, 415, 422}
    if operation.takes_key or "{seq}" in operation.path or operation.query is not Parameters:
        statuses.add(422)
    if operation.if_match:
        statuses.add(412)
    if operation.if_match == "required":
        statuses.add(428)
    return sorted(statuses)


def _permission(operation: Operation) -> str:
    return {
        "read": "",
        "write": "Only if the server is started with `--allow-write`.",
        "admin": "Only if the server is started with `--admin`.",
    }[operation.needs]


def _path_parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", operation.path):
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        about = "The id of a session, percent-encoded."
        if name == "seq":
            schema = {"type": "integer", "minimum": 0}
            about = "The number of an entry."
        yield _parameter("path", name, schema, about, required=True)


def _query(operation: Operation) -> Iterator[dict[str, Any]]:
    schema = operation.query.model_json_schema(by_alias=True, ref_template=_REF)
    required = schema.get("required", ())
    for name, own in schema.get("properties", {}).items():
        *kinds, last = own.get("anyOf", (own,))
        if last == {"type": "null"}:  # an optional parameter is left out: it has no null
            own = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}  # noqa: PLW2901
        shown = {key: value for key, value in own.items() if key != "title"}
        yield {"name": name, "in": "query", "required": name in required, "schema": shown}


def _headers(operation: Operation) -> Iterator[dict[str, Any]]:
    tag = {"type": "string", "pattern": r'^("[0-9]{1,18}"|\*)$'}
    if operation.if_match:
        about = "The ETag of `GET /head`: the `head_seq` that the change is based on."
        required = operation.if_match == "required"
        yield _parameter("header", IF_MATCH, tag, about, required=required)
    if operation.turn:
        about = "The token of the turn in which this is done: refused if it is lost."
        token = {"type": "string", "pattern": r"^[0-9a-f]{32}$"}
        yield _parameter("header", TURN, token, about, required=operation.turn == "required")
    if operation.takes_key:
        about = "A name of this request, the entry's client id. With it, it is safe to repeat."
        key = {"type": "string", "pattern": r"^[A-Za-z0-9_.:-]{1,200}$"}
        yield _parameter("header", KEY, key, about)
    if operation.version == "log":
        about = "An ETag that is known: if it is current, the answer is 304."
        yield _parameter("header", "If-None-Match", {"type": "string"}, about)


def _parameter(
    place: str, name: str, schema: Mapping[str, Any], about: str, *, required: bool = False
) -> dict[str, Any]:
    described = {"schema": schema, "description": about}
    return {"name": name, "in": place, "required": required, **described}


def _response(operation: Operation, status: int) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _STATUSES[status]}
    if status == 304:
        return response
    if status not in operation.statuses:
        response["content"] = {PROBLEM: {"schema": {"$ref": _REF.format(model="Problem")}}}
        return response
    if Response in operation.answers:
        string = {"type": "string"}
        response["content"] = {
            media.partition(";")[0]: {"schema": {} if media == JSON else string}
            for media in operation.media
        }
    else:
        schemas = [_schema_of(kind) for kind in operation.answers]
        if "content" in operation.query.model_fields:
            schemas.append({"$ref": _REF.format(model=f"{operation.answers[0].__name__}InTexts")})
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        response["content"] = {media: {"schema": schema} for media in operation.media}
    if operation.version:
        response["headers"] = {"ETag": {"schema": {"type": "string"}, "required": True}}
    return response


def _schema_of(kind: Any) -> dict[str, Any]:
    if isinstance(kind, GenericAlias):
        return {"type": "array", "items": _schema_of(get_args(kind)[0])}
    return {"$ref": _REF.format(model=kind.__name__)}


class _Schemas(GenerateJsonSchema):
    """Schemas without a title for each field, which only repeats its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's own
        """No."""
        return False


def _schemas(operations: Sequence[Operation]) -> dict[str, Any]:
    kinds: list[Any] = [
        get_args(kind)[0] if isinstance(kind, GenericAlias) else kind
        for operation in operations
        for kind in operation.answers
    ]
    documents = {kind for kind in kinds if issubclass(kind, BaseModel)}
    structs = {kind for kind in kinds if issubclass(kind, msgspec.Struct)}
    bodies = {operation.body for operation in operations if operation.body is not None}
    models: list[tuple[type[BaseModel], Any]] = [(kind, "serialization") for kind in documents]
    models += [(kind, "validation") for kind in bodies]
    models.sort(key=lambda pair: pair[0].__name__)
    _, made = models_json_schema(models, ref_template=_REF, schema_generator=_Schemas)
    _, own = msgspec.json.schema_components(
        sorted(structs, key=str), ref_template=_REF.replace("{model}", "{name}")
    )
    schemas = {**made["$defs"], **own, "Problem": _PROBLEM_SCHEMA}
    for operation in operations:
        if "content" in operation.query.model_fields:
            _add_texts(schemas, operation.answers[0])
    return dict(sorted(schemas.items()))


_PROBLEM_SCHEMA: Final = {
    "type": "object",
    "description": "RFC 9457. The error's own attributes follow: numbers and ids, never content.",
    "properties": {
        "type": {"type": "string", "description": "The kind of the error, a stable URN."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "category": {"type": "string"},
        "instance": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "category", "instance"],
}


def _add_texts(schemas: dict[str, Any], kind: type[Document]) -> None:
    """Add the schema of a document whose contents are texts, and of the rows in it."""
    name, texts = kind.__name__, any_json_fields(kind)
    if f"{name}InTexts" in schemas:
        return
    properties: dict[str, Any] = {}
    for field, schema in schemas[name]["properties"].items():
        rows = next(iter(get_args(kind.model_fields[field].annotation)), None)
        if field in texts:
            properties[f"{field}_json"] = {"type": ["string", "null"]}
        elif inspect.isclass(rows) and issubclass(rows, Document):
            _add_texts(schemas, rows)
            item = {"$ref": _REF.format(model=f"{rows.__name__}InTexts")}
            properties[field] = {"type": "array", "items": item}
        else:
            properties[field] = schema
    schemas[f"{name}InTexts"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(properties),
    }
