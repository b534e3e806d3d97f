"""Converting tool definitions between providers.

A definition in the form's own shape is sent unchanged. Of a function, the name, description and
schema are converted. A tool that another provider runs itself is refused by name.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.log.encoding import plain
from roocontext.log.forms.identifiers import name_for
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string

_EMPTY: Final = {"type": "object", "properties": {}}
_CUSTOM: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""The schemas of a function without a schema, and of OpenAI's tools that take a text."""


class Function(NamedTuple):
    """The fields of a function that every provider knows."""

    name: str
    description: str
    schema: Block


_HOSTED: Final[dict[str, Callable[[Block, str], bool]]] = {
    "anthropic": lambda _, kind: bool(re.fullmatch(r"\w+_20\d{6}", kind)),
    "gemini": lambda given, kind: not kind and not string(given, "name") and len(given) == 1,
    "openai-responses": lambda _, kind: bool(kind),
}
"""How to recognise a tool that the provider itself runs, or that no other provider has."""

Made: TypeAlias = Callable[[Function], Block]


def convert(
    definitions: Sequence[Any], shape: str, make: Made, accepted: re.Pattern[str]
) -> list[Block]:
    """Convert definitions to a provider's shape; those already in it are returned unchanged."""
    made: list[Block] = []
    for given in definitions:
        definition = as_dict(plain(given))
        found = _shape_of(definition)
        if found == shape:
            made.append(given if isinstance(given, dict) else definition)
            continue
        if found is None or not (functions := list(_functions(definition))):
            name = string(definition, "name") or string(definition, "type") or "without a name"
            raise InvalidOption(
                f"The tool {name!r} is not a function, so it cannot be sent to another provider.",
                name="tools",
            )
        made += [make(it._replace(name=name_for(it.name, accepted))) for it in functions]
    return made


def system_text(system: Any) -> str:
    """Join a system prompt into one text; it may be given as Anthropic's blocks."""
    if isinstance(system, str):
        return system
    return "\n\n".join(string(block, "text") for block in dicts(plain(system)))


def anthropic_tool(function: Function) -> Block:
    """A function as Anthropic defines it."""
    return {**_described(function), "input_schema": function.schema}


def chat_tool(function: Function) -> Block:
    """A function as Chat Completions defines it."""
    described = {**_described(function), "parameters": function.schema}
    return {"type": "function", "function": described}


def responses_tool(function: Function) -> Block:
    """A function as the Responses API defines it."""
    described = {**_described(function), "parameters": function.schema}
    return {"type": "function", **described, "strict": False}


def gemini_tool(function: Function) -> Block:
    """A function as Gemini declares it."""
    described = {**_described(function), "parametersJsonSchema": function.schema}
    return {"functionDeclarations": [described]}


def _described(function: Function) -> Block:
    described = {"name": function.name}
    return {**described, "description": function.description} if function.description else described


def _shape_of(definition: Block) -> str | None:
    """The format of a function's definition; None if it does not define a function."""
    if "input_schema" in definition:
        return "anthropic"
    if "functionDeclarations" in definition or "function_declarations" in definition:
        return "gemini"
    if definition.get("type") == "function":
        return "openai" if "function" in definition else "openai-responses"
    kind = string(definition, "type")
    if kind == "custom":
        return "openai" if "custom" in definition else "openai-responses"
    return next((form for form, own in _HOSTED.items() if own(definition, kind)), None)


def _is_hosted(definition: Block) -> bool:
    kind = string(definition, "type")
    return kind not in ("", "function", "custom")


def _functions(definition: Block) -> Iterator[Function]:
    declared = definition.get("functionDeclarations", definition.get("function_declarations"))
    without = _CUSTOM if definition.get("type") == "custom" else _EMPTY
    for it in dicts(declared) or [
        definition.get("function") or definition.get("custom") or definition
    ]:
        if not string(it, "name") or _is_hosted(it):
            continue
        schemas = ("input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema")
        schema = next((it[key] for key in schemas if isinstance(it.get(key), dict)), without)
        yield Function(string(it, "name"), string(it, "description"), schema)
