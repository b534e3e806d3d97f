"""Messages of the Anthropic Messages API: a text, or a list of blocks."""

from collections.abc import Collection
from typing import Any, Final

from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    Reader,
    as_dict,
    calls,
    check_list,
    check_types,
    dicts,
    expect,
    expect_role,
    in_parts,
    refuse_item,
    results,
    strings,
    text,
    tool_result,
)


class _Anthropic:
    # The stored objects themselves are shown, so that they can be sent as they are.

    roles = ("user", "assistant")
    answers_by_id = True

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        if isinstance(content, list):
            self._check_blocks(content)
        elif not isinstance(content, str):
            if as_dict(content).get("type") != "message":  # also a response of Anthropic's
                refuse_item(content, "content", own="anthropic")
            expect(content, "content", str, list)

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        blocks = [text(content)] if isinstance(content, str) else dicts(content)
        return "assistant" if role == "assistant" else "user", blocks

    def outputs(self, content: object) -> tuple[int, ...]:
        return tuple(index for index, _ in results(dicts(content)))

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        if not isinstance(content, list):
            return content
        chosen = set(indices) & set(self.outputs(content))
        return [
            {**block, "content": placeholder} if index in chosen else block
            for index, block in enumerate(content)
        ]

    def skeleton(self, content: object) -> object:
        if isinstance(content, list):
            return [self._bare(block) for block in dicts(content)]
        return REDACTED

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        return role, text

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        _, tool_id = calls(dicts(content))[number]
        result = tool_result(tool_id, in_parts(output))
        return "user", [{**result, "is_error": True} if is_error else result]

    def _check_blocks(self, content: list[Any]) -> None:
        check_list(content, "content", own="anthropic")
        for index, block in enumerate(content):
            if not isinstance(block.get("type"), str):
                expect(block.get("type"), f"content[{index}].type", str)
            if isinstance(block.get("content"), list):
                path = f"content[{index}].content"
                check_types(block["content"], path, own="anthropic")

    def _bare(self, block: Block) -> Block:
        match block:
            case {"type": "text"}:
                return text(REDACTED)
            case {"type": "tool_use"}:
                return {**strings(block, "type", "id", "name"), "input": {}}
            case {"type": "tool_result"}:
                flag = {k: v for k, v in block.items() if k == "is_error" and isinstance(v, bool)}
                return {**strings(block, "type", "tool_use_id"), "content": REDACTED, **flag}
        return strings(block, "type")


ANTHROPIC: Final[Reader] = _Anthropic()
