"""The arguments and options that more than one command has."""

from typing import Annotated

import typer

from roocontext.cli import completion, find_database, known_model

PROGRAM = "roocontext"
MODEL = "ROOCONTEXT_MODEL"
DB_HELP = (
    f"The database: a file or a URL. Default: {find_database.VARIABLE}, or"
    " ~/.local/share/roocontext/roocontext.db."
)

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", envvar=find_database.VARIABLE, show_envvar=False, help=DB_HELP
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Utc = Annotated[bool, typer.Option("--utc", help="Show and read times in UTC.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]

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
_MODEL_HELP = (
    "The model whose context window and token counter are used. Default:"
    f" {MODEL}, or the model that the session's newest message names."
)
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=_MODEL_HELP,
        autocompletion=completion.complete_models,
        callback=known_model.check_given,
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
Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-seq",
        metavar="SEQ",
        min=0,
        help="Refuse if the session has changed since `show --json` printed this `head_seq`.",
    ),
]
Recorded = Annotated[
    bool,
    typer.Option(
        "--recorded",
        help="Go by when the store recorded things, not by when they happened. The two differ for"
        " what was imported.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
