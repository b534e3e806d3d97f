"""The reference of the command line, made from the commands themselves.

`tools/site_pages.py` adds it to the site. `python tools/cli_reference.py` prints it.
"""  # noqa: INP001 - a module of the site's hook, not of a package

import inspect
import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from roocontext.cli.app import commands
from roocontext.cli.command_context import described
from roocontext.cli.command_group import under_headings
from roocontext.cli.exit_codes import Code
from roocontext.reports.catalogue import DOCUMENTS
from roocontext.reports.document import Time

EVERYWHERE = ("db", "owner", "as_json", "utc", "debug", "help")
"""The options that every command has."""

BEGINNING = """\
# Commands

This page is made from the commands themselves when the site is built. A [tour](tour.md) shows them
at work.

## Everywhere

| option | what it does |
|---|---|
| `--db URL` | the database: a path, or a URL |
| `--owner NAME` | only the sessions of this [owner](../operations/owners.md) |
| `--json` | prints [documents](#documents) instead of a screen, escaped to ASCII |
| `--utc` | shows and reads times in UTC |
| `--debug` | shows the traceback of an error |

They may also be given before the command; an option after the command wins. Commands about the
whole database refuse `--owner`. `-h` shows the help of a command, as `roocontext help show` does,
and `--version` the version.

**The database** is that of `--db`, in the forms described in
[opening](../guide/recording.md#opening). Without it, it is the one in `ROOCONTEXT_DB`. Without
that, it is the file `roocontext/roocontext.db` in `XDG_DATA_HOME`, which is `~/.local/share` by
default.

**A session** is named by its id, or by the beginning of its id if no other id begins like that. The
part after the colon is a name too: `019d021f` is `codex:019d021f-...`.
`last` is the session with the newest entry, and `last~1` the one before it. Text after `=` is taken
as the whole id: `=last` is a session whose id is `last`.

**An entry** is named by its number; by `last`, the newest entry that is not a note; by the id
that the agent gave its message; or by a time, which means the last entry before the first one that
happened later. If several messages have the same id, the newest one that no rewind took back is
meant.

**A time** is written as `2026-01-31`, `2026-01-31 09:30`, `09:30` of today, `yesterday 09:30`,
`now`, or `90m ago` or `1h 30m ago`, in seconds, minutes, hours, days or weeks. A time without a
zone is local, and a date without a time is its midnight. It is compared with when things happened:
the agent's own time, if it gave one, or else the time of recording. `--recorded` compares with the
time of recording alone, which differs for imported sessions. Screens show local times with the name
of the zone; `--utc` changes both to UTC. Documents have times in UTC, with the offset.

**Reading changes nothing.** Commands that read open the database read-only. They neither create nor
upgrade it: `db upgrade` does. The first `append new` creates only the default file, because any
other name may be a typo. Only you can read the new file and its folder. Reading an SQLite file
may leave an empty `-wal` and a `-shm` next to it until it is next written, so a file of another
user is refused, except to root.

**Content cannot act on the terminal.** Control characters, escapes, marks that reverse the
direction of text, and invisible characters are shown as escapes, such as `\\x1b`, by `export` in a
terminal too; a pipe or a file gets the exact bytes. Long contents are cut; `--full` shows them
whole.

**In pipes** and files there are no colours and no pager, lines are neither wrapped nor cut, and
`sessions` prints whole ids. A reader that stops early is not an error.
`NO_COLOR` switches colours off in a terminal, and `FORCE_COLOR` switches them on in a pipe. `PAGER`
is the pager of `sessions`, `show`, `audit` and `tree`, `less` by default. `COLUMNS` sets the width,
in a pipe too; below 56 columns, tables become lists.

**Commands that erase ask first**, unless `--yes` is given. Without a terminal they cannot ask, and
end with an error. Long commands show a progress bar on standard error, in a terminal only. Ctrl-C
ends a command and leaves nothing half done; it may take effect only after a call of the database,
or after the count of one huge message.

**Completion** of commands, options, values and ids: `roocontext --install-completion`. Ids with
characters that a shell may interpret are not offered.
"""


