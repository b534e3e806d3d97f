"""Tool definitions converted between providers, and the tool ids and names that each accepts.

A definition in the form's own shape is sent unchanged. Of a function, the name, description and
schema are converted. A tool that another provider runs itself is refused by name.

A name that the provider refuses is replaced, in the definitions and in the history alike. A
recorded reply gets the name of the tool back, so the log and the agent know only that one.

The first use of a valid id is kept. Any other id becomes a hash of the id and its place, so two ids
never collide and later rows never change what was sent before.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from operator import is_
from string import ascii_letters, digits
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.log.encoding import plain
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string
from roocontext.log.readings.gemini import as_sent, camel

_RENAMED: Final = {"defs": "$defs", "ref": "$ref"}
_NAMED: Final = ("properties", "$defs")
"""Fields that hold a schema for each name of the agent's."""

_WITHIN: Final = ("items", "anyOf", "additionalProperties")
_GEMINIS: Final = ("nullable", "propertyOrdering", "example")
"""Fields that JSON Schema does not have."""


def _from_gemini(value: Any) -> Any:
    """Convert a schema of Gemini's `parameters`, in either spelling, to JSON Schema."""
    if isinstance(value, list):
        return [_from_gemini(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {camel(key): it for key, it in value.items() if it is not None}
    fields = {_RENAMED.get(key, key): it for key, it in named.items()}
    schema: Block = {}
    for key, it in fields.items():
        if key == "type" and isinstance(it, str):
            kind = it.lower()
            schema[key] = [kind, "null"] if fields.get("nullable") is True else kind
        elif key in _NAMED:
            schema[key] = {name: _from_gemini(inner) for name, inner in as_dict(it).items()}
        elif key in _WITHIN:
            schema[key] = _from_gemini(it)
        elif key not in _GEMINIS:
            is_count = key.startswith(("min", "max")) and isinstance(it, str) and it.isdigit()
            schema[key] = int(it) if is_count else it  # REST writes 64-bit integers as texts
    return schema


def _is_strict(schema: Any) -> bool:
    """Return True for a schema of OpenAI's strict mode: each field required, and no others."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or isinstance(schema.get("properties"), dict):
        required = schema.get("required")
        fields = as_dict(schema.get("properties"))
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if set(fields) != {name for name in required if isinstance(name, str)}:
            return False
        return all(map(_is_strict, fields.values()))
    return all(map(_is_strict, schema.values()))


_HEX: Final = 24
_SHORT: Final = 9
"""The length of Mistral's ids, which have letters and digits only."""
_ALPHABET: Final = ascii_letters + digits


class CallIds:
    """Hands out ids for the calls of one request."""

    def __init__(self, accepted: re.Pattern[str]) -> None:
        self._accepted = accepted
        self._taken: set[str] = set()

    def take(self, wanted: str, seq: int, block: int) -> str:
        """Return the id itself if it is valid and free, else one made from it and its place."""
        tool_id = wanted
        while tool_id in self._taken or not self._accepted.fullmatch(tool_id):
            # Not a number that counts up: it would change when a row before it leaves the view.
            digest = _hash(f"{seq}.{block}.{tool_id}")
            tool_id = f"call_{digest}"
            if not self._accepted.fullmatch(tool_id):
                tool_id = _short(int(digest, 16))
        self._taken.add(tool_id)
        return tool_id


def _short(number: int) -> str:
    base = len(_ALPHABET)
    return "".join(_ALPHABET[number // base**place % base] for place in range(_SHORT))


def name_for(wanted: str, accepted: re.Pattern[str]) -> str:
    """Return the name itself if it is valid, else one made from it."""
    if accepted.fullmatch(wanted):
        return wanted
    valid = re.sub(r"[^a-zA-Z0-9_]", "_", wanted)[:40]
    return f"t_{valid}_{_hash(wanted)[:8]}"


MADE_NAME: Final = re.compile(r"t_\w{0,40}_[0-9a-f]{8}")
"""The names that `name_for` makes."""

_HOLDERS: Final = ("function", "custom", "functionCall", "function_call", "toolUse", "toolSpec")
_CALLS: Final = ("tool_use", "function_call", "custom_tool_call")
_LISTS: Final = ("tool_calls", "parts", "content")


def with_name(call: Block, names: Callable[[str], str]) -> Block:
    """Copy a call or the definition of a function, in any format, with another name.

    The same object is returned if the name stays.
    """
    holder = next((holder for holder in _HOLDERS if isinstance(call.get(holder), dict)), None)
    held = call if holder is None else call[holder]
    name = string(held, "name")
    if not name or (new := names(name)) == name:
        return call
    return {**held, "name": new} if holder is None else {**call, holder: {**held, "name": new}}


def with_names(content: Any, names: Mapping[str, str]) -> Any:
    """Copy the content of a reply with other names of the tools that it calls."""
    if isinstance(content, list):
        return [_called(item, names) for item in content]
    if not isinstance(content, dict):
        return content
    lists = {key: it for key in _LISTS if isinstance(it := content.get(key), list)}
    return {**content, **{key: [_called(item, names) for item in it] for key, it in lists.items()}}


def _called(item: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(item, dict):
        return item
    is_call = item.get("type") in _CALLS or any(
        isinstance(item.get(holder), dict) for holder in _HOLDERS
    )
    return with_name(item, lambda name: names.get(name, name)) if is_call else item


def replaced_names(
    definitions: Sequence[Any], accepted: re.Pattern[str]
) -> Iterator[tuple[int, str, str]]:
    """List the names that are replaced: the index of the definition, the name and the new one."""
    for index, definition in enumerate(definitions):
        for name in _names_in(as_dict(plain(definition))):
            if (new := name_for(name, accepted)) != name:
                yield index, name, new


def _names_in(definition: Block) -> Iterator[str]:
    if _shape_of(definition) == "gemini":
        declared = dicts(as_sent(definition).get("functionDeclarations"))
        yield from filter(None, (string(declaration, "name") for declaration in declared))
        return
    holder = next((holder for holder in _HOLDERS if isinstance(definition.get(holder), dict)), None)
    if name := string(definition if holder is None else definition[holder], "name"):
        yield name


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HEX]


ANY_OBJECT: Final = {"type": "object", "properties": {}}
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

    @property
    def may_be_strict(self) -> bool:
        """True if it may be strict for OpenAI, which refuses optional fields then."""
        return self.is_strict and _is_strict(self.schema)

    def described(self, schema: str, *, strict: bool | None = None) -> Block:
        """Its definition, with the schema in a field of this name."""
        described = {"description": self.description} if self.description else {}
        marked = {} if strict is None else {"strict": strict}
        return {"name": self.name, **described, schema: self.schema, **marked}


_ANTHROPICS: Final = re.compile(r"\w+_20\d{6}|mcp_toolset|tool_search_tool_\w+")

_HOSTED: Final[dict[str, Callable[[Block, str], bool]]] = {
    "anthropic": lambda _, kind: bool(_ANTHROPICS.fullmatch(kind)),
    "bedrock-converse": lambda given, _: "cachePoint" in given or "systemTool" in given,
    "gemini": lambda given, kind: bool(given) and not kind and not string(given, "name"),
    "openai-responses": lambda _, kind: bool(kind),
}
"""Recognises a tool that only this provider has, or that it runs itself."""

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
            own = _renamed(given if isinstance(given, dict) else definition, accepted)
            made += [*make(functions), own]
            functions = []
        else:
            declared = _functions(definition)
            functions += [
                function._replace(name=name_for(function.name, accepted)) for function in declared
            ]
    return [*made, *make(functions)]


def _renamed(definition: Block, accepted: re.Pattern[str]) -> Block:
    """Copy a definition with names that the provider accepts."""
    new = lambda name: name_for(name, accepted)  # noqa: E731
    for key in ("functionDeclarations", "function_declarations"):
        if isinstance(declared := definition.get(key), list):
            made = [
                with_name(declaration, new) if isinstance(declaration, dict) else declaration
                for declaration in declared
            ]
            is_same = all(map(is_, made, declared))
            return definition if is_same else {**definition, key: made}
    return with_name(definition, new)


def system_text(system: Any) -> str:
    """Join a system prompt into one text; it may be given as Anthropic's blocks."""
    if isinstance(system, str):
        return system
    return "\n\n".join(string(block, "text") for block in dicts(plain(system)))


def _shape_of(definition: Block) -> str | None:
    """The format of a function's definition; None if it does not define a function."""
    if "input_schema" in definition:
        return "anthropic"
    if "toolSpec" in definition:
        return "bedrock-converse"
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
        for holder in dicts(declared):
            schema = (
                holder.get("parametersJsonSchema")
                or _from_gemini(holder.get("parameters"))
                or ANY_OBJECT
            )
            yield Function(string(holder, "name"), string(holder, "description"), schema)
        return
    kind = string(definition, "type")
    holders = (definition.get(key) for key in ("function", "custom", "toolSpec"))
    holder = as_dict(next(filter(None, holders), definition))
    if not string(holder, "name") or kind not in ("", "function", "custom"):
        raise _not_a_function(string(holder, "name") or kind or "without a name")
    without = _CUSTOM if kind == "custom" else ANY_OBJECT
    schemas = (
        *(holder.get(key) for key in ("input_schema", "parameters")),
        as_dict(holder.get("inputSchema")).get("json"),
    )
    schema = next((candidate for candidate in schemas if isinstance(candidate, dict)), without)
    yield Function(
        string(holder, "name"), string(holder, "description"), schema, holder.get("strict") is True
    )


def _not_a_function(name: str) -> InvalidOption:
    return InvalidOption(
        f"The tool {name!r} is not a function, so it cannot be sent to another provider.",
        name="tools",
    )
