"""The group of all commands: the front page, the list of commands, and other names for them."""

from collections.abc import Iterator, Mapping
from typing import Any

from typer.core import TyperGroup

from roocontext.cli.exit_codes import Refusal, similar
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
    """Print the most used commands, on fewer than 24 lines."""
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


INSPECT, CHANGE, VERIFY = "Inspect", "Change", "Verify and erase"
HEADINGS = (INSPECT, CHANGE, VERIFY)

ALIASES = {"ls": "sessions", "list": "sessions", "log": "audit", "cat": "show", "grep": "search"}
_HINTS = {
    "rm": "`purge SESSION` deletes a session for good, `redact SESSION SEQ` the content of one"
    " message. `rewind SESSION --to SEQ` only takes messages out of the view.",
    "redo": "`undo SESSION` takes back the last change, and so it takes back an undo too.",
}


class CommandGroup(TyperGroup):
    """All commands, also under their aliases."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the front page if there are no arguments."""
        if not args and not ctx.resilient_parsing:
            draw_front_page(Screen())
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command. Refuse an unknown name with a hint, or with similar names."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            if name in _HINTS:
                raise Refusal(f"There is no `{name}`. {_HINTS[name]}")
            near = ", ".join(map(repr, similar(name, self.commands)))
            hint = f" Did you mean {near}?" if near else ""
            raise Refusal(f"No such command {name!r}.{hint} See `{ctx.command_path} --help`.")
        return super().get_command(ctx, name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's own
        """Write the commands under their headings."""
        longest = max(map(len, self.commands))
        room = formatter.width - 6 - longest
        for heading, commands in under_headings(self.commands).items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (f"{name:<{longest}}", about.get_short_help_str(room))
                        for name, about in commands
                    ]
                )


def under_headings(commands: Mapping[str, Any]) -> dict[str, list[tuple[str, Any]]]:
    """The commands and their names by heading."""
    groups: dict[str, list[tuple[str, Any]]] = {heading: [] for heading in HEADINGS}
    for name, command in commands.items():
        groups[command.rich_help_panel].append((name, command))
    return groups


def every_command(group: Any) -> Iterator[Any]:
    """Each command, including those of the groups in the group."""
    for command in group.commands.values():
        yield from every_command(command) if hasattr(command, "commands") else [command]