_MEANINGS = {
    Code.DONE: "Success. A closed pipe is not an error.",
    Code.NO: "The answer is no: `verify` found a problem, `doctor` found a risk, there was"
    " nothing to hide or to undo, the confirmation was declined, `backup` only printed the"
    " command to run, or `import` could not read a file or a line, or"
    " refused to continue a session that was changed since its import.",
    Code.USAGE: "The command line is wrong, or the input cannot be stored.",
    Code.NOT_FOUND: "There is no such session, entry, message or database; or several session ids"
    " begin like that; or the session was purged; or a given file or folder cannot be used.",
    Code.REFUSED: "The operation was refused: because of a conflict or a pin, because the"
    " context would not shrink or the prompt is too large, or because the demo's folder is not"
    " empty.",
    Code.DATABASE: "The database cannot be used: it is not a store, permission is missing, its"
    " schema is newer, it is damaged or full, or it does not answer. Or the operating system"
    " reported another error.",
    Code.UNCERTAIN: "The change was made, but the output could not be written; or the connection"
    " broke, and the change may have been made. The error says which. Check before you repeat it.",
    Code.BUG: "A bug in roocontext; `--debug` shows the traceback.",
    Code.INTERRUPTED: "Interrupted.",
}


def page() -> str:
    """The whole page."""
    parts = [BEGINNING, _exit_codes()]
    for panel, found in _panels().items():
        parts += [f"## {panel}\n", *(_command(name, command) for name, command in found)]
    return "\n".join([*parts, _documents()])


def _exit_codes() -> str:
    rows = [f"| {code.value} | {meaning} |" for code, meaning in _MEANINGS.items()]
    head = (
        "## Exit codes\n\nAn error is one line on standard error. Nothing is printed on standard"
        " output then, except what a stream had printed before. With exit code 1 the answer is"
        " still printed, if there is one. `preview` ends with 0 even if there is nothing to do."
    )
    return "\n".join([head, "", "| code | meaning |", "|---|---|", *rows, ""])


def _panels() -> dict[str, list[tuple[str, Any]]]:
    return under_headings(dict(_commands(commands(), "")))


def _commands(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _command(name: str, command: Any) -> str:
    own = [parameter for parameter in command.params if parameter.name not in EVERYWHERE]
    arguments = [parameter for parameter in own if parameter.param_type_name == "argument"]
    options = ["[OPTIONS]"] if len(own) > len(arguments) else []
    usage = " ".join([name, *map(_argument, arguments), *options])
    parts = [f"### `{usage}`", "", inspect.cleandoc(command.help), ""]
    for shape in (shape for shape in described if shape.name == name.rpartition(" ")[2]):
        lines = "a line for each " if shape.is_stream else ""
        prints = f"`--json`: {lines}[{shape.document}](#{shape.document.lower()})"
        if narrow := shape.narrow_document:
            prints += f"; with {shape.narrowed} [{narrow}](#{narrow.lower()})"
        parts += [f"{prints}.", ""]
    if own:
        parts += ["| | |", "|---|---|", *map(_row, own), ""]
    return "\n".join(parts)


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).removeprefix("[").removesuffix("]...")
    many = "..." if argument.nargs == -1 else ""
    return f"{name}{many}" if argument.required else f"[{name}]{many}"


def _row(parameter: Any) -> str:
    help_ = parameter.help.replace("|", "\\|")
    if parameter.param_type_name == "argument":
        return f"| {_argument(parameter)} | {help_} |"
    names = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_bool_flag else f" {parameter.metavar or parameter.name.upper()}"
    default = parameter.default
    else_ = "" if default in (None, False, True, "", ()) else f" Default: {default}."
    return f"| {names}{value} | {help_}{else_} |"


def _documents() -> str:
    parts = [
        "## Documents",
        "",
        (
            "What `--json` prints. Within a major version, no name is removed or given another"
            " meaning; new names may be added. Times are in UTC, with the offset:"
            " `2026-01-31T09:30:00.000+00:00`. `ts`, which is the agent's own, stays in"
            " milliseconds since the epoch; `happened_at` is the `ts`, or else `recorded_at`. A"
            " `seq` is an entry's place in its session. A document is indented over several lines;"
            " those of a stream are one line each."
        ),
        "",
    ]
    for name, shape in DOCUMENTS.items():
        hints = get_type_hints(shape, include_extras=True)
        parts += [f"### {name}", "", _prose(shape), "", "| name | type |", "|---|---|"]
        parts += [f"| `{key}` | {_type(kind)} |" for key, kind in hints.items()]
        parts.append("")
    return "\n".join(parts)


def _prose(thing: Any) -> str:
    return re.sub(r"\s+", " ", inspect.getdoc(thing) or "")


def _type(kind: Any) -> str:
    if kind in DOCUMENTS.values():
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    if get_origin(kind) is Annotated:
        return "time" if kind == Time else _type(get_args(kind)[0])
    if get_origin(kind) in (list, tuple):
        inside = [part for part in get_args(kind) if part is not ...]
        return f"list of {' and '.join(map(_type, inside))}"
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
    print(page())  # noqa: T201
