"""`--where KEY=VALUE`: which sessions, by the strings of their metadata."""

from typing import Annotated

import typer

from roocontext.cli.exit_codes import Code, Refusal

Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Only sessions whose metadata has this string at its top level. Repeatable: all have"
        " to match.",
    ),
]


def conditions(given: list[str] | None) -> dict[str, str]:
    """The conditions, by key."""
    found: dict[str, str] = {}
    for one in given or []:
        key, equals, value = one.partition("=")
        if not equals or key in found:
            line = f"--where takes KEY=VALUE, each key once; this was {one!r}."
            raise Refusal(line, Code.USAGE)
        found[key] = value
    return found
