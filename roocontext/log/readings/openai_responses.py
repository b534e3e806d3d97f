"""Items of OpenAI's Responses API: a message is one item, or the list of items of one reply."""

import json
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, TypeAlias

from roocontext.errors import InvalidMessage
from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    ItemReader,
    Reader,
    RoleAndBlocks,
    as_dict,
    attached,
    check_list,
    dicts,
    expect,
    expect_role,
    file_at,
    image,
    image_at,
    in_parts,
    parse_arguments,
    refuse_item,
    side_of,
    string,
    strings,
    text,
    texts,
    tool_result,
    tool_use,
    words,
)

Name: TypeAlias = Callable[[Block], tuple[str, Block]]

CALLS: Final[dict[str, Name]] = {
    "function_call": lambda it: (string(it, "name"), parse_arguments(it.get("arguments"))),
    "custom_tool_call": lambda it: (string(it, "name"), {"input": it.get("input")}),
    "shell_call": lambda it: ("shell", as_dict(it.get("action"))),
    "local_shell_call": lambda it: ("local_shell", as_dict(it.get("action"))),
    "apply_patch_call": lambda it: ("apply_patch", as_dict(it.get("operation"))),
    "computer_call": lambda it: (
        "computer",
        {key: it[key] for key in ("action", "actions") if it.get(key) is not None},
    ),
    "tool_search_call": lambda it: ("tool_search", parse_arguments(it.get("arguments"))),
}
"""The calls that the agent has to answer, with their name and input."""

OUTPUTS: Final = {
    "tool_search_output" if kind == "tool_search_call" else f"{kind}_output": kind for kind in CALLS
}
"""The outputs that answer those calls, each with the type of its call."""

_CLEARABLE: Final = OUTPUTS.keys() - {"computer_call_output", "tool_search_output"}
"""The outputs that are texts, or have a place for one."""


def items_of(content: object) -> list[Block]:
    """List the items of a message."""
    return [content] if isinstance(content, dict) else dicts(content)


def type_of(item: Block) -> str:
    """Return an item's type, which a message may omit."""
    return string(item, "type") or ("message" if "role" in item else "")


def call_id(item: Block) -> str:
    """The id that a call and its output share."""
    return string(item, "call_id") or string(item, "id")


HOSTED: Final = "hosted"
"""The type under which `typed_items` lists the calls that the provider ran, and their outputs."""


def typed_items(content: object) -> list[tuple[str, Block]]:
    """List the items of a message with their types.

    Of a call that it ran itself, the provider sends the output in the same reply.
    """
    # A reply may hold hundreds of calls, and is read for each answer: no function is called for
    # each item, unless there are outputs, which is rare.
    typed = [
        (kind if isinstance(kind := item.get("type"), str) and kind else type_of(item), item)
        for item in items_of(content)
    ]
    ran = {(call_id(item), OUTPUTS[kind]) for kind, item in typed if kind in OUTPUTS}
    if ran:
        ran &= {(call_id(item), kind) for kind, item in typed if kind in CALLS}
    hosted = {
        id(item)
        for kind, item in typed
        if (kind in CALLS or kind in OUTPUTS)
        and (
            item.get("execution") == "server"
            or (ran and (call_id(item), OUTPUTS.get(kind, kind)) in ran)
        )
    }
    return [(HOSTED if id(item) in hosted else kind, item) for kind, item in typed]


class _Responses(ItemReader):
    roles = ("user", "assistant", "system", "developer")

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        expect(content, "content", dict, list)
        if isinstance(content, list):
            check_list(content, "content", own="openai-responses")
        else:
            refuse_item(content, "content", own="openai-responses")
        for index, (kind, item) in enumerate(typed_items(content)):
            path = f"content[{index}]" if isinstance(content, list) else "content"
            expect(kind or None, f"{path}.type", str)
            _check(role, kind, item, path)

    def blocks(self, role: str, content: object) -> RoleAndBlocks:
        read = [block for kind, item in typed_items(content) for block in item_blocks(kind, item)]
        return side_of(role), read

    def is_output(self, item: Block) -> bool:
        return type_of(item) in _CLEARABLE

    def outputs(self, content: object) -> tuple[int, ...]:
        kinds = enumerate(kind for kind, _ in typed_items(content))
        return tuple(index for index, kind in kinds if kind in _CLEARABLE)

    def items(self, content: object) -> list[Block]:
        return items_of(content)

    def with_items(self, content: object, items: list[Block]) -> object:
        return items[0] if isinstance(content, dict) else items

    def cleared(self, item: Block, placeholder: str) -> Block:
        is_shell = type_of(item) == "shell_call_output"
        return {**item, "output": shell_output(placeholder) if is_shell else placeholder}

    def bare(self, item: Block) -> Block:
        kind = type_of(item)
        # Without `execution`, a call that the provider ran would wait for the agent.
        bare = strings(item, "type", "role", "id", "call_id", "name", "execution")
        match kind:
            case "message":
                return {**bare, "content": REDACTED}
            case "function_call":
                return {**bare, "arguments": "{}"}
            case "custom_tool_call":
                return {**bare, "input": REDACTED}
        return self.cleared(bare, REDACTED) if self.is_output(bare) else bare

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        return role, [{"type": "message", "role": role, "content": text}]

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        asked = (item for kind, item in typed_items(content) if kind in CALLS)
        call = next(islice(asked, number, None))
        return "user", [answer_to(call, output, is_error=is_error)]


