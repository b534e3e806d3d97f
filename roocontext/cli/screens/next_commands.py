"""Commands that people may want to run next, to be copied from a screen."""

import shlex

from roocontext.cli.completion import NEW
from roocontext.cli.options import PROGRAM
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import LAST, LITERAL


def next_command(name: str, words: str) -> str:
    """A command about a session, whose name replaces `{}` in the words.

    It is empty if the name cannot be typed like this: a shell would change it, or it means
    something else.
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
    """The same, but only at a terminal: programs count the rows of a list in a pipe."""
    if screen.console.is_terminal:
        draw_next(screen, about, command)
