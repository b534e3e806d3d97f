"""The arguments and options that more than one command has."""

from typing import Annotated

import typer

from roocontext.cli import completion, find_database

PROGRAM = "roocontext"
MODEL = "ROOCONTEXT_MODEL"
DB_HELP = (
    f"The database, a path or a URL. Default: {find_database.VARIABLE}, or"
    " roocontext/roocontext.db in ~/.local/share."
)

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", envvar=find_database.VARIABLE, show_envvar=False, help=DB_HELP
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a screen.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session's id or the beginning of it, `last`, or `=` followed by the whole id.",
        autocompletion=completion.complete_sessions,
        show_default=False,
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=f"The model whose window and counter are used. Default: {MODEL}, or the model of the"
        " session's last call.",
        autocompletion=completion.complete_models,
    ),
]
Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-seq",
        metavar="SEQ",
        min=0,
        help="Refuse if this is not the session's `head_seq`, as in `show --json`.",
    ),
]