def _check(role: str, kind: str, item: Block, path: str) -> None:
    if kind == "message":
        if item.get("role", role) != role:
            raise InvalidMessage(
                f"{path}.role differs from the role of the message.", path=f"{path}.role"
            )
        if not isinstance(item.get("content"), str):
            check_list(item.get("content"), f"{path}.content", own="openai-responses")
    elif kind in OUTPUTS and role == "assistant":
        raise InvalidMessage(
            f"{path} is the output of a call: append it with the role user.", path=path
        )
    elif type_of(item) in CALLS and role != "assistant":
        raise InvalidMessage(f"{path} is a call: append it with the role assistant.", path=path)


def item_blocks(kind: str, item: Block) -> list[Block]:
    """Show one of the items of a message as blocks."""
    if kind == "message":
        return part_blocks(item.get("content"))
    if kind in CALLS:
        return [tool_use(call_id(item), *CALLS[kind](item))]
    if kind in OUTPUTS:
        return [tool_result(call_id(item), _output(item))]
    if kind == "reasoning":
        lines = [string(part, "text") for part in dicts(item.get("summary"))]
        thought = {"type": "thinking", "thinking": "\n".join(lines)}
        return [thought] if any(lines) else []
    if kind == "image_generation_call" and isinstance(item.get("result"), str):
        return [image(f"image/{string(item, 'output_format') or 'png'}", item["result"])]
    return [item]


def part_blocks(value: object) -> list[Block]:
    """Show the parts of a message or of an output as blocks."""
    if isinstance(value, str):
        return texts(value)
    return [_part(part) for part in dicts(value)]


def _part(part: Block) -> Block:
    match part:
        case {"text": str(value), "annotations": [_, *_] as sources}:
            return {**text(value), "citations": sources}
        case {"text": str(value)} | {"refusal": str(value)}:
            return text(value)
        case {"image_url": str(url)}:
            return image_at(url)
        case {"file_data": str(data)}:
            return file_at(data, string(part, "filename"))
        case {"file_url": str(url)}:
            return file_at(url)
    return attached(part.get("filename") or part.get("type"))


def _output(item: Block) -> object:
    output = item.get("output", item.get("tools"))
    if isinstance(output, str):
        return output
    if type_of(item) == "computer_call_output":
        return [_part(as_dict(output))]
    if type_of(item) in ("function_call_output", "custom_tool_call_output"):
        return part_blocks(output)
    return "" if output is None else json.dumps(output, ensure_ascii=False)


def answer_to(call: Block, output: object, *, is_error: bool) -> Block:
    """Make the output item of a call; an output that does not fit it becomes a function output."""
    kind, tool_id = f"{type_of(call)}_output", call_id(call)
    fields: Block
    match type_of(call), output:
        case "custom_tool_call", _:
            fields = {"call_id": tool_id, "output": in_parts(output)}
        case ("shell_call", [{"outcome": _}, *_]) | ("computer_call", {"type": _}):
            fields = {"call_id": tool_id, "output": output}
        case "shell_call", _:
            fields = {"call_id": tool_id, "output": shell_output(words(output))}
        case "local_shell_call", _:
            fields = {"id": tool_id, "output": words(output)}
        case "apply_patch_call", _:
            status = "failed" if is_error else "completed"
            fields = {"call_id": tool_id, "status": status, "output": words(output)}
        case "tool_search_call", [{"type": _}, *_]:
            kind, fields = "tool_search_output", {"call_id": tool_id, "tools": output}
        case _:
            kind = "function_call_output"
            fields = {"call_id": tool_id, "output": in_parts(output)}
    return {"type": kind, **fields}


def shell_output(output: str) -> list[Block]:
    """Make the output list of a shell call."""
    outcome = {"type": "exit", "exit_code": 0}
    return [{"stdout": output, "stderr": "", "outcome": outcome}]


RESPONSES: Final[Reader] = _Responses()
