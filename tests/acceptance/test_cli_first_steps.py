"""The first steps: no command, names of other programs, a wrong path, the README's commands."""

import json
import re
import shlex
from pathlib import Path

import pytest

from roocontext.cli.app import commands
from roocontext.cli.command_group import ALIASES, HEADINGS
from roocontext.cli.exit_codes import Code
from support.cli_process import CommandLine, CommandLines

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def run(tmp_path: Path, command_line: CommandLines) -> CommandLine:
    """Commands for somebody who has never run one."""
    return command_line(folder=tmp_path)


def test_help_without_a_command_fits_a_screen(run):
    done = run()
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    named = re.findall(r"^roocontext ([a-z]+)", done.out, re.MULTILINE)
    assert len(named) == 7 + 3 + 1  # and the first line
    for name in named[1:]:
        assert name == "help" or name in commands().commands
    for columns in (20, 40):
        shown = run(env={"COLUMNS": str(columns)}).out
        assert max(map(len, shown.splitlines())) <= columns


def test_help_lists_all_commands_under_three_headings(run):
    shown = run("--help").out
    assert re.findall(r"^([A-Z][a-z ]+):$", shown, re.MULTILINE) == ["Options", *HEADINGS]
    listed = re.findall(r"^  ([a-z]+) +[A-Z]", shown, re.MULTILINE)
    assert sorted(listed) == sorted(commands().commands)
    assert run("help").out == shown


def test_help_of_a_command_is_asked_for_in_two_ways(run):
    for name in ("show", "db upgrade", "ls"):
        words = name.split()
        asked = run("help", *words)
        assert asked == run(*words, "--help")
        assert asked.out.startswith(f"Usage: roocontext {name}")
    assert run("help", "nothing").code == Code.USAGE


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_names_of_other_programs_are_understood(alias, name, run):
    assert alias not in commands().commands
    run("append", "new", "Hello")
    words = [] if name == "sessions" else ["last"]
    assert run(alias, *words, "--json") == run(name, *words, "--json")


def test_ambiguous_command_lists_its_meanings(run):
    done = run("rm", "last")
    assert (done.code, done.out, done.err.count("\n")) == (Code.USAGE, "", 1)
    for word in ("`purge SESSION`", "`redact SESSION SEQ`", "`rewind SESSION --to SEQ`"):
        assert word in done.err
    assert "No such command 'nonsense'" in run("nonsense").err


def test_readmes_commands_run_one_after_the_other(tmp_path, run):
    text = README.read_text()
    (shown,) = re.findall(r"```shell\n(roocontext demo\n.*?)```", text, re.DOTALL)
    transcript = Path(run.env["HOME"]) / ".claude" / "projects" / "work" / "one.jsonl"
    transcript.parent.mkdir(parents=True)
    row = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "one"}
    message = {"role": "user", "content": "The parser drops the last token. Why?"}
    transcript.write_text(json.dumps({**row, "message": message}) + "\n")
    for line in shown.splitlines():
        done = run(*shlex.split(line)[1:], env={"TMPDIR": str(tmp_path)})
        assert done.code == 0, (line, done)
    assert "one" in run("sessions").out
    assert message["content"] in run("show", "last").out
