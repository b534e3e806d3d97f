"""Every command and option that a hint, an error, a help text or a page names exists."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roocontext import NewMessage, Plan, Store
from roocontext.cli.app import commands
from roocontext.cli.command_group import ALIASES
from roocontext.cli.exit_codes import Code, similar
from support.empty_files import empty_file

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "roocontext").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_SPAN = re.compile(r"`([^`\n]+)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_OTHERS = {"--format", "--file", "--install-completion", "--show-completion"}
"""Options of pg_dump, and those that typer adds to a program of one command."""


def options(command: Any) -> set[str]:
    """The options of a command, and those that are allowed before or after each."""
    found = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return found | {"-h", "--help", "--version", "--json", "--utc", "--debug", "--db"}


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and the words that follow it; None if there is none."""
    group = commands()
    while words and words[0].startswith("--"):
        words = words[2:] if words[0] == "--db" else words[1:]
    if words and words[0] == "help":
        words = words[1:]
    name = ALIASES.get(words[0], words[0]) if words else ""
    found = group.commands.get(name)
    if hasattr(found, "commands") and len(words) > 1:
        return found.commands.get(words[1]), words[2:]
    return found, words[1:]


def unknown(text: str) -> Iterator[str]:
    """The error in a command line: its command or an option of it does not exist."""
    words = text.split()
    command, rest = command_of(words)
    if command is None:
        if words and words != ["help"] and re.fullmatch(r"[a-z]+", words[0]):
            yield f"no command: {text}"
        return
    named = _OPTION.findall(" ".join(rest))
    yield from (f"no option {one}: {text}" for one in named if one not in options(command))


def texts(source: Path) -> Iterator[str]:
    """The texts of a source; a value in one of them is an X."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def command_lines(text: str) -> Iterator[str]:
    """The command lines in the code of a text: what follows the program's name."""
    for span in (*_SPAN.findall(text), *text.splitlines()):
        found = re.match(r"\s*(?:\$ )?roocontext ((?:--[a-z]+ )?[a-z]+\b[^#|>]*)", span)
        if found:
            # What follows a lone -- is no option.
            yield found[1].partition(" -- ")[0].replace("[", " ").replace("]", " ")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_source_names_commands_that_exist(source):
    known = {name for one in every_command() for name in options(one)}
    in_cli = "cli" in source.relative_to(ROOT).parts
    for text in texts(source):
        for span in _SPAN.findall(text):
            words = span.split()
            program = words[0] == "roocontext" and len(words) > 1
            if program or (in_cli and words[0] in commands().commands):
                assert list(unknown(" ".join(words[program:]))) == []
        if in_cli:
            assert set(_OPTION.findall(text)) <= known | _OTHERS, text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_page_names_commands_that_exist(page):
    for line in command_lines(page.read_text()):
        assert list(unknown(line)) == []


def every_command() -> Iterator[Any]:
    for one in commands().commands.values():
        yield from getattr(one, "commands", {"": one}).values()


def test_wrong_command_name_in_a_text_is_found():
    assert list(unknown("shwo last")) == ["no command: shwo last"]
    assert list(unknown("why last 3 --full")) == ["no option --full: why last 3 --full"]
    assert not list(unknown("--db x.db show last --full"))
    assert list(command_lines("so `roocontext why last --full`, or\n    $ roocontext show last\n"))


# Hints of a screen


def test_why_names_the_command_that_shows_the_whole_summary(tmp_path, command_line):
    url = empty_file(tmp_path / "store.db")
    with Store.open(url) as store:
        chat = store.create("long")
        chat.append_many([NewMessage("user", "word " * 9_000), NewMessage("assistant", "Yes.")])
        chat.commit(Plan.condense(chat.view(), [1], "It is long. " * 400))
    run = command_line(url)
    shown = run("why", "long", "1").out
    assert "--full" not in shown
    (hint,) = re.findall(r"more characters: `roocontext (.*)` shows them", shown)
    whole = run(*shlex.split(hint))
    assert (whole.code, whole.out.count("It is long.")) == (Code.DONE, 400)


# Suggestions for what is mistyped

ERASING = ["redact", "purge"]


def test_redo_is_an_undo(tmp_path, command_line):
    done = command_line(empty_file(tmp_path / "store.db"))("redo", "last")
    assert done.code == Code.USAGE
    assert "`undo SESSION`" in done.err
    assert not any(name in done.err for name in ERASING)


@pytest.mark.parametrize(
    "name", ["redo", "reduce", "read", "react-to", "record", "reset", "prune", "surge", "page"]
)
def test_erasing_command_is_not_suggested_for_another_word(name):
    assert not set(similar(name, commands().commands)) & set(ERASING)


@pytest.mark.parametrize(
    ("name", "meant"), [("redat", "redact"), ("purg", "purge"), ("purgee", "purge")]
)
def test_erasing_command_is_suggested_for_a_typing_error(name, meant):
    assert similar(name, commands().commands)[0] == meant


def test_dangerous_option_is_not_suggested_for_another_option(tmp_path, command_line):
    run = command_line(empty_file(tmp_path / "store.db"))
    assert "--yes" not in run("purge", "last", "--bytes").err
    assert "--yes" in run("purge", "last", "--yess").err
    assert "--force" not in run("undo", "last", "--for").err
    assert "--dry-run" in run("undo", "last", "--dry-rn").err
