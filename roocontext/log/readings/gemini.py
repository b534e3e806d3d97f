"""Contents of the Gemini API: an object with parts, each with a single value."""

import json
import re
from collections.abc import Collection
from itertools import islice
from typing import Any, Final

from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    as_dict,
    attached,
    check_message,
    dicts,
    expect_role,
    image,
    string,
    strings,
    text,
    tool_result,
    tool_use,
    words,
)

_FREE: Final = ("args", "response", "partMetadata", "parameters", "parametersJsonSchema")
"""Fields with the agent's own names inside. All other names are Gemini's, in either spelling."""

_DEEPEST: Final = 6
"""How deep Gemini's own fields lie in each other; deeper ones are left alone."""

_BESIDE: Final = re.compile(r"thought\w*|\w+Metadata|mediaResolution|mediaProcessing")
"""The fields that a part has beside its value."""


def parts_of(content: object) -> list[Block]:
    """List the parts of a content under the API's names."""
    return list(map(as_sent, _parts(content)))


class _Gemini:
    # The API's names are camelCase; google-genai dumps snake_case, unless by alias.
    # Both are stored as given, and read as camelCase.

    roles = ("user", "model", "function", "system")
    answers_by_id = False

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        check_message(role, content, ["parts"], own="gemini")

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        # Without ids, calls and responses are paired by name, those of one name in their order:
        # the responses may be in one message or in several.
        speaker, blocks = self.blocks_by_part(role, content)
        return speaker, [block for block in blocks if block is not None]

    def blocks_by_part(self, role: str, content: object) -> tuple[str, list[Block | None]]:
        """Read a content with one block for each part; None for a part that no block can show."""
        blocks = [self._block(part) for part in _parts(content)]
        return "assistant" if role == "model" else "user", blocks

    def outputs(self, content: object) -> tuple[int, ...]:
        parts = enumerate(_parts(content))
        return tuple(i for i, part in parts if self._response_key(part) is not None)

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        parts = _parts(content).copy()
        for index in set(indices) & set(self.outputs(content)):
            if key := self._response_key(parts[index]):
                kept = {name: it for name, it in parts[index][key].items() if name != "parts"}
                response = {**kept, "response": {"output": placeholder}}
                parts[index] = {**parts[index], key: response}
        return {**as_dict(content), "parts": parts} if parts else content

    def skeleton(self, content: object) -> object:
        parts = [self._bare(part) for part in _parts(content)]
        return {**strings(as_dict(content), "role"), "parts": parts}

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        speaker = "model" if role == "assistant" else role
        return speaker, {"role": speaker, "parts": [{"text": text}]}

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        asked = (
            part
            for part in _parts(content)
            if isinstance(part.get("functionCall"), dict)
            or (part.get("functionCall") is None and isinstance(part.get("function_call"), dict))
        )
        call = as_sent(next(islice(asked, number, None)))["functionCall"]
        worded = {"error" if is_error else "output": words(output)}
        response = output if isinstance(output, dict) and not is_error else worded
        part = {"functionResponse": {**strings(call, "id", "name"), "response": response}}
        return "user", {"role": "user", "parts": [part]}

    def _response_key(self, part: Block) -> str | None:
        keys = ("functionResponse", "function_response")
        key = next((key for key in keys if part.get(key) is not None), None)
        return key if key and isinstance(part[key], dict) else None

    def _bare(self, part: Block) -> Block:
        part = as_sent(part)
        match part:
            case {"functionResponse": dict(response)}:
                output = {"output": REDACTED}
                named = strings(response, "id", "name")
                return {"functionResponse": {**named, "response": output}}
            case {"functionCall": dict(call)}:
                return {"functionCall": {**strings(call, "id", "name"), "args": {}}}
            case {"thought": True}:
                return {"text": REDACTED, "thought": True}
            case {"inlineData": _} | {"fileData": _}:
                return {key: {} for key in ("inlineData", "fileData") if key in part}
        return {"text": REDACTED}

    def _block(self, part: Block) -> Block | None:
        part = as_sent(part)
        match part:
            case {"functionResponse": dict(response)}:
                output_text, failed = response_text(response.get("response"))
                media = [it for part in dicts(response.get("parts")) if (it := self._shown(part))]
                output = (
                    [*([text(output_text)] if output_text else []), *media]
                    if media
                    else output_text
                )
                result = tool_result(self._id(response), output)
                return {**result, "is_error": True} if failed else result
            case {"functionCall": dict(call)}:
                arguments = as_dict(call.get("args"))
                return tool_use(self._id(call), string(call, "name"), arguments)
            case {"thought": True}:
                return None
        return self._shown(part)

    def _id(self, tool: Block) -> str:
        return string(tool, "id") or f"{string(tool, 'name')}#"

    def _shown(self, part: Block) -> Block | None:
        match part:
            case {"text": str(value)}:
                return text(value) if value else None
            case {"audioTranscription": {"text": str(value)}} if value:
                return text(value)
            case {"inlineData": {"mimeType": str(mime), "data": str(data)}} if mime[:6] == "image/":
                return image(mime, _standard_base64(data))
            case {"inlineData": media} | {"fileData": media}:
                return attached(as_dict(media).get("mimeType"))
            case {"executableCode": code} | {"codeExecutionResult": code}:
                return text(_compact(code))
        kind = next((key for key in part if not _BESIDE.fullmatch(key)), None)
        return None if kind is None else {"type": kind, kind: part[kind]}


def response_text(response: object) -> tuple[str, bool]:
    """The text of a response, as JSON if it is not plain text; and whether it is an error."""
    match list(as_dict(response).items()):
        case [("output" | "error" as key, str(value))]:
            return value, key == "error"
    return "" if response is None else _compact(response), False


def _parts(content: object) -> list[Block]:
    return dicts(as_dict(content).get("parts"))


def as_sent(part: Block, depth: int = 0) -> Block:
    """Show a part under the API's names, without null fields."""
    part = {key: value for key, value in part.items() if value is not None}
    if "_" in "".join(part):  # of two spellings of a name the API's counts
        part = {camel(key): part[key] for key in sorted(part, key=lambda it: "_" not in it)}
    return {
        key: value if isinstance(value, str) or key in _FREE else _within(value, depth)
        for key, value in part.items()
    }


def _within(value: object, depth: int) -> object:
    if depth == _DEEPEST:
        return value
    if isinstance(value, list):
        return [as_sent(it, depth + 1) if isinstance(it, dict) else it for it in value]
    return as_sent(value, depth + 1) if isinstance(value, dict) else value


def camel(name: str) -> str:
    """A name of the Python SDK's as the API has it."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name) if "_" in name else name


def _standard_base64(data: str) -> str:
    """Convert base64 from the URL alphabet of SDK dumps, which other providers refuse."""
    return data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


GEMINI: Final = _Gemini()
