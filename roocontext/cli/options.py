"""The arguments and options that more than one command has, as types of parameters."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from roocontext.cli import completion, find_database
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.points import use_utc

if TYPE_CHECKING:
    from roocontext import ContextManager

PROGRAM = "roocontext"
MODEL = "ROOCONTEXT_MODEL"

PAUSE: Final = 0.5
"""Seconds between two looks at what is followed or watched."""

WAYS = "its number, `last`, a message's id, or a time such as `09:30` or `2h ago`"
"""How an entry is named, for the help of a command."""


# Of every command, given before it or after it.


def _keep(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Keep an option in the invocation: the one after the command is read last, and wins."""
    if value not in (None, False):
        setattr(ctx.obj, str(param.name), value)


def _use_utc(*, wanted: bool) -> None:
    if wanted:
        use_utc()


Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        expose_value=False,
        callback=_keep,
        help=f"The database: a file or a URL. Default: {find_database.VARIABLE}, or"
        " ~/.local/share/roocontext/roocontext.db.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", expose_value=False, callback=_keep, help="Print JSON.")
]
Utc = Annotated[
    bool,
    typer.Option(
        "--utc", expose_value=False, callback=_use_utc, help="Show and read times in UTC."
    ),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug", expose_value=False, callback=_keep, help="Show the whole traceback of an error."
    ),
]

# Sessions.

SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session's id or the beginning of it, with or without the part up to its colon;"
        " `last`, `last~1` for the one before, or `=` followed by the whole id.",
        autocompletion=completion.complete_sessions,
        show_default=False,
    ),
]
SessionOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION",
        help="The session. Default: all sessions.",
        autocompletion=completion.complete_sessions,
    ),
]
After = Annotated[
    str | None,
    typer.Option(metavar="NEXT", help="Show the page that follows: the `next` of --json."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Only sessions whose metadata has this string at its top level. Repeatable: all have"
        " to match.",
    ),
]


def conditions(given: list[str] | None) -> dict[str, str]:
    """The conditions of --where, by key."""
    found: dict[str, str] = {}
    for one in given or []:
        key, equals, value = one.partition("=")
        if not equals or key in found:
            line = f"--where takes KEY=VALUE, each key once; this was {one!r}."
            raise Refusal(line, Code.USAGE)
        found[key] = value
    return found


# Changes and times.

Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-seq",
        metavar="SEQ",
        min=0,
        help="Refuse if the session has changed since `show --json` printed this `head_seq`.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Recorded = Annotated[
    bool,
    typer.Option(
        "--recorded",
        help="Go by when the store recorded things, not by when they happened. The two differ for"
        " what was imported.",
    ),
]

# Models. One whose window is not known is refused: a guess would cut the session to nothing.

_OR_LIMIT = "give the size of its context window with --limit"
_MODEL_HELP = (
    "The model whose context window and token counter are used. Default:"
    f" {MODEL}, or the model that the session's newest message names."
)


def check_given(model: str | None) -> str | None:
    """Accept the model of --model for a command that only reads, or none."""
    if model and not _is_known(model):
        raise Refusal(f"{_unknown(model)}.", Code.USAGE)
    return model


def check_window(manager: "ContextManager") -> None:
    """Let a manager change a session only if the size of the context window is known."""
    from roocontext.tokens.limits import DEFAULT  # noqa: PLC0415 - reads a data file

    settings = manager.settings
    if settings.window().source != DEFAULT or _is_known(settings.model):
        return
    if not settings.model:
        line = f"The session names no model: name it with --model, or {_OR_LIMIT}."
        raise Refusal(line, Code.USAGE)
    raise Refusal(f"{_unknown(settings.model)}, or {_OR_LIMIT}.", Code.USAGE)


def _is_known(model: str) -> bool:
    from roocontext.tokens.limits import DEFAULT, limit_for  # noqa: PLC0415 - reads a data file

    return limit_for(model).source != DEFAULT


def _unknown(model: str) -> str:
    from roocontext.tokens.limits import models  # noqa: PLC0415 - reads a data file

    near = get_close_matches(model.lower()[:64], models(), n=3, cutoff=0.4)
    nearest = f" The nearest names are {', '.join(near)}." if near else ""
    return f"The model {model[:64]!r} is not known.{nearest} Name another with --model"


ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=_MODEL_HELP,
        autocompletion=completion.complete_models,
        callback=check_given,
    ),
]
ModelOrLimit = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=f"{_MODEL_HELP} One that is not known needs --limit.",
        autocompletion=completion.complete_models,
    ),
]
