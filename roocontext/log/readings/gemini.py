"""Contents of the Gemini API: an object with parts, each with a single value.

The API's names are in camelCase, and google-genai dumps snake_case unless it dumps by alias. Both
are stored as given, and read as camelCase.
"""

import re
from itertools import islice
from typing import Any, Final

from roocontext.log.readings.blocks import (
    PDF,
    REDACTED,
    Block,
    ItemReader,
    RoleAndBlocks,
    as_dict,
    attached,
    check_message,
    compact_json,
    dicts,
    expect_role,
    image,
    pdf,
    side_of,
    standard_base64,
    string,
    strings,
    text,
    texts,
    tool_result,
    tool_use,
    words,
)

_FREE: Final = ("args", "response", "partMetadata", "parameters", "parametersJsonSchema")
"""Fields with the agent's own names inside. All other names are Gemini's, in either spelling."""

_DEEPEST: Final = 6
"""How many levels Gemini's own fields have; deeper ones are left alone."""

_ADDED: Final = re.compile(r"thought\w*|\w+Metadata|mediaResolution|mediaProcessing")
"""The fields that a part may have in addition to its value."""

_RESPONSES: Final = ("functionResponse", "function_response")


class _Gemini(ItemReader):
    roles = ("user", "model", "function", "system")
    list_key = "parts"

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        check_message(role, content, ["parts"], own="gemini")

    def blocks(self, role: str, content: object) -> RoleAndBlocks:
        # Without ids, calls and responses are paired by name, those of one name in their order:
        # the responses may be in one message or in several.
        blocks = map(gemini_block, parts_of(content))
        return side_of(role), [block for block in blocks if block is not None]

    def is_output(self, item: Block) -> bool:
        return _response_key(item) is not None

    def cleared(self, item: Block, placeholder: str) -> Block:
        key = _response_key(item) or ""
        fields = {name: value for name, value in item[key].items() if name != "parts"}
        return {**item, key: {**fields, "response": {"output": placeholder}}}

    def bare(self, item: Block) -> Block:
        part = as_sent(item)
        match part:
            case {"functionResponse": dict(response)}:
                named = strings(response, "id", "name")
                return {"functionResponse": {**named, "response": {"output": REDACTED}}}
            case {"functionCall": dict(call)}:
                return {"functionCall": {**strings(call, "id", "name"), "args": {}}}
            case {"thought": True}:
                return {"text": REDACTED, "thought": True}
            case {"inlineData": _} | {"fileData": _}:
                return {key: {} for key in ("inlineData", "fileData") if key in part}
        return {"text": REDACTED}

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        speaker = "model" if role == "assistant" else role
        return speaker, {"role": speaker, "parts": [{"text": text}]}

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        # Only the part of this call is converted: a message may hold hundreds.
        calls = (
            part
            for part in self.items(content)
            if isinstance(part.get("functionCall"), dict)
            or (part.get("functionCall") is None and isinstance(part.get("function_call"), dict))
        )
        call = as_sent(next(islice(calls, number, None)))["functionCall"]
        worded = {"error" if is_error else "output": words(output)}
        response = output if isinstance(output, dict) and not is_error else worded
        part = {"functionResponse": {**strings(call, "id", "name"), "response": response}}
        return "user", {"role": "user", "parts": [part]}


def parts_of(content: object) -> list[Block]:
    """List the parts of a content under the API's names."""
    return list(map(as_sent, dicts(as_dict(content).get("parts"))))


def gemini_block(part: Block) -> Block | None:
    """Show a part, under the API's names, as a block; None if no block can show it."""
    match part:
        case {"functionResponse": dict(response)}:
            output, is_error = _output_of(response.get("response"))
            media = [it for part in dicts(response.get("parts")) if (it := _value_block(part))]
            content = [*texts(output), *media] if media else output
            return tool_result(_id_of(response), content, is_error=is_error)
        case {"functionCall": dict(call)}:
            return tool_use(_id_of(call), string(call, "name"), as_dict(call.get("args")))
        case {"thought": True}:
            return None
    return _value_block(part)


def as_sent(part: Block, depth: int = 0) -> Block:
    """Show a part under the API's names, without null fields."""
    part = {key: value for key, value in part.items() if value is not None}
    if "_" in "".join(part):  # of two spellings of a name the API's counts
        part = {camel(key): part[key] for key in sorted(part, key=lambda it: "_" not in it)}
    return {
        key: value if isinstance(value, str) or key in _FREE else _within(value, depth)
        for key, value in part.items()
    }


def camel(name: str) -> str:
    """Convert a name of the Python SDK to the API's."""
    return re.sub(r"_([a-z0-9])", lambda letter: letter[1].upper(), name) if "_" in name else name


def _within(value: object, depth: int) -> object:
    if depth == _DEEPEST:
        return value
    if isinstance(value, list):
        return [as_sent(item, depth + 1) if isinstance(item, dict) else item for item in value]
    return as_sent(value, depth + 1) if isinstance(value, dict) else value


def _response_key(part: Block) -> str | None:
    key = next((key for key in _RESPONSES if part.get(key) is not None), None)
    return key if key and isinstance(part[key], dict) else None


def _id_of(tool: Block) -> str:
    return string(tool, "id") or f"{string(tool, 'name')}#"


def _output_of(response: object) -> tuple[str, bool]:
    """The text of a response, as JSON if it is not plain text; and whether it is an error."""
    match list(as_dict(response).items()):
        case [("output" | "error" as key, str(value))]:
            return value, key == "error"
    return "" if response is None else compact_json(response), False


def _value_block(part: Block) -> Block | None:
    match part:
        case {"text": str(value)}:
            return text(value) if value else None
        case {"audioTranscription": {"text": str(value)}} if value:
            return text(value)
        case {"inlineData": {"mimeType": str(mime), "data": str(data)}} if (
            mime == PDF or mime.startswith("image/")
        ):
            value = standard_base64(data)
            return pdf(value) if mime == PDF else image(mime, value)
        case {"inlineData": media} | {"fileData": media}:
            return attached(as_dict(media).get("mimeType"))
        case {"executableCode": code} | {"codeExecutionResult": code}:
            return text(compact_json(code))
    kind = next((key for key in part if not _ADDED.fullmatch(key)), None)
    return None if kind is None else {"type": kind, kind: part[kind]}


GEMINI: Final = _Gemini()
