"""The help of the commands, made plainer than typer makes it.

typer shows Python's types, `<bool>` even for what takes no value, and writes brackets and braces
around names.
"""

from collections.abc import Sequence
from typing import Any

import typer

LEAST = 20
"""As if the terminal had at least so many columns."""

PANELS = 72
"""From so many columns on there is room for panels."""

HELP_OPTIONS = ["-h", "--help"]

_ROOM = 26
"""So many columns are needed to read what stands beside a name."""

_NO_NAME = "[]."


def plainer(command: Any) -> Any:
    """The command and those below it, with names for values and whole sentences in the lists."""
    for parameter in command.get_params(_Context(command, help_option_names=HELP_OPTIONS)):
        _name(parameter)
    for one in getattr(command, "commands", {}).values():
        plainer(one)
    command.short_help = command.help.partition("\n\n")[0]
    command.context_class = _Context
    return command


def _name(parameter: Any) -> None:
    name = parameter.metavar
    if parameter.param_type_name == "argument":
        parameter.metavar = (name or parameter.name).strip(_NO_NAME).upper()
        parameter.display_type_rich = lambda ctx: None  # noqa: ARG005 - typer calls it by name
        if parameter.required:
            parameter.get_usage_pieces = lambda _ctx: [parameter.metavar]
    elif parameter.is_flag:
        parameter.metavar = ""
    elif name is None:
        parameter.metavar = "TEXT"


def _write_dl(formatter: Any, rows: Sequence[tuple[str, str]]) -> None:
    """Write names with what they mean: beside them, or below where it is narrow."""
    if formatter.width - max(len(name) for name, _ in rows) >= _ROOM:
        super(_Formatter, formatter).write_dl(rows)
        return
    for name, meaning in rows:
        formatter.write_text(name)
        formatter.indent()
        formatter.write_text(meaning)
        formatter.dedent()


def _write_usage(formatter: Any, program: str, arguments: str = "") -> None:
    """Write how the command is written, on as many lines as it needs."""
    formatter.write_text(f"Usage: {program} {arguments}")


_Formatter: Any = type(
    "_Formatter",
    (typer.Context.formatter_class,),
    {"write_dl": _write_dl, "write_usage": _write_usage},
)


class _Context(typer.Context):
    formatter_class = _Formatter
