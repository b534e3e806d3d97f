"""Messages of the Anthropic Messages API: a text, or a list of blocks."""

from typing import Any, Final

from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    ItemReader,
    Reader,
    RoleAndBlocks,
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
    side_of,
    strings,
    text,
    tool_result,
)


class _Anthropic(ItemReader):
    # The stored objects themselves are shown, so that they can be sent as they are.

    answers_by_id = True

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        if isinstance(content, list):
            self._check_blocks(content)
        elif not isinstance(content, str):
            if as_dict(content).get("type") != "message":  # also a response of Anthropic's
                refuse_item(content, "content", own="anthropic")
            expect(content, "content", str, list)

    def blocks(self, role: str, content: object) -> RoleAndBlocks:
        blocks = [text(content)] if isinstance(content, str) else dicts(content)
        return side_of(role), blocks

    def items(self, content: object) -> list[Block]:
        return dicts(content)

    def with_items(self, content: object, items: list[Block]) -> object:
        return items if isinstance(content, list) else REDACTED

    def is_output(self, item: Block) -> bool:
        return bool(results([item]))

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        return role, text

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        _, tool_id = calls(dicts(content))[number]
        return "user", [tool_result(tool_id, in_parts(output), is_error=is_error)]

    def bare(self, item: Block) -> Block:
        match item:
            case {"type": "text"}:
                return text(REDACTED)
            case {"type": "tool_use"}:
                return {**strings(item, "type", "id", "name"), "input": {}}
            case {"type": "tool_result"}:
                flag = {k: v for k, v in item.items() if k == "is_error" and isinstance(v, bool)}
                return {**strings(item, "type", "tool_use_id"), "content": REDACTED, **flag}
        return strings(item, "type")

    def _check_blocks(self, content: list[Any]) -> None:
        check_list(content, "content", own="anthropic")
        for index, block in enumerate(content):
            expect(block.get("type"), f"content[{index}].type", str)
            if isinstance(block.get("content"), list):
                path = f"content[{index}].content"
                check_types(block["content"], path, own="anthropic")


ANTHROPIC: Final[Reader] = _Anthropic()
