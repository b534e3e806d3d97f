"""Makes the reference of the HTTP API from its OpenAPI document and the classes of its errors."""  # noqa: INP001 - a script, not a package

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from roocontext import errors
from roocontext.errors import RooContextError
from roocontext.web import errors as web_errors
from roocontext.web.api.openapi import openapi
from roocontext.web.api.table import OPERATIONS
from roocontext.web.errors import status_of, urn_of

BEGINNING = """\
# HTTP API

Every operation of the [HTTP API](../operations/http-api.md). `/api/v1/openapi.json` is the same for
programs. A document is the one that [`--json` prints](../cli/reference.md#documents), if it has the
same name.
"""


def page() -> str:
    """The whole page."""
    document = openapi(OPERATIONS)
    parts = [BEGINNING, "## Operations", ""]
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            parts += [f"### `{method.upper()} {path}`", "", *_operation(about)]
    parts += ["## Documents", ""]
    for name, schema in document["components"]["schemas"].items():
        if not name.endswith("InTexts"):
            parts += [f"### {name}", "", *_document(schema)]
    return "\n".join([*parts, *_errors()])


def _operation(about: Mapping[str, Any]) -> Iterator[str]:
    yield f"{about['summary']}. {about.get('description', '')}".strip()
    yield ""
    rows = [
        f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} | {_needed(one)} |"
        for one in about["parameters"]
    ]
    if rows:
        yield from ["| parameter | in | type | |", "|---|---|---|---|", *rows, ""]
    if body := about.get("requestBody"):
        yield f"Body: {_type(body['content']['application/json']['schema'])}."
        yield ""
    answers = [
        f"{status} {_answer(response)}".strip()
        for status, response in about["responses"].items()
        if int(status) < 400
    ]
    refusals = [status for status in about["responses"] if int(status) >= 400]
    yield f"Answers: {', '.join(answers)}. Errors: {', '.join(refusals)}."
    yield ""


def _needed(parameter: Mapping[str, Any]) -> str:
    return parameter.get("description") or ("required" if parameter["required"] else "")


def _answer(response: Mapping[str, Any]) -> str:
    for media, content in response.get("content", {}).items():
        return _type(content["schema"]) if media == "application/json" else f"`{media}`"
    return ""


def _document(schema: Mapping[str, Any]) -> Iterator[str]:
    if about := schema.get("description"):
        yield from [" ".join(about.split()), ""]
    required = schema.get("required", ())
    yield from ["| name | type | |", "|---|---|---|"]
    for name, own in schema.get("properties", {}).items():
        yield f"| `{name}` | {_type(own)} | {'' if name in required else 'optional'} |"
    yield ""


def _type(schema: Mapping[str, Any]) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2].removesuffix("InTexts")
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    names = {"string": "text", "boolean": "true or false"}
    if schema.get("format") == "date-time":
        return "time"
    return " or ".join(names.get(one, one) for one in ([kind] if isinstance(kind, str) else kind))


def _errors() -> list[str]:
    """The table of all errors."""
    kinds = {
        kind
        for module in (errors, web_errors)
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, RooContextError)
    }
    rows = sorted((status_of(kind), urn_of(kind), kind.general()) for kind in kinds)
    table = [f"| {status} | `{urn}` | {title} |" for status, urn, title in rows]
    return ["## Errors", "", "| status | type | title |", "|---|---|---|", *table, ""]


if __name__ == "__main__":
    print(page())  # noqa: T201
