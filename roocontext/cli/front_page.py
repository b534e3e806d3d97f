"""What `roocontext` prints without a command: the few that people need, and where the rest is."""

from roocontext.cli.screens.screen import Screen

_DAILY = (
    ("sessions [TEXT]", "find a session by a word of it"),
    ("show SESSION", "what the model sees, how full its window is"),
    ("audit SESSION", "every entry, and what hides it"),
    ("rewind SESSION --to 5", "go back to entry 5; nothing is deleted"),
    ("undo SESSION", "take back the last change of the view"),
    ("condense SESSION", "replace old messages with a summary"),
    ("verify", "check that no log was changed"),
)
_REST = (
    ("help", "all commands and options"),
    ("help show", "one command"),
    ("demo", "an example to look at: no key, no network"),
)


def draw_front_page(screen: Screen) -> None:
    """The commands of every day, on less than 24 lines."""
    screen.line(
        ("roocontext", "title"),
        " keeps the sessions of coding agents. The log keeps everything; the model sees a view.",
    )
    screen.blank()
    screen.facts([(f"roocontext {name}", about) for name, about in _DAILY])
    screen.blank()
    screen.line(
        "SESSION is an id, the beginning of one, `last`, or `last~1` for the one before."
        " --db or ROOCONTEXT_DB names the database."
    )
    screen.blank()
    screen.facts([(f"roocontext {name}", about) for name, about in _REST])
