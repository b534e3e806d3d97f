"""Commands to copy from a screen: what people may want to do next."""

import shlex

from roocontext.cli.completion import NEW
from roocontext.cli.options import PROGRAM
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import LAST, LITERAL


def next_command(name: str, words: str) -> str:
    """A command about a session, whose name takes the place of `{}` in the words.

    Nothing if the name could not be typed like this: a shell would change it, or it means something
    else.
    """
    is_plain = shlex.quote(name) == name and name not in (LAST, NEW)
    if not is_plain or name.startswith(("-", LITERAL)):
        return ""
    return f"{PROGRAM} {words.format(name)}"


def draw_next(screen: Screen, about: str, command: str) -> None:
    """A line that names a command, if there is one."""
    if command:
        screen.line((f"{about}: ", "note"), f"`{command}`")


def draw_hint(screen: Screen, about: str, command: str) -> None:
    """The same for people at a terminal only: the rows of a list in a pipe are counted."""
    if screen.console.is_terminal:
        draw_next(screen, about, command)
