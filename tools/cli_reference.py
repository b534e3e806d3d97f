"""Writes docs/cli/reference.md from the commands themselves: python tools/cli_reference.py."""  # noqa: INP001 - a script, not a package

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from roocontext.cli.answers import reports, shapes
from roocontext.cli.commands import described
from roocontext.cli.failing import MEANINGS
from roocontext.cli.running import whole

PAGE = Path(__file__).parents[1] / "docs" / "cli" / "reference.md"

BEGINNING = """\
# Commands

This page is made from the commands themselves, by `python tools/cli_reference.py`. A
[tour](tour.md) shows them at work.

## Everywhere

| option | what it does |
|---|---|
| `--db URL` | the database: a path, or a URL |
| `--json` | prints [documents](#documents) in place of a screen, escaped to ASCII |
| `--debug` | shows where an error comes from |

They may stand before the command as well; what stands behind it wins. `-h` shows the help of a
command, `--version` the version.

**The database** is that of `--db`, as [opening](../guide/recording.md#opening) takes it. Without
it, the one that `ROOCONTEXT_DB` names; without that, the file `roocontext/roocontext.db` in
`XDG_DATA_HOME`, which is `~/.local/share` unless it is set.

**A session** is named by its id, or by the beginning of its id where only one begins like that.
`last` is the one with the newest entry. What follows `=` is taken as the whole id: `=last` is a
session that is called so.

**A point** of a session is the number of an entry, or a time: `2026-01-31`, `2026-01-31 09:30`,
`09:30` of today, `yesterday 09:30`, with a zone or else in UTC, a day alone being its beginning;
`now`, or as `90m ago` or `1h 30m ago`, in seconds, minutes, hours, days or weeks. `--to` compares a
time with the agent's own times of the live messages, where it gave any, everything else with when
entries were recorded. All times are shown in UTC.

**Looking changes nothing.** The commands that look open the database to read only. They neither
make nor upgrade it: that is done by `db upgrade`, and by `append new` where there is no database
yet. Folder and file are made for their owner only. What waits in an SQLite file's log may be moved
into the file when the last one who has it open leaves, also by one who only looked.

**What was said never acts on the terminal.** Control characters, escapes, marks that turn the
direction of text, and characters that cannot be seen are shown as their escapes, as `\\x1b`. Long
contents are cut; `--full` shows them whole.

**In pipes** there are neither colours nor a pager, and who stops reading is no error. `NO_COLOR`
switches colours off in a terminal too, and `FORCE_COLOR` on in a pipe. `PAGER` is the pager of
`show` and `audit`, `less` by default. `COLUMNS` sets the width; below 56 columns, tables become
lists.

**What destroys asks first**, or takes `--yes`. Where nobody sits at the terminal it asks nobody,
and ends with an error. What takes long shows a bar on standard error, in a terminal only; Ctrl-C
ends it, and nothing is half done.

**Completion** of commands, options and their values, and ids: `roocontext --install-completion`.
"""


def page() -> str:
    """The whole page."""
    parts = [BEGINNING, _exit_codes()]
    for panel, commands in _panels().items():
        parts += [f"## {panel}\n", *(_command(name, command) for name, command in commands)]
    return "\n".join([*parts, _documents()])


def _exit_codes() -> str:
    rows = [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    head = (
        "## Exit codes\n\nAn error is one line on standard error, and nothing on standard output,"
        " but for what a stream had printed before. With code 1 there is an answer where there is"
        " one to give. `preview` ends with 0 whatever it foresees."
    )
    return "\n".join([head, "", "| code | meaning |", "|---|---|", *rows, ""])


def _panels() -> dict[str, list[tuple[str, Any]]]:
    panels: dict[str, list[tuple[str, Any]]] = {}
    for name, command in _commands(whole(panels=True), ""):
        panels.setdefault(command.rich_help_panel, []).append((name, command))
    return panels


def _commands(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _command(name: str, command: Any) -> str:
    own = [one for one in command.params if one.name not in ("db", "as_json", "debug", "help")]
    arguments = [one for one in own if one.param_type_name == "argument"]
    options = ["[OPTIONS]"] if len(own) > len(arguments) else []
    usage = " ".join([name, *map(_argument, arguments), *options])
    shape = next(one for one in described if one.name == name.rpartition(" ")[2])
    lines = "a line for each " if shape.is_stream else ""
    told = f"`--json`: {lines}[{shape.shape.__name__}](#{shape.shape.__name__.lower()})."
    parts = [f"### `{usage}`", "", inspect.cleandoc(command.help), "", told, ""]
    if own:
        parts += ["| | |", "|---|---|", *map(_row, own), ""]
    return "\n".join(parts)


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[].")
    many = "..." if argument.nargs == -1 else ""
    return f"{name}{many}" if argument.required else f"[{name}]{many}"


def _row(parameter: Any) -> str:
    help_ = parameter.help.replace("|", "\\|")
    if parameter.param_type_name == "argument":
        return f"| {_argument(parameter)} | {help_} |"
    names = ", ".join(f"`{one}`" for one in [*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_bool_flag else f" {parameter.metavar or parameter.name.upper()}"
    default = parameter.default
    told = "" if default in (None, False, True, "", ()) else f" Default: {default}."
    return f"| {names}{value} | {help_}{told} |"


def _documents() -> str:
    parts = [
        "## Documents",
        "",
        (
            "What `--json` prints. A name is never given another meaning, and none goes away"
            " within a major version; new ones may come. Times are milliseconds since the epoch,"
            " a `seq` is an entry's place in its session. Each is indented over several lines, but"
            " for those of a stream, which are a line each."
        ),
        "",
    ]
    for name, shape in {**vars(shapes), **vars(reports)}.items():
        if is_typeddict(shape):
            parts += [f"### {name}", "", _prose(shape), "", "| name | type |", "|---|---|"]
            parts += [f"| `{key}` | {_type(kind)} |" for key, kind in get_type_hints(shape).items()]
            parts.append("")
    return "\n".join(parts)


def _prose(thing: Any) -> str:
    return re.sub(r"\s+", " ", inspect.getdoc(thing) or "")


def _type(kind: Any) -> str:
    if is_typeddict(kind):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    if get_origin(kind) is list:
        return f"list of {_type(get_args(kind)[0])}"
    if get_origin(kind) is dict:
        return f"object of {_type(get_args(kind)[1])}"
    if get_args(kind):
        return " or ".join(map(_type, get_args(kind)))
    names = {
        str: "text",
        int: "integer",
        float: "number",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(kind, "any JSON")


if __name__ == "__main__":
    PAGE.write_text(page())
