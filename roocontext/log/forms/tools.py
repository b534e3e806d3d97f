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
from roocontext.log.forms.schemas import from_gemini, is_strict
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string
from roocontext.log.readings.gemini import as_sent

_EMPTY: Final = {"type": "object", "properties": {}}
_CUSTOM: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""The schemas of a function without a schema, and of OpenAI's tools that take a text."""


class Function(NamedTuple):
    """The fields of a function that providers know; Gemini alone has nothing for `strict`."""

    name: str
    description: str
    schema: Block
    is_strict: bool = False


_ANTHROPICS: Final = re.compile(r"\w+_20\d{6}|mcp_toolset|tool_search_tool_\w+")

_HOSTED: Final[dict[str, Callable[[Block, str], bool]]] = {
    "anthropic": lambda _, kind: bool(_ANTHROPICS.fullmatch(kind)),
    "gemini": lambda given, kind: bool(given) and not kind and not string(given, "name"),
    "openai-responses": lambda _, kind: bool(kind),
}
"""How to recognise a tool that the provider itself runs, or that no other provider has."""

Made: TypeAlias = Callable[[Sequence[Function]], list[Block]]
"""Makes the definitions of functions that follow each other."""


def convert(
    definitions: Sequence[Any], shape: str, make: Made, accepted: re.Pattern[str]
) -> list[Block]:
    """Convert definitions to a provider's shape; those already in it are returned unchanged."""
    made: list[Block] = []
    functions: list[Function] = []
    for given in definitions:
        definition = as_dict(plain(given))
        if _shape_of(definition) == shape:
            made += [*make(functions), given if isinstance(given, dict) else definition]
            functions = []
        else:
            found = _functions(definition)
            functions += [it._replace(name=name_for(it.name, accepted)) for it in found]
    return [*made, *make(functions)]


def system_text(system: Any) -> str:
    """Join a system prompt into one text; it may be given as Anthropic's blocks."""
    if isinstance(system, str):
        return system
    return "\n\n".join(string(block, "text") for block in dicts(plain(system)))


def anthropic_tools(functions: Sequence[Function]) -> list[Block]:
    """Functions as Anthropic defines them."""
    strict = {"strict": True}
    return [_described(it, "input_schema", **strict if it.is_strict else {}) for it in functions]


def chat_tools(functions: Sequence[Function]) -> list[Block]:
    """Functions as Chat Completions defines them."""
    strict = {"strict": True}
    return [
        {
            "type": "function",
            "function": _described(it, "parameters", **strict if _may_be_strict(it) else {}),
        }
        for it in functions
    ]


def responses_tools(functions: Sequence[Function]) -> list[Block]:
    """Functions as the Responses API defines them. They are strict there by default."""
    return [
        {"type": "function", **_described(it, "parameters", strict=_may_be_strict(it))}
        for it in functions
    ]


def gemini_tools(functions: Sequence[Function]) -> list[Block]:
    """Functions as Gemini declares them: all in one tool, as some of its models know only one.

    See google-gemini/gemini-cli#65 and opencode-ai/opencode#96.
    """
    declared = [_described(it, "parametersJsonSchema") for it in functions]
    return [{"functionDeclarations": declared}] if declared else []


def _described(function: Function, schema: str, **more: bool) -> Block:
    described = {"description": function.description} if function.description else {}
    return {"name": function.name, **described, schema: function.schema, **more}


def _may_be_strict(function: Function) -> bool:
    """OpenAI's strict mode refuses optional fields, which Anthropic's accepts."""
    return function.is_strict and is_strict(function.schema)


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


def _functions(definition: Block) -> Iterator[Function]:
    """The functions of a definition, which may hold nothing that no other provider has."""
    if _shape_of(definition) == "gemini":
        tool = as_sent(definition)
        declared, others = tool.get("functionDeclarations"), tool.keys() - {"functionDeclarations"}
        if others or not dicts(declared):
            raise _not_a_function(min(others, default="functionDeclarations"))
        for it in dicts(declared):
            schema = it.get("parametersJsonSchema") or from_gemini(it.get("parameters")) or _EMPTY
            yield Function(string(it, "name"), string(it, "description"), schema)
        return
    kind = string(definition, "type")
    it = as_dict(definition.get("function") or definition.get("custom") or definition)
    if not string(it, "name") or kind not in ("", "function", "custom"):
        raise _not_a_function(string(it, "name") or kind or "without a name")
    without = _CUSTOM if kind == "custom" else _EMPTY
    schemas = (it.get(key) for key in ("input_schema", "parameters"))
    schema = next((given for given in schemas if isinstance(given, dict)), without)
    yield Function(string(it, "name"), string(it, "description"), schema, it.get("strict") is True)


def _not_a_function(name: str) -> InvalidOption:
    return InvalidOption(
        f"The tool {name!r} is not a function, so it cannot be sent to another provider.",
        name="tools",
    )
