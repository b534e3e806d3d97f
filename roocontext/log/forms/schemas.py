"""The schemas of tools: what Gemini calls differently, and what OpenAI's strict mode asks for."""

from typing import Any, Final

from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict
from roocontext.log.readings.gemini import camel

_RENAMED: Final = {"defs": "$defs", "ref": "$ref"}
_NAMED: Final = ("properties", "$defs")
"""Fields that hold a schema for each name of the agent's."""

_WITHIN: Final = ("items", "anyOf", "additionalProperties")
_GEMINIS: Final = ("nullable", "propertyOrdering", "example")
"""Fields that JSON Schema does not have."""


def from_gemini(given: Any) -> Any:
    """Convert a schema of Gemini's `parameters`, in either spelling, to JSON Schema."""
    if isinstance(given, list):
        return [from_gemini(it) for it in given]
    if not isinstance(given, dict):
        return given
    named = {camel(key): it for key, it in given.items() if it is not None}
    fields = {_RENAMED.get(key, key): it for key, it in named.items()}
    schema: Block = {}
    for key, it in fields.items():
        if key == "type" and isinstance(it, str):
            kind = it.lower()
            schema[key] = [kind, "null"] if fields.get("nullable") is True else kind
        elif key in _NAMED:
            schema[key] = {name: from_gemini(inner) for name, inner in as_dict(it).items()}
        elif key in _WITHIN:
            schema[key] = from_gemini(it)
        elif key not in _GEMINIS:
            is_count = key.startswith(("min", "max")) and isinstance(it, str) and it.isdigit()
            schema[key] = int(it) if is_count else it  # REST writes 64-bit integers as texts
    return schema


def is_strict(schema: Any) -> bool:
    """Whether OpenAI's strict mode accepts it: each field is required, and there are no others."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or isinstance(schema.get("properties"), dict):
        required = schema.get("required")
        fields = as_dict(schema.get("properties"))
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if set(fields) != {it for it in required if isinstance(it, str)}:
            return False
        return all(map(is_strict, fields.values()))
    return all(map(is_strict, schema.values()))
