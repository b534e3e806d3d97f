"""The arguments and options that more than one command has, as types of parameters."""

from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from roocontext import reports
from roocontext.cli import completion, find_database
from roocontext.cli.exit_codes import Refusal
from roocontext.cli.points import Point, entry_argument, use_utc

if TYPE_CHECKING:
    from roocontext import ContextManager, Session

PROGRAM = "roocontext"
MODEL = "ROOCONTEXT_MODEL"
TOKEN = "ROOCONTEXT_TOKEN"  # noqa: S105 - the name of a variable

PAUSE: Final = 0.5
"""Seconds between two looks at something that is followed or watched."""

WAYS = "its number, `last`, a message's id, or a time such as `09:30` or `2h ago`"
"""How an entry is named, for the help of a command."""


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:  # noqa: A002 - typer's word
    """An option with a value. Its name is that of the parameter, unless there are `names`."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:  # noqa: A002 - typer's word
    """An argument of a command."""
    return typer.Argument(metavar=metavar, help=help, **more)


def flag(name: str, help: str, *names: str) -> Any:  # noqa: A002 - typer's word
    """An option without a value."""
    return typer.Option(name, *names, help=help)


# Options of every command, given before it or after it.


def _store(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Store an option in the invocation. The one after the command is read last, and wins."""
    if value not in (None, False):
        setattr(ctx.obj, str(param.name), value)


_everywhere = partial(typer.Option, expose_value=False, callback=_store)

Database = Annotated[
    str | None,
    _everywhere(
        "--db",
        metavar="URL",
        help=f"The database: a file or a URL. Default: {find_database.VARIABLE}, or"
        " ~/.local/share/roocontext/roocontext.db.",
    ),
]
Owner = Annotated[
    str | None,
    _everywhere(
        "--owner",
        metavar="NAME",
        help="Only the sessions of this owner. New sessions get this owner too.",
    ),
]
Json = Annotated[bool, _everywhere("--json", help="Print JSON.")]
Utc = Annotated[
    bool,
    _everywhere(
        "--utc",
        callback=use_utc,
        is_eager=True,  # before any time is read
        help="Show and read times in UTC.",
    ),
]
Debug = Annotated[bool, _everywhere("--debug", help="Show the whole traceback of an error.")]

# Sessions.


def session_argument(help: str, **more: Any) -> Any:  # noqa: A002 - typer's word
    """An argument that names a session."""
    more |= {"metavar": "SESSION", "autocompletion": completion.complete_sessions}
    return typer.Argument(help=help, **more)


def session_option(help: str, metavar: str = "SESSION") -> Any:  # noqa: A002 - typer's word
    """An option that names a session."""
    return typer.Option(metavar=metavar, help=help, autocompletion=completion.complete_sessions)


SessionName = Annotated[
    str,
    session_argument(
        "A session's id or the beginning of it, with or without the part up to its colon;"
        " `last`, `last~1` for the one before, or `=` followed by the whole id.",
        show_default=False,
    ),
]
SessionOrAll = Annotated[str | None, session_argument("The session. Default: all sessions.")]
After = Annotated[str | None, option("NEXT", "Show the next page: takes the `next` of --json.")]
Where = Annotated[
    list[str] | None,
    option(
        "KEY=VALUE",
        "Only sessions whose metadata has this string at its top level. Repeatable: all have"
        " to match.",
    ),
]


# Changes and times.

EntryName = Annotated[Point, entry_argument(f"The entry: {WAYS}.")]
Expected = Annotated[
    int | None,
    option(
        "SEQ",
        "Refuse if the session has changed since `show --json` printed this `head_seq`.",
        "--expected-seq",
        min=0,
    ),
]
DryRunOption = Annotated[bool, flag("--dry-run", "Only show what would be done.")]
Recorded = Annotated[
    bool,
    flag(
        "--recorded",
        "Use the times when the store recorded things, not when they happened. They differ"
        " for imported sessions.",
    ),
]

# Models.

_NO_MODEL = "The session names no model: name it with --model"
_OR_LIMIT = "give the size of its context window with --limit"
_MODEL_HELP = (
    "The model whose context window and token counter are used. Default:"
    f" {MODEL}, or the model that the session's newest message names."
)


def refuse_unknown(model: str | None) -> str | None:
    """Refuse an unknown model for a command that only reads."""
    if model and not _is_known(model):
        raise Refusal(f"{_unknown(model)}.")
    return model


def check_window(chat: "Session", manager: "ContextManager") -> None:
    """Let a manager change a session only if the size of the context window is known."""
    if not reports.gauge.knows_window(chat, manager.settings):
        model = manager.settings.model
        what = _unknown(model) if model else _NO_MODEL
        raise Refusal(f"{what}, or {_OR_LIMIT}.")


def _is_known(model: str) -> bool:
    from roocontext.tokens.limits import DEFAULT, limit_for  # noqa: PLC0415 - reads a data file

    return limit_for(model).source != DEFAULT


def _unknown(model: str) -> str:
    from roocontext.tokens.limits import models  # noqa: PLC0415 - reads a data file

    similar = get_close_matches(model.lower()[:64], models(), n=3, cutoff=0.4)
    nearest = f" The nearest names are {', '.join(similar)}." if similar else ""
    return f"The model {model[:64]!r} is not known.{nearest} Name another with --model"


def _model_option(about: str, callback: Any = None) -> Any:
    return typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=about,
        autocompletion=completion.complete_models,
        callback=callback,
    )


ModelName = Annotated[str | None, _model_option(_MODEL_HELP, refuse_unknown)]
ModelOrLimit = Annotated[
    str | None, _model_option(f"{_MODEL_HELP} An unknown model needs --limit.")
]
