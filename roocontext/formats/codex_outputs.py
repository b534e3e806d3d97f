"""The outputs of Codex CLI's shell and of `apply_patch`, as the program sends them.

In the rollout they are JSON. Since 0.45 the program sends lines instead, if the model has
`apply_patch` as a tool that takes plain text. Since 0.59 the shell's outputs are lines in the
rollout too.
"""

import re
from typing import Any

from roocontext.formats.lines import loads

_FIRST, _SHELL_WRITES_LINES, _GPT_5_1 = (0, 45), (0, 59), (0, 58)
_SHELLS = ("shell", "container.exec", "apply_patch")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_LARGE = 2**31
_HEADER = re.compile(r"Total output lines: ([0-9]+)\n\n?")


class Calls:
    """The calls without an output so far whose output will be rewritten."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def sent(
        self, item: dict[str, Any], version: tuple[int, ...], model: str | None
    ) -> dict[str, Any]:
        """The next item as the program sends it: itself, or a copy with another output."""
        call = item.get("call_id")
        if version < _FIRST or not isinstance(call, str):
            return item
        if _is_rewritten(item, version, model):
            self._open.add(call)
        elif call in self._open and item.get("type") in _OUTPUTS:
            self._open.remove(call)
            lines = _as_lines(item.get("output"), version)
            return item if lines is None else {**item, "output": lines}
        return item


def _is_rewritten(item: dict[str, Any], version: tuple[int, ...], model: str | None) -> bool:
    """Whether the output of this call is rewritten, if the item is a call."""
    name = item.get("name")
    if item.get("type") == "custom_tool_call":
        return name == "apply_patch"
    is_call = item.get("type") == "function_call" and name in _SHELLS
    return is_call and version < _SHELL_WRITES_LINES and _patches_with_text(model or "", version)


def _patches_with_text(model: str, version: tuple[int, ...]) -> bool:
    """Whether the release gives this model `apply_patch` as a tool that takes plain text."""
    if model.startswith("gpt-5.1"):
        return version >= _GPT_5_1
    return model.startswith(("gpt-5-codex", "codex-")) and not model.startswith("codex-mini-latest")


def _as_lines(text: Any, version: tuple[int, ...]) -> str | None:
    """The lines for such an output; None if it is anything else."""
    try:
        found = loads(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else None
    except ValueError:
        return None
    match found:
        case {
            "output": str(output),
            "metadata": {"exit_code": code, "duration_seconds": int() | float() as seconds},
        } if type(code) is int and type(seconds) is not bool and max(abs(code), seconds) < _LARGE:
            lines = [f"Exit code: {code}"]
            # The program writes tenths of seconds.
            lines.append(f"Wall time: {f'{seconds:.1f}'.removesuffix('.0')} seconds")
            header = _HEADER.match(output)
            total = _omitted_of(output) if version < _SHELL_WRITES_LINES else header and header[1]
            if total:
                lines.append(f"Total output lines: {total}")
                output = output[header.end() :] if header else output
            return "\n".join([*lines, "Output:", output])
    return None


def _omitted_of(output: str) -> str | None:
    """The number of lines that the note about omitted lines gives."""
    number = output.partition("[... omitted ")[2].partition(" of ")[2].partition(" ")[0]
    return number if number.isascii() and number.isdigit() else None
